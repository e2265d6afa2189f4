"""Try: a schema is checked while one types, at every level, and registered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.running import until

from .browsing import SIGHTS, Watch, barriers, check_widths
from .places import Place

Open = Callable[..., Page]
ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": "string"}
DRAFTS = "Object.keys(localStorage).filter((key) => key.startsWith('registrar.draft.')).length"


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


@pytest.fixture(scope="module")
def filled(served: Place) -> Iterator[httpx.Client]:
    """Register two versions that are compatible one way, and return a client."""
    with httpx.Client(base_url=served.url, timeout=30) as client:
        for schema in (record(ID), record(ID, NAME | {"default": ""})):
            assert client.post("/subjects/drafts-value/versions", json={"schema": schema}).status_code == 200
        yield client


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Schema")


def write(page: Page, text: str) -> None:
    editor(page).fill(text)


def status(page: Page) -> Locator:
    return page.locator(".results").get_by_role("status").first


def verdicts(page: Page) -> Locator:
    return page.get_by_role("table", name="Verdict at each level").get_by_role("row")


def tables(page: Page) -> Locator:
    return page.get_by_role("table", name="Verdict of each table").get_by_role("row")


def test_a_schema_is_validated_without_a_subject(filled: httpx.Client, opened: Open) -> None:
    page = opened("/try")
    expect(status(page)).to_have_text("Valid. Enter a subject to check compatibility.")
    write(page, '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "strin"}]}')
    expect(page.get_by_role("alert")).to_contain_text("Undefined schema: strin")
    expect(page.locator(".cm-lintRange-error")).to_have_text('"strin"')
    write(page, '{\n  "type" "record"\n}')
    expect(page.get_by_role("alert")).to_contain_text("line 2")
    expect(page.locator(".cm-gutter-lint .cm-lint-marker-error")).to_have_count(1)
    page.get_by_label("Type").select_option("PROTOBUF")
    write(page, 'syntax = "proto3";\nmessage A {\n  int32 = 1;\n}\n')
    expect(page.get_by_role("alert")).to_contain_text("Syntax error")
    write(page, 'syntax = "proto3";\nmessage A {\n  int32 a = 1;\n}\n')
    expect(status(page)).to_contain_text("Valid.")
    expect(page.get_by_role("button", name="Register")).to_be_disabled()


def test_every_level_gets_a_verdict_with_what_would_pass(filled: httpx.Client, opened: Open) -> None:
    page = opened("/try?subject=drafts-value&version=2")
    expect(status(page)).to_have_text("Valid and compatible at BACKWARD, the effective level.")
    added = {"name": "added", "type": "int"}
    write(page, record(ID, NAME | {"default": ""}, added))
    expect(verdicts(page)).to_have_text([
        "LevelVerdict", "NONE✓ compatible", "BACKWARD effective✗ incompatible",
        "BACKWARD_TRANSITIVE✗ incompatible", "FORWARD✓ compatible", "FORWARD_TRANSITIVE✓ compatible",
        "FULL✗ incompatible", "FULL_TRANSITIVE✗ incompatible",
    ])  # fmt: skip
    change = page.get_by_role("listitem").filter(has_text='{"name":"added","type":"int"}').first
    expect(change).to_contain_text("Fix: give `added` a default")
    expect(page.locator(".cm-lintRange-error")).to_have_text(json.dumps(added))
    page.get_by_role("button", name="FORWARD", exact=True).click()
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    expect(page).to_have_url(
        page.url.partition("#")[0] + "#/try?subject=drafts-value&version=2&level=FORWARD"
    )
    page.get_by_role("button", name="BACKWARD", exact=True).click()
    change.get_by_role("button", name="Go there").click()
    expect(editor(page)).to_be_focused()
    for size, scheme in SIGHTS:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        assert not barriers(page), "\n".join(barriers(page))
        check_widths(page, [size["width"]])


def test_a_level_for_versions_in_use_says_which_it_compared(filled: httpx.Client, opened: Open) -> None:
    filled.put("/config/drafts-value", json={"compatibility": "BACKWARD_USED"}).raise_for_status()
    page = opened("/try?subject=drafts-value&version=2")
    expect(verdicts(page).last).to_have_text("BACKWARD_USED effective✓ compatible")
    expect(page.get_by_text("Compared with all versions: no census has been published.")).to_be_visible()
    filled.delete("/config/drafts-value").raise_for_status()


def test_every_table_gets_a_verdict_with_its_reason_and_what_would_pass(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/try?subject=drafts-value&version=2")
    added = {"name": "added", "type": "int", "default": 0}
    write(page, record(ID, NAME | {"default": ""}, added))
    expect(tables(page)).to_have_text([
        "TableVerdict", "spark✗ incompatible", "delta✗ incompatible", "iceberg-v2✗ incompatible",
        "iceberg-v3✓ compatible", "flink✓ compatible", "bigquery✗ incompatible", "clickhouse✓ compatible",
        "duckdb✓ compatible", "parquet✗ incompatible",
    ])  # fmt: skip
    page.get_by_role("button", name="delta", exact=True).click()
    expect(page.get_by_role("heading", name="In delta")).to_be_visible()
    change = page.get_by_role("listitem").filter(has_text="required field added").first
    expect(change).to_contain_text("added column is not nullable")
    expect(change).to_contain_text("Fix: make the field nullable (delta)")
    expect(page.locator(".cm-lintRange-error")).to_have_text('"name": "added"')
    page.get_by_role("button", name="BACKWARD", exact=True).click()
    expect(page.get_by_role("heading", name="At BACKWARD")).to_be_visible()


def test_the_last_text_is_checked_once_however_quickly_one_types(filled: httpx.Client, opened: Open) -> None:
    page = opened("/try?subject=drafts-value&version=2")
    expect(status(page)).to_contain_text("Valid and compatible")
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.post_data or "") if request.method == "POST" else None
    )
    for count in range(1, 8):
        write(page, record(ID, NAME | {"default": "x" * count}))
    expect(status(page)).to_contain_text("Valid and compatible")
    expect(verdicts(page).filter(has_text="checking")).to_have_count(0)
    expect(tables(page).filter(has_text="checking")).to_have_count(0)
    # One request: validity, both halves of both kinds of levels, and all tables.
    assert len([each for each in asked if "xxxxxxx" in each]) == 1


def test_a_schema_is_registered_with_references_and_leads_to_its_page(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/try")
    page.get_by_label("Subject", exact=True).fill("baskets-value")
    expect(page).to_have_url(page.url.partition("#")[0] + "#/try?subject=baskets-value")
    page.get_by_text("References (0)").click()
    page.get_by_role("button", name="Add a reference").click()
    reference = page.get_by_role("group", name="Reference 1")
    reference.get_by_label("Name").fill("Order")
    reference.get_by_label("Subject").fill("drafts-value")
    write(page, '{"type": "record", "name": "Basket", "fields": [{"name": "order", "type": "Order"}]}')
    expect(status(page)).to_have_text("Valid. The subject has no versions to be compatible with.")
    page.get_by_label("normalize").check()
    page.get_by_role("button", name="Register").click()
    page.get_by_role("link", name="baskets-value version 1").click()
    expect(page).to_have_title("baskets-value version 1 · Registrar")
    assert filled.get("/subjects/baskets-value/versions/1").json()["references"][0]["version"] == 2


def test_a_refused_registration_keeps_the_text_and_says_why(
    filled: httpx.Client, opened: Open, watch: Watch
) -> None:
    watch.allow("409")
    page = opened("/try?subject=drafts-value&version=1")
    write(page, record(ID | {"type": "string"}))
    expect(page.get_by_text("so the registry would refuse it")).to_be_visible()
    register = page.get_by_role("button", name="Register")
    expect(register).to_be_disabled()
    write(page, record(ID, NAME | {"default": ""}, {"name": "more", "type": "int", "default": 0}))
    expect(register).to_be_enabled()
    refusal = {"error_code": 40901, "message": "Not now"}
    page.route("**/subjects/drafts-value/versions", lambda route: route.fulfill(status=409, json=refusal))
    register.click()
    expect(page.locator(".register").get_by_role("alert")).to_contain_text("40901")
    expect(editor(page)).to_contain_text('"more"')
    assert filled.get("/subjects/drafts-value/versions").json() == [1, 2]


def test_a_draft_is_still_there_when_one_comes_back(filled: httpx.Client, opened: Open) -> None:
    page = opened("/try?subject=drafts-value&version=1")
    write(page, record(ID, {"name": "kept", "type": "int"}))
    expect(status(page)).to_contain_text("incompatible at BACKWARD")
    page.get_by_role("link", name="Lookup").click()
    expect(page.get_by_label("Id or guid")).to_be_visible()  # the draft's page has gone
    page.go_back()
    expect(editor(page)).to_contain_text('"kept"')
    page.reload()
    expect(editor(page)).to_contain_text('"kept"')
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("dialog", name="Discard this draft?").get_by_role("button", name="Discard it").click()
    expect(editor(page)).not_to_contain_text('"kept"')
    # The first change says at once that it cannot be kept: the page may be left before the next one.
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('no room'); }; }")
    page.clock.install()
    page.clock.pause_at((page.evaluate("Date.now()") + 1000) / 1000)
    write(page, '"string"')
    expect(page.get_by_text("This draft is lost when you leave this page")).to_be_visible()


def test_the_page_follows_its_address_and_keeps_a_draft_for_each_subject(
    filled: httpx.Client, opened: Open
) -> None:
    schema = {"schema": '{"type": "object", "title": "Other"}', "schemaType": "JSON"}
    assert filled.post("/subjects/drafts-json/versions", json=schema).status_code == 200
    page = opened("/try?subject=drafts-json&version=1")
    expect(editor(page)).to_contain_text("Other")
    write(page, '{"type": "object", "title": "Mine"}')
    page.evaluate("location.hash = '#/try?subject=drafts-value&version=1'")  # as a link in another place
    expect(editor(page)).to_contain_text('"Order"')
    expect(page.get_by_label("Type")).to_have_value("AVRO")
    write(page, record(ID, {"name": "mine", "type": "int"}))
    page.get_by_role("link", name="drafts-json").click()
    expect(editor(page)).to_contain_text("Mine")
    expect(page.get_by_label("Type")).to_have_value("JSON")
    # What is typed takes the text along, and does not replace the draft that is there.
    page.get_by_label("Subject", exact=True).fill("drafts-value")
    expect(page.get_by_role("heading", name="There is another draft for this subject")).to_be_visible()
    expect(editor(page)).to_contain_text("Mine")
    page.get_by_role("button", name="Open the other one").click()
    expect(editor(page)).to_contain_text('"mine"')


def test_a_registration_that_was_overtaken_says_by_what_and_changes_nothing_unasked(
    filled: httpx.Client, opened: Open, watch: Watch
) -> None:
    watch.allow("412|503")
    schema = {"schema": '"int"'}
    assert filled.post("/subjects/drafts-two/versions", json=schema).status_code == 200
    assert filled.put("/config/drafts-two", json={"compatibility": "NONE"}).status_code == 200
    one = opened("/try?subject=drafts-two&version=1")
    other = one.context.new_page()
    other.goto(one.url)
    for page in (one, other):
        expect(editor(page)).to_contain_text('"int"')
    write(one, '"string"')
    until(lambda: bool(one.evaluate(DRAFTS)), 15, "the draft to be kept")
    write(other, '"long"')
    expect(other.get_by_role("heading", name="There is another draft for this subject")).to_be_visible()
    expect(status(other)).to_contain_text("Valid and compatible")
    other.get_by_role("button", name="Register").click()
    expect(other.get_by_role("link", name="drafts-two version 2")).to_be_visible()
    # What one tab registers takes no other tab's draft along.
    one.reload()
    expect(editor(one)).to_contain_text('"string"')
    expect(
        one.get_by_role("heading", name="Version 2 was registered after this draft was begun")
    ).to_be_visible()
    expect(status(one)).to_contain_text("Valid and compatible")
    one.get_by_role("button", name="Register").click()
    dialog = one.get_by_role("dialog", name="Changed in the meantime")
    expect(dialog.get_by_role("row").filter(has_text="version registered: version 2")).to_be_visible()
    assert not barriers(one), "\n".join(barriers(one))
    assert filled.get("/subjects/drafts-two/versions").json() == [1, 2]
    # A failure to look again is shown in this dialog, and not in the next.
    latest = "**/subjects/drafts-two/versions/latest*"
    one.route(latest, lambda route: route.fulfill(status=503))
    dialog.get_by_role("button", name="Change it anyway").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    one.unroute(latest)
    dialog.get_by_role("button", name="Keep what is there now").click()
    expect(editor(one)).to_contain_text('"string"')
    one.get_by_role("button", name="Register").click()
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_role("button", name="Change it anyway").click()
    expect(one.get_by_role("link", name="drafts-two version 3")).to_be_visible()
    expect(one.get_by_role("heading", name="was registered after this draft")).to_have_count(0)
    # Nothing of a draft that was registered is left.
    one.reload()
    expect(one.get_by_text("This is your saved draft")).to_have_count(0)


def test_hostile_drafts_are_only_text(filled: httpx.Client, opened: Open) -> None:
    page = opened("/try")
    hostile = '"</script><img src=x onerror=alert(1)>\u202e'
    write(page, hostile)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(editor(page)).to_contain_text("</script><img")
    # Half of a surrogate pair is not sent: the registry could not read the request.
    page.get_by_label("Type").select_option("JSON")
    write(page, "")
    editor(page).focus()
    editor(page).evaluate(
        "element => element.ownerDocument.execCommand('insertText', false, '{\"a\": \"\\ud800')"
    )
    expect(editor(page)).to_contain_text('{"a": "')
    # By its own words, because the alert about the text before may still be there.
    expect(page.get_by_role("alert")).to_contain_text("Half of a character (U+D800) at line 1, column 8")
    assert page.locator("main img:not(.cm-widgetBuffer), main script").count() == 0


def test_the_longest_level_in_force_does_not_widen_a_narrow_page(filled: httpx.Client, opened: Open) -> None:
    filled.post("/subjects/narrow-value/versions", json={"schema": record(ID)}).raise_for_status()
    filled.put("/config/narrow-value", json={"compatibility": "BACKWARD_TRANSITIVE"}).raise_for_status()
    page = opened("/try?subject=narrow-value&version=1")
    expect(verdicts(page).filter(has_text="effective")).to_contain_text("compatible")
    check_widths(page, [360])
