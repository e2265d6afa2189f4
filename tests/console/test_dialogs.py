"""Dialogs: what they are about stays, and what is closed neither comes back nor closes another one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.running import PATIENT

from .browsing import Watch
from .places import Place
from .test_late_answers import hold, register, release

Opened = Callable[..., Page]
WEBHOOK = {"state": "delivering", "url": "http://x", "kinds": [], "position": 1, "lag": 5}


@pytest.fixture(scope="module")
def served(shared: Place) -> Place:
    return shared


@pytest.fixture
def webhooks(opened: Opened, watch: Watch) -> Page:
    """Return the page of webhooks, with two that this registry would not offer."""
    watch.allow("usage/census")  # there is none
    page = opened("/home")
    rows = [{"name": name, "etag": name, **WEBHOOK} for name in ("one", "two")]
    page.route("**/admin/webhooks", lambda route: route.fulfill(json=rows))
    page.route("**/webhooks/*/rotate", lambda route: route.fulfill(json={"secret": route.request.url}))
    page.route("**/webhooks/*/position", lambda route: route.fulfill(json={}))
    page.route(
        re.compile("/admin/webhooks/[^/]+$"),
        lambda route: route.fulfill(json={"name": "made", "secret": "of the new one"}),
    )
    page.goto(page.url.replace("/home", "/cluster/webhooks"))
    return page


def close_and_open(page: Page, request: str, run: str, other: str) -> None:
    """Close the dialog that is open while its request runs, open another one, and let the answer come."""
    hold(page, request)
    page.get_by_role("dialog").get_by_role("button", name=run, exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name=other, exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    release(page)
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize(
    ("begin", "request_", "run"),
    [
        ("Change… the webhook one", "PUT .*/webhooks/one$", "Change it"),
        ("Move… the webhook one", "POST .*/position$", "Skip all pending"),
        ("New secret… the webhook one", "POST .*/rotate$", "Create it"),
        ("Delete… the webhook one", "DELETE .*/webhooks/one$", "Delete it"),
    ],
)
def test_a_webhook_dialog_that_was_closed_does_not_close_the_next_one(
    webhooks: Page, begin: str, request_: str, run: str
) -> None:
    webhooks.get_by_role("button", name=begin, exact=True).click()
    close_and_open(webhooks, request_, run, "Move… the webhook two")
    expect(webhooks.get_by_role("dialog")).to_contain_text("two has received everything")


def test_each_new_secret_stays_until_the_user_has_it(webhooks: Page) -> None:
    for name in ("one", "two"):
        webhooks.get_by_role("button", name=f"New secret… the webhook {name}", exact=True).click()
        webhooks.get_by_role("button", name="Create it").click()
    webhooks.route("**/webhooks/*/test", lambda route: route.fulfill(json={"delivered": True, "took_ms": 1}))
    webhooks.get_by_role("button", name="Test the webhook two").click()
    expect(webhooks.get_by_text("The test event was delivered")).to_be_visible()
    secrets = webhooks.locator("code", has_text="http")
    expect(secrets).to_have_text([re.compile("one/rotate"), re.compile("two/rotate")])
    webhooks.get_by_role("button", name="I have it").first.click()
    expect(secrets).to_have_text(re.compile("two/rotate"))


def test_the_dialog_of_a_context_that_was_closed_does_not_close_the_next_one(
    opened: Opened, served: Place
) -> None:
    for name in ("dialog-one", "dialog-two"):
        register(served.url, f":.{name}:s")
        for permanent in ("false", "true"):
            subject = f"{served.url}/subjects/:.{name}:s?permanent={permanent}"
            httpx.delete(subject, timeout=PATIENT).raise_for_status()
    page = opened("/contexts")
    page.get_by_role("button", name="Delete the context .dialog-one", exact=True).click()
    close_and_open(page, "DELETE .*/contexts/", "Delete it", "Delete the context .dialog-two")
    page.keyboard.press("Escape")
    page.route("**/admin/ids/release", lambda route: route.fulfill(json={}))
    page.get_by_role("button", name="Release ids of the context .", exact=True).click()
    close_and_open(page, "POST .*/ids/release", "Release them", "Delete the context .dialog-two")


def test_the_dialog_of_an_association_that_was_closed_does_not_close_the_next_one(
    opened: Opened, served: Place
) -> None:
    register(served.url, "dialog-association-value")
    for name in ("a", "b"):
        body = {
            "resourceName": name,
            "resourceNamespace": "n",
            "resourceId": f"dialog-{name}",
            "associations": [{"subject": "dialog-association-value", "associationType": "value"}],
        }
        httpx.post(f"{served.url}/associations", json=body, timeout=PATIENT).raise_for_status()
    page = opened("/subjects/dialog-association-value/associations")
    page.get_by_role("row", name="dialog-a").get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Check").click()
    expect(page.get_by_text("The registry would accept this.")).to_be_visible()
    close_and_open(page, "DELETE .*/associations/", "Remove it", "Add an association…")


def test_the_dialog_of_a_source_that_was_closed_does_not_close_the_next_one(opened: Opened) -> None:
    page = opened("/lookup")
    census = {"ended": 1, "complete": True, "sources": 2, "messages": 2}
    page.route("**/usage/census", lambda route: route.fulfill(json=census))
    sources = [{"source": name, "state": "read"} for name in ("one", "two")]
    page.route("**/usage/sources*", lambda route: route.fulfill(json=sources))
    page.route("**/usage/sources/one", lambda route: route.fulfill(status=204))
    page.goto(page.url.replace("/lookup", "/usage/topics"))
    page.get_by_role("button", name="Remove the source one", exact=True).click()
    hold(page, "DELETE .*/usage/sources/one")
    page.get_by_role("button", name="Remove it").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Remove the source two", exact=True).click()
    release(page)
    expect(page.get_by_role("dialog")).to_contain_text("two")


def test_what_is_put_back_does_not_close_the_dialog_that_was_opened_again(
    opened: Opened, served: Place
) -> None:
    register(served.url, "dialog-back")
    config = f"{served.url}/config/dialog-back"
    httpx.put(config, json={"compatibility": "FULL"}, timeout=PATIENT).raise_for_status()
    page = opened("/subjects/dialog-back?view=history")
    put_back = page.get_by_role("button", name=re.compile("^Put back .*…$"))
    put_back.click()
    hold(page, "DELETE .*/config/dialog-back")
    confirm = page.get_by_role("dialog").get_by_role("button", name="Put back", exact=True)
    confirm.click()
    page.keyboard.press("Escape")
    put_back.first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    release(page)
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_change_that_was_called_off_is_not_made_when_the_registry_answers(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow("status of 412 ")
    register(served.url, "dialog-off")
    config = f"{served.url}/config/dialog-off"
    page = opened("/subjects/dialog-off?view=settings")
    level = page.locator("section.setting").filter(has_text="Compatibility level")
    level.get_by_role("combobox").select_option("FULL")
    httpx.put(config, json={"compatibility": "NONE"}, timeout=PATIENT).raise_for_status()
    level.get_by_role("button", name="Set", exact=True).click()
    dialog = page.get_by_role("dialog", name="Changed in the meantime")
    hold(page, "GET .*/scopes")
    dialog.get_by_role("button", name="Change it anyway").click()
    dialog.get_by_role("button", name="Keep what is there now").click()
    release(page)
    assert httpx.get(config, timeout=PATIENT).json() == {"compatibilityLevel": "NONE"}


def test_a_deletion_is_of_the_version_for_which_its_dialog_was_opened(opened: Opened, served: Place) -> None:
    subject = f"{served.url}/subjects/dialog-delete"
    register(served.url, "dialog-delete")
    page = opened("/subjects/dialog-delete")
    page.get_by_role("button", name="Delete version 1").click()
    register(served.url, "dialog-delete", json.dumps({"type": "record", "name": "R", "fields": []}))
    expect(page.get_by_role("heading", name="2 versions", include_hidden=True)).to_be_attached()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("dialog-delete version 1")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog).to_have_count(0)
    assert httpx.get(f"{subject}/versions", timeout=PATIENT).json() == [2]


def test_a_deletion_is_of_the_subject_for_which_its_dialog_was_opened(opened: Opened, served: Place) -> None:
    for name in ("dialog-own", "dialog-target"):
        register(served.url, name)
    page = opened("/subjects/dialog-own")
    page.get_by_role("button", name="Delete the subject").click()
    config = f"{served.url}/config/dialog-own"
    httpx.put(config, json={"alias": "dialog-target"}, timeout=PATIENT).raise_for_status()
    expect(page.get_by_text("This name leads to").first).to_be_attached()
    expect(page.get_by_role("dialog")).to_contain_text("dialog-own")
    expect(page.get_by_role("dialog")).not_to_contain_text("dialog-target")


def test_back_and_links_leave_a_dialog_with_the_page_that_it_is_about(opened: Opened, served: Place) -> None:
    register(served.url, "dialog-used")
    body = {
        "schema": '{"type":"record","name":"Q","fields":[{"name":"r","type":"R"}]}',
        "references": [{"name": "R", "subject": "dialog-used", "version": 1}],
    }
    using = f"{served.url}/subjects/dialog-using/versions"
    httpx.post(using, json=body, timeout=PATIENT).raise_for_status()
    register(served.url, "dialog-used", '{"type":"record","name":"R","fields":[]}')
    page = opened("/subjects/dialog-used/versions/2")
    page.evaluate("location.hash = '#/subjects/dialog-used/versions/1'")
    delete = page.get_by_role("button", name="Delete version 1")
    expect(page).to_have_title("dialog-used version 1 · Registrar")
    delete.click()
    page.get_by_role("dialog").get_by_role("link", name="dialog-using").click()
    expect(page).to_have_title("dialog-using version 1 · Registrar")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.go_back()
    expect(page).to_have_title("dialog-used version 1 · Registrar")
    delete.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    expect(page).to_have_title("dialog-used version 2 · Registrar")
    expect(page.get_by_role("dialog")).to_have_count(0)


def focused(page: Page) -> str:
    """Return what has the focus, in words."""
    return str(
        page.evaluate(
            """() => {
              const { activeElement: found } = document;
              if (found === document.body) return "nothing";
              return found.getAttribute("aria-label") ?? found.textContent.trim();
            }"""
        )
    )


def press(page: Page, name: str) -> None:
    """Press a button by the keyboard."""
    page.get_by_role("button", name=name, exact=True).focus()
    page.keyboard.press("Enter")


def test_the_focus_returns_to_what_opened_a_dialog_when_its_request_is_done(webhooks: Page) -> None:
    press(webhooks, "Change… the webhook one")
    hold(webhooks, "PUT .*/webhooks/one$")
    press(webhooks, "Change it")
    release(webhooks)
    expect(webhooks.get_by_role("dialog")).to_have_count(0)
    assert focused(webhooks) == "Change… the webhook one"


def test_the_focus_stays_at_a_button_that_is_off_while_its_request_runs(
    opened: Opened, served: Place
) -> None:
    register(served.url, "dialog-focus-value")
    page = opened("/subjects/dialog-focus-value/associations")
    press(page, "Add an association…")
    for label in ("Topic", "Namespace", "Id of the topic"):
        page.get_by_label(re.compile(f"^{label}")).fill("focus")
    press(page, "Check")
    expect(page.get_by_text("The registry would accept this.")).to_be_visible()
    assert focused(page) == "Add it"


def test_the_focus_stays_near_a_row_that_goes(webhooks: Page) -> None:
    press(webhooks, "Delete… the webhook one")
    webhooks.route(
        "**/admin/webhooks", lambda route: route.fulfill(json=[{"name": "two", "etag": "", **WEBHOOK}])
    )
    press(webhooks, "Delete it")
    expect(webhooks.get_by_role("row")).to_have_count(2)
    assert focused(webhooks) == "Webhooks"
    webhooks.route("**/admin/webhooks", lambda route: route.fulfill(json=[]))
    press(webhooks, "Delete… the webhook two")
    press(webhooks, "Delete it")
    expect(webhooks.get_by_text("No webhooks yet")).to_be_visible()
    expect(webhooks.get_by_role("tabpanel")).to_be_focused()


def test_the_focus_stays_away_from_where_the_user_has_left(webhooks: Page) -> None:
    webhooks.get_by_role("button", name="Test the webhook one").focus()
    webhooks.evaluate("document.activeElement.blur()")
    webhooks.evaluate("document.querySelector('table').remove()")
    webhooks.evaluate("() => new Promise((resolve) => { setTimeout(resolve); })")
    assert focused(webhooks) == "nothing"
