"""The search for duplicates in the console: its progress, what it found, and the ways to end."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator

import orjson
import pytest
from playwright.sync_api import Locator, Page, expect

from registry.base.processes import file_lock
from tests.process.test_searches_for_duplicates import ONE, OTHER, gone, searching
from tests.support.running import Registry

from . import filled
from .browsing import Watch, check_accessible

Opened = Callable[..., Page]
PLACES = ("twice <b>one</b>", ":.x:twice other", "twice third")
# So many that the page shows how far the search is before it is over.
SUBJECTS = 40_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    data = tmp_path_factory.mktemp("console") / "data"
    texts = zip(PLACES, (ONE, OTHER, OTHER), strict=True)
    equal = [filled.version(name, 1 + SUBJECTS, text=text) for name, text in texts]
    filled.write_log(data, [*filled.many(SUBJECTS), filled.context(".x"), *equal])
    running = Registry(data, "--readers", "1").wait()
    yield running
    assert running.stop() == 0, running.output


def search_for_groups(page: Page) -> Locator:
    """Search where there are duplicates; return the lines of the table."""
    page.get_by_label("Subjects with the prefix").fill(":*:twice")
    page.get_by_role("button", name="Find duplicates").click()
    expect(page.get_by_text("Found 1 group of equal schemas.")).to_be_visible(timeout=60_000)
    rows = page.get_by_role("region", name="Groups of equal schemas").locator("tbody tr")
    expect(rows).to_have_count(2)
    return rows


def test_a_search_shows_how_far_it_is_and_is_cancelled(opened: Opened, served: Registry) -> None:
    page = opened("/cluster/duplicates")
    expect(page.get_by_text(f"registrar duplicates {served.url}")).to_be_visible()
    check_accessible(page)
    page.get_by_role("button", name="Find duplicates").click()
    bar = page.get_by_role("progressbar", name="Searching: normalizing the schemas")
    expect(bar).to_have_attribute("max", "100")
    [process] = searching(served)
    os.kill(process, signal.SIGSTOP)
    expect(page.get_by_text(re.compile(r"[0-9]+ % of normalizing the schemas"))).to_be_visible()
    expect(page.get_by_role("button", name="Find duplicates")).to_be_disabled()
    check_accessible(page)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The search was cancelled.")).to_be_visible()
    gone(process)
    page.get_by_role("button", name="Find duplicates").click()
    expect(bar).to_be_visible()
    [process] = searching(served)
    os.kill(process, signal.SIGSTOP)
    page.get_by_role("tab", name="Nodes").click()
    # A process that is ending has no command line any more, but still holds the lock for a while.
    gone(process)


def test_groups_lead_to_versions_and_ids(opened: Opened) -> None:
    page = opened("/cluster/duplicates")
    rows = search_for_groups(page)
    for name in PLACES:
        expect(rows.get_by_role("link").filter(has_text=name.removeprefix(":.x:"))).to_have_count(1)
    check_accessible(page)
    rows.get_by_role("link", name="twice <b>one</b> version 1").click()
    expect(page.get_by_role("heading", name="twice <b>one</b>")).to_be_visible()
    page.go_back()
    page.get_by_label("Subjects with the prefix").fill("twice third")
    page.get_by_label("Also deleted versions").check()
    page.get_by_role("button", name="Find duplicates").click()
    expect(page.get_by_text("No duplicates found")).to_be_visible(timeout=60_000)


def test_an_id_of_a_context_is_looked_up_there(opened: Opened) -> None:
    rows = search_for_groups(opened("/cluster/duplicates"))
    links = rows.get_by_role("link", name=str(SUBJECTS + 1), exact=True)
    targets = [f"#/lookup?id={SUBJECTS + 1}&context={context}" for context in (".x", ".", ".")]
    assert sorted(each.get_attribute("href") or "" for each in links.all()) == sorted(targets)


def test_what_cannot_be_searched_now_is_said(opened: Opened, served: Registry, watch: Watch) -> None:
    page = opened("/cluster/duplicates")
    lock = file_lock.hold(served.data / "duplicates.lock")
    watch.allow("status of 429 ")
    page.get_by_label("Subjects with the prefix").fill(":*:twice")
    page.get_by_role("button", name="Find duplicates").click()
    expect(page.get_by_text("Another search for duplicates is running on this server")).to_be_visible()
    os.close(lock)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("Found 1 group of equal schemas.")).to_be_visible(timeout=60_000)
    page.get_by_label("Subjects with the prefix").fill("")
    page.get_by_role("button", name="Find duplicates").click()
    expect(page.get_by_role("progressbar", name="Searching: normalizing the schemas")).to_be_visible()
    for process in searching(served):
        os.kill(process, signal.SIGKILL)
    expect(page.get_by_text("The process that searched ended before it was done")).to_be_visible()


def test_more_groups_than_are_listed_are_counted(opened: Opened) -> None:
    page = opened("/cluster/duplicates")
    versions = [{"subject": "many", "version": each, "id": 7} for each in range(1, 11)]
    contents = [{"guid": f"{each:032}", "count": 12, "versions": versions} for each in range(10)]
    group = {"schemaType": "JSON", "normalized": "n", "distinct": 13, "contents": contents}
    body = orjson.dumps({"group": group}) + b'\n{"found":{"groups":1234,"listed":1}}\n'
    page.route(re.compile("/admin/duplicates"), lambda route: route.fulfill(body=body))
    page.get_by_role("button", name="Find duplicates").click()
    expect(page.get_by_text("Found 1,234 groups of equal schemas; the first 1 are listed")).to_be_visible()
    expect(page.get_by_text("and 2 more")).to_have_count(10)
    expect(page.get_by_text("and 3 more schemas in this group")).to_be_visible()
    body = b'{"progress":{"step":"starting","done":0,"total":0}}\n'
    page.get_by_role("button", name="Find duplicates").click()
    expect(page.get_by_text("The answer ended early; try again.")).to_be_visible()
