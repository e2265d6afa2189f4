"""The page of a subject as of an earlier moment: told from a log of which compaction has removed a part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from registry.domain.log_format.records import Entry, config_key, schema_key
from registry.domain.log_format.subject_values import config_value
from registry.domain.model import Subject
from registry.log.embedded.log import EmbeddedLog
from tests.support.running import Registry, until

from . import filled
from .browsing import NARROW, Watch, barriers, check_accessible, check_widths
from .places import Place

Open = Callable[..., Page]
ORDERS, LOST = Subject.parse("orders"), Subject.parse("lost")
FIRST = filled.text_of("AVRO", 1)
SECOND = filled.text_of("AVRO", 2)


def config(subject: Subject, level: str) -> Entry:
    return Entry(config_key(subject), config_value(subject, {"compatibilityLevel": level}))


def removed(name: str) -> Entry:
    """Return the record that deletes the first version of a subject permanently."""
    return Entry(schema_key(Subject.parse(name), 1), None)


LONG_AGO = (
    config(LOST, "FULL"),  # the next record replaces it, and compaction removes it
    config(LOST, "NONE"),
)
RECORDS = (
    filled.version("orders", 1, text=FIRST),
    config(ORDERS, "FULL"),
    filled.version("orders", 2, 2, text=SECOND),
    filled.version("lost", 4),
    config(ORDERS, "BACKWARD"),
    filled.version("orders", 5, 3, text=FIRST),
    filled.version("gone", 6),
    removed("gone"),
)
HOUR_MS = 3_600_000
YEAR_S = 365 * 24 * 3600
LAG_S = 10 * YEAR_S


def write_log(folder: Path) -> None:
    """Write a log with a record an hour, of which the first ones are long before the others."""
    folder.mkdir(parents=True)
    begin = filled.TIME_MS - 2 * YEAR_S * 1000
    log = EmbeddedLog(folder / "log", clock=lambda: begin + log.end() * HOUR_MS)
    log.claim()
    for entry in LONG_AGO:
        log.append([entry])
    begin = filled.TIME_MS
    for entry in RECORDS:
        log.append([entry])
    log.close()


def compact(folder: Path) -> None:
    """Remove the oldest record, which a node has seen."""
    log = EmbeddedLog(folder / "log")
    while log.compact(filled.TIME_MS, YEAR_S * 1000, LAG_S * 1000):
        pass
    log.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("past")
    write_log(folder / "data")
    flags = ("--readers", "1", "--snapshots-builder", "none", "--min-compaction-lag-s", str(LAG_S))
    earlier = Registry(folder / "data", *flags).wait()
    history = f"{earlier.url}/subjects/lost/history"
    until(lambda: httpx.get(history).json()["completeFrom"] == 0, 60, "the history to be filled")
    assert earlier.stop() == 0, earlier.output
    compact(folder / "data")
    running = Registry(folder / "data", *flags).wait()
    yield Place(running.url)
    assert running.stop() == 0, running.output


def version_links(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Versions").get_by_role("link")


def text_of(page: Page) -> Locator:
    return page.locator(".version .cm-content")


def banner(page: Page) -> Locator:
    return page.get_by_role("region", name="A moment of the past")


def local(record: int) -> str:
    """Return when a record was written, as the browser's field wants it; the browser's zone is UTC."""
    return datetime.fromtimestamp((filled.TIME_MS + record * HOUR_MS) / 1000, UTC).strftime(
        "%Y-%m-%dT%H:%M:%S"
    )


def test_the_history_leads_to_what_was_after_each_event(opened: Open) -> None:
    page = opened("/subjects/orders?view=history")
    expect(page.get_by_role("button", name="Delete the subject…")).to_be_visible()
    events = page.get_by_role("table", name="History, newest first").get_by_role("row")
    events.filter(has_text="version 2").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"#/subjects/orders\?at=4$"))
    expect(banner(page)).to_contain_text("As of offset 4")
    expect(banner(page)).to_contain_text("version registered (version 2)")
    expect(version_links(page)).to_have_text(["Version 2", "Version 1"])
    expect(text_of(page)).to_contain_text('"name": "f2"')
    expect(page.get_by_role("button", name=re.compile("Delete|Set|Remove|Bring"))).to_have_count(0)
    expect(page.get_by_role("link", name="Try a new version")).to_have_count(0)
    page.keyboard.press("[")
    expect(page).to_have_url(re.compile(r"/subjects/orders/versions/1\?at=4$"))
    expect(text_of(page)).not_to_contain_text('"name": "f2"')
    banner(page).get_by_role("link", name="Back to now").click()
    expect(version_links(page)).to_have_text(["Version 3", "Version 2", "Version 1"])
    expect(page.get_by_role("button", name="Delete the subject…")).to_be_visible()


def test_a_subject_that_was_deleted_permanently_is_found_by_its_history(opened: Open, watch: Watch) -> None:
    watch.allow(r"status of 404")
    page = opened("/subjects/gone")
    expect(page.get_by_role("alert")).to_contain_text("'gone' not found")
    events = page.get_by_role("table", name="History, newest first").get_by_role("row")
    events.filter(has_text="version registered").get_by_role("link").first.click()
    expect(version_links(page)).to_have_text(["Version 1"])
    expect(text_of(page)).to_contain_text('"type": "record"')
    page.get_by_role("tab", name="Compare with now").click()
    expect(page.get_by_role("table", name="Then and now")).to_contain_text("none")
    banner(page).get_by_role("link", name="Next change").click()
    expect(page.get_by_role("heading", name="It did not exist at that time")).to_be_visible()
    check_accessible(page)


def test_every_read_of_the_page_is_of_that_moment(opened: Open) -> None:
    page = opened("/lookup")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("location.hash = '/subjects/orders?at=4'")
    expect(text_of(page)).to_contain_text('"name": "f2"')
    panel = page.get_by_role("tabpanel")
    for name in ("Compare", "References", "Ids", "Metadata", "Config and mode"):
        page.get_by_role("tab", name=name, exact=True).click()
        expect(panel).not_to_contain_text("Loading")
        if name in ("References", "Ids"):
            expect(panel).to_contain_text("available as of offset 4")
    expect(panel).to_contain_text("FULL")
    told = [each for each in asked if "/orders" in each and "/history" not in each and "/me?" not in each]
    assert len(told) >= 5
    assert all("atOffset=4" in each for each in told), told


def test_changes_are_stepped_through_and_the_level_is_that_of_then(opened: Open) -> None:
    page = opened("/subjects/orders?at=4&view=settings")
    expect(page.get_by_role("tabpanel")).to_contain_text("FULL")
    banner(page).get_by_role("link", name="Next change").click()
    expect(page).to_have_url(re.compile("at=6"))
    expect(page.get_by_role("tabpanel")).to_contain_text("BACKWARD")
    for offset in (4, 3, 2):
        banner(page).get_by_role("link", name="Previous change").click()
        expect(banner(page)).to_contain_text(f"As of offset {offset}")
    expect(banner(page).get_by_role("link", name="Previous change")).to_have_count(0)


def test_a_time_leads_to_the_last_record_until_then(opened: Open) -> None:
    page = opened("/subjects/orders?view=history", timezone_id="UTC")
    page.get_by_label("Look back to").fill(local(5))
    page.get_by_role("button", name="Look back").click()
    expect(page).to_have_url(re.compile(r"/subjects/orders\?at=5$"))
    expect(version_links(page)).to_have_text(["Version 2", "Version 1"])
    banner(page).get_by_label("or to offset").fill("2")
    page.keyboard.press("Enter")
    expect(version_links(page)).to_have_text(["Version 1"])


def test_then_and_now_are_compared(opened: Open) -> None:
    page = opened("/subjects/orders?at=4&view=compare")
    rows = page.get_by_role("table", name="Then and now").get_by_role("row")
    expect(rows.filter(has_text="Version")).to_contain_text("23")
    expect(rows.filter(has_text="Compatibility")).to_contain_text("FULLBACKWARD")
    expect(page.get_by_role("heading", name="From version 2 then to version 3 now")).to_be_visible()
    expect(page.get_by_role("region", name="Changes")).to_contain_text("removed")


def test_what_was_removed_is_legible_in_one_text(opened: Open) -> None:
    page = opened("/subjects/orders?at=4&view=compare", viewport=NARROW)
    expect(page.locator(".merge .cm-deletedText").first).to_be_visible()
    page.emulate_media(color_scheme="light")
    assert not barriers(page)


def test_what_the_log_no_longer_reports_is_said_with_the_oldest_moment(opened: Open, watch: Watch) -> None:
    watch.allow(r"status of 410")
    page = opened("/subjects/lost?at=0")
    notice = page.get_by_role("status").filter(
        has_text="The state at that time can no longer be reconstructed"
    )
    expect(notice).to_contain_text("Compaction has removed records of that time")
    check_accessible(page)
    notice.get_by_role("link", name="offset 5").click()
    expect(page).to_have_url(re.compile("at=5"))
    expect(version_links(page)).to_have_text(["Version 1"])


def test_a_subject_and_a_version_that_did_not_exist_then_are_reported(opened: Open, watch: Watch) -> None:
    watch.allow(r"status of 404")
    page = opened("/subjects/orders?at=1")
    expect(page.get_by_role("heading", name="It did not exist at that time")).to_be_visible()
    banner(page).get_by_role("link", name="Next change").click()
    expect(version_links(page)).to_have_text(["Version 1"])
    page = opened("/subjects/orders/versions/3?at=4")
    expect(page.get_by_role("heading", name="Version 3 did not exist at that time")).to_be_visible()


@pytest.mark.parametrize(
    ("query", "message"), [("at=99", "beyond the log's last record"), ("at=x", "atOffset is not an offset")]
)
def test_a_moment_that_is_none_is_refused_in_place(
    opened: Open, watch: Watch, query: str, message: str
) -> None:
    watch.allow(r"status of 400")
    page = opened(f"/subjects/orders?{query}")
    expect(page.get_by_role("alert")).to_contain_text(message)
    banner(page).get_by_role("link", name="Back to now").click()
    expect(version_links(page)).to_have_count(3)


def test_nothing_serious_stands_in_anyones_way(opened: Open) -> None:
    page = opened("/subjects/orders?at=4")
    names = ("Schema", "Compare with now", "Compare", "References", "Ids", "Metadata")
    for name in (*names, "Config and mode", "History"):
        page.get_by_role("tab", name=name, exact=True).click()
        expect(page.get_by_role("tabpanel")).not_to_contain_text("Loading")
        check_accessible(page)
    check_widths(page)
