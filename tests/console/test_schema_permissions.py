"""Principals that rules limit: they are offered what they may do, and told what they may not."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.running import PATIENT

from .browsing import Watch
from .places import Place

# Of the password "secret", with parameters that make it fast.
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
RULES = """[[allow]]\nprincipal = "root"\nrole = "admin"\nsubjects = "*"
[[allow]]\nprincipal = "alice"\nrole = "reader"\nsubjects = ["own-value", "own-many"]
[[allow]]\nprincipal = "\u05d0"\nrole = "reader"\nsubjects = "own-value"
"""
ALICE = {"authorization": "Basic " + base64.b64encode(b"alice:secret").decode()}


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("permissions")
    users, rules = folder / "users", folder / "rules.toml"
    users.write_text(f"root:{SECRET}\nalice:{SECRET}\n\u05d0:{SECRET}\n", encoding="utf-8")
    rules.write_text(RULES, encoding="utf-8")
    return ("--readers", "1", "--users", str(users), "--rules", str(rules))


@pytest.fixture(scope="module", autouse=True)
def filled(served: Place) -> None:
    for subject in ("own-value", "other-value"):
        url = f"{served.url}/subjects/{subject}/versions"
        answer = httpx.post(url, json={"schema": '"int"'}, auth=("root", "secret"), timeout=PATIENT)
        assert answer.status_code == 200, answer.text


def test_a_reader_is_offered_nothing_that_would_be_refused(opened: Callable[..., Page]) -> None:
    page = opened("/subjects/own-value?view=settings", extra_http_headers=ALICE)
    # The scopes above the subject are hidden from a reader, what is in force is not.
    expect(page.get_by_role("heading", name="Compatibility level: BACKWARD")).to_be_visible()
    expect(page.get_by_text("you may not see it")).to_have_count(4)
    # The alias is a part of the config, too.
    for operation, parts in {"config": 2, "mode": 1}.items():
        said = page.get_by_text(f"alice lacks permission: this requires {operation} here.")
        expect(said).to_have_count(parts)
    expect(page.get_by_role("button", name="Set")).to_have_count(3)
    for each in page.get_by_role("button", name="Set").all():
        expect(each).to_be_disabled()
    expect(page.get_by_role("button", name="Delete")).to_have_count(2)
    for each in page.get_by_role("button", name="Delete").all():
        expect(each).to_be_disabled()
        expect(each).to_have_accessible_description("alice lacks permission: this requires delete here.")
    page.get_by_role("link", name="Try a new version").click()
    expect(page.get_by_text("alice lacks permission: this requires write here.")).to_be_visible()
    for name, rows in (("Verdict at each level", 8), ("Verdict of each table", 10)):
        expect(page.get_by_role("table", name=name).get_by_role("row")).to_have_count(rows)
    expect(page.get_by_role("button", name="Register")).to_be_disabled()


def test_a_reader_whose_name_is_written_from_right_to_left_is_told_as_others_are(
    opened: Callable[..., Page],
) -> None:
    named = {"authorization": "Basic " + base64.b64encode("\u05d0:secret".encode()).decode()}
    page = opened("/subjects/own-value?view=settings", extra_http_headers=named)
    why = "\u2068\u05d0\u2069 lacks permission: this requires {} here."
    expect(page.get_by_text(why.format("mode"))).to_be_visible()
    expect(page.get_by_text(why.format("config"))).to_have_count(2)
    button = page.get_by_role("button", name="Delete the subject…")
    expect(button).to_have_attribute("title", why.format("delete"))
    expect(button).to_have_accessible_description(why.format("delete"))


def test_a_page_takes_few_requests_also_for_a_reader_who_has_signed_in(
    opened: Callable[..., Page], served: Place
) -> None:
    """With what is permitted there, and of a subject whose versions have to be listed."""
    with httpx.Client(base_url=served.url, auth=("root", "secret"), timeout=PATIENT) as root:
        for each in ("string", "long", "int", "boolean"):
            root.put("/config/own-many", json={"compatibility": "NONE"}).raise_for_status()
            root.post("/subjects/own-many/versions", json={"schema": f'"{each}"'}).raise_for_status()
        root.delete("/subjects/own-many/versions/2").raise_for_status()
    page = opened("/try")
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password").fill("secret")
    page.get_by_role("dialog").get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    offset = httpx.get(f"{served.url}/subjects/own-many/history", auth=("root", "secret")).json()
    at = offset["events"][0]["offset"]
    for address, shown in (
        ("/subjects/own-many", "nobody known|clients?,|nothing"),
        ("/subjects/own-many/versions/2", "Restore…"),
        ("/subjects/own-many?view=settings", "alice lacks permission: this requires mode here."),
        ("/try?subject=own-many&version=1", "the effective level"),
        (f"/subjects/own-many?at={at}", "boolean"),
        (f"/subjects/own-many?at={at - 3}&view=compare", "Then and now"),
        (f"/subjects/own-many?at={at}&view=versions", "Verdict at each level"),
        (f"/subjects/own-many?at={at}&view=settings", "NONE"),
        (f"/subjects/own-many?at={at}&view=references", "None."),
    ):
        page.goto("about:blank")
        sent.clear()
        page.goto(f"{served.url}/ui/#{address}")
        main = page.locator("main")
        expect(main.get_by_text(re.compile(shown)).first, address).to_be_visible()
        expect(main.get_by_text(re.compile("^(Loading|Checking|…$)")), address).to_have_count(0)
        expect(page.locator("header").get_by_text("live", exact=True)).to_be_visible()
        assert len(sent) <= 10, (address, sent)


def test_what_may_not_be_seen_is_refused_in_its_place(opened: Callable[..., Page], watch: Watch) -> None:
    watch.allow("403")
    page = opened("/subjects/other-value", extra_http_headers=ALICE)
    expect(page.get_by_role("alert")).to_contain_text("You do not have permission to see this")
    page.goto(f"{page.url.partition('#')[0]}#/config")
    # In the place of the config, and of its history.
    expect(page.get_by_role("alert")).to_contain_text(["You do not have permission to see this"] * 2)


def test_who_registered_a_version_stands_beside_it(opened: Callable[..., Page]) -> None:
    page = opened("/subjects/own-value", extra_http_headers=ALICE)
    version = page.get_by_role("navigation", name="Versions").get_by_role("listitem")
    expect(version).to_contain_text("by root")
    expect(page.get_by_role("article")).to_contain_text(re.compile("registered .* by root"))
