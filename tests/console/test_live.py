"""Pages that follow the change feed: what happens before it is connected, and while it is broken."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.process.test_crashes import victims
from tests.support.running import PATIENT, Registry, until

from .browsing import Watch
from .places import Place

Opened = Callable[..., Page]
# Of a stream whose server has been killed, and of requests until another one serves.
BROKEN = r"ERR_(INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_(RESET|REFUSED))|status of 503 "
# Resolves when the page has heard of the next event.
HEARD = """async () => {
  const { moduleOf } = await import(document.querySelector("script[type=module]").src);
  const { onChanges } = moduleOf("live/feed.js");
  globalThis.heard = new Promise((resolve) => onChanges(resolve));
}"""


def register(url: str, subject: str, *fields: str) -> None:
    members = ",".join(f'{{"name":"{each}","type":"string","default":""}}' for each in fields)
    body = {"schema": f'{{"type":"record","name":"R","fields":[{members}]}}'}
    httpx.post(f"{url}/subjects/{subject}/versions", json=body, timeout=PATIENT).raise_for_status()


def send(url: str, method: str, path: str, body: object = None) -> None:
    httpx.request(method, url + path, json=body, timeout=PATIENT).raise_for_status()


def is_live(page: Page) -> None:
    expect(page.locator("header").get_by_text("live", exact=True)).to_be_visible()


def test_what_changes_before_the_first_connection_is_shown(browser, watch: Watch, served: Place) -> None:
    register(served.url, "between")
    page = watch.page(browser)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"/changes(\?|$)"), hold)
    page.goto(f"{served.url}/ui/#/subjects/between")
    expect(page.get_by_role("heading", name="1 version")).to_be_visible()
    register(served.url, "between", "added")
    until(lambda: page.evaluate("1") and held, 10, "the page to ask for changes")
    held[0].continue_()
    expect(page.get_by_role("heading", name="2 versions")).to_be_visible()
    page.context.close()


def test_a_subject_that_is_registered_while_the_list_loads_is_reported(
    browser, watch: Watch, served: Place
) -> None:
    register(served.url, "listed")
    page = watch.page(browser)
    page.clock.install()
    lists: list[tuple[Route, APIResponse]] = []
    page.route(re.compile(r"/subjects\?"), lambda route: lists.append((route, route.fetch())))
    page.goto(f"{served.url}/ui/#/subjects?prefix=l")
    until(lambda: page.evaluate("1") and lists, 10, "the page to ask for the list")
    is_live(page)
    for name in ("other", "late"):  # the first one does not belong into this list
        page.evaluate(HEARD)
        register(served.url, name)
        page.evaluate("() => globalThis.heard")
    page.clock.run_for(1000)  # longer than events are gathered
    [(route, answer)] = lists
    route.fulfill(response=answer)
    page.unroute(re.compile(r"/subjects\?"))
    expect(page.get_by_role("link", name="listed", exact=True)).to_be_visible()
    page.get_by_role("button", name="1 new: show").click()
    expect(page.get_by_role("link", name="late", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="other", exact=True)).to_have_count(0)
    page.context.close()


def test_a_page_does_not_look_for_what_it_is_just_deleting(opened: Opened, served: Place) -> None:
    """The event of a deletion may be there before the answer; asking then would find nothing."""
    register(served.url, "doomed")
    httpx.delete(f"{served.url}/subjects/doomed", timeout=PATIENT).raise_for_status()
    page = opened("/subjects/doomed")
    page.clock.install()
    page.get_by_role("button", name="Delete the subject…").click()
    dialog = page.get_by_role("dialog", name="Delete permanently")
    dialog.get_by_role("textbox").fill("doomed")
    is_live(page)
    page.evaluate(HEARD)
    answers = []
    page.route(re.compile("permanent=true"), lambda route: answers.append((route, route.fetch())))
    dialog.get_by_role("button", name="Delete permanently").click()
    page.evaluate("() => globalThis.heard")
    page.clock.run_for(1000)  # longer than events are gathered
    until(lambda: page.evaluate("1") and answers, 10, "the answer to the deletion")
    [(route, answer)] = answers
    route.fulfill(response=answer)
    expect(page).to_have_title("Subjects · Registrar")


def test_the_page_of_an_alias_shows_the_changes_of_its_target(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow("status of 404")  # while the target does not exist
    register(served.url, "own")  # it has a version of its own, which nobody reads
    send(served.url, "PUT", "/config/own", {"alias": "target"})
    page = opened("/subjects/own")
    main = page.get_by_role("main")
    expect(main).to_contain_text("It has no version")
    is_live(page)
    register(served.url, "target")
    expect(main).to_contain_text("This name leads to target.")
    register(served.url, "target", "added")
    register(served.url, "target", "added", "more")
    expect(page.get_by_role("heading", name="3 versions")).to_be_visible()
    page.get_by_role("button", name="Delete the subject…").click()
    expect(page.get_by_role("dialog").get_by_text("target", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    page.goto(f"{served.url}/ui/#/try?subject=own&version=1")
    expect(main).to_contain_text("Valid and compatible at BACKWARD")
    register(served.url, "target", "added", "more", "most")
    expect(main).to_contain_text("Version 4 was registered after this draft was begun")
    send(served.url, "PUT", "/mode/target", {"mode": "READONLY"})
    expect(main).to_contain_text("The mode is READONLY")


def test_rows_and_filters_of_the_list_follow_wider_scopes_and_new_contexts(
    opened: Opened, served: Place
) -> None:
    register(served.url, ":.wide:inherits")
    page = opened("/subjects?prefix=inherits&context=.wide")
    is_live(page)
    row = page.get_by_role("row", name="inherits")
    expect(row).to_contain_text("BACKWARD")
    for scope, level in ((":.__GLOBAL:", "FULL"), (":.wide:", "FORWARD"), (":.wide:inherits", "NONE")):
        send(served.url, "PUT", f"/config/{scope}", {"compatibility": level})
        expect(row).to_contain_text(level)
    send(served.url, "DELETE", "/config/:.__GLOBAL:")
    register(served.url, ":.later:one")
    expect(page.locator(".by-context option").get_by_text(".later")).to_have_count(1)


def test_a_row_that_changes_while_it_is_asked_for_is_asked_for_again(opened: Opened, served: Place) -> None:
    register(served.url, "asked")
    page = opened("/activity")
    page.clock.install()
    is_live(page)
    answers: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        if answers:
            route.continue_()
        else:
            answers.append((route, route.fetch()))

    page.route(re.compile(r"/subjects\?.*detail=true"), hold)
    page.evaluate("location.hash = '#/subjects?prefix=asked'")
    until(lambda: page.evaluate("1") and answers, 10, "the page to ask for the row")
    page.evaluate(HEARD)
    send(served.url, "PUT", "/config/asked", {"compatibility": "FULL"})
    page.evaluate("() => globalThis.heard")
    page.clock.run_for(1000)  # longer than events are gathered
    [(route, answer)] = answers
    route.fulfill(response=answer)
    expect(page.get_by_role("row", name="asked")).to_contain_text("FULL")


def test_the_verdict_about_a_draft_follows_what_it_refers_to(opened: Opened, served: Place) -> None:
    register(served.url, "used")
    page = opened("/try")
    is_live(page)
    text = '{"type":"record","name":"Q","fields":[{"name":"r","type":"R"}]}'
    page.get_by_role("textbox", name="Schema").fill(text)
    page.get_by_text("References (0)").click()
    page.get_by_role("button", name="Add a reference").click()
    page.get_by_role("textbox", name="Name").fill("R")
    page.get_by_role("group", name="Reference 1").get_by_role("textbox", name="Subject").fill("used")
    verdict = page.locator(".results").get_by_role("status").first
    expect(verdict).to_contain_text("Valid.")
    send(served.url, "DELETE", "/subjects/used")
    expect(verdict).to_contain_text("Not valid.")
    register(served.url, "used")
    expect(verdict).to_contain_text("Valid.")


def test_the_versions_to_compare_with_follow_their_subject(opened: Opened, served: Place) -> None:
    register(served.url, "compared")
    register(served.url, "against")
    page = opened("/subjects/compared?view=compare&of=against&with=1")
    options = page.get_by_role("tabpanel").get_by_role("combobox", name="Version").locator("option")
    expect(options).to_have_count(1)
    is_live(page)
    register(served.url, "against", "added")
    expect(options).to_have_count(2)


@pytest.mark.logs_errors(r"the reader ended \(SIGKILL\)")
def test_a_page_misses_nothing_when_readers_are_killed_under_it(
    browser, watch: Watch, tmp_path, request: pytest.FixtureRequest
) -> None:
    watch.allow(BROKEN)
    registry = Registry(tmp_path / "data", "--readers", "1", "--snapshots-builder", "none").wait()
    request.addfinalizer(registry.kill)
    watch.hosts.add(f"127.0.0.1:{registry.port}")
    page = watch.page(browser)
    page.goto(f"{registry.url}/ui/#/activity")
    is_live(page)
    loaded = page.evaluate("performance.timeOrigin")
    shown = page.get_by_role("region", name="Events, newest first").get_by_role("link")
    for number in range(3):
        register(registry.url, f"before-{number}")
        for pid in victims(registry, "reader"):
            os.kill(pid, signal.SIGKILL)
        until(registry.all_serve, 60, "new readers")
        register(registry.url, f"after-{number}")
        expect(shown.get_by_text(f"after-{number}")).to_have_count(1, timeout=60_000)
        is_live(page)
    names = [f"{when}-{number}" for number in range(3) for when in ("before", "after")]
    expect(shown).to_have_text(names[::-1])
    assert page.evaluate("performance.timeOrigin") == loaded
    page.context.close()
    assert registry.stop() == 0, registry.output
