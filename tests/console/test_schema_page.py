"""The page of a subject: its versions, their texts, comparisons, references, ids, settings, and deletion."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.running import until

from .browsing import NARROW, WIDE, Watch, barriers, check_accessible, check_widths
from .places import Place

Open = Callable[..., Page]
HOSTILE = "</script><img src=x onerror=alert(1)>\u202eexe.\u2066 a/b?c#d%2F"
MARKUP = "<b>bold</b></script><script>alert(1)</script>\u202etxet"


def record(name: str, *fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more}, ensure_ascii=False)


def field(name: str, kind: Any = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


FIRST = record("Order", field("id", "long"), field("name"))
SECOND = record(
    "Order", field("id", "long"), field("name", **{"confluent:tags": ["PII"]}), field("note", default="")
)
MONEY = 'syntax = "proto3";\nmessage Money {\n  int64 cents = 1;\n}\n'
BILL = 'syntax = "proto3";\nimport "money.proto";\nmessage Bill {\n  Money sum = 1;\n}\n'
RULE = {"name": "rule", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "1<2"}
THIRD = record("Order", field("id"), field("base", "Base"))


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


@pytest.fixture(scope="module")
def filled(served: Place) -> Iterator[httpx.Client]:
    """Fill the module's registry, and return a client of it."""
    with httpx.Client(base_url=served.url, timeout=30) as client:
        register(client, "base-value", record("Base", field("a", "int")))
        register(client, "orders-value", FIRST)
        register(
            client, "orders-value", SECOND,
            metadata={"properties": {"owner": MARKUP}, "sensitive": ["owner"]},
            ruleSet={"domainRules": [RULE]},
        )  # fmt: skip
        put(client, "/config/orders-value", compatibility="NONE")
        register(client, "orders-value", THIRD, references=[to("Base", "base-value")])
        register(
            client, "user-value", record("User", field("base", "Base")), references=[to("Base", "base-value")]
        )
        register(client, ":.other:copy-value", FIRST)
        register(client, "same-value", FIRST)
        register(client, "money.proto", MONEY, schemaType="PROTOBUF")
        uses = [{"name": "money.proto", "subject": "money.proto", "version": 1}]
        register(client, "bill-value", BILL, schemaType="PROTOBUF", references=uses)
        association = {"subject": "same-value", "associationType": "value", "lifecycle": "WEAK"}
        resource = {"resourceName": "orders", "resourceNamespace": "cluster", "resourceId": "1"}
        answer = client.post("/associations", json={**resource, "associations": [association]})
        assert answer.status_code == 200, answer.text
        yield client


def to(name: str, subject: str) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": 1}


