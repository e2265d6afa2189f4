"""Two tabs: one changes what the other one shows or edits, which neither misleads nor loses input."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.running import PATIENT

from .browsing import Watch, check_accessible
from .places import Place
from .test_late_answers import SCHEMA, register
from .test_live import is_live

Opened = Callable[..., Page]
OTHER = SCHEMA.replace("]}", ',{"name":"g","type":"int","default":1}]}')


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


def associate(url: str, subject: str) -> None:
    body = {
        "resourceName": "tabs",
        "resourceNamespace": "n",
        "resourceId": "tabs-id",
        "associations": [{"subject": subject, "associationType": "value"}],
    }
    httpx.post(f"{url}/associations", json=body, timeout=PATIENT).raise_for_status()


def test_an_association_that_was_replaced_is_not_removed(opened: Opened, served: Place) -> None:
    for subject in ("tabs-one", "tabs-two"):
        register(served.url, subject)
    associate(served.url, "tabs-one")
    page = opened("/subjects/tabs-one/associations")
    page.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Check").click()
    expect(dialog.get_by_text("The registry would accept this.")).to_be_visible()
    is_live(page)
    topic = f"{served.url}/associations/resources/tabs-id"
    query = {"resourceType": "topic", "associationType": "value"}
    httpx.delete(topic, params=query, timeout=PATIENT).raise_for_status()
    associate(served.url, "tabs-two")
    expect(dialog).to_contain_text("Somebody else has removed or replaced this association.")
    expect(dialog.get_by_role("button", name="Remove it")).to_be_disabled()


def test_tags_of_a_version_that_is_no_longer_the_latest_are_changed_knowingly(
    opened: Opened, served: Place
) -> None:
    register(served.url, "tabs-tags")
    page = opened("/subjects/tabs-tags/versions/1/tags")
    expect(page.get_by_role("button", name="Register a new version")).to_be_visible()
    is_live(page)
    warning = page.get_by_role("status").filter(has_text="Version 2 is the latest")
    expect(warning).to_have_count(0)
    register(served.url, "tabs-tags", OTHER)
    expect(warning).to_contain_text("would have the text of version 1, without what changed after it")
    check_accessible(page)
    warning.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Tags of tabs-tags version 2")).to_be_visible()
    expect(page.get_by_text("is the latest")).to_have_count(0)


def test_what_was_begun_stays_while_the_registry_cannot_be_reached(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow("ERR_CONNECTION_REFUSED|status of 503 ")
    register(served.url, "tabs-begun")
    page = opened("/config/members?scope=tabs-begun")
    metadata = page.get_by_label("defaultMetadata")
    metadata.fill('{"properties": {"owner": "me"}}')
    is_live(page)
    failing = re.compile(r"/scopes\?")
    page.route(failing, lambda route: route.abort("connectionrefused"))
    config = f"{served.url}/config/tabs-begun"
    httpx.put(config, json={"compatibility": "FULL"}, timeout=PATIENT).raise_for_status()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The registry cannot be reached")
    expect(metadata).to_have_value('{"properties": {"owner": "me"}}')
    page.unroute(failing)
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_have_count(0)
    expect(metadata).to_have_value('{"properties": {"owner": "me"}}')
    gone = {"error_code": 40301, "message": "no longer"}
    page.route(failing, lambda route: route.fulfill(status=403, json=gone))
    watch.allow("status of 403 ")
    httpx.put(config, json={"compatibility": "NONE"}, timeout=PATIENT).raise_for_status()
    expect(alert).to_contain_text("no longer")
    expect(metadata).to_have_count(0)


def test_a_draft_is_saved_once_no_other_one_stands_in_its_way(opened: Opened, served: Place) -> None:
    page = opened("/try?subject=tabs-draft")
    other = page.context.new_page()
    try:
        other.goto(page.url)
        page.get_by_role("textbox", name="Schema").fill(SCHEMA)
        saved = "() => Object.keys(localStorage).some((key) => key.endsWith('.tabs-draft'))"
        page.wait_for_function(saved)
        other.get_by_role("textbox", name="Schema").fill('"int"')
        expect(other.get_by_text("There is another draft for this subject")).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="Valid.")).to_be_visible()
        page.get_by_role("button", name="Register", exact=True).click()
        expect(page.get_by_text("Registered", exact=True)).to_be_visible()
        expect(other.get_by_text("There is another draft for this subject")).to_have_count(0)
        other.reload()
        expect(other.get_by_text("This is your saved draft")).to_be_visible()
        expect(other.get_by_role("textbox", name="Schema")).to_have_text('"int"')
    finally:
        other.close()


def test_a_button_is_about_the_subject_that_was_typed_before_it_was_pressed(
    opened: Opened, served: Place
) -> None:
    register(served.url, "tabs-typed")
    page = opened("/try?subject=tabs-typed&version=1")
    page.get_by_role("textbox", name="Schema").fill(OTHER)
    expect(page.get_by_text("Valid and compatible")).to_be_visible()
    expect(page.get_by_role("button", name="Register", exact=True)).to_be_enabled()
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))  # the pause after the last key does not end
    page.get_by_label("Subject", exact=True).fill("tabs-other")
    page.get_by_role("button", name="Register", exact=True).click()
    assert page.url.endswith("subject=tabs-other")
    page.clock.resume()
    expect(page.get_by_text("The subject has no versions to be compatible with")).to_be_visible()
    versions = httpx.get(f"{served.url}/subjects/tabs-typed/versions", timeout=PATIENT)
    assert versions.json() == [1]
