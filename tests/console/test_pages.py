"""Home and the pages beside the subjects: usage, webhooks, contexts, transfer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from . import filled
from .browsing import Watch, check_accessible
from .places import Place, Serving

Opened = Callable[..., Page]
NAME = "<b>odd\u202e-value"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def served(serving: Serving) -> Iterator[Place]:
    """Run a registry with a census: of ``orders-value`` it found one version in use, of others none."""
    entries = (
        filled.context(".eu"),
        *(filled.version("orders-value", each, each) for each in (1, 2, 3)),
        filled.version(NAME, 5),
        filled.version(":.eu:orders-value", 6),
    )
    with serving(entries=entries) as place:
        take_census(place.url)
        yield place


def take_census(url: str) -> None:
    later = time.time_ns() // 1_000_000 + HOUR_MS
    uses = [
        ["value", "id", 2, 1500, 30_000, later - HOUR_MS, later, True],
        ["value", "id", 4711, 7, 140, later - HOUR_MS, later, True],
        ["value", "none", None, 3, 60, later - HOUR_MS, later, True],
    ]
    for source, found in (("orders", uses), ("lonely", uses[:1])):
        usage = {"census": "c1", "state": "read", "messages": 1510, "uses": found}
        httpx.put(f"{url}/usage/sources/{source}", json=usage).raise_for_status()
    census = {"id": "c1", "location": "/c", "sha256": "", "started": later, "ended": later, "complete": True}
    httpx.put(f"{url}/usage/census", json={**census, "sources": 2, "messages": 1510}).raise_for_status()


def test_home_says_if_the_registry_is_well_and_what_deserves_a_look(opened: Opened, served: Place) -> None:
    httpx.get(f"{served.url}/subjects/absent/versions/1")
    page = opened("")
    expect(page).to_have_title("Home · Registrar")
    health = page.get_by_role("region", name="Health")
    expect(health.get_by_role("status")).to_contain_text(
        f"Healthy Primary {served.url}; the node is ready; lag: none"
    )
    health.get_by_text("All checks").click()
    expect(health).to_contain_text("– no snapshot")
    news = page.get_by_role("region", name="What changed")
    expect(news).to_contain_text("What changed last")
    expect(news.get_by_role("link", name="<b>oddU+202E-value")).to_be_visible()
    refused = page.get_by_role("region", name="Refused most").get_by_role("row").nth(1)
    expect(refused).to_have_text(re.compile(r"\d+GET /subjects/{subject}/versions/{version}404 not found"))
    expect(page.get_by_role("region", name="Unused")).to_contain_text("orders-value 2 of its versions")
    expect(page.get_by_role("region", name="Duplicates")).to_contain_text("Nobody has searched")
    check_accessible(page)
    # Another visit, hours later.
    page.evaluate(
        """() => { const key = "registrar.home."; const visit = JSON.parse(localStorage.getItem(key));
        visit.last.time -= 7_200_000; localStorage.setItem(key, JSON.stringify(visit)); }"""
    )
    httpx.put(f"{served.url}/config/{NAME}", json={"compatibility": "FULL"}).raise_for_status()
    page.reload()
    expect(news).to_contain_text("Since you were here, 2 h ago")
    expect(news.get_by_role("listitem")).to_have_text(re.compile("^<b>oddU\\+202E-value config set, "))
    httpx.put(f"{served.url}/mode/orders-value", json={"mode": "READWRITE"}).raise_for_status()
    expect(news.get_by_role("listitem")).to_have_count(2)  # as it happens
    news.get_by_role("button", name="Mark as seen").click()
    expect(news).to_contain_text("Nothing has changed.")


def test_usage_shows_where_versions_live_and_what_nobody_knows(opened: Opened) -> None:
    page = opened("/subjects/orders-value")
    page.get_by_role("main").get_by_role("link", name="Usage", exact=True).click()
    version = page.get_by_role("region", name="Version 2", exact=True)
    expect(version.get_by_role("row").nth(1)).to_contain_text("lonelyvalueid1,500")
    expect(version).to_contain_text("3,000 messages, from")
    expect(page.get_by_role("region", name="Version 1")).to_contain_text("No message names it.")
    check_accessible(page)
    page.get_by_role("navigation").get_by_role("link", name="Usage").click()
    expect(page.get_by_text("1,510 messages in 2 sources")).to_be_visible()
    page.get_by_role("tab", name="Subjects").click()
    page.get_by_label("Show").select_option("without a topic")
    expect(page.get_by_role("status").get_by_text("2 of 3 subjects.")).to_be_visible()
    expect(page.get_by_role("row", name="<b>oddU+202E-value")).to_be_visible()
    page.get_by_role("tab", name="Unknown").click()
    rows = page.get_by_role("region", name="What nobody can explain").get_by_role("row")
    expect(rows.nth(1)).to_contain_text(re.compile("^no subject–lonely"))
    expect(rows.nth(2)).to_contain_text(re.compile("^unknown schema4711ordersvalueid7"))
    expect(rows.nth(3)).to_contain_text(re.compile("^no schema–ordersvalueno schema3"))
    expect(rows.nth(2).get_by_role("link", name="4711")).to_have_attribute("href", "#/lookup?id=4711")
    page.get_by_role("tab", name="Topics").click()
    expect(page.get_by_role("region", name="Sources").get_by_role("row").nth(2)).to_contain_text(
        "2 (1,500), 4711 (7)"
    )


def test_unused_versions_are_deleted_by_a_plan_softly_first(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 4")
    page = opened("/usage")
    page.get_by_label("registered at least").fill("0")
    page.get_by_role("button", name="Make a plan").click()
    plan = page.get_by_role("region", name="Plan", exact=True)
    expect(plan.get_by_role("status")).to_have_text("The plan: delete 3, keep 1. Nothing has been changed.")
    expect(plan.get_by_role("row").nth(1)).to_contain_text(".euorders-value16deleteunused, registered")
    check_accessible(page)
    plan.get_by_label("Include :.eu:orders-value version 1").uncheck()
    plan.get_by_role("button", name="Carry out").click()
    # Somebody else is faster with one of them.
    httpx.delete(f"{served.url}/subjects/orders-value/versions/1").raise_for_status()
    page.get_by_role("dialog").get_by_role("button", name="Carry it out").click()
    expect(plan.get_by_role("status")).to_have_text("1 of 2 done, 1 refused.")
    expect(plan.get_by_role("row").filter(has_text="refused")).to_contain_text("orders-value11delete")
    assert httpx.get(f"{served.url}/subjects?subjectPrefix=:*:").json() == [
        ":.eu:orders-value",
        "orders-value",
    ]
    page.get_by_label("permanently after").fill("0")
    page.get_by_role("button", name="Make a plan").click()
    expect(plan.get_by_role("status")).to_contain_text("delete 1, delete permanently 2, keep 1.")
    plan.get_by_role("button", name="Carry out").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Carry it out")
    expect(confirm).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill("2")
    confirm.click()
    expect(plan.get_by_role("status")).to_have_text("3 of 3 done.")
    assert httpx.get(f"{served.url}/subjects/orders-value/versions?deleted=true").json() == [2, 3]