def register(client: httpx.Client, subject: str, schema: str, **more: Any) -> dict[str, Any]:
    answer = client.post(f"/subjects/{quoted(subject)}/versions", json={"schema": schema, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def put(client: httpx.Client, path: str, **body: Any) -> None:
    assert client.put(path, json=body).status_code == 200


def quoted(name: str) -> str:
    return quote(name, safe="")


def served_at(page: Page) -> str:
    return page.url.partition("#")[0]


def text_of(page: Page) -> Locator:
    return page.locator(".version .cm-content")


def tab(page: Page, name: str) -> Locator:
    page.get_by_role("tab", name=name, exact=True).click()
    return page.get_by_role("tabpanel")


TABS = ("Schema", "Compare", "References", "Askers", "Ids", "Metadata", "Config and mode", "History")
# A phone at night for all, a desk at day for those with the most colors.
SIGHTS = ((NARROW, "dark", TABS), (WIDE, "light", TABS[1:3]))


def test_nothing_serious_stands_in_anyones_way(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/orders-value/versions/2")
    for size, scheme, names in SIGHTS:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        for name in names:
            expect(tab(page, name)).not_to_contain_text("Loading")
            assert not barriers(page), f"{name}, {scheme}:\n" + "\n".join(barriers(page))
            check_widths(page, [size["width"]])
    page.get_by_role("button", name="Delete the subject…").click()
    expect(page.get_by_role("dialog")).to_contain_text("messages stay readable")
    assert not barriers(page)


def test_the_latest_version_is_shown_and_others_are_reached_by_keys(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/subjects/orders-value")
    expect(page.get_by_role("heading", level=1)).to_have_text("orders-value")
    expect(page.get_by_text("Version 3", exact=True).first).to_be_visible()
    expect(text_of(page)).to_contain_text('"name": "base"')
    page.keyboard.press("[")
    expect(page).to_have_url(served_at(page) + "#/subjects/orders-value/versions/2")
    expect(text_of(page)).to_contain_text('"name": "note"')
    page.keyboard.press("]")
    expect(page).to_have_title("orders-value version 3 · Registrar")
    page.get_by_role("navigation", name="Versions").get_by_role("link", name="Version 1").click()
    expect(text_of(page)).not_to_contain_text("note")


def test_the_text_is_shown_as_stored_normalized_with_its_references_and_as_a_table(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/subjects/orders-value/versions/3")
    stored = filled.get("/subjects/orders-value/versions/3").json()["schema"]
    page.get_by_label("As stored").check()
    expect(text_of(page)).to_have_text(stored)
    page.get_by_label("Resolved").check()
    expect(text_of(page)).to_contain_text('"name": "Base"')
    expect(page).to_have_url(served_at(page) + "#/subjects/orders-value/versions/3?form=resolved")
    page.get_by_label("Normalized").check()
    expect(text_of(page)).to_contain_text('"type": "Base"')
    page.get_by_label("Table").check()
    expect(text_of(page)).to_contain_text("base Base NOT NULL")


def test_a_protobuf_schema_shows_what_it_imports_when_asked(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/bill-value?form=resolved")
    expect(text_of(page).first).to_contain_text("Money sum = 1;")
    page.get_by_role("group").filter(has_text="money.proto version 1").locator("summary").click(
        position={"x": 5, "y": 5}
    )
    expect(page.get_by_label("Schema of money.proto, version 1")).to_contain_text("int64 cents = 1;")


def test_two_versions_are_compared_with_a_verdict_and_what_would_pass(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/subjects/orders-value/versions/3?view=compare")
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("heading", name="From version 2 to version 3")).to_be_visible()
    rows = panel.get_by_role("table", name="Verdict at each level").get_by_role("row")
    expect(rows).to_have_text(
        [
            "LevelVerdict",
            "NONE✓ compatible",
            "BACKWARD✗ incompatible",
            "FORWARD✗ incompatible",
            "FULL✗ incompatible",
        ]
    )
    added = panel.get_by_role("listitem").filter(has_text='{"name":"base","type":"Base"}').first
    expect(added).to_contain_text("Fix: give `base` a default")
    expect(added).to_contain_text("✓ old reads new")
    expect(panel.locator(".cm-mergeView .cm-content")).to_have_count(2)
    page.get_by_label("Compare with").select_option("version 1")
    expect(panel.get_by_role("heading", name="From version 1 to version 3")).to_be_visible()
    expect(page).to_have_url(served_at(page) + "#/subjects/orders-value/versions/3?view=compare&with=1")


def test_a_comparison_fits_a_narrow_screen_as_one_text(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/orders-value/versions/2?view=compare", viewport=NARROW)
    expect(page.locator(".merge .cm-content")).to_have_count(1)
    expect(page.locator(".merge")).to_contain_text('"name": "note"')
    check_widths(page)


def test_the_chosen_tab_is_in_sight_on_a_narrow_screen(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/orders-value?view=history", viewport=NARROW)
    expect(page.get_by_role("table")).to_be_visible()
    place = page.get_by_role("tab", name="History").bounding_box()
    assert place is not None
    assert place["x"] + place["width"] <= NARROW["width"]


def test_references_are_drawn_and_listed_in_both_directions(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/base-value?view=references")
    panel = page.get_by_role("tabpanel")
    graph = panel.get_by_role("region", name="Graph of references")
    expect(graph.get_by_role("link")).to_have_count(2)
    expect(panel.locator("section").filter(has_text="Referenced by").get_by_role("link")).to_have_text(
        ["orders-value version 3", "user-value version 1"]
    )
    graph.get_by_role("link", name="user-value version 1").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title("user-value version 1 · Registrar")


def test_the_versions_and_contexts_with_the_same_schema_are_listed(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/subjects/orders-value/versions/1?view=usage")
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("link", name="same-value version 1")).to_be_visible()
    expect(panel.get_by_text("in the context .other")).to_be_visible()


def test_a_subject_opens_with_its_fields_and_is_found_by_one(filled: httpx.Client, opened: Open) -> None:
    wide = (field(f"f{at}", "int", doc="d" * 90) for at in range(5000))
    register(filled, "wide-value", record("Wide", *wide))
    page = opened("/subjects/orders-value/versions/2")
    fields = page.get_by_role("region", name="fields and types")
    expect(fields.get_by_role("row").filter(has_text="name")).to_contain_text("PII")
    short = page.get_by_role("region", name="In short")
    expect(short.get_by_text("NONE: a new version may be anything.")).to_be_visible()
    expect(short.get_by_text("<b>bold")).to_have_count(0)
    short.get_by_role("button", name="Show", exact=True).click()
    expect(short.get_by_text("<b>bold")).to_be_visible()
    expect(short.get_by_text("not known: no census was taken")).to_be_visible()
    expect(short.locator("dd").filter(has_text="since")).to_contain_text(re.compile(r"client|nobody"))
    check_accessible(page)

    page.set_viewport_size(NARROW)
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="What to find")
    expect(box).to_be_focused()
    until(lambda: filled.get("/search", params={"query": "f4999"}).json()["hits"], 60, "the index")
    box.fill("f4999")
    found = page.get_by_role("option").filter(has_text="wide-value")
    expect(found.locator("mark")).to_have_text("f4999")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    box.press("Enter")
    expect(page).to_have_title("wide-value · Registrar")
    grid = page.get_by_role("grid", name="Fields")
    grid.evaluate("each => each.scrollTo(0, each.scrollHeight)")
    expect(grid.get_by_text("f4999", exact=True)).to_be_visible()
    assert grid.get_by_role("row").count() < 60
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_tags_metadata_and_rules_are_shown_as_text(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/orders-value/versions/2?view=details")
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_text("<b>bold")).to_have_count(0)
    panel.get_by_role("button", name="Show", exact=True).click()
    expect(panel.get_by_role("cell", name=MARKUP.replace("\u202e", "U+202E"), exact=True)).to_be_visible()
    expect(panel.get_by_text("sensitive")).to_be_visible()
    expect(panel.get_by_role("listitem").filter(has_text="PII")).to_contain_text("Order.name")
    expect(panel.get_by_role("cell", name="1<2")).to_be_visible()
    expect(panel.get_by_text("No associations.")).to_be_visible()


def test_associations_are_shown(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/same-value?view=details")
    row = page.get_by_role("table", name="Associations").get_by_role("row").last
    expect(row.get_by_role("cell")).to_have_text(["orders", "cluster", "topic value", "WEAK"])
    for what in ("the subject", "version 1"):  # they keep it
        page.get_by_role("button", name=f"Delete {what}…").click()
        dialog = page.get_by_role("dialog", name=f"Delete: {what}")
        expect(dialog).to_contain_text("The subject has associations.")
        expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
        page.keyboard.press("Escape")


def test_the_level_is_set_and_inherited_and_its_origin_is_reported(
    filled: httpx.Client, opened: Open
) -> None:
    page = opened("/subjects/same-value?view=settings")
    level = page.locator("section").filter(has_text="Compatibility level of")
    expect(level.locator("li.current")).to_contain_text("the server's setting compatibility (BACKWARD)")
    level.get_by_label("Compatibility level of this subject").select_option("FULL_USED")
    level.get_by_role("button", name="Set").click()
    expect(level.locator("li.current")).to_contain_text("this subject: FULL_USED")
    assert filled.get("/config/same-value").json()["compatibilityUsed"]
    level.get_by_label("Compatibility level of this subject").select_option("FULL")
    level.get_by_role("button", name="Set").click()
    expect(level.locator("li.current")).to_contain_text(re.compile("this subject: FULL(?!_)"))
    assert filled.get("/config/same-value").json() == {"compatibilityLevel": "FULL"}
    expect(page.get_by_text("FULL, READWRITE")).to_be_visible()
    filled.put("/config", json={"normalize": True}).raise_for_status()
    expect(page.locator("dd").filter(has_text="true")).to_contain_text("from the top level")
    filled.delete("/config").raise_for_status()
    level.get_by_role("button", name="Remove and inherit").click()
    expect(level.locator("li.current")).to_contain_text("the server's setting")
    mode = page.locator("section").filter(has_text="Mode of")
    mode.get_by_label("Mode of this subject").select_option("READONLY")
    mode.get_by_role("button", name="Set").click()
    expect(mode.locator("li.current")).to_contain_text("this subject: READONLY")
    mode.get_by_role("button", name="Remove and inherit").click()
    expect(mode.locator("li.current")).to_contain_text("READWRITE, the default")


def test_two_pages_never_overwrite_each_other_in_silence(
    filled: httpx.Client, opened: Open, watch: Watch
) -> None:
    watch.allow("412")
    register(filled, "two-value", '"int"')
    pages = [opened("/subjects/two-value?view=settings") for _ in range(2)]
    levels = [page.locator("section").filter(has_text="Compatibility level of") for page in pages]
    for level, chosen in zip(levels, ("FULL", "NONE"), strict=True):
        level.get_by_label("Compatibility level of this subject").select_option(chosen)
    levels[1].get_by_role("button", name="Set").click()
    # The other page shows the change, and keeps what was chosen there.
    expect(levels[0].locator("li.current")).to_contain_text("this subject: NONE")
    expect(levels[0].get_by_label("Compatibility level of this subject")).to_have_value("FULL")
    levels[0].get_by_role("button", name="Set").click()
    dialog = pages[0].get_by_role("dialog", name="Changed in the meantime")
    expect(dialog.get_by_role("row").filter(has_text="config set: NONE")).to_be_visible()
    expect(dialog).to_contain_text("Now it is NONE; you chose FULL.")
    assert filled.get("/config/two-value").json() == {"compatibilityLevel": "NONE"}
    dialog.get_by_role("button", name="Change it anyway").click()
    for level in levels:
        expect(level.locator("li.current")).to_contain_text("this subject: FULL")
    assert filled.get("/config/two-value").json() == {"compatibilityLevel": "FULL"}


def test_a_deletion_meets_what_was_shown(filled: httpx.Client, opened: Open, watch: Watch) -> None:
    watch.allow("412")
    register(filled, "raced-value", '"int"')
    page = opened("/subjects/raced-value")
    page.get_by_role("button", name="Delete the subject…").click()
    dialog = page.get_by_role("dialog", name="Delete: the subject")
    expect(dialog).to_contain_text("messages stay readable")
    register(filled, "raced-value", '"long"')
    dialog.get_by_role("button", name="Delete", exact=True).click()
    overtaken = page.get_by_role("dialog", name="Changed in the meantime")
    expect(overtaken.get_by_role("row").filter(has_text="version 2")).to_be_visible()
    overtaken.get_by_role("button", name="Keep what is there now").click()
    assert filled.get("/subjects/raced-value/versions").json() == [1, 2]


def test_every_tab_of_a_subject_shows_what_changes(filled: httpx.Client, opened: Open) -> None:
    register(filled, "live-value", record("Live"))
    page = opened("/subjects/live-value?view=references")
    expect(page.get_by_text("No references in either direction.")).to_be_visible()
    refers = [{"name": "Live", "subject": "live-value", "version": 1}]
    user = '{"type": "record", "name": "User", "fields": [{"name": "a", "type": "Live"}]}'
    register(filled, "live-user", user, references=refers)
    expect(page.get_by_role("link", name="live-user version 1").first).to_be_visible()
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("cell", name="version registered")).to_have_count(1)
    filled.put("/mode/live-value", json={"mode": "READONLY"}).raise_for_status()
    expect(page.get_by_role("cell", name="mode set")).to_be_visible()
    page.get_by_role("tab", name="Config and mode").click()
    expect(page.get_by_role("heading", name="Mode: READONLY")).to_be_visible()
    expect(page.get_by_label("Mode of this subject")).to_have_value("READONLY")
    filled.put("/mode/live-value", json={"mode": "READWRITE"}).raise_for_status()
    expect(page.get_by_label("Mode of this subject")).to_have_value("READWRITE")
    page.goto(page.url.partition("#")[0] + "#/config")
    expect(page.get_by_label("Scope", exact=True)).to_be_visible()
    register(filled, ":.live:value", '"int"')
    expect(page.get_by_role("option", name="the context .live")).to_have_count(1)


def test_the_top_level_and_contexts_have_a_page_of_their_own(filled: httpx.Client, opened: Open) -> None:
    page = opened("/config")
    expect(page.get_by_label("Compatibility level of the top level")).to_be_visible()
    page.get_by_label("Scope", exact=True).select_option("the context .other")
    expect(page.get_by_label("Mode of the context .other")).to_be_visible()
    expect(page).to_have_url(served_at(page) + "#/config?scope=%3A.other%3A")


def test_a_refused_change_says_why_in_its_place(filled: httpx.Client, opened: Open, watch: Watch) -> None:
    watch.allow("422")
    page = opened("/config?scope=%3A.absent%3A")
    level = page.locator("section").filter(has_text="Compatibility level of")
    level.get_by_label("Compatibility level of the context .absent").select_option("FULL")
    page.route("**/config/*", lambda route: route.continue_(post_data='{"compatibility": "WRONG"}'))
    level.get_by_role("button", name="Set").click()
    expect(level.get_by_role("alert")).to_contain_text("42203")


def refused_by_mode(page: Page, address: str, button: str, what: str) -> None:
    page.goto(f"{served_at(page)}#{address}")
    found = page.get_by_role("button", name=button)
    expect(found.first).to_be_disabled()
    expect(found.first).to_have_accessible_description(f"The mode is READONLY: nothing is {what}.")


def test_changes_that_do_harm_ask_first_and_what_is_refused_is_not_offered(
    filled: httpx.Client, opened: Open
) -> None:
    register(filled, ":.harm:value", '"int"')
    for each in ("NONE", "FULL"):
        put(filled, "/config/:.harm:value", compatibility=each)
    page = opened("/config?scope=%3A.harm%3A")
    for what, value, word in (
        ("Compatibility level", "NONE", "cannot read"), ("Mode", "READONLY", "Nobody can register"),
    ):  # fmt: skip
        setting = page.locator("section.setting").filter(has_text=f"{what} of")
        setting.get_by_label(f"{what} of the context .harm").select_option(value)
        setting.get_by_role("button", name="Set").click()
        dialog = page.get_by_role("dialog", name=f"Set {value} for the context .harm?")
        expect(dialog).to_contain_text(word)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        setting.get_by_role("button", name="Set").click()
        dialog.get_by_role("button", name="Change the context .harm").click()
        expect(setting.locator("li.current")).to_contain_text(f"the context .harm: {value}")
    imports = page.get_by_role("option", name="IMPORT: needs a scope without subjects")
    expect(imports).to_be_disabled()
    page.goto(page.url.partition("#")[0] + f"#/subjects/{quoted(':.harm:value')}")
    delete = page.get_by_role("button", name="Delete version 1…")
    expect(delete).to_be_disabled()
    expect(delete).to_have_accessible_description("The mode is READONLY: nothing is deleted.")
    page.get_by_role("link", name="Try a new version").click()
    expect(page.get_by_text("The mode is READONLY: nothing is registered.")).to_be_visible()
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    refused_by_mode(page, "/subjects/:.harm:value?view=history", "Put back NONE…", "changed")
    refused_by_mode(page, "/subjects/:.harm:value/versions/1/tags", "Register a new version", "registered")
    refused_by_mode(page, "/subjects/:.harm:value/associations", "Add an association…", "changed")
    for address in ("/config?scope=:.harm:", "/config/members?scope=:.harm:"):
        page.goto(f"{served_at(page)}#{address}")
        expect(page.get_by_text("The mode is READONLY: nothing is changed.").first).to_be_visible()
    expect(page.get_by_role("main").get_by_role("textbox").first).to_be_disabled()
    # To inherit what does harm asks as well.
    page.goto(page.url.partition("#")[0] + "#/config?scope=%3A.harm%3A")
    put(filled, "/config/:.__GLOBAL:", compatibility="NONE")
    level = page.locator("section.setting").filter(has_text="Compatibility level of")
    expect(level.locator("li").filter(has_text="all contexts")).to_contain_text("NONE")
    expect(level.get_by_role("button", name="Remove and inherit")).to_be_disabled()
    put(filled, "/mode/:.harm:", mode="READWRITE")
    level.get_by_role("button", name="Remove and inherit").click()
    removing = page.get_by_role("dialog", name="Remove NONE, so that NONE applies?")
    expect(removing).to_contain_text("cannot read")
    page.keyboard.press("Escape")
    filled.delete("/config/:.__GLOBAL:").raise_for_status()
    # The history of the context puts both back.
    page.goto(page.url.partition("#")[0] + "#/config?scope=%3A.harm%3A")
    for kind in ("mode set", "config set"):
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=kind)).last
        row.get_by_role("button", name="Put back").click()
        dialog = page.get_by_role("dialog", name="Put back what was there before")
        expect(dialog).to_contain_text("nothing of its own")
        dialog.get_by_role("button", name="Put back").click()
        expect(dialog).to_have_count(0)
    expect(page.get_by_role("cell", name="config deleted")).to_be_visible()
    assert filled.get("/mode/:.harm:").status_code == filled.get("/config/:.harm:").status_code == 404


def test_the_history_puts_back_what_an_event_replaced(filled: httpx.Client, opened: Open) -> None:
    register(filled, "undo-value", record("Undo"))
    register(filled, "undo-value", record("Undo", field("a", default="")))
    put(filled, "/config/undo-value", compatibility="FULL", normalize=True)
    put(filled, "/config/undo-value", compatibility="NONE", normalize=None, alias="")
    assert filled.delete("/subjects/undo-value/versions/1").status_code == 200
    assert filled.delete("/subjects/undo-value").status_code == 200
    page = opened("/subjects/undo-value?view=history")

    def put_back(kind: str, name: str) -> None:
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=kind)).first
        row.get_by_role("button", name=name).click()
        dialog = page.get_by_role("dialog", name="Put back what was there before")
        dialog.get_by_role("button", name="Put back").click()
        expect(dialog).to_have_count(0)

    put_back("config set", "Put back FULL…")
    assert filled.get("/config/undo-value").json() == {"normalize": True, "compatibilityLevel": "FULL"}
    put_back("subject soft deleted", "Put back…")
    put_back("version soft deleted", "Put back…")
    assert filled.get("/subjects/undo-value/versions").json() == [3, 4]
    texts = [filled.get(f"/subjects/undo-value/versions/{each}").json()["schema"] for each in (3, 4)]
    assert ["a" in text.partition("fields")[2] for text in texts] == [True, False]


def test_what_was_deleted_permanently_comes_back_with_a_new_id_and_says_so(
    filled: httpx.Client, opened: Open, watch: Watch
) -> None:
    watch.allow("status of 404 .*/schemas/ids/")
    found = register(filled, "undo-id", record("UndoId"))
    register(filled, "undo-id", record("UndoId", field("a", default="")))
    assert filled.delete("/subjects/undo-id/versions/1").status_code == 200
    assert filled.delete("/subjects/undo-id/versions/1?permanent=true").status_code == 200
    page = opened("/subjects/undo-id?view=history")
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="version deleted")).first
    row.get_by_role("button", name="Put back…").click()
    dialog = page.get_by_role("dialog", name="Put back what was there before")
    expect(dialog).to_contain_text("version 1, with a new id")
    expect(dialog).to_contain_text(f"Messages with the id {found['id']} stay unreadable.")
    dialog.get_by_role("button", name="Put back").click()
    expect(dialog).to_have_count(0)
    assert filled.get("/subjects/undo-id/versions").json() == [2, 3]


def test_several_versions_are_put_back_over_somebody_elses_new_one_only_when_that_is_shown(
    filled: httpx.Client, opened: Open, watch: Watch
) -> None:
    watch.allow("412")
    put(filled, "/config/undo-many", compatibility="NONE")
    for kind in ("int", "long", "string"):
        register(filled, "undo-many", f'"{kind}"')
    assert filled.delete("/subjects/undo-many").status_code == 200
    page = opened("/subjects/undo-many?view=history")
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="subject soft deleted")).first
    row.get_by_role("button", name="Put back…").click()
    dialog = page.get_by_role("dialog", name="Put back what was there before")
    sent: list[str] = []

    def overtake(route: Route) -> None:
        """Register another version before the second one is put back."""
        sent.append(json.loads(route.request.post_data or "")["schema"])
        if len(sent) == 2:
            register(filled, "undo-many", '"bytes"')
        route.continue_()

    page.route(re.compile("/subjects/undo-many/versions$"), overtake)
    dialog.get_by_role("button", name="Put back").click()
    overtaken = page.get_by_role("dialog", name="Changed in the meantime")
    expect(overtaken).to_contain_text("These versions were registered again before that: 1.")
    assert filled.get("/subjects/undo-many/versions").json() == [4, 5]
    overtaken.get_by_role("button", name="Change it anyway").click()
    until(lambda: page.evaluate("1") and len(sent) == 4, 30, "the other versions to be put back")
    expect(dialog).to_have_count(0)
    assert sent == ['"int"', '"long"', '"long"', '"string"']
    texts = [filled.get(f"/subjects/undo-many/versions/{each}").json()["schema"] for each in (4, 5, 6, 7)]
    assert texts == ['"int"', '"bytes"', '"long"', '"string"']


