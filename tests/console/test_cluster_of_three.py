"""The console over three real nodes behind one URL, of which the primary is killed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.front import Front

from .browsing import Watch, check_accessible
from .places import open_front
from .test_cluster import Opened, node_row, register, row

TOPIC = "console"
pytestmark = pytest.mark.long
# Of requests to a node that has just died, and of streams that it served.
BROKEN = (
    r"ERR_(INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_RESET|NETWORK_CHANGED)|status of 50[0-9] "
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("console-cluster")
    flags = ("--topic", TOPIC, "--group", TOPIC, "--confirm-timeout-s", "10", "--snapshots-builder", "none")
    with Cluster(folder, settings=flags, kafka=kafka.address, front_by="") as running:
        yield running


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Front]:
    with open_front(tmp_path_factory.mktemp("front"), cluster.nodes) as running:
        yield running


@pytest.fixture
def watch(front: Front) -> Iterator[Watch]:
    watch = Watch(front.url)
    yield watch
    watch.check()


@pytest.fixture
def opened(watch: Watch, browser: Browser, front: Front) -> Iterator[Opened]:
    pages: list[Page] = []

    def open_page(address: str, **options: Any) -> Page:
        page = watch.page(browser, **options)
        pages.append(page)
        page.goto(f"{front.url}/ui/#{address}")
        return page

    yield open_page
    for page in pages:
        page.context.close()


def test_one_page_shows_all_nodes_whichever_of_them_answers(opened: Opened, cluster: Cluster) -> None:
    register(cluster.url, "first")
    page = opened("/cluster")
    primary = cluster.primary()
    for node in cluster.nodes:
        line = node_row(page, node.url)
        expect(line).to_contain_text("primary" if node is primary else "secondary")
        expect(line).to_contain_text("equal")
    expect(page.locator(".primary-line")).to_contain_text(f"{primary.url}, epoch")
    elections = page.get_by_role("region", name="Primaries, newest first")
    expect(elections).to_contain_text(primary.url)
    chart = page.get_by_role("figure").filter(has_text="Requests per second")
    expect(chart.locator("polyline").first).to_have_attribute("points", re.compile(r"\S+ \S+"))
    expect(chart.get_by_role("listitem")).to_have_count(3)
    check_accessible(page)


def test_the_page_reports_a_killed_primary_and_continues(
    opened: Opened, watch: Watch, cluster: Cluster
) -> None:
    watch.allow(BROKEN)
    page, activity = opened("/cluster"), opened("/activity")
    former = cluster.primary()
    expect(node_row(page, former.url)).to_contain_text("primary")
    expect(activity.locator("header").get_by_text("live", exact=True)).to_be_visible()
    loaded = page.evaluate("() => performance.timeOrigin")
    former.kill()
    new = cluster.primary()
    epoch = new.status()["epoch"]
    expect(page.locator(".primary-line")).to_contain_text(f"{new.url}, epoch {epoch:,}", timeout=20_000)
    news = page.get_by_role("list", name="News")
    expect(news).to_contain_text(f"{new.url} is the primary, epoch {epoch}")
    expect(node_row(page, former.url)).to_contain_text("no answer", timeout=20_000)
    expect(news).to_contain_text(f"{former.url} does not answer")
    register(new.url, "after")
    expect(row(activity, "after")).to_have_count(1, timeout=20_000)
    expect(row(activity, f"epoch {epoch}")).to_have_count(1)
    former.start().wait()
    expect(node_row(page, former.url)).to_contain_text("secondary", timeout=20_000)
    expect(news).to_contain_text(f"{former.url} is back")
    assert page.evaluate("() => performance.timeOrigin") == loaded
