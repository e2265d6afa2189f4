"""Input that stays, whatever comes late: answers, and what was typed or chosen before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.running import PATIENT, until

from .browsing import Watch
from .places import Place

Opened = Callable[..., Page]
SCHEMA = '{"type":"record","name":"R","fields":[{"name":"f","type":"string"}]}'

# Holds the answers to requests that match, until `release` is called.
HOLD = """(pattern) => {
  const wanted = new RegExp(pattern);
  const { fetch } = globalThis;
  const held = new Promise((resolve) => { globalThis.released = resolve; });
  globalThis.waiting = 0;
  globalThis.fetch = async (url, options) => {
    if (!wanted.test(`${options.method} ${url}`)) return fetch(url, options);
    const answer = await fetch(url, options);
    const text = await answer.text();
    globalThis.waiting += 1;
    await held;
    return new Response(text || null, answer); // some statuses forbid even an empty one
  };
}"""
# Holds texts that are packed for an address.
HOLD_PACKED = """() => {
  const held = new Promise((resolve) => { globalThis.released = resolve; });
  const { arrayBuffer } = Response.prototype;
  globalThis.waiting = 0;
  Response.prototype.arrayBuffer = async function () {
    const found = await arrayBuffer.call(this);
    globalThis.waiting += 1;
    await held;
    return found;
  };
}"""
# Lets the page do all that follows from what was held.
RELEASE = """async () => {
  released();
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => { setTimeout(resolve); });
}"""


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


def register(url: str, subject: str, schema: str = SCHEMA) -> None:
    path = f"{url}/subjects/{subject}/versions"
    httpx.post(path, json={"schema": schema}, timeout=PATIENT).raise_for_status()


def hold(page: Page, pattern: str) -> None:
    page.evaluate(HOLD, pattern)


def release(page: Page, count: int = 1) -> None:
    """Let the answers through once ``count`` are held."""
    until(lambda: page.evaluate("waiting") >= count, 30, "the answers")
    page.evaluate(RELEASE)


def compared_with_a_text(opened: Opened, served: Place, subject: str) -> Page:
    register(served.url, subject)
    page = opened(f"/subjects/{subject}/versions/1?view=compare")
    page.get_by_role("radio", name="A pasted text").click()
    page.get_by_label("Schema to compare with").fill('"string"')
    page.evaluate(HOLD_PACKED)
    page.get_by_role("button", name="Compare").click()
    return page


def test_what_is_typed_while_a_pasted_text_comes_into_the_address_is_kept(
    opened: Opened, served: Place
) -> None:
    page = compared_with_a_text(opened, served, "late-typed")
    field = page.get_by_label("Schema to compare with")
    field.fill('"string" ')
    release(page)
    expect(page).to_have_url(re.compile("text="))
    expect(page.get_by_role("heading", name="From version 1 to the pasted text")).to_be_visible()
    expect(field).to_have_value('"string" ')
    expect(field).to_be_focused()
    field.fill('"int"')
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("region", name="Texts")).to_contain_text('"int"')


def test_back_brings_a_pasted_text_of_before(opened: Opened, served: Place) -> None:
    page = compared_with_a_text(opened, served, "late-back")
    release(page)
    expect(page).to_have_url(re.compile("text="))
    page.get_by_label("Schema to compare with").fill('"other"')
    page.evaluate("location.hash = '#/subjects/late-back/versions/1?view=compare&text='")
    page.get_by_role("radio", name="A pasted text").click()
    expect(page.get_by_label("Schema to compare with")).to_have_value("")
    page.go_back()
    expect(page.get_by_label("Schema to compare with")).to_have_value('"string"')


def test_a_text_that_is_packed_late_does_not_bring_back_a_comparison_that_was_left(
    opened: Opened, served: Place
) -> None:
    page = compared_with_a_text(opened, served, "late-left")
    page.get_by_role("radio", name="Another version").click()
    release(page)
    expect(page.get_by_role("radio", name="Another version")).to_be_checked()
    assert "text=" not in page.url


def test_the_field_for_another_subject_stays_when_it_is_emptied(opened: Opened, served: Place) -> None:
    register(served.url, "late-emptied")
    page = opened("/subjects/late-emptied/versions/1?view=compare&of=late-emptied")
    page.get_by_role("combobox", name="Other subject").fill("")
    expect(page).not_to_have_url(re.compile("of="))
    expect(page.get_by_role("combobox", name="Other subject")).to_be_visible()
    expect(page.get_by_role("radio", name="Another subject")).to_be_checked()


def test_what_is_typed_while_a_lookup_begins_is_kept(opened: Opened) -> None:
    page = opened("/lookup")
    field = page.get_by_label("Id or guid")
    field.fill("47")
    field.evaluate(
        """(field) => {
          const push = history.pushState;
          history.pushState = function (...values) {
            history.pushState = push;
            push.apply(history, values);
            field.value = "4711";
            field.dispatchEvent(new Event("input", { bubbles: true }));
          };
        }"""
    )
    field.press("Enter")
    expect(page.get_by_text("Nothing has the id 47")).to_be_visible()
    expect(field).to_have_value("4711")
    field.fill("007")
    field.press("Enter")
    expect(field).to_have_value("7")
    page.go_back()
    expect(field).to_have_value("47")


def test_a_check_says_nothing_of_an_association_that_was_changed_meanwhile(
    opened: Opened, served: Place
) -> None:
    register(served.url, "late-association-value")
    page = opened("/subjects/late-association-value/associations")
    page.get_by_role("button", name="Add an association").click()
    for label in ("Topic", "Namespace", "Id of the topic"):
        page.get_by_label(re.compile(f"^{label}")).fill("late")
    hold(page, "POST .*/associations")
    page.get_by_role("button", name="Check").click()
    page.get_by_label("Side").select_option("key")
    release(page)
    expect(page.get_by_role("button", name="Check")).to_be_enabled()
    expect(page.get_by_text("The registry would accept this.")).to_have_count(0)


def test_a_test_that_answers_late_does_not_hide_a_new_secret(opened: Opened, watch: Watch) -> None:
    watch.allow("usage/census")
    page = opened("/home")
    webhook = {"name": "late", "url": "http://x", "state": "delivering", "kinds": [], "etag": "1"}
    page.route("**/admin/webhooks", lambda route: route.fulfill(json=[webhook]))
    page.route("**/webhooks/late/test", lambda route: route.fulfill(json={"delivered": True, "took_ms": 1}))
    page.route("**/webhooks/late/rotate", lambda route: route.fulfill(json={"secret": "shown once"}))
    page.goto(page.url.replace("/home", "/cluster/webhooks"))
    hold(page, "POST .*/late/test")
    page.get_by_role("button", name="Test the webhook").click()
    page.get_by_role("button", name="New secret").click()
    page.get_by_role("button", name="Create it").click()
    expect(page.get_by_text("shown once", exact=True)).to_be_visible()
    release(page)
    expect(page.get_by_text("shown once", exact=True)).to_be_visible()


@pytest.mark.parametrize("place", ["home", "history"])
def test_a_moment_that_is_found_late_takes_nobody_back(
    opened: Opened, watch: Watch, served: Place, place: str
) -> None:
    watch.allow("usage/census")  # there is none
    register(served.url, "late-moment")
    page = opened("/home" if place == "home" else "/subjects/late-moment/versions/1?view=history")
    page.get_by_label(re.compile("^(Look back to|Time)")).fill("2100-01-01T00:00:00")
    found = {"json": {}, "headers": {"x-registry-at-offset": "1"}}
    page.route("**/config/*atTime=*", lambda route: route.fulfill(**found))
    hold(page, "GET .*/config/.*atTime")
    page.get_by_role("button", name="Look back").click()
    page.get_by_role("link", name="Lookup").click()
    expect(page).to_have_title("Look up an id · Registrar")
    release(page)
    expect(page).to_have_title("Look up an id · Registrar")
    expect(page.get_by_role("complementary", name="The registry as of a moment")).to_have_count(0)


def test_a_level_is_not_chosen_while_one_is_being_set(opened: Opened, served: Place) -> None:
    register(served.url, "late-level")
    page = opened("/subjects/late-level/versions/1?view=settings")
    levels = page.get_by_label(re.compile("^Compatibility level of"))
    levels.select_option("FULL")
    hold(page, "PUT .*/config/late-level")
    page.locator("section.setting").filter(has=levels).get_by_role("button", name="Set", exact=True).click()
    expect(levels).to_be_disabled()
    release(page)
    levels.select_option("BACKWARD_TRANSITIVE")
    expect(levels).to_have_value("BACKWARD_TRANSITIVE")


def test_a_registration_leaves_the_subject_that_was_chosen_meanwhile_as_it_is(opened: Opened) -> None:
    page = opened("/try?subject=late-one")
    expect(page.get_by_role("status").filter(has_text="Valid.")).to_be_visible()
    hold(page, "GET .*/subjects/late-one/versions/latest")
    page.get_by_role("button", name="Register").click()
    until(lambda: page.evaluate("waiting") >= 1, 30, "the registration")
    page.get_by_label("Subject", exact=True).fill("late-two")
    expect(page).to_have_url(re.compile("late-two"))
    expect(page.get_by_role("button", name="Register")).to_be_enabled()
    release(page)
    expect(page.get_by_role("button", name="Register")).to_be_enabled()


def test_new_tags_take_nobody_back_to_their_page(opened: Opened, served: Place) -> None:
    register(served.url, "late-tags")
    page = opened("/subjects/late-tags/versions/1/tags")
    page.get_by_label("Part").fill("R.f")
    page.get_by_label("Tag").fill("PII")
    page.get_by_role("button", name="Add").click()
    hold(page, "POST .*/tags")
    page.get_by_role("button", name="Register a new version").click()
    page.get_by_role("link", name="Lookup").click()
    release(page)
    expect(page).to_have_title("Look up an id · Registrar")


def test_an_older_page_of_the_audit_log_does_not_follow_a_new_first_one(opened: Opened, watch: Watch) -> None:
    watch.allow("usage/census")
    page = opened("/home")
    node = {"node": "n", "destination": "file", "problem": ""}

    def entries(route: Route) -> None:
        older = "cursor=" in route.request.url
        entry = {
            "time": "2026-01-01T00:00:00Z",
            "event": "request",
            "operation": "older" if older else "newest",
        }
        body = {"entries": [entry], "nodes": [node], "missing": [], "cursor": None if older else "c"}
        route.fulfill(body=json.dumps(body), content_type="application/json")

    page.route("**/admin/audit*", entries)
    page.goto(page.url.replace("/home", "/cluster/audit"))
    hold(page, "GET .*cursor=")
    page.get_by_role("button", name="Show older").click()
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("button", name="Show older")).to_be_enabled()
    release(page)
    expect(page.get_by_role("cell", name="newest")).to_have_count(1)
    expect(page.get_by_role("cell", name="older")).to_have_count(0)
