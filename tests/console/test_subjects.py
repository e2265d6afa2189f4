"""The list of subjects: thousands of rows, search, filters, keys, hostile names, and what goes wrong."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.running import Registry

from . import filled
from .browsing import NARROW, check_accessible, check_widths
from .places import Place, Serving

COUNT = 5000
MANY = 100_000
HEAP_MAX = 40_000_000  # bytes; it is about 8 MB before the rows are scrolled
HOSTILE_ID = 1_000_000
EXTRA = (
    *(filled.version(name, HOSTILE_ID + each) for each, name in enumerate(filled.HOSTILE)),
    filled.context(".europe"),
    filled.version(":.europe:cart", 900_001),
    filled.version(":.europe:shop", 900_002),
    filled.version("gone", 900_003, deleted=True),
    *(filled.version("tall", 900_100 + each, each) for each in range(1, 121)),
    *(filled.version("several", 900_010 + each, each) for each in (1, 2, 3)),
)
LIVE = COUNT + len(filled.HOSTILE) + 4


@pytest.fixture(scope="module")
def served(serving: Serving) -> Iterator[Place]:
    with serving(entries=itertools.chain(EXTRA, filled.many(COUNT))) as place:
        yield place


@pytest.fixture
def subjects(opened) -> Callable[..., Page]:
    """Return a function that opens the list and waits until its names are loaded."""

    def open_list(address: str = "/subjects", **options) -> Page:
        page = opened(address, **options)
        expect(page.get_by_role("row").nth(1)).to_be_visible()
        return page

    return open_list


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_text(name, exact=True))


def count(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text=re.compile(r"^[\d,]+\+? subjects?$"))


def current(page: Page) -> Locator:
    return page.locator('[role=row][aria-selected="true"]')


def test_all_subjects_are_counted_and_the_visible_ones_have_details(subjects) -> None:
    page = subjects()
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")
    first = row(page, "billing.cancelled-000000-value")
    expect(first).to_contain_text("v1")
    expect(first).to_contain_text("BACKWARD")
    assert page.get_by_role("row").count() < 60
    check_accessible(page)


def test_a_scroll_to_the_end_has_no_gap_and_the_page_stays_small(subjects) -> None:
    page = subjects(viewport={"width": 1400, "height": 3000})
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")
    seen, most = page.evaluate(SCROLL)
    assert seen == list(range(2, LIVE + 2)), "a row was never in the page"
    assert most < 120
    last = page.get_by_role("row").last
    expect(last).to_have_attribute("aria-rowindex", str(LIVE + 1))
    expect(last).to_contain_text("v1")


# Scrolls by less than a screen at a time, as fast as the browser paints, and returns the numbers of all rows
# that were in the page, and how many there were at most.
SCROLL = """async () => {
  const grid = document.querySelector("[role=grid]");
  const seen = new Set();
  let most = 0;
  for (let end = false; !end;) {
    const rows = [...grid.querySelectorAll(".grid-row")].map((row) => Number(row.ariaRowIndex));
    rows.forEach((at) => seen.add(at));
    most = Math.max(most, rows.length);
    end = grid.scrollTop + grid.clientHeight >= grid.scrollHeight - 1;
    grid.scrollTop += grid.clientHeight * 0.8;
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
  }
  return [[...seen].sort((a, b) => a - b), most];
}"""


@pytest.mark.long
def test_a_hundred_thousand_subjects_take_little_memory(browser, watch, served, tmp_path) -> None:
    """The same as above at the size that users fear; the page holds their names and no more."""
    filled.write_log(tmp_path / "data", filled.many(MANY))
    running = Registry(tmp_path / "data", "--readers", "1", "--snapshots-builder", "none").wait()
    try:
        watch.hosts.add(running.url.removeprefix("http://"))
        page = watch.page(browser, viewport={"width": 1400, "height": 3000})
        page.goto(f"{running.url}/ui/#/subjects")
        expect(count(page)).to_have_text(f"{MANY:,} subjects")
        seen, most = page.evaluate(SCROLL)
        assert seen == list(range(2, MANY + 2)), "a row was never in the page"
        assert most < 120
        expect(page.get_by_role("row").last).to_contain_text("v1")
        page.get_by_role("columnheader", name="Id").get_by_role("button").click()
        expect(page.get_by_role("row").nth(1)).to_contain_text(f"-{MANY - 1:06}-value")
        expect(count(page)).to_have_text(f"{MANY:,} subjects")
        page.get_by_label("Search subjects").fill("failed 99999")
        expect(page.get_by_role("status").filter(has_text="of")).to_have_text(f"1 of {MANY:,}")
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        assert session.send("Runtime.getHeapUsage")["usedSize"] < HEAP_MAX
        page.context.close()
    finally:
        assert running.stop() == 0, running.output


def test_the_list_is_used_by_keyboard_alone(subjects) -> None:
    page = subjects()
    page.keyboard.press("/")
    page.keyboard.type("0001 billing")
    expect(page).to_have_url(re.compile(r"q=0001\+billing"))
    expect(page.get_by_role("status").filter(has_text="of")).to_have_text(re.compile(r"^\d+ of [\d,]+$"))
    page.keyboard.press("ArrowDown")
    expect(current(page)).to_have_attribute("aria-rowindex", "2")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect(current(page)).to_have_attribute("aria-rowindex", "3")
    page.keyboard.press("End")
    name = current(page).get_by_role("link").inner_text()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(f"#/subjects/{name}") + "$"))
    page.go_back()
    expect(current(page)).to_contain_text(name)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search subjects")).to_have_value("")
    expect(current(page)).to_contain_text(name)
    expect(current(page)).to_be_in_viewport()
    page.keyboard.press("Home")
    expect(current(page)).to_have_attribute("aria-rowindex", "2")


def test_back_leads_to_the_row_and_the_place_and_the_focus_follows(subjects) -> None:
    page = subjects()
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")
    grid = page.get_by_role("grid")
    grid.evaluate("(grid) => { grid.scrollTop = 30_000; }")
    page.wait_for_function("() => history.state?.row > 100")
    link = page.get_by_role("row").nth(15).get_by_role("link")
    name = link.inner_text()
    link.click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(name)
    expect(heading).to_be_focused()
    expect(page.locator("[aria-live]").filter(has_text=name)).to_have_text(name)
    page.go_back()
    expect(current(page)).to_contain_text(name)
    expect(current(page)).to_be_in_viewport()
    page.wait_for_function("() => document.querySelector('[role=grid]').scrollTop === 30_000")


def test_the_list_of_versions_shows_the_chosen_one(opened) -> None:
    page = opened("/subjects/tall/versions/2")
    expect(page.get_by_role("link", name="Version 2", exact=True)).to_be_in_viewport()
    assert page.locator("main").evaluate("(main) => main.scrollTop") == 0


def test_filters_narrow_the_list_and_are_in_the_address(subjects) -> None:
    page = subjects("/subjects?context=.europe")
    expect(page.get_by_label("Context")).to_have_value(".europe")
    expect(count(page)).to_have_text("2 subjects")
    page.get_by_label("Context").select_option("")
    page.get_by_label("Begins with").fill("orders.created-0000")
    page.get_by_label("Type").select_option("PROTOBUF")
    expect(page).to_have_url(re.compile("prefix=orders.created-0000&type=PROTOBUF"))
    wanted = [
        f"orders.created-{number:06d}-value"
        for number in range(100)
        if (number % 8, number % 6, (number + 1) % 5) == (3, 2, 4)
    ]
    expect(page.get_by_role("link", name="orders.created")).to_have_count(len(wanted))
    page.get_by_label("Begins with").fill("")
    page.get_by_label("Type").select_option("")
    page.get_by_label("Deleted").select_option("only")
    expect(row(page, "gone")).to_contain_text("deleted")
    expect(count(page)).to_have_text("1 subject")
    page.get_by_label("Compatibility").select_option("FULL")
    expect(page.get_by_role("status").filter(has_text="No matching subjects")).to_be_visible()
    page.get_by_role("button", name="Show all subjects").click()
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")


def test_headers_sort_the_list_by_keyboard_too_and_the_order_is_in_the_address(subjects) -> None:
    page = subjects()
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")
    by_name, by_id = (page.get_by_role("columnheader", name=name) for name in ("Subject", "Id"))
    expect(by_name).to_have_attribute("aria-sort", "ascending")
    by_id.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(by_id).to_have_attribute("aria-sort", "descending")
    expect(by_name).not_to_have_attribute("aria-sort", re.compile(""))
    expect(page.get_by_role("row").nth(1)).to_contain_text(filled.HOSTILE[-1].replace("\u200b", "U+200B"))
    expect(by_id.get_by_role("button")).to_be_focused()
    expect(page).to_have_url(re.compile("sort=-id"))
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")
    page.keyboard.press("Space")
    expect(by_id).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("row").nth(1)).to_contain_text("billing.cancelled-000000-value")
    by_name.get_by_role("button").click()
    expect(page).not_to_have_url(re.compile("sort="))
    by_name.get_by_role("button").click()
    expect(page).to_have_url(re.compile("sort=-name"))
    expect(by_name).to_have_attribute("aria-sort", "descending")
    page.reload()
    expect(by_name).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("row").nth(1)).to_contain_text("emoji")
    check_accessible(page)


def test_an_order_goes_with_filters_and_search_and_shows_the_first_row(subjects) -> None:
    page = subjects("/subjects?type=AVRO&q=billing")
    grid = page.get_by_role("grid")
    grid.evaluate("(grid) => { grid.scrollTop = 4000; }")
    expect(page.get_by_role("row").nth(1)).not_to_have_attribute("aria-rowindex", "2")
    page.get_by_role("columnheader", name="Id").get_by_role("button").click()
    first = page.get_by_role("row").nth(1)
    newest = max(each for each in range(0, COUNT, 8) if filled.TYPES[(each + 1) % 5] == "AVRO")
    expect(first).to_contain_text(f"-{newest:06}-value")
    expect(first).to_have_attribute("aria-rowindex", "2")
    assert grid.evaluate("(grid) => grid.scrollTop") == 0


def test_a_narrow_screen_offers_the_orders_among_the_filters(subjects) -> None:
    page = subjects(viewport=NARROW)
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Order").select_option("Newest id")
    expect(page).to_have_url(re.compile("sort=-id"))
    expect(page.get_by_role("row").filter(has=page.get_by_role("gridcell", name="1000014"))).to_be_visible()


def test_a_filtered_list_takes_as_few_requests_as_a_whole_one(opened) -> None:
    page = opened("/subjects?level=BACKWARD&mode=READWRITE")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    expect(count(page)).to_have_text(f"{LIVE:,} subjects")
    page.get_by_label("Search subjects").fill("billing 000000")
    expect(page.get_by_role("status").filter(has_text="of")).to_have_text(f"1 of {LIVE:,}")
    lists = [each for each in sent if "/subjects?" in each and "detail=true" not in each]
    # A screen, the rest, and an empty page if it took the registry long to find the end.
    assert len(lists) <= 3, "\n".join(lists)
    assert all("compatibilityLevel=BACKWARD&mode=READWRITE" in each for each in lists)
    page.get_by_label("Compatibility").select_option("FULL")
    expect(page.get_by_role("status").filter(has_text="No matching subjects")).to_be_visible()


def test_subjects_are_filtered_by_the_words_of_their_fields(subjects, watch) -> None:
    watch.allow("the server responded with a status of 503")
    page = subjects("/subjects?prefix=tall")
    page.get_by_label("Has words").fill("f0")
    expect(page.get_by_label("Words in")).to_be_visible()
    page.get_by_label("Words in").select_option("Field")
    expect(page).to_have_url(re.compile("words=f0&kind=field"))
    # While the index is being built, the page says so and tries again.
    expect(count(page)).to_have_text("1 subject")
    page.get_by_label("Words in").select_option("Tag")
    expect(page.get_by_role("status").filter(has_text="No matching subjects")).to_be_visible()


def test_a_list_by_broad_words_is_whole_or_says_that_there_may_be_more(subjects, watch) -> None:
    watch.allow("the server responded with a status of 503")  # while the index is being built
    page = subjects("/subjects?words=value")
    expect(count(page)).to_have_text(re.compile(f"^{COUNT:,} subjects$"))
    note = page.get_by_text("There may be more subjects with these words")
    expect(note).to_have_count(0)
    page.get_by_label("Has words").fill("00")  # begins as many words as there are subjects
    expect(note).to_be_visible()
    expect(count(page)).to_have_text(re.compile(r"^[1-9][\d,]* subjects$"))


def test_loading_a_long_list_can_be_stopped(opened) -> None:
    held: list[Route] = []

    def hold_second_page(route: Route) -> None:
        if "cursor=" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page = opened("/lookup")
    page.route(re.compile(r"/subjects\?"), hold_second_page)
    page.goto(page.url.partition("#")[0] + "#/subjects?level=BACKWARD")
    expect(count(page)).to_have_text("300+ subjects")
    page.get_by_role("button", name="Stop loading").click()
    expect(page.get_by_text("Only the first 300 subjects are listed.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop loading")).to_have_count(0)
    expect(row(page, "billing.cancelled-000000-value")).to_contain_text("v1")
    for each in held:
        each.abort()


def test_hostile_names_are_only_text(subjects) -> None:
    page = subjects()
    page.on("dialog", lambda dialog: pytest.fail(f"a name was run: {dialog.message}"))
    for number, name in enumerate(filled.HOSTILE, HOSTILE_ID):
        page.get_by_label("Search subjects").fill(re.sub(r"[\x00-\x1f]", " ", name) if name != "." else "")
        found = page.get_by_role("row").filter(has_text=str(number)).get_by_role("link")
        expect(found, f"the row of {name!r}").to_have_count(1)
        shown = re.sub(r"U\+([0-9A-F]{4})", lambda code: chr(int(code[1], 16)), found.text_content())
        assert shown == name
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0


def test_on_a_narrow_screen_nothing_is_cut_off(subjects) -> None:
    page = subjects(viewport=NARROW)
    expect(row(page, "billing.cancelled-000000-value")).to_contain_text("BACKWARD")
    check_widths(page)
    name = "x" * 250
    page.get_by_label("Search subjects").fill(name)
    expect(page.get_by_role("link", name=name)).to_have_count(1)
    check_widths(page)
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("button", name="Delete the subject…").click()
    expect(page.get_by_role("dialog").get_by_text("soft-deleted")).to_be_visible()
    check_widths(page)
    page.keyboard.press("Escape")
    page.set_viewport_size(NARROW)
    page.go_back()
    page.get_by_label("Search subjects").fill("billing")
    expect(row(page, "billing.cancelled-000000-value")).to_be_visible()
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Type").select_option("JSON")
    expect(page.get_by_role("row").first).to_contain_text("JSON")
    page.get_by_role("button", name="Filters (1)").click()
    expect(page.get_by_label("Type")).to_be_hidden()


FAILURES = (
    (401, {"error_code": 40101, "message": "Credentials are required"}, "Sign in to see this"),
    (403, {"error_code": 40301, "message": "Not for you"}, "You do not have permission to see this"),
    (503, {"error_code": 50301, "message": "Not now"}, "The registry is temporarily unavailable"),
    (502, None, "The registry did not answer"),
    (None, None, "The registry cannot be reached"),
)


def fail(route: Route, status: int | None, body: object) -> None:
    """Answer as a server would, or a proxy in front of it, or nobody."""
    if status is None:
        route.abort("connectionrefused")
    elif body is None:
        route.fulfill(status=status, body="<h1>Bad gateway</h1>")
    else:
        route.fulfill(status=status, json=body)


def test_a_failure_is_reported_and_can_be_retried(subjects, watch) -> None:
    watch.allow("Failed to load resource")
    page = subjects()
    failing = re.compile(r"/subjects\?")
    alert = page.get_by_role("alert")

    for status, body, title in FAILURES:
        page.route(failing, partial(fail, status=status, body=body))
        page.keyboard.press("r")
        expect(alert).to_contain_text(title)
        expect(alert).to_contain_text("" if body is None else body["message"])
        page.unroute(failing)
        if status in (401, 403):
            page.get_by_role("button", name="Try again").click()
        else:  # it may have tried again by itself
            page.keyboard.press("r")
        expect(alert).to_have_count(0)
        expect(page.get_by_role("row").nth(1)).to_contain_text("v1")


def test_a_failure_that_may_pass_is_retried_by_itself(subjects, watch) -> None:
    watch.allow("Failed to load resource")
    page = subjects()
    busy = re.compile(r"/subjects\?detail")
    page.route(
        busy,
        lambda route: route.fulfill(
            status=503, headers={"retry-after": "1"}, json={"error_code": 50301, "message": "Busy"}
        ),
    )
    page.keyboard.press("End")
    expect(page.get_by_role("alert")).to_contain_text("Busy")
    page.unroute(busy)
    expect(page.get_by_role("row").last).to_contain_text("v1")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_of_many_versions_those_around_the_chosen_one_are_in_the_page(opened) -> None:
    page = opened("/activity")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.goto(f"{page.url.partition('#')[0]}#/subjects/tall/versions/60")
    versions = page.get_by_role("navigation", name="Versions")
    chosen = versions.locator("[aria-current]")
    expect(chosen).to_have_text("Version 60")
    expect(chosen).to_be_in_viewport()
    expect(versions.get_by_role("link")).to_have_count(50)
    # The page of the list took one request.
    expect(versions.get_by_role("time")).to_have_count(50)
    assert len([each for each in sent if "/timeline" in each]) == 1
    versions.get_by_role("button", name="Newer: 50 more").click()
    expect(versions.get_by_role("link", name="Version 120")).to_have_count(1)
    versions.get_by_role("button", name="Older: 20 more").click()
    expect(versions.get_by_role("link")).to_have_count(120)
    assert len([each for each in sent if "/timeline" in each]) == 3
    check_widths(page)
