"""Ids and guids looked up: the schema, and the versions that use it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from . import filled
from .browsing import check_accessible
from .places import Place, Serving

NAME = "<b>orders</b>"
SAME = filled.text_of("AVRO", 5)
MANY = [f".each{number}" for number in range(25)]  # more contexts with the id 9 than one answer has


@pytest.fixture(scope="module")
def served(serving: Serving) -> Iterator[Place]:
    """Start a registry where an id has two schemas and a schema has two ids."""
    entries = (
        filled.context(".europe"),
        filled.version(NAME, 5),
        filled.version("deleted", 5, deleted=True),
        filled.version(":.europe:shop", 5, text=filled.text_of("AVRO", 10)),
        filled.version(":.europe:copy", 7, text=SAME),
        filled.version("long", 8, text='{"type":"string","maximum":12345678901234567890}'),
        *(each for name in MANY for each in (filled.context(name), filled.version(f":{name}:same", 9))),
    )
    with serving(entries=entries) as place:
        yield place


def test_an_id_is_found_in_every_context_with_what_uses_it(opened) -> None:
    page = opened("/lookup")
    expect(page.get_by_label("Id or guid")).to_be_focused()
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    first = page.get_by_role("region", name="Id 5", exact=True)
    expect(first.get_by_role("row")).to_have_text(["SubjectVersion", f"{NAME}v1", "deletedv1 deleted"])
    expect(first.get_by_role("textbox", name="Schema of the id 5")).to_contain_text('"name": "R5"')
    other = page.get_by_role("region", name="Id 5 in .europe")
    expect(other.get_by_role("row")).to_have_text(["SubjectVersion", ".europeshopv1"])
    expect(other.get_by_role("textbox")).to_contain_text('"name": "R10"')
    expect(first.get_by_role("link", name="v1").first).to_have_attribute(
        "href", "#/subjects/%3Cb%3Eorders%3C%2Fb%3E/versions/1"
    )
    check_accessible(page)


def test_a_guid_is_found_under_all_its_ids(opened) -> None:
    page = opened("/lookup?id=7&context=.europe")
    guid = page.get_by_role("region", name="Id 7 in .europe").get_by_text(re.compile("^[0-9a-f-]{36}$"))
    text = guid.inner_text()
    page.get_by_label("Id or guid").fill(text.replace("-", "").upper())
    page.get_by_role("button", name="Look up").click()
    expect(page).to_have_url(re.compile(f"#/lookup\\?guid={text}$"))
    expect(page.get_by_role("region", name=re.compile("^Id 5$"))).to_contain_text(NAME)
    expect(page.get_by_role("region", name="Id 7 in .europe")).to_contain_text("copy")


def test_a_search_that_fails_in_further_contexts_loses_nothing_that_was_found(opened, watch) -> None:
    watch.allow("the server responded with a status of 500")
    page = opened("/lookup?id=9")
    found, further = page.locator(".found"), page.get_by_role("button", name="Search further contexts")
    expect(found).to_have_count(20)
    page.route(re.compile("/schemas/lookup.*after="), lambda route: route.fulfill(status=500), times=1)
    further.click()
    page.get_by_role("button", name="Try again").click()
    expect(found).to_have_count(20)
    further.click()
    expect(found).to_have_count(len(MANY))
    expect(further).to_have_count(0)


def test_what_is_not_there_and_what_is_no_id_are_reported(opened) -> None:
    page = opened("/lookup?id=4711")
    expect(page.get_by_text("Nothing has the id 4711")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("seven")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Not an id or a guid")).to_be_visible()


def test_numbers_that_scripts_would_round_are_shown_as_stored(opened) -> None:
    page = opened("/lookup?id=8&context=.")
    expect(page.get_by_role("textbox", name="Schema of the id 8")).to_contain_text("12345678901234567890")