def test_a_level_for_versions_in_use_is_put_back_as_such(filled: httpx.Client, opened: Open) -> None:
    put(filled, "/config/undo-used", compatibility="FULL_USED")
    before = filled.get("/config/undo-used").json()
    put(filled, "/config/undo-used", compatibility="NONE")
    page = opened("/config?scope=undo-used")
    page.get_by_role("button", name="Put back").first.click()
    dialog = page.get_by_role("dialog", name="Put back what was there before")
    dialog.get_by_role("button", name="Put back").click()
    expect(dialog).to_have_count(0)
    assert filled.get("/config/undo-used").json() == before


def test_an_alias_is_set_and_removed_after_what_it_means_was_said(filled: httpx.Client, opened: Open) -> None:
    register(filled, "alias-old", record("Old"))
    register(filled, "alias-new", record("New"))
    page = opened("/subjects/alias-old?view=settings")
    alias = page.locator("section.setting").filter(has_text="Alias of this subject")
    field_ = alias.get_by_label("Alias of this subject")
    field_.fill("alias-none")
    alias.get_by_role("button", name="Set").click()
    dialog = page.get_by_role("dialog", name="Set this alias?")
    expect(dialog).to_contain_text("Clients that name this subject read and write alias-none instead")
    expect(dialog).to_contain_text("It has no versions: reads of this subject will fail.")
    expect(dialog).to_contain_text("This subject had no config of its own.")
    page.keyboard.press("Escape")
    assert filled.get("/config/alias-old").status_code == 404
    field_.fill("alias-new")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("It has 1 version.")
    assert not barriers(page)
    dialog.get_by_role("button", name="Change this subject").click()
    expect(page.get_by_text("This name leads to alias-new.")).to_be_visible()
    assert filled.get("/config/alias-old").json()["alias"] == "alias-new"
    page.goto(page.url.partition("#")[0] + "#/config?scope=alias-old")
    expect(alias).to_contain_text("Requests for this name are answered by alias-new")
    field_.fill("")
    alias.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog", name="Remove the alias?").get_by_role("button", name="Change").click()
    expect(alias).to_contain_text("None: this subject answers for itself.")
    assert "alias" not in filled.get("/config/alias-old").json()


