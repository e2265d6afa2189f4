"""Signing in to the console: with a password, and at an OpenID Connect issuer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Dialog, Page, Route, expect

from tests.api.permitting import rule
from tests.process.security.test_authentication import SECRET
from tests.support.oidc_issuer import CLIENT_ID, OidcIssuer
from tests.support.running import until
from tests.support.token_issuer import AUDIENCE

from .browsing import Watch, check_accessible
from .places import Place

UNAUTHORIZED = r"status of 401 "


@pytest.fixture(scope="module")
def issuer() -> Iterator[OidcIssuer]:
    with OidcIssuer() as found:
        yield found


@pytest.fixture(scope="module")
def flags(issuer: OidcIssuer, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("sign-in")
    users, rules = folder / "users", folder / "rules.toml"
    users.write_text("".join(f"{name}:{SECRET}\n" for name in ("root", "bob", "zoë")))
    rules.write_text(
        rule("root", "admin", "*") + rule("bob", "reader", "*") + rule("zoë", "developer", "own-*")
        + rule("carol", "admin", "*")
    )  # fmt: skip
    return (
        *("--users", str(users), "--rules", str(rules)),
        *("--jwt-jwks", f"{issuer.url}/keys", "--jwt-issuer", issuer.url, "--jwt-audience", AUDIENCE),
        *("--jwt-clock-skew-s", "0", "--console-oidc-client-id", CLIENT_ID),
    )


@pytest.fixture
def watch(served: Place, issuer: OidcIssuer) -> Iterator[Watch]:
    watch = Watch(served.url, issuer.url)
    yield watch
    watch.check()


Opened = Callable[..., Page]


def sign_in(page: Page, name: str, password: str = "secret") -> None:
    dialog = page.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("User name").fill(name)
    dialog.get_by_label("Password").fill(password)
    dialog.get_by_role("button", name="Sign in", exact=True).click()


def signed_in(page: Page, name: str) -> None:
    expect(page.locator("header .user")).to_contain_text(name)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("status").get_by_text("No subjects yet")).to_be_visible()


def storage(page: Page) -> Any:
    return page.evaluate("() => [Object.entries(localStorage), Object.entries(sessionStorage)]")


def test_a_password_is_asked_for_before_anything_is_refused_and_is_nowhere_afterwards(
    opened: Opened, watch: Watch
) -> None:
    page = opened()
    dialog = page.get_by_role("dialog", name="Sign in")
    expect(dialog.get_by_label("User name")).to_be_focused()
    check_accessible(page)
    for _ in range(3):  # the browser itself gives in at the second time
        page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.headers.get("authorization", "")))
    page.keyboard.type("zoë")
    page.keyboard.press("Tab")
    page.keyboard.type("secret")
    page.keyboard.press("Enter")
    signed_in(page, "zoë")
    assert storage(page) == [[], []]
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["value"] in page.content()) == (
        True,
        "Strict",
        False,
    )
    assert page.evaluate("document.cookie") == ""
    assert [each[:6] for each in sent if each] == ["Basic "]  # the password is sent once
    page.reload()
    signed_in(page, "zoë")


def test_a_wrong_password_is_reported_and_can_be_corrected(opened: Opened, watch: Watch) -> None:
    watch.allow(UNAUTHORIZED)
    page = opened()
    sign_in(page, "bob", "guess")
    expect(page.get_by_role("alert")).to_have_text("Wrong user name or password.")
    sign_in(page, "bob")
    signed_in(page, "bob")
    expect(page.locator("header .user")).to_contain_text("read only")


def test_all_tabs_share_a_session_and_signing_out_ends_it_everywhere(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow(UNAUTHORIZED)
    page = opened()
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("dialog", name="Sign in")).to_be_visible()
    sign_in(page, "root")
    for each in (page, other):
        signed_in(each, "root")
    [cookie] = page.context.cookies()
    stolen = {"cookie": f"{cookie['name']}={cookie['value']}", "x-requested-with": "fetch"}
    assert httpx.get(f"{served.url}/subjects", headers=stolen).status_code == 200
    page.get_by_role("button", name="Sign out").click()
    for each in (page, other):
        expect(each.get_by_role("dialog", name="Sign in")).to_be_visible()
    assert page.context.cookies() == []
    until(
        lambda: httpx.get(f"{served.url}/subjects", headers=stolen).status_code == 401,
        10,
        "the session's end",
    )


def end_session(page: Page, served: Place) -> None:
    """End a page's session as another tab of the same user could, without its knowledge."""
    [cookie] = page.context.cookies()
    mine = {"cookie": f"{cookie['name']}={cookie['value']}", "x-requested-with": "fetch"}
    assert httpx.delete(f"{served.url}/me/session", headers=mine).status_code == 200
    until(
        lambda: httpx.get(f"{served.url}/subjects", headers=mine).status_code == 401, 10, "the session's end"
    )


