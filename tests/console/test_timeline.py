"""The versions of a subject as a timeline, and any two schemas compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from .browsing import NARROW, WIDE, Watch, check_accessible, check_widths
from .places import Place

Open = Callable[..., Page]
RULE = {"name": "rule", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "1<2"}
OTHER = ":.far\u202eaway:trips-value"
MONEY = 'syntax = "proto3";\nmessage Money {\n  int64 cents = 1;\n}\n'


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Trip", "fields": fields})


def field(name: str, kind: Any = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


LONG = [field(f"stop{at:02}", default="") for at in range(40)]
FIRST = record(field("id", "long"), *LONG)
SECOND = record(field("id", "long"), *LONG, field("note", default="", **{"confluent:tags": ["PII"]}))
BREAKING = record(field("id", "long"), *LONG[1:], field("fare", "int"))


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


@pytest.fixture(scope="module", autouse=True)
def filled(served: Place) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=30) as client:
        register(client, "trips-value", FIRST)
        register(client, "trips-value", SECOND, ruleSet={"domainRules": [RULE]})
        put(client, "/config/trips-value", compatibility="NONE")
        register(client, "trips-value", BREAKING)
        put(client, "/config/trips-value", compatibility="BACKWARD")
        register(client, OTHER, record(field("id", "long"), *LONG, field("away", default="")))
        register(client, "money-value", MONEY, schemaType="PROTOBUF")
        yield client


def register(client: httpx.Client, subject: str, schema: str, **more: Any) -> None:
    path = f"/subjects/{quote(subject, safe='')}/versions"
    client.post(path, json={"schema": schema, **more}).raise_for_status()


def put(client: httpx.Client, path: str, **body: Any) -> None:
    client.put(path, json=body).raise_for_status()


def rows(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Versions").get_by_role("listitem")


def link(page: Page, number: int) -> Locator:
    return page.get_by_role("navigation", name="Versions").get_by_role("link", name=f"Version {number}")


def fits(page: Page) -> None:
    """Fail if something is in the way of somebody, or wider than its pane."""
    check_accessible(page)
    check_widths(page)


def test_each_version_says_what_it_changed_and_if_that_breaks(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/trips-value")
    expect(rows(page)).to_have_count(3)
    expect(rows(page).nth(0)).to_contain_text("+1 −2")
    expect(rows(page).nth(0)).to_contain_text("breaking")
    expect(rows(page).nth(1)).to_contain_text(re.compile(r"\+1\s.*compatible.*1 rule.*PII", re.DOTALL))
    expect(link(page, 3)).to_have_accessible_description(re.compile("1 field added, 2 removed.*breaking"))
    expect(link(page, 3)).to_have_attribute("aria-current", "page")
    expect(rows(page).nth(2)).to_contain_text("+41")
    expect(
        page.get_by_text("It breaks what the level asks of it after version 2 (BACKWARD).")
    ).to_be_visible()
    # The level decides, also while the page is open.
    put(filled, "/config/trips-value", compatibility="NONE")
    expect(rows(page).filter(has_text="breaking")).to_have_count(0)
    expect(page.get_by_text("The level NONE compares nothing.")).to_be_visible()
    put(filled, "/config/trips-value", compatibility="BACKWARD")
    expect(rows(page).filter(has_text="breaking")).to_have_count(1)
    fits(page)


def test_one_key_leads_past_all_versions_and_arrows_lead_through_them(opened: Open) -> None:
    page = opened("/subjects/trips-value")
    expect(rows(page).nth(1)).to_contain_text("compatible")
    link(page, 3).focus()
    page.keyboard.press("ArrowDown")
    expect(link(page, 2)).to_be_focused()
    page.keyboard.press("End")
    expect(link(page, 1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_title("trips-value version 1 · Registrar")
    expect(link(page, 1)).to_have_attribute("aria-current", "page")
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.closest('nav') === null")
    assert focused, "the next stop is still in the list"


def test_soft_deleted_versions_are_marked_and_listed_when_asked_for(
    filled: httpx.Client, opened: Open
) -> None:
    for text in ('"int"', '"long"', '"double"'):
        register(filled, "brief-trips", text)
    filled.delete("/subjects/brief-trips/versions/2").raise_for_status()
    page = opened("/subjects/brief-trips")
    expect(rows(page)).to_have_count(2)
    page.get_by_label("1 deleted").check()
    expect(rows(page)).to_have_count(3)
    expect(link(page, 2)).to_have_text("Version 2 deleted")
    page.goto(f"{page.url.partition('#')[0]}#/subjects/brief-trips/versions/2")
    expect(rows(page)).to_have_count(3)


def test_a_version_is_compared_with_one_of_another_subject_and_a_link_shows_the_same(opened: Open) -> None:
    page = opened("/subjects/trips-value/versions/2?view=compare")
    page.get_by_label("Another subject").check()
    page.get_by_role("combobox", name="Other subject").fill(OTHER)
    heading = page.get_by_role(
        "heading", name=re.compile("From .*trips-value version 1 to trips-value version 2")
    )
    expect(heading).to_contain_text("U+202E")
    table = page.get_by_role("table", name="2 differences between fields and types")
    expect(table.get_by_role("row").nth(1)).to_contain_text("note")
    expect(table.get_by_role("row").nth(1)).to_contain_text("added")
    expect(table.get_by_role("row").nth(2)).to_contain_text("removed")
    expect(page.get_by_role("table", name="Verdict at each level")).to_contain_text("✓ compatible")
    again = opened(page.url.partition("#")[2])
    expect(again.get_by_role("heading", name=re.compile("From .*to trips-value version 2"))).to_be_visible()
    expect(again.get_by_role("table", name="2 differences between fields and types")).to_be_visible()
    again.get_by_role("button", name="Swap sides").click()
    expect(again.get_by_role("heading", name=re.compile("From trips-value version 2 to "))).to_be_visible()
    fits(again)


def test_a_pasted_text_is_compared_and_a_link_holds_it(opened: Open) -> None:
    page = opened("/subjects/trips-value/versions/2?view=compare")
    page.get_by_label("A pasted text").check()
    page.get_by_label("Schema to compare with").fill(BREAKING)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("heading", name="From version 2 to the pasted text")).to_be_visible()
    table = page.get_by_role("table", name="3 differences between fields and types")
    expect(table.get_by_role("row").nth(1)).to_contain_text("fare")
    expect(page.get_by_role("tabpanel")).to_contain_text("Fix: give `fare` a default")
    again = opened(page.url.partition("#")[2])
    expect(again.get_by_role("heading", name="From version 2 to the pasted text")).to_be_visible()
    expect(again.get_by_label("Schema to compare with")).to_have_value(BREAKING)
    fits(again)


def test_different_types_say_so_and_show_their_fields_and_texts(opened: Open) -> None:
    page = opened("/subjects/trips-value/versions/1?view=compare&of=money-value")
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("Money-value version 1 is PROTOBUF, trips-value version 1 is AVRO")
    expect(panel.get_by_role("table")).to_contain_text("Money.cents")
    expect(panel.locator(".merge .cm-content").first).to_contain_text("int64 cents = 1;")


def test_unchanged_lines_are_folded_until_they_are_asked_for(opened: Open) -> None:
    page = opened("/subjects/trips-value/versions/2?view=compare&with=1")
    texts = page.locator(".merge")
    fold = texts.get_by_role("button", name=re.compile(r"Show \d+ unchanged lines")).first
    expect(fold).to_be_visible()
    expect(texts).not_to_contain_text("stop02")
    check_accessible(page)
    fold.focus()
    page.keyboard.press("Enter")
    expect(texts).to_contain_text("stop02")
    page.get_by_label("Fold unchanged lines").uncheck()
    expect(texts.get_by_role("button")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"whole=1$"))
    page.get_by_label("Fold unchanged lines").check()
    page.set_viewport_size(NARROW)
    page.reload()
    fold = texts.get_by_role("button", name=re.compile(r"Show \d+ unchanged lines")).first
    expect(fold).to_be_visible()
    page.set_viewport_size(WIDE)


def test_fields_that_are_not_known_for_now_can_be_asked_for_again(opened: Open) -> None:
    page = opened("/subjects")

    def fail(route: Route) -> None:
        refused = {"differences": {"error_code": 500, "message": "Not now"}}
        route.fulfill(json=route.fetch().json() | refused)

    page.route(re.compile("/versions/2/comparison"), fail, times=1)
    page.evaluate("location.hash = '#/subjects/trips-value/versions/2?view=compare&with=1'")
    fields = page.get_by_role("region", name="Fields that differ")
    expect(fields).to_contain_text("Not now")
    fields.get_by_role("button", name="Try again").click()
    expect(fields.get_by_role("table")).to_contain_text("note")


def test_a_text_that_is_no_schema_is_refused_in_its_place(opened: Open, watch: Watch) -> None:
    watch.allow("422")
    watch.allow("404 .*nobody-has-this")
    page = opened("/subjects/trips-value/versions/2?view=compare")
    page.get_by_label("A pasted text").check()
    page.get_by_label("Schema to compare with").fill('{"type": "recor')
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("42201")
    expect(page.locator(".merge .cm-content").first).to_contain_text("stop00")
    page.get_by_label("Another subject").check()
    page.get_by_role("combobox", name="Other subject").fill("nobody-has-this")
    expect(page.get_by_text("There is no subject nobody-has-this.")).to_be_visible()