def test_an_alias_is_shown_with_its_unseen_characters_before_it_is_put_back(
    filled: httpx.Client, opened: Open
) -> None:
    register(filled, "undo-alias", record("Undo"))
    put(filled, "/config/undo-alias", alias="target\u202eexe")
    put(filled, "/config/undo-alias", alias="")
    page = opened("/subjects/undo-alias?view=history")
    page.get_by_role("button", name="Put back").first.click()
    warning = page.get_by_role("dialog", name="Put back what was there before").get_by_role("paragraph")
    expect(warning).to_contain_text("read and write targetU+202Eexe instead")


def test_a_version_is_deleted_after_its_consequences_are_reported_and_brought_back(
    filled: httpx.Client, opened: Open
) -> None:
    register(filled, "brief-value", '"int"')
    register(filled, "brief-value", '"long"')
    page = opened("/subjects/brief-value")
    page.get_by_role("button", name="Delete version 2…").click()
    dialog = page.get_by_role("dialog", name="Delete: version 2")
    expect(dialog).to_contain_text("messages stay readable")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog).to_have_count(0)
    assert filled.get("/subjects/brief-value/versions").json() == [1]
    page.get_by_label("1 deleted").check()
    page.get_by_role("navigation", name="Versions").get_by_role("link", name="Version 2").click()
    page.get_by_role("button", name="Restore…").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page).to_have_title("brief-value version 3 · Registrar")
    assert filled.get("/subjects/brief-value/versions").json() == [1, 3]