def test_a_change_is_not_sent_as_another_user_than_the_one_who_began_it(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow(UNAUTHORIZED)
    watch.allow("status of 404 .*/history")  # the subject has no versions
    page = opened("/config?scope=own-orders")
    sign_in(page, "root")
    level = page.get_by_role("combobox", name="Compatibility level")
    level.select_option("FULL")
    end_session(page, served)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.get_by_role("button", name="Set", exact=True).first.click()
    sign_in(page, "bob")
    expect(page.get_by_role("alert")).to_contain_text(
        "root began this, and is not signed in any more. Nothing was sent."
    )
    assert sent.count("PUT") == 1  # the one that was answered with 401
    level_url = f"{served.url}/config/own-orders"
    assert httpx.get(level_url, auth=("root", "secret")).status_code == 404


def test_a_session_that_ends_keeps_the_draft_and_the_user(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow(UNAUTHORIZED)
    page = opened("/try")
    sign_in(page, "root")
    editor = page.get_by_role("textbox", name="Schema")
    editor.fill('"string"')
    expect(page.locator(".results").get_by_role("status").first).to_contain_text("Valid.")
    end_session(page, served)
    editor.fill('"long"')
    dialog = page.get_by_role("dialog", name="Sign in")
    expect(dialog).to_contain_text("Your session has ended")
    expect(dialog.get_by_label("User name")).to_have_value("root")
    expect(dialog.get_by_label("Password")).to_be_focused()
    page.keyboard.type("secret")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.locator(".results").get_by_role("status").first).to_contain_text("Valid.")
    expect(editor).to_have_text('"long"')
    # The draft stays for its user alone, until they discard it.
    asked: list[str] = []

    def noted(question: Dialog) -> None:
        asked.append(question.type)
        question.accept()

    page.on("dialog", noted)
    page.get_by_role("button", name="Sign out").click()
    leaving = page.get_by_role("dialog", name="Sign out")
    expect(leaving).to_contain_text("You have 1 draft in this browser.")
    check_accessible(page)
    leaving.get_by_role("button", name="Keep them and sign out").click()
    sign_in(page, "zoë")
    expect(editor).to_contain_text("record")
    expect(page.get_by_text("This is your saved draft")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, "root")
    expect(editor).to_have_text('"long"')
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("textbox", name="Schema")).to_have_text('"long"')
    editor.fill('"int"')
    page.get_by_role("button", name="Sign out").click()
    leaving.get_by_role("button", name="Discard them and sign out").click()
    for each in (page, other):
        expect(each.get_by_role("dialog", name="Sign in")).to_be_visible()
    assert storage(page) == [[], []]
    assert not asked, "the browser asked if the page may be left"


def test_a_failure_to_sign_out_is_reported(opened: Opened, served: Place, watch: Watch) -> None:
    watch.allow("ERR_CONNECTION_REFUSED")
    page = opened()
    sign_in(page, "root")
    signed_in(page, "root")
    session = f"{served.url}/me/session"
    page.route(session, lambda route: route.abort("connectionrefused"))
    page.get_by_role("button", name="Sign out").click()
    dialog = page.get_by_role("dialog", name="Sign out")
    expect(dialog).to_contain_text("You are still signed in.")
    expect(dialog.get_by_role("alert")).to_contain_text("The registry cannot be reached")
    page.unroute(session)
    dialog.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()


def test_a_session_is_renewed_when_that_is_due_and_not_when_a_page_is_opened(opened: Opened) -> None:
    page = opened()
    sign_in(page, "root")
    signed_in(page, "root")
    renewed: list[str] = []
    page.on(
        "request", lambda request: renewed.append(request.method) if "/me/session" in request.url else None
    )
    page.clock.install()
    page.reload()
    signed_in(page, "root")
    page.clock.fast_forward(60_000)
    page.evaluate("fetch('../me', { headers: { 'x-requested-with': 'fetch' } })")  # a later request
    assert renewed == []
    with page.expect_response(lambda response: "/me/session" in response.url) as answer:
        page.clock.fast_forward(300_000)
    assert (answer.value.status, answer.value.json(), renewed) == (200, {"lasts": 900}, ["POST"])
    assert storage(page) == [[], []]


# Pages that show nothing to users who have not signed in.
VIEWS = (
    "/subjects", "/config", "/config/members", "/contexts", "/activity", "/try?subject=some", "/usage",
    "/lookup?id=1", "/home", "/cluster", "/cluster/snapshots", "/cluster/webhooks", "/cluster/quarantine",
    "/cluster/audit", "/subjects/some", "/subjects/some/associations",
)  # fmt: skip


