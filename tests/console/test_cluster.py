"""The pages of the cluster and of activity, over one node; test_cluster_of_three.py has several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from registry.domain.log_format.records import Entry
from tests.support.running import PATIENT

from . import filled
from .browsing import Watch, check_accessible
from .places import Place, alone

Opened = Callable[..., Page]
EVENTS_SHOWN = 50
BAD = Entry(b'{"keytype":"SCHEMA","subject":"<b>bad</b>","version":1,"magic":1}', b"<i>no</i> version")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    entries = (BAD, *filled.many(1200))
    with alone(tmp_path_factory.mktemp("one"), "--snapshots-builder", "local", entries=entries) as place:
        yield place


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text)


def node_row(page: Page, url: str) -> Locator:
    return page.get_by_role("region", name="Nodes").get_by_role("row").filter(has_text=url)


def register(url: str, subject: str) -> None:
    body = {"schema": f'{{"type":"record","name":"R{subject.title()}","fields":[]}}'}
    httpx.post(f"{url}/subjects/{subject}/versions", json=body, timeout=PATIENT).raise_for_status()


def test_the_node_is_shown_with_figures_of_the_last_minutes(opened: Opened, served: Place) -> None:
    page = opened("/cluster")
    expect(page.locator(".primary-line")).to_contain_text(served.url)
    expect(node_row(page, served.url)).to_contain_text("primary")
    chart = page.get_by_role("figure").filter(has_text="Requests per second")
    expect(chart.locator("polyline")).to_have_attribute("points", re.compile(r"\S+ \S+"))
    expect(chart.get_by_role("listitem")).to_have_text(re.compile(r"[0-9]\.[0-9]$"))
    check_accessible(page)


def test_a_snapshot_is_built_shown_and_deleted_after_confirmation(opened: Opened) -> None:
    page = opened("/cluster/snapshots")
    expect(page.get_by_text("No snapshots yet")).to_be_visible()
    page.get_by_role("button", name="Build a snapshot").click()
    line = row(page, "ready")
    expect(line).to_contain_text("local", timeout=60_000)
    check_accessible(page)
    line.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete this snapshot?")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_have_count(0)
    line.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("No snapshots yet")).to_be_visible()


def test_the_step_of_a_build_and_how_far_it_is_are_shown(
    served: Place, watch: Watch, browser: Browser
) -> None:
    page = watch.page(browser)
    built: dict[str, object] = {
        "id": "20260921T131321Z-000000000007-00aa11", "state": "building", "offset": 7, "requested_ms": 1,
        "updated_ms": 1, "builder": "host-1", "attempts": 1, "progress": None,
    }  # fmt: skip
    page.route(re.compile("/admin/snapshots"), lambda route: route.fulfill(json=[built]))
    page.goto(f"{served.url}/ui/#/cluster/snapshots")
    bar = page.get_by_role("progressbar", name=f"Building {built['id']}")
    expect(bar).not_to_have_attribute("value", re.compile(""))
    built["progress"] = {"step": "reading the log", "done": 450, "total": 1000}
    expect(bar).to_have_attribute("value", "45")
    expect(row(page, "building")).to_contain_text("45 % of reading the log")
    check_accessible(page)
    built["progress"] = {"step": "writing the parts", "done": 9, "total": 9}
    expect(row(page, "building")).to_contain_text("100 % of writing the parts")
    page.context.close()


def test_what_happens_appears_at_once_and_can_be_filtered(opened: Opened, served: Place) -> None:
    page = opened("/activity")
    expect(page.locator("header").get_by_text("live", exact=True)).to_be_visible()
    expect(row(page, "version registered")).not_to_have_count(0)
    register(served.url, "first")
    expect(row(page, "first")).to_contain_text("version registered")
    expect(row(page, "first")).to_contain_text("version 1, id")
    check_accessible(page)
    expect(row(page, "billing.cancelled-000000-value")).to_have_count(0)  # long ago
    page.get_by_label("Subjects with the prefix").fill("billing.cancelled-000000")
    expect(row(page, "billing.cancelled-000000-value")).to_have_count(1)
    expect(row(page, "first")).to_have_count(0)
    page.get_by_label("Subjects with the prefix").fill("")
    page.get_by_label("Event", exact=True).select_option("quarantined")
    expect(row(page, "<b>bad</b>")).to_have_count(1)
    page.get_by_label("Event", exact=True).select_option("all")
    expect(row(page, "first")).to_have_count(1)
    before = page.get_by_role("row").count()
    page.get_by_role("button", name="Show older").click()
    expect(page.get_by_role("row").nth(before + 10)).to_be_visible()


# Counts what the table of events does to the page: rows that come and go, all else that changes, and how
# often in one frame.
COUNT_CHANGES = """() => {
  const seen = globalThis.seen = { added: 0, removed: 0, others: 0, batches: 0, most: 0, frames: 0 };
  const tbody = document.querySelector("main tbody");
  let [frame, last] = [0, -1];
  const next = () => { frame += 1; requestAnimationFrame(next); };
  requestAnimationFrame(next);
  new MutationObserver((records) => {
    for (const { type, target, addedNodes, removedNodes } of records) {
      if (type !== "childList" || target !== tbody) seen.others += 1;
      seen.added += addedNodes.length;
      seen.removed += removedNodes.length;
    }
    seen.batches += 1;
    seen.frames += frame === last ? 0 : 1;
    last = frame;
    seen.most = Math.max(seen.most, tbody.rows.length);
  }).observe(tbody, { attributes: true, characterData: true, childList: true, subtree: true });
}"""


def test_many_events_change_no_more_of_the_page_than_their_own_rows(opened: Opened, served: Place) -> None:
    page = opened("/activity?q=many")
    expect(page.locator("header").get_by_text("live", exact=True)).to_be_visible()
    register(served.url, "manyfirst")
    expect(row(page, "manyfirst")).to_have_count(1)
    page.evaluate(COUNT_CHANGES)
    events = 150
    for number in range(events):
        register(served.url, f"many{number:03}")
    expect(row(page, f"many{events - 1:03}")).to_have_count(1)
    seen = page.evaluate("() => globalThis.seen")
    assert page.locator("main tbody tr").count() == EVENTS_SHOWN
    assert seen["most"] == EVENTS_SHOWN
    assert seen["added"] - seen["removed"] == EVENTS_SHOWN - 1
    assert seen["added"] <= events, "a row was made again"
    assert seen["others"] == 0, "a row that stays was changed"
    assert seen["batches"] == seen["frames"], "the table was rendered twice in one frame"
    page.get_by_role("button", name="Show older").click()
    expect(row(page, f"many{events - EVENTS_SHOWN - 1:03}")).to_have_count(1)
    expect(page.locator("main tbody tr")).to_have_count(2 * EVENTS_SHOWN)


def test_going_back_brings_the_filter_of_activity_back(opened: Opened) -> None:
    page = opened("/activity?q=billing")
    field = page.get_by_label("Subjects with the prefix")
    page.get_by_label("Event", exact=True).select_option("version registered")
    expect(page).to_have_url(re.compile("q=billing&kind=version_registered$"))
    field.fill("orders")
    expect(page).to_have_url(re.compile("q=orders&kind=version_registered$"))
    page.go_back()
    expect(page).to_have_url(re.compile("q=billing$"))
    expect(field).to_have_value("billing")


def test_a_record_that_makes_no_sense_is_shown_with_its_reason(opened: Opened) -> None:
    page = opened("/cluster/quarantine")
    expect(row(page, "<b>bad</b>")).to_have_count(1)
    check_accessible(page)
    page.get_by_label("Also ids that stand for two schemas").check()
    expect(row(page, "<b>bad</b>")).to_have_count(1)


def test_open_pages_follow_what_others_write(opened: Opened, served: Place) -> None:
    register(served.url, "followed")
    subject, subjects = opened("/subjects/followed"), opened("/subjects?q=follow")
    for page in (subject, subjects):
        expect(page.locator("header").get_by_text("live", exact=True)).to_be_visible()
    expect(subjects.get_by_role("row").filter(has_text="followed")).to_contain_text("v1")
    expect(subject.get_by_role("heading", name="1 version")).to_be_visible()
    body = {"schema": '{"type":"record","name":"RFollowed","fields":[],"doc":"again"}'}
    httpx.post(f"{served.url}/subjects/followed/versions", json=body, timeout=PATIENT).raise_for_status()
    expect(subjects.get_by_role("row").filter(has_text="followed")).to_contain_text("v2")
    expect(subject.get_by_role("heading", name="2 versions")).to_be_visible()
    register(served.url, "follower")
    subjects.get_by_role("button", name="1 new: show").click()
    expect(subjects.get_by_role("row").filter(has_text="follower")).to_contain_text("v1")


def test_without_a_feed_pages_say_so(served: Place, watch: Watch, browser: Browser) -> None:
    watch.allow("status of 404 ")
    page = watch.page(browser)
    page.route(re.compile("/changes"), lambda route: route.fulfill(status=404, json={"error_code": 404}))
    page.goto(f"{served.url}/ui/#/subjects")
    expect(page.locator("header").get_by_text("not live")).to_be_visible()
    page.context.close()
