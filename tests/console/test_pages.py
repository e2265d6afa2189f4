"""Home and the pages beside the subjects: usage, webhooks, contexts, transfer."""

from __future__ import annotations

import json
import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.running import until

from . import filled
from .browsing import Watch, check_accessible, check_widths
from .places import Place, Serving

Opened = Callable[..., Page]
NAME = "<b>odd\u202e-value"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def served(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run a registry with a census: of ``orders-value`` it found one version in use, of others none."""
    entries = (
        filled.context(".eu"),
        *(filled.version("orders-value", each, each) for each in (1, 2, 3)),
        filled.version(NAME, 5),
        filled.version(":.eu:orders-value", 6),
    )
    secret = tmp_path_factory.mktemp("secrets") / "webhooks"
    secret.write_text("0123456789" * 4)
    flags = (
        *("--webhooks-secret-file", str(secret), "--webhooks-http", "--webhooks-allow", "127.0.0.1"),
        *("--audit-log", str(secret.with_name("audit.jsonl"))),
    )
    with serving(*flags, entries=entries) as place:
        take_census(place.url)
        yield place


class Receiver(BaseHTTPRequestHandler):
    """Accepts every event."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def receiver() -> Iterator[str]:
    """Run a receiver of webhooks, and return its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook"
        server.shutdown()
        thread.join()


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
        re.compile(
            r"^Healthy Primary http://127\.0\.0\.1:\d+; (the node is|all 3 nodes are) ready; lag: none"
        )
    )
    health.get_by_text("All checks").click()
    expect(health).to_contain_text("– no snapshot")
    news = page.get_by_role("region", name="What changed")
    expect(news).to_contain_text("What changed last")
    expect(news.get_by_role("link", name="<b>oddU+202E-value")).to_be_visible()
    refused = page.get_by_role("region", name="Refused most").get_by_role("row").nth(1)
    expect(refused).to_have_text(re.compile(r"\d+GET /subjects/{subject}/versions/{version}404 not found"))
    expect(page.get_by_role("region", name="Unused")).to_contain_text("orders-value 2 of its versions")
    expect(page.get_by_role("region", name="Duplicates")).to_contain_text("No search has been run")
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


def test_home_says_if_the_registry_can_be_used_where_a_proxy_keeps_the_rest_inside(
    opened: Opened, watch: Watch
) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 403")
    page = opened("/lookup")
    inside = re.compile("/(admin/cluster|metrics)$")
    page.route(inside, lambda route: route.fulfill(status=403, body="not from outside"))
    page.goto(page.url.partition("#")[0] + "#/home")
    expect(page.get_by_text("Schemas can be read and registered.")).to_be_visible()
    expect(page.get_by_text("The state of the nodes cannot be read from here")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("status", [403, 404])
def test_what_a_proxy_keeps_inside_is_named_as_that(opened: Opened, watch: Watch, status: int) -> None:
    watch.allow(f"Failed to load resource: the server responded with a status of {status}")
    page = opened("/lookup")
    page.route(
        re.compile("/(admin/.*|quarantine|usage/(sources|unknown))"),
        lambda route: route.fulfill(status=status, body="not from outside"),
    )
    base = page.url.partition("#")[0]
    note = page.get_by_role("heading", name="Not available at this address")
    for tab in ("nodes", "snapshots", "webhooks", "quarantine", "audit"):
        page.goto(f"{base}#/cluster/{tab}")
        expect(note).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_text("Schemas can be read and registered.")).to_have_count(int(tab == "nodes"))
    check_accessible(page)
    page.goto(f"{base}#/contexts")
    expect(page.get_by_text("Their ids are not shown.")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Highest id")).to_have_count(0)
    page.goto(f"{base}#/bulk/download")
    with page.expect_download():
        page.get_by_role("button", name="Download").click()
    expect(page.get_by_text("Configs and modes are left out. A proxy keeps this inside.")).to_be_visible()


@pytest.mark.parametrize("body", ["not here", '{"message": "no such route"}', "null"])
def test_an_answer_that_is_not_the_registrys_is_no_answer_about_what_was_asked(
    opened: Opened, watch: Watch, body: str
) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 404")
    page = opened("/lookup")
    foreign = re.compile(r"^http://[^/]+/(subjects|usage|scopes|contexts|changes)\b")
    page.route(foreign, lambda route: route.fulfill(status=404, body=body, content_type="application/json"))
    base = page.url.partition("#")[0]
    for address in ("home", "subjects", "subjects/orders-value", "usage", "config", "activity"):
        page.goto(f"{base}#/{address}")
        alert = page.get_by_role("main").get_by_role("alert").filter(has_text="The registry did not answer")
        expect(alert.first).to_contain_text("A proxy or a load balancer has answered this request itself.")
        expect(page.get_by_text("A proxy keeps this inside")).to_have_count(0)
        expect(page.get_by_text("There is no census")).to_have_count(0)
        expect(page.get_by_text("There is no change feed")).to_have_count(0)


def test_tables_do_not_widen_a_narrow_page(opened: Opened) -> None:
    page = opened("/contexts")
    expect(page.get_by_role("button", name="Delete the context .eu")).to_be_visible()
    check_widths(page)


def test_errors_show_what_cannot_be_seen_in_the_names_that_they_quote(opened: Opened, watch: Watch) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 404")
    page = opened("/subjects/no%E2%80%8Bsuch%E2%80%AEone")
    expect(page.get_by_role("alert")).to_contain_text("no⟨U+200B⟩such⟨U+202E⟩one")


def test_the_navigation_of_a_narrow_screen_shows_the_page_that_is_open(opened: Opened) -> None:
    page = opened("/cluster", viewport={"width": 390, "height": 700})
    bar = page.get_by_role("navigation", name="Pages")
    for name in ("Cluster", "Home", "Usage"):
        link = bar.get_by_role("link", name=name, exact=True)
        page.goto(page.url.partition("#")[0] + f"#/{name.lower()}")
        expect(link).to_have_attribute("aria-current", "page")
        expect(link).to_be_in_viewport(ratio=1)


def test_what_would_be_written_is_copied_as_a_command(opened: Opened) -> None:
    page = opened("/config?scope=:.eu:")
    level = page.locator("section.setting").filter(has_text="Compatibility level")
    level.get_by_role("combobox").select_option("FULL")
    level.get_by_role("button", name="Copy as").click()
    copied = page.get_by_role("dialog", name="Copy as")
    expect(copied.locator("pre")).to_contain_text("""-d '{"compatibility":"FULL"}'""")
    expect(copied.locator("pre")).to_contain_text("/config/%3A.eu%3A")
    page.keyboard.press("Escape")
    page.goto(page.url.partition("#")[0] + "#/subjects/orders-value")
    page.get_by_role("button", name="Delete the subject").click()
    deletion = page.get_by_role("dialog", name="Delete: the subject")
    deletion.get_by_role("button", name="Copy as").click()
    copied.get_by_role("tab", name="Command line").click()
    expect(copied.locator("pre")).to_contain_text("registrar delete orders-value --url http")
    check_accessible(page)
    page.keyboard.press("Escape")
    expect(copied).to_have_count(0)
    expect(deletion).to_be_visible()  # the choice that was begun


EFFECTIVE = "at BACKWARD, the effective level"
# Every kind of page, and what it shows when it is complete.
COLD = (
    ("", "No search has been run"), ("/home", "2 of its versions"), ("/subjects", "v3"),
    ("/subjects/orders-value", '"type"'), ("/subjects/orders-value/versions/2", '"type"'),
    ("/subjects/orders-value?view=history", "version 3"),
    ("/subjects/orders-value/associations", "No associations"),
    ("/subjects/orders-value/versions/1/tags", "Add"),
    ("/config", "the server's setting compatibility"), ("/config/members", "normalize"), ("/contexts", ".eu"),
    ("/lookup", "Ids are assigned per context"), ("/usage", "1,510 messages"),
    ("/usage/subjects", "3 of 3 subjects."),
    ("/usage/subjects/orders-value", "lonely"), ("/bulk", "An archive with a folder"),
    ("/bulk/change", "Action"), ("/activity", "version 3, id 3"), ("/cluster", "applied"),
    ("/cluster/snapshots", "No snapshots yet"), ("/cluster/webhooks", "No webhooks yet"),
    ("/cluster/quarantine", "No quarantined records"), ("/cluster/duplicates", "Find duplicates"),
    ("/cluster/audit", "PUT /usage/census"), ("/usage/topics", "lonely"), ("/usage/unknown", "4711"),
    ("/bulk/upload", "Versions get new ids"), ("/try", "Valid. Enter a subject"),
    ("/subjects/orders-value?view=references", "no references in either direction"),
    ("/subjects/orders-value?view=askers", "Who asks"),
    ("/subjects/orders-value?view=usage", "id 3 in the context"),
    ("/subjects/orders-value?view=details", "No associations"),
    ("/subjects/orders-value?view=settings", "Alias of this subject"),
    ("/subjects/orders-value?at=4", '"type"'), ("/try?subject=orders-value", EFFECTIVE),
    ("/try?subject=orders-value&version=1", EFFECTIVE), ("/lookup?id=1", '"type"'),
    ("/subjects/orders-value?view=compare", "differences between fields"),
    ("/subjects/orders-value/versions/2?view=compare", "1 field added"),
    (f"/subjects/orders-value/versions/2?view=compare&of={quote(NAME)}", "differences between fields"),
    (f"/subjects/orders-value?view=compare&of={quote(NAME)}&with=1&swap=1", "differences between fields"),
    # As of a moment.
    ("/subjects/orders-value?at=2&view=compare", "From version 2 then to version 3 now"),
    ("/subjects/orders-value/versions/1?at=2&view=compare", "From version 1 then to version 3 now"),
    ("/subjects/orders-value/versions/1?at=2", '"type"'),
    ("/subjects/orders-value?at=2&view=versions", "1 field added"),
    ("/subjects/orders-value?at=2&view=settings", "Compatibility level"),
    ("/subjects/orders-value?at=2&view=references", "Which schemas referred to this one"),
    ("/subjects/orders-value?at=2&view=history", "version registered"),
    ("/subjects/orders-value?at=2&view=details", "only known as of now"),
    ("/subjects/orders-value?at=2&view=usage", "is only known as of now"),
    ("/subjects/orders-value?at=2&view=askers", '"type"'),
    ("/try?subject=also", EFFECTIVE), ("/try?subject=also&version=1", EFFECTIVE),
)  # fmt: skip
# Files of the console and requests of the API, until a browser that knows nothing shows what a page is about.
REQUESTS_MAX = 10


REFERRERS = 12  # references in a chain, of one version to the one before


def refer_for_a_moment(url: str) -> int:
    """Register a chain of references, and delete it; return an offset at which it was there."""
    httpx.put(f"{url}/config/refers", json={"compatibility": "NONE"}).raise_for_status()
    then = -1
    for number in range(1, REFERRERS + 2):
        used = "R0" if number == 1 else f"R{number - 1}"
        fields = [] if number == 1 else [{"name": "f", "type": used}]
        text = json.dumps({"type": "record", "name": f"R{number}", "fields": fields})
        references = [] if number == 1 else [{"name": used, "subject": "refers", "version": number - 1}]
        body = {"schema": text, "references": references}
        answer = httpx.post(f"{url}/subjects/refers/versions", json=body).raise_for_status()
        then = int(answer.headers["x-registry-offset"]) - 1
    for number in range(REFERRERS + 1, 0, -1):
        for permanent in ("false", "true"):
            version = f"{url}/subjects/refers/versions/{number}?permanent={permanent}"
            httpx.delete(version).raise_for_status()
    return then


def test_every_page_takes_few_requests_of_a_browser_that_knows_nothing(
    browser: Browser, served: Place, watch: Watch
) -> None:
    page = watch.page(browser)
    page.context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
    taken: dict[str, list[str]] = {}
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    guid = httpx.get(f"{served.url}/schemas/ids/1").json()["guid"]
    watch.allow("status of 404 .*/subjects/refers/summary")  # the subject is gone
    httpx.put(f"{served.url}/config/also", json={"alias": "orders-value"}).raise_for_status()
    then = refer_for_a_moment(served.url)
    more = (
        (f"/lookup?guid={guid}", '"type"'),
        (f"/subjects/refers?at={then}&view=references", f"version {REFERRERS}"),
        # The subject is gone since.
        (f"/subjects/refers?at={then}&view=compare", "none"),
    )
    for address, shown in (*COLD, *more):
        page.goto("about:blank")
        sent.clear()
        page.goto(f"{served.url}/ui/" + (f"#{address}" if address else ""))
        main = page.locator("main")
        expect(main.get_by_text(shown).locator("visible=true").first, address).to_be_visible()
        expect(main.get_by_text(re.compile("^(Loading|Checking)")), address).to_have_count(0)
        expect(page.locator("header").get_by_text("live", exact=True)).to_be_visible()
        taken[address] = [each.partition("?")[0].rpartition("/")[2] for each in sent]
    too_many = {address: sent for address, sent in taken.items() if len(sent) > REQUESTS_MAX}
    assert not too_many, "\n".join(f"{address}: {' '.join(sent)}" for address, sent in too_many.items())
    # What this counts: the page, its bundles, what it asks, and the feed.
    assert {"app.js", "view.js", "me", "changes", "cluster", "metrics", "census"} <= {*taken["/home"]}
    page.context.close()
    httpx.delete(f"{served.url}/config/also").raise_for_status()


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
    rows = page.get_by_role("region", name="Unknown uses").get_by_role("row")
    expect(rows.nth(1)).to_contain_text(re.compile("^no subject–lonely"))
    expect(rows.nth(2)).to_contain_text(re.compile("^unknown schema4711ordersvalueid7"))
    expect(rows.nth(3)).to_contain_text(re.compile("^no schema–ordersvalueno schema3"))
    expect(rows.nth(2).get_by_role("link", name="4711")).to_have_attribute("href", "#/lookup?id=4711")
    page.get_by_role("tab", name="Topics").click()
    expect(page.get_by_role("region", name="Sources").get_by_role("row").nth(2)).to_contain_text(
        "2 (1,500), 4711 (7)"
    )


def test_a_subject_opens_with_where_it_is_used_who_asks_and_what_refers_to_it(
    opened: Opened, served: Place
) -> None:
    page = opened("/subjects/orders-value")
    short = page.get_by_role("region", name="In short")
    expect(short.get_by_role("link", name="3,000 messages")).to_have_attribute(
        "href", "#/usage/subjects/orders-value"
    )
    expect(short).to_contain_text(re.compile("3,000 messages: lonely, orders"))
    expect(short).to_contain_text(re.compile("Last change(version registered|mode set), "))
    expect(short).to_contain_text(re.compile(r"Asked for by(nobody|\d+ clients?, )"))
    expect(short).to_contain_text("Referenced bynothing")
    check_accessible(page)
    # What others register is shown by itself, and a census that is old is called so.
    text = '{"type": "record", "name": "User", "fields": [{"name": "f", "type": "R2"}]}'
    used = [{"name": "R2", "subject": "orders-value", "version": 2}]
    body = {"schema": text, "references": used}
    httpx.post(f"{served.url}/subjects/user-value/versions", json=body).raise_for_status()
    referrer = short.get_by_role("link", name="user-value version 1")
    expect(referrer).to_be_visible(timeout=30_000)
    expect(short).to_contain_text("(to version 2)")
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(days=30))
    page.reload()
    expect(short).to_contain_text("The census is old.")
    for version in ("?permanent=false", "?permanent=true"):
        httpx.delete(f"{served.url}/subjects/user-value{version}").raise_for_status()


def test_a_source_that_is_gone_is_removed(opened: Opened, served: Place) -> None:
    page = opened("/usage/topics")
    page.get_by_role("button", name="Remove the source lonely").click()
    dialog = page.get_by_role("dialog", name="Remove this source?")
    check_accessible(page)
    dialog.get_by_role("button", name="Remove it").click()
    rows = page.get_by_role("region", name="Sources").get_by_role("row")
    expect(rows).to_have_count(2)
    assert httpx.get(f"{served.url}/usage/sources/lonely").status_code == httpx.codes.NOT_FOUND
    take_census(served.url)


def test_reserved_ids_are_released(opened: Opened, served: Place, watch: Watch) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 409")
    httpx.put(f"{served.url}/mode/:.ids:", json={"mode": "IMPORT"}).raise_for_status()
    body = {"schema": '"string"', "id": 1_000_000, "version": 1}
    httpx.post(f"{served.url}/subjects/:.ids:a/versions", json=body).raise_for_status()
    page = opened("/contexts")
    expect(page.get_by_role("row").filter(has_text=".ids")).to_contain_text("< 0.01 %")
    page.get_by_role("button", name="Release ids of the context .ids").click()
    dialog = page.get_by_role("dialog", name="Release reserved ids?")
    expect(dialog.get_by_label("From")).to_have_value("1000001")
    check_accessible(page)
    dialog.get_by_label("From").fill("999999")
    dialog.get_by_role("button", name="Release them").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the id 1000000 is in use")
    dialog.get_by_label("From").fill("1000001")
    dialog.get_by_role("button", name="Release them").click()
    expect(dialog).to_have_count(0)
    for target in ("subjects/:.ids:a", "subjects/:.ids:a?permanent=true", "mode/:.ids:", "contexts/.ids"):
        httpx.delete(f"{served.url}/{target}").raise_for_status()


def test_who_asks_is_shown_for_a_subject_and_for_a_version(opened: Opened, served: Place) -> None:
    with httpx.Client(base_url=served.url, headers={"user-agent": "shop\u202e/1.2".encode()}) as client:
        for version in ("1", "1", "2", "latest"):
            client.get(f"/subjects/orders-value/versions/{version}").raise_for_status()
    asked = f"{served.url}/usage/subjects/orders-value/askers"

    def counted() -> int:
        askers = httpx.get(asked).json()["askers"]
        return sum(each["requests"] for each in askers if "shop" in each["agent"])

    until(lambda: counted() == 4, 30, "the counts of who asks")
    page = opened("/usage/subjects/orders-value")

    def row() -> Locator:
        return page.get_by_role("region", name="Who asks").get_by_role("row").filter(has_text="shop")

    today = datetime.now(UTC).date()
    expect(row()).to_have_text(re.compile(f"^127.0.0.1shop\\?/1.2none named, 1, 24{today}{today}$"))
    expect(page.get_by_role("region", name="Who asks")).to_contain_text(f"Counted since {today}.")
    check_accessible(page)
    page = opened("/subjects/orders-value/versions/2?view=askers")
    expect(row()).to_have_text(re.compile(f"^127.0.0.1shop\\?/1.2none named, 22{today}{today}$"))
    page = opened("/subjects/orders-value/versions/3?view=askers")
    expect(row()).to_contain_text("none named1")


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
    plan.get_by_role("button", name="Run the plan").click()
    # Somebody else is faster with one of them.
    httpx.delete(f"{served.url}/subjects/orders-value/versions/1").raise_for_status()
    page.get_by_role("dialog").get_by_role("button", name="Run it").click()
    expect(plan.get_by_role("status")).to_have_text("1 of 2 done, 1 refused.")
    expect(plan.get_by_role("row").filter(has_text="refused")).to_contain_text("orders-value11delete")
    assert httpx.get(f"{served.url}/subjects?subjectPrefix=:*:").json() == [
        ":.eu:orders-value",
        "orders-value",
    ]
    page.get_by_label("permanently after").fill("0")
    page.get_by_role("button", name="Make a plan").click()
    expect(plan.get_by_role("status")).to_contain_text("delete 1, delete permanently 2, keep 1.")
    plan.get_by_role("button", name="Run the plan").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Run it")
    expect(confirm).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill("2")
    confirm.click()
    expect(plan.get_by_role("status")).to_have_text("3 of 3 done.")
    assert httpx.get(f"{served.url}/subjects/orders-value/versions?deleted=true").json() == [2, 3]


def test_a_webhook_is_added_tested_moved_and_deleted(
    opened: Opened, served: Place, watch: Watch, receiver: str
) -> None:
    watch.allow("status of 412 ")  # to the tab that was slower
    page = opened("/cluster/webhooks")
    expect(page.get_by_text("No webhooks yet")).to_be_visible()
    page.get_by_role("button", name="Add a webhook").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("catalog")
    dialog.get_by_label("Address of the receiver").fill(receiver)
    dialog.get_by_label("Only subjects with the prefix").fill("orders")
    dialog.get_by_text("Events: all").click()
    dialog.get_by_label("mode set").check()
    check_accessible(page)
    dialog.get_by_role("button", name="Add it").click()
    secret = page.get_by_role("status").filter(has_text="Pass this secret to the receiver now")
    expect(secret.locator("code")).to_have_text(re.compile("^whsec_"))
    secret.get_by_role("button", name="I have it").click()
    row = page.get_by_role("row").filter(has_text="catalog")
    expect(row).to_contain_text("mode set of subjects with the prefix orders")
    row.get_by_role("button", name="Test").click()
    expect(page.get_by_text("The test event was delivered")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="catalog: answer 204 after")).to_be_visible()
    httpx.put(f"{served.url}/mode/orders-value", json={"mode": "READWRITE"}).raise_for_status()
    expect(row).to_contain_text("last delivery")
    row.get_by_role("button", name="Change").click()
    dialog.get_by_label("Enabled").uncheck()
    httpx.put(f"{served.url}/admin/webhooks/catalog", json={"url": receiver}).raise_for_status()
    dialog.get_by_role("button", name="Change it").click()
    expect(dialog.get_by_text("somebody else has created, changed or deleted this")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(row).to_contain_text("all events")
    row.get_by_role("button", name="Move").click()
    dialog.get_by_label("Continue at the offset").fill("0")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(dialog).to_have_count(0)
    check_accessible(page)
    row.get_by_role("button", name="secret").click()
    dialog.get_by_role("button", name="Create it").click()
    expect(secret.locator("code")).to_have_text(re.compile("^whsec_"))
    row.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("No webhooks yet")).to_be_visible()


def test_a_draft_is_reviewed_and_registered_by_a_colleague(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 412")
    page = opened("/try?subject=reviewed")
    editor = page.get_by_role("textbox", name="Schema")
    expect(editor).to_contain_text("record")
    editor.fill('{"type": "string", "doc": "reviewed"}')
    expect(page.get_by_text("Valid. The subject has no versions")).to_be_visible()
    page.get_by_role("button", name="Copy as").click()
    command = page.get_by_role("dialog").locator("pre")
    expect(command).to_contain_text("curl -s -X POST -H 'Content-Type: application/json'")
    page.get_by_role("dialog").get_by_role("tab", name="Command line").click()
    expect(command).to_contain_text("registrar register reviewed -")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Ask for a review").click()
    link = page.get_by_role("dialog").get_by_role("textbox", name="Link").input_value()
    httpx.post(f"{served.url}/subjects/reviewed/versions", json={"schema": '"string"'}).raise_for_status()
    other = opened(link.partition("#")[2])
    expect(other.get_by_role("status").filter(has_text="A draft for review")).to_contain_text("were: Valid.")
    expect(other.get_by_text("Version 1 was registered after this draft was begun")).to_be_visible()
    expect(other.get_by_role("textbox", name="Schema")).to_contain_text("reviewed")
    check_accessible(other)
    other.get_by_role("button", name="Register", exact=True).click()
    dialog = other.get_by_role("dialog", name="Changed in the meantime")
    dialog.get_by_role("button", name="Change it anyway").click()
    expect(other.get_by_text("Registered", exact=True)).to_be_visible()
    other.goto(f"{served.url}/ui/#/try?subject=reviewed&review=abc")
    expect(other.get_by_role("alert")).to_contain_text("This link cannot be opened")


def test_all_members_of_a_config_are_changed_with_what_was_seen(
    opened: Opened, served: Place, watch: Watch
) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 4")
    page = opened("/config?scope=:.eu:")
    page.get_by_role("link", name="All members of the config").click()
    row = page.get_by_role("row").filter(has_text="normalize*")
    row.get_by_role("combobox").select_option("true")
    metadata = page.get_by_label("defaultMetadata")
    metadata.fill("[]")
    expect(page.get_by_role("alert")).to_have_text("It must be a JSON object.")
    metadata.fill('{"properties": {"owner": "eu"}}')
    check_accessible(page)
    page.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog", name="Change the config of the context .eu?")
    expect(dialog).to_contain_text("This scope had no config of its own.")
    dialog.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("status").get_by_text("Changed.")).to_be_visible()
    expect(row).to_contain_text("truefrom the context .eu")
    stored = httpx.get(f"{served.url}/config/:.eu:").json()
    assert stored["defaultMetadata"]["properties"] == {"owner": "eu"}
    # Somebody else is faster.
    row.get_by_role("combobox").select_option("false")
    httpx.put(f"{served.url}/config/:.eu:", json={"normalize": None}).raise_for_status()
    page.get_by_role("button", name="Change…").click()
    page.get_by_role("dialog").get_by_role("button", name="Change it").click()
    page.get_by_role("dialog", name="Changed in the meantime").get_by_role("button", name="Keep").click()
    page.goto(f"{served.url}/ui/#/contexts")
    rows = page.get_by_role("region", name="Contexts").get_by_role("row")
    expect(rows.nth(2)).to_contain_text(re.compile("^.eusubjectslevel and mode, members6"))
    check_accessible(page)
    rows.nth(2).get_by_role("button", name="Delete the context .eu").click()
    expect(page.get_by_role("dialog").get_by_text("It cannot be deleted yet")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete it")).to_be_disabled()


def carry_out(page: Page, result: str) -> None:
    page.get_by_role("region", name="Plan", exact=True).get_by_role("button", name="Run the plan").click()
    page.get_by_role("dialog").get_by_role("button", name="Run it").click()
    expect(page.get_by_role("region", name="Plan", exact=True).get_by_role("status")).to_have_text(result)


def test_many_subjects_are_deleted_restored_downloaded_and_uploaded(
    opened: Opened, served: Place, watch: Watch, tmp_path: Path
) -> None:
    watch.allow("Failed to load resource: the server responded with a status of 4(04|22)")
    base = {"schema": '{"type":"record","name":"Base","fields":[]}'}
    user = {
        "schema": '{"type":"record","name":"User","fields":[{"name":"b","type":"Base"}]}',
        "references": [{"name": "Base", "subject": "bulk-base", "version": 1}],
    }
    for subject, body in (("bulk-base", base), ("bulk-user", user)):
        httpx.post(f"{served.url}/subjects/{subject}/versions", json=body).raise_for_status()
    page = opened("/bulk/change?prefix=bulk-")
    plan = page.get_by_role("region", name="Plan", exact=True)
    make = page.get_by_role("button", name="Make a plan")
    make.click()
    expect(plan.get_by_role("row").nth(1)).to_contain_text("bulk-userall")
    expect(plan.get_by_role("row").nth(2)).to_contain_text("bulk-baseall")
    check_accessible(page)
    page.get_by_role("tab", name="Download").click()
    page.get_by_label("Subjects with the prefix").fill("bulk-")
    with page.expect_download() as download:
        page.get_by_role("main").get_by_role("button", name="Download").click()
    archive = tmp_path / "schemas.zip"
    download.value.save_as(archive)
    with zipfile.ZipFile(archive) as files:
        assert files.testzip() is None
        assert {"subjects/bulk-user/1/schema.avsc", "configs.json", "modes.json"} <= {*files.namelist()}
    check_accessible(page)
    page.goto(f"{served.url}/ui/#/bulk/change?prefix=bulk-")
    make.click()
    carry_out(page, "2 of 2 done.")
    assert httpx.get(f"{served.url}/subjects?subjectPrefix=bulk-").json() == []
    page.get_by_label("Action").select_option("restore")
    make.click()
    expect(plan.get_by_role("row").nth(1)).to_contain_text("bulk-base1")
    carry_out(page, "1 of 2 done, 1 refused.")  # version 1 of bulk-base stays deleted
    assert httpx.get(f"{served.url}/subjects/bulk-base/versions").json() == [2]
    page.get_by_label("Action").select_option("delete")
    make.click()
    carry_out(page, "1 of 1 done.")
    page.get_by_label("Action").select_option("delete permanently")
    make.click()
    plan.get_by_role("button", name="Run the plan").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("2")
    page.get_by_role("dialog").get_by_role("button", name="Run it").click()
    expect(plan.get_by_role("status")).to_have_text("2 of 2 done.")
    # What was downloaded comes back, in the order of the references.
    page.get_by_role("tab", name="Upload").click()
    chooser = page.get_by_label("Files or an archive")
    chooser.set_input_files(archive)
    expect(plan.get_by_role("row").nth(1)).to_contain_text("bulk-base1registera new subject")
    expect(plan.get_by_role("row").nth(2)).to_contain_text("refers to bulk-base, so it is checked")
    check_accessible(page)
    carry_out(page, "2 of 2 done.")
    files = [{"name": f"bulk-{name}.avsc", "mimeType": "", "buffer": text} for name, text in (
        ("base", b'{"type":"string"}'), ("new", b'{"type":"int"}'), ("odd", b"{"),
    )]  # fmt: skip
    chooser.set_input_files([*files])
    expect(plan.get_by_role("status")).to_contain_text("The plan: register 1, keep 2.")
    expect(plan.get_by_role("row").nth(1)).to_contain_text("keepincompatible: ")
    expect(plan.get_by_role("row").nth(3)).to_contain_text("keepnot valid: ")
    carry_out(page, "1 of 1 done.")
    assert httpx.get(f"{served.url}/subjects/bulk-new/versions/latest/schema").json() == "int"


def test_tags_and_associations_are_changed_after_a_trial(opened: Opened, served: Place) -> None:
    body = {"schema": '{"type":"record","name":"Person","fields":[{"name":"email","type":"string"}]}'}
    httpx.post(f"{served.url}/subjects/people/versions", json=body).raise_for_status()
    page = opened("/subjects/people?view=details")
    page.get_by_role("link", name="Change the tags").click()
    page.get_by_label("Part").fill("Person.email")
    page.get_by_label("Tag", exact=True).fill("PII")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("Person.emailfieldPII new")
    check_accessible(page)
    page.get_by_role("button", name="Register a new version").click()
    expect(page).to_have_url(re.compile("people/versions/2/tags$"))
    expect(page.get_by_role("row").nth(1)).to_contain_text("Person.emailfieldPII")
    page.goto(f"{served.url}/ui/#/subjects/people/associations")
    page.get_by_role("button", name="Add an association").click()
    dialog = page.get_by_role("dialog")
    for label, text in (("Topic", "people"), ("Namespace", "cluster-1"), ("Id of the topic", "people-1")):
        dialog.get_by_label(label, exact=label == "Topic").fill(text)
    dialog.get_by_role("button", name="Check").click()
    expect(dialog.get_by_text("The registry would accept this.")).to_be_visible()
    assert httpx.get(f"{served.url}/associations/subjects/people").json() == []
    check_accessible(page)
    dialog.get_by_role("button", name="Add it").click()
    row = page.get_by_role("row").nth(1)
    expect(row).to_contain_text("peoplecluster-1people-1valueWEAK")
    row.get_by_role("button", name="Remove").click()
    dialog.get_by_role("button", name="Check").click()
    dialog.get_by_role("button", name="Remove it").click()
    expect(page.get_by_text("No associations")).to_be_visible()


def test_back_leads_to_the_place_on_a_page_whose_content_loads_later(opened: Opened, served: Place) -> None:
    for number in range(90):
        httpx.put(f"{served.url}/config/scrolled-{number}", json={"compatibility": "FULL"}).raise_for_status()
    page = opened("/activity")
    page.get_by_role("button", name="Show older").click()  # more than the page has at first
    link = page.get_by_role("link", name="scrolled-5", exact=True)
    link.scroll_into_view_if_needed()
    main = page.locator("main")
    top = main.evaluate("(main) => main.scrollTop")
    assert top > 100
    # The place is kept when scrolling has come to rest; the click had scrolled to another one before.
    page.wait_for_function(f"() => Math.abs(history.state?.top - {top}) < 2")
    page.evaluate("location.hash = '#/lookup'")
    expect(page.get_by_label("Id or guid")).to_be_visible()
    page.go_back()
    expect(link).to_be_in_viewport()
    page.wait_for_function(f"() => Math.abs(document.querySelector('main').scrollTop - {top}) < 2")


def test_the_audit_log_is_read_by_administrators_with_filters_in_the_address(
    opened: Opened, served: Place
) -> None:
    for level in ("NONE", "FULL"):
        httpx.put(f"{served.url}/config/audited", json={"compatibility": level}).raise_for_status()
    httpx.delete(f"{served.url}/subjects/audited-{NAME}")
    page = opened("/cluster/audit?subject=audited")
    rows = page.get_by_role("region", name="Audit entries, newest first").get_by_role("row")
    expect(rows).to_have_count(4)
    name = "audited-<b>oddU\\+202E-value"
    expect(rows.nth(1)).to_contain_text(re.compile(f"DELETE /subjects/{{subject}}{name}.*refused"))
    expect(rows.nth(2)).to_contain_text("nobody")
    check_accessible(page)
    check_widths(page)
    page.get_by_label("Result").select_option("done")
    expect(rows).to_have_count(3)
    expect(page).to_have_url(re.compile("outcome=done"))
    page.get_by_label("Operation contains").fill("delete")
    expect(page.get_by_role("heading", name="No matching entries")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Operation contains")).to_have_value("delete")


def test_the_registry_is_shown_as_of_a_moment_on_all_pages(opened: Opened, served: Place) -> None:
    def register(kind: str) -> int:
        url = f"{served.url}/subjects/moment/versions"
        answer = httpx.post(url, json={"schema": f'"{kind}"'})
        return int(answer.raise_for_status().headers["x-registry-offset"]) - 1

    httpx.put(f"{served.url}/config/moment", json={"compatibility": "NONE"}).raise_for_status()
    at = register("string")
    register("int")
    page = opened("/home")
    page.get_by_label("or offset").fill(str(at))
    page.get_by_role("button", name="Look back").click()
    banner = page.get_by_role("complementary", name="The registry as of a moment")
    expect(banner).to_contain_text(re.compile(f"^As of offset {at}, .+ Nothing can be changed here"))
    check_accessible(page)
    # What is known only as of now is shown only on demand, page by page.
    pages = ("home", "subjects", "lookup", "usage", "activity", "cluster/nodes", "contexts", "bulk", "try")
    for address in pages:
        page.goto(f"{served.url}/ui/#/{address}")
        expect(page.get_by_role("heading", name=f"Not available as of offset {at}")).to_be_visible()
    page.goto(f"{served.url}/ui/#/cluster/nodes")
    page.get_by_role("button", name="Show this page as of now").click()
    expect(banner).to_contain_text("This page shows the present.")
    page.get_by_role("tab", name="Snapshots").click()
    expect(page.get_by_role("button", name="Build a snapshot")).to_be_visible()
    httpx.put(f"{served.url}/config", json={"compatibility": "FULL_TRANSITIVE"}).raise_for_status()
    page.goto(f"{served.url}/ui/#/config")
    expect(page.get_by_role("heading", name="Compatibility level: BACKWARD")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Set|Remove|Put back"))).to_have_count(0)
    httpx.delete(f"{served.url}/config").raise_for_status()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Subjects").click()
    page.get_by_label("Open a subject as of then").fill("moment")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#/subjects/moment\\?at={at}$"))
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text('"string"')
    page.keyboard.press("Control+k")
    box = page.get_by_role("dialog", name="Search")
    expect(box).to_contain_text(f"What is there now is searched; subjects open as of offset {at}.")
    page.keyboard.press("Escape")
    banner.get_by_role("button", name="Back to now").click()
    expect(banner).to_have_count(0)
    expect(page.get_by_role("textbox", name="Schema")).to_contain_text('"int"')


def test_long_names_widen_neither_pages_nor_dialogs(opened: Opened, served: Place, watch: Watch) -> None:
    watch.allow("status of 404 ")  # of a subject that does not exist
    scope = f":.z{'k' * 60}:"
    name = quote(f"{scope}{'y' * 120}", safe="")
    url = f"{served.url}/subjects/{name}/versions"
    httpx.post(url, json={"schema": '"int"'}).raise_for_status()
    page = opened(f"/subjects/{name}?view=settings")
    ask = page.get_by_role("textbox", name="Alias of this subject")
    ask.fill("a" * 120)
    check_widths(page)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Set this alias?")).to_be_visible()
    check_widths(page)
    page.goto(f"{served.url}/ui/#/config?scope={quote(scope)}")
    level = page.get_by_role("combobox", name="Compatibility level")
    level.select_option("NONE")
    check_widths(page)
    page.get_by_role("button", name="Set", exact=True).first.click()
    expect(page.get_by_role("dialog", name="Set NONE for the context")).to_be_visible()
    check_widths(page)
    page.goto(f"{served.url}/ui/#/subjects/{name}-none")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    check_widths(page)