def test_what_has_failed_without_a_user_is_loaded_again_when_one_signs_in(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow(UNAUTHORIZED)
    watch.allow("status of 404 .*/usage/census")  # there is none
    some, root = f"{served.url}/subjects/some", ("root", "secret")
    httpx.post(f"{some}/versions", json={"schema": '"int"'}, auth=root).raise_for_status()
    page = opened("/subjects")
    for view in VIEWS:
        page.goto(f"{served.url}/ui/#{view}")
        page.reload()
        expect(page.get_by_role("dialog", name="Sign in")).to_be_visible()
        page.get_by_role("button", name="Continue without signing in").click()
        refused = page.get_by_role("main").get_by_role("alert")
        expect(refused.first).to_contain_text("Sign in to see this")
        page.get_by_role("button", name="Sign in").click()
        sign_in(page, "root")
        expect(refused, view).to_have_count(0)
        page.context.clear_cookies()
    for permanent in ("false", "true"):
        httpx.delete(f"{some}?permanent={permanent}", auth=root).raise_for_status()


def at_issuer(page: Page, user: str) -> None:
    page.get_by_role("button", name="Sign in at").click()
    expect(page).to_have_title("Issuer")
    page.get_by_label("Who are you?").fill(user)
    page.get_by_role("button", name="Go on").click()


@pytest.mark.parametrize("mode", ["fragment", pytest.param("query", marks=pytest.mark.long)])
def test_an_issuer_signs_users_in_and_the_page_is_where_it_was(
    opened: Opened, issuer: OidcIssuer, served: Place, mode: str
) -> None:
    issuer.response_modes = [mode]
    page = opened("/lookup")
    at_issuer(page, "carol")
    expect(page.locator("header .user")).to_contain_text("carol")
    assert page.url == f"{served.url}/ui/#/lookup"
    assert storage(page) == [[], []]


def test_a_token_is_renewed_before_it_expires_without_the_user(opened: Opened, issuer: OidcIssuer) -> None:
    before = len(issuer.granted)
    page = opened()
    page.clock.install()
    at_issuer(page, "carol")
    signed_in(page, "carol")
    page.clock.fast_forward(1000 * (issuer.lifetime_s - 20))
    page.get_by_role("link", name="Lookup").click()
    page.get_by_role("link", name="Subjects").click()
    until(
        lambda: issuer.granted[before:] == ["authorization_code", "refresh_token"], 10, "the token's renewal"
    )
    signed_in(page, "carol")


def test_a_refusal_of_the_issuer_is_reported(opened: Opened) -> None:
    page = opened()
    at_issuer(page, "")
    expect(page.get_by_role("alert")).to_contain_text("The issuer refused: Nobody signed in")
    sign_in(page, "root")
    signed_in(page, "root")


def test_an_answer_that_the_page_did_not_ask_for_is_refused(opened: Opened, served: Place) -> None:
    page = opened()
    page.goto(f"{served.url}/ui/?code=stolen&state=forged")
    expect(page.get_by_role("alert")).to_contain_text("was started elsewhere")
    assert "stolen" not in page.url


@pytest.mark.long
def test_an_identity_for_another_sign_in_is_refused(opened: Opened, issuer: OidcIssuer) -> None:
    issuer.changed_claims = {"nonce": "replayed"}
    page = opened()
    at_issuer(page, "carol")
    expect(page.get_by_role("alert")).to_contain_text("belongs to another sign-in")
    issuer.changed_claims = {}


def test_buttons_are_off_until_it_is_known_who_may_use_them(opened: Opened) -> None:
    page = opened("/cluster/snapshots")
    asked: list[Route] = []

    def hold(route: Route) -> None:
        asked.append(route)

    me = re.compile(r"/me(\?|$)")
    page.route(me, hold)
    page.reload()
    build = page.get_by_role("button", name="Build a snapshot")
    expect(build).to_be_disabled()
    until(lambda: page.evaluate("1") and asked, 10, "the page to ask who the user is")
    asked[0].continue_()
    page.unroute(me, hold)
    sign_in(page, "root")
    expect(build).to_be_enabled()


def test_a_user_without_rights_sees_why_buttons_are_off(opened: Opened, watch: Watch) -> None:
    watch.allow("status of 403 ")
    page = opened("/cluster/snapshots")
    sign_in(page, "bob")
    expect(page.get_by_role("alert")).to_contain_text("You do not have permission to see this")
    build = page.get_by_role("button", name="Build a snapshot")
    expect(build).to_be_disabled()
    expect(build).to_have_accessible_description("bob lacks permission: this requires admin on everything.")


def test_activity_and_history_name_who_made_a_change(served: Place, opened: Opened) -> None:
    page = opened("/activity")
    sign_in(page, "zoë")
    expect(page.locator("header .user")).to_contain_text("zoë")
    url = f"{served.url}/subjects/own-orders/versions"
    httpx.post(url, json={"schema": '"int"'}, auth=("zoë", "secret")).raise_for_status()
    row = page.get_by_role("row").filter(has_text="own-orders")
    expect(row.get_by_role("cell").last).to_have_text("zoë")
    page.get_by_role("link", name="own-orders").click()
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("columnheader", name="By")).to_be_visible()
    expect(page.get_by_role("cell", name="zoë")).to_have_count(1)
    check_accessible(page)