def test_a_permanent_deletion_wants_the_name_and_reports_which_ids_vanish(
    filled: httpx.Client, opened: Open
) -> None:
    found = register(filled, "gone-value", record("Gone"))
    page = opened("/subjects/gone-value")
    for _ in range(2):
        page.get_by_role("button", name="Delete the subject…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("listitem").first).to_be_visible()
        button = dialog.get_by_role("button", name="Delete", exact=False).last
        if dialog.get_by_role("textbox").count():
            expect(dialog).to_contain_text(f"Clients that read by id get 404 for id {found['id']}")
            expect(button).to_be_disabled()
            dialog.get_by_role("textbox").fill("gone-value")
        button.click()
        expect(dialog).to_have_count(0)
    expect(page).to_have_title("Subjects · Registrar")
    assert filled.get(f"/schemas/ids/{found['id']}").status_code == 404


def test_a_subject_is_refused_beforehand_because_of_one_of_its_oldest_versions(
    filled: httpx.Client, opened: Open
) -> None:
    filled.put("/config/aged-value", json={"compatibility": "NONE"}).raise_for_status()
    for number in range(52):
        register(filled, "aged-value", record(f"Aged{number}"))
    reference = {"name": "Aged0", "subject": "aged-value", "version": 1}
    body = {"schema": record("Heir", field("aged", "Aged0")), "references": [reference]}
    filled.post("/subjects/heir-value/versions", json=body).raise_for_status()
    page = opened("/subjects/aged-value")
    page.get_by_role("button", name="Delete the subject…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Version 1 is referenced by these versions")
    expect(dialog.get_by_role("link", name="heir-value")).to_be_visible()
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()


def test_a_version_that_others_refer_to_is_refused_beforehand(filled: httpx.Client, opened: Open) -> None:
    page = opened("/subjects/base-value")
    page.get_by_role("button", name="Delete version 1…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Version 1 is referenced by these")
    graph = filled.get("/subjects/base-value/versions/1/graph").json()
    users = [each for each in graph["nodes"] if each["depth"] == -1 and not each["deleted"]]
    assert users
    for each in users:
        name = f"{each['subject']} version {each['version']}"
        expect(dialog.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()


def test_hostile_names_and_texts_stay_text(filled: httpx.Client, opened: Open) -> None:
    register(filled, HOSTILE, record("R", doc=MARKUP))
    page = opened(f"/subjects/{quoted(HOSTILE)}")
    seen = HOSTILE.replace("\u202e", "U+202E").replace("\u2066", "U+2066")
    expect(page.get_by_role("heading", level=1)).to_have_text(seen)
    expect(page).to_have_title(re.compile(r"alert\(1\)>⟨U\+202E⟩exe"))
    page.get_by_role("button", name="Delete the subject…").click()
    dialog = page.get_by_role("dialog", name="Delete: the subject")
    expect(dialog.get_by_text(seen, exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(text_of(page)).to_contain_text("<b>bold</b></script>")
    for name in ("References", "Askers", "Ids", "Metadata", "Config and mode"):
        expect(tab(page, name)).not_to_contain_text("Loading")
    assert page.locator("main img, main script, main b").count() == 0


@pytest.mark.parametrize("count", [10_000, pytest.param(39_000, marks=pytest.mark.long)])
def test_large_schemas_are_shown_without_colors_and_the_page_stays_responsive(
    filled: httpx.Client, opened: Open, count: int
) -> None:
    fields = [field(f"field_{index:06}", doc="x" * 60) for index in range(count)]
    register(filled, f"large-{count}", record("Large", *fields))
    page = opened(f"/subjects/large-{count}")
    expect(page.get_by_text("shown without highlighting, because it is large")).to_be_visible()
    expect(text_of(page)).to_contain_text("field_000001")
    page.get_by_label("As stored").check()
    expect(page.get_by_text("the first 100 thousand are shown")).to_be_visible()
    expect(text_of(page)).to_contain_text("field_000001")
    tab(page, "Metadata")
    expect(page.get_by_text("No tags in the schema.")).to_be_visible()


def test_a_subject_that_does_not_exist_is_reported(opened: Open, watch: Watch) -> None:
    watch.allow("404")
    page = opened("/subjects/none")
    expect(page.get_by_role("alert")).to_contain_text("Not found")


DIRECTIONS = ("BACKWARD", "FORWARD", "FULL")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


def test_every_level_and_each_mode_that_a_subject_can_have_is_offered(
    filled: httpx.Client, opened: Open
) -> None:
    register(filled, "offered-value", '"int"')
    page = opened("/subjects/offered-value?view=settings")
    levels = page.get_by_role("combobox", name="Compatibility level").locator("option")
    known = ["NONE", *(f"{each}{more}" for each in DIRECTIONS for more in ("", "_TRANSITIVE"))]
    expect(levels).to_have_text([*known, *(f"{each}_USED" for each in DIRECTIONS)])
    modes = page.get_by_role("combobox", name="Mode of").locator("option")
    expect(modes).to_have_text([re.compile(f"^{each}:") for each in MODES])
