"""``GET /subjects/{subject}/summary``, and schemas by id in all contexts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from registry.api import lookup, summary
from registry.api.asks import Ask, Asker, Askers, Thing
from registry.api.backend import ApiSettings
from registry.api.node_queries import ASKERS
from registry.domain.errors import UNAVAILABLE
from registry.domain.lookup import usage
from tests.api.driver import FIRST_TS, Api, ListBackend, record
from tests.api.permitting import PermittingApi, rule

SUMMARY = "/subjects/base/summary"


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as found:
        found.register("base", record("Base", "a"))
        yield found


def refer(api: Api, subject: str, version: int = 1) -> None:
    text = {"type": "record", "name": "User", "fields": [{"name": "f", "type": "Base"}]}
    used = {"name": "Base", "subject": "base", "version": version}
    api.register(subject, json.dumps(text), references=[used])


def put(api: Api, path: str, body: Any) -> None:
    assert api.request("PUT", path, body, {"content-type": "application/json"}).status == 204


def take_census(api: Api, *uses: list[Any], **more: Any) -> None:
    put(api, "/usage/sources/orders", {"census": "c", "state": "read", "uses": uses})
    later = FIRST_TS + 1_000
    census = {"id": "c", "location": "/c", "sha256": "0", "started": later, "ended": later, "complete": True}
    put(api, "/usage/census", {**census, **more})


def test_a_summary_says_what_the_separate_resources_say(api: Api) -> None:
    refer(api, "user")
    api.register("base", record("Base", "a", "b"))
    take_census(api, ["value", "id", 1, 3, 60, 5, 7, True], ["value", "id", 3, 4, 60, 6, 8, False])
    found = api.get(SUMMARY).json
    assert [*found] == ["subject", "details", "lastChange", "usage", "referrers", "askers"]
    assert found["details"] == api.get("/subjects?detail=true&subject=base").json[0]
    assert found["lastChange"] == api.get("/subjects/base/history?limit=1").json["events"][0]
    separate = api.get("/usage/subjects/base").json
    assert found["usage"] == {
        "census": separate["census"], "messages": 7, "first": 5, "last": 8, "exact": False,
        "sources": [{"source": "orders", "messages": 7}], "sourceCount": 1, "complete": True,
    }  # fmt: skip
    assert found["referrers"] == {
        "referrers": [{"subject": "user", "version": 1, "deleted": False, "to": 1}],
        "referrerCount": 1, "complete": True,
    }  # fmt: skip
    asked = api.get("/usage/subjects/base/askers").json
    assert found["askers"] == {name: value for name, value in asked.items() if name != "subject"}
    assert api.get("/subjects/none/summary").error[:2] == (404, 40401)


def test_only_the_parts_that_are_named_are_found(api: Api) -> None:
    api.register("base", record("Base", "a", "b"))
    api.request("DELETE", "/subjects/base/versions/1")
    assert api.get(f"{SUMMARY}?include=numbers").json == {"subject": "base", "numbers": [-1, 2]}
    assert [*api.get(f"{SUMMARY}?include=askers,usage&include=numbers").json] == [
        "subject", "numbers", "usage", "askers",
    ]  # fmt: skip
    assert api.get(f"{SUMMARY}?include=text").error[0] == 422
    assert api.put("/config/also", {"alias": "base"}).status == 200
    assert api.get("/subjects/also/summary?include=details").json["details"]["subject"] == "base"


def test_a_summary_looks_back(api: Api) -> None:
    api.put("/config/base", {"compatibility": "FULL"})
    then = len(api.backend.log) - 1
    at = f"atOffset={then}"
    before = api.get(f"{SUMMARY}?include=details,numbers,config,entity").json
    api.put("/config/base", {"compatibility": "NONE"})
    api.register("base", record("Base", "a", "b"))
    api.request("DELETE", "/subjects/base/versions/1")
    parts = "include=details,numbers,config,entity,changes"
    found = api.get(f"{SUMMARY}?{parts}&{at}").json
    events = api.get("/subjects/base/history").json["events"][::-1]
    assert found.pop("changes") == {"previous": events[0], "last": events[1], "next": events[2]}
    assert before["details"].pop("associations") == 0  # which are only known as of now
    assert found == before
    assert found["config"] == api.get(f"/config/base?defaultToGlobal=true&{at}").json
    assert found["entity"] == api.get(f"/subjects/base/versions/1?{at}").json
    assert [*api.get(f"{SUMMARY}?{at}").json] == ["subject", "details", "lastChange"]
    assert api.get(f"{SUMMARY}?include=usage&{at}").error[0] == 422
    assert api.get(f"{SUMMARY}?atOffset={events[0]['offset']}").json["lastChange"] == events[0]
    now = api.get(f"{SUMMARY}?include=changes,lastChange").json
    assert now["changes"] == {"previous": events[-2], "last": events[-1], "next": None}
    assert now["lastChange"] == events[-1]
    assert api.get(f"{SUMMARY}?atTime=1").error[:2] == (404, 40401)


def test_a_summary_shows_the_version_that_is_named(api: Api) -> None:
    api.register("base", record("Base", "a", "b"))
    api.request("DELETE", "/subjects/base/versions/1")
    entity = api.get("/subjects/base/versions/1?deleted=true").json
    found = api.get(f"{SUMMARY}?include=entity&version=1")
    assert found.json["entity"] == entity
    assert api.get(f"{SUMMARY}?include=entity").json["entity"]["version"] == 2
    assert api.get(f"{SUMMARY}?include=entity,numbers&version=7").json["entity"]["error_code"] == 40402
    assert api.get(f"{SUMMARY}?include=entity&version=0").status == 200
    assert api.get("/subjects/none/summary?include=entity").error[:2] == (404, 40401)


def test_of_many_versions_the_newest_are_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "NUMBERS_MAX", 2)
    for field in "bcd":
        api.register("base", record("Base", "a", field))
    assert api.get(f"{SUMMARY}?include=numbers").json["numbers"] == [3, 4]


def test_what_is_not_looked_at_is_said(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        refer(api, f"user-{number}")
    short = api.get(f"{SUMMARY}?include=referrers&limit=1").json["referrers"]
    assert (len(short["referrers"]), short["referrerCount"], short["complete"]) == (1, 3, True)
    monkeypatch.setattr(summary, "REFERRERS_MAX", 2)
    cut = api.get(f"{SUMMARY}?include=referrers").json["referrers"]
    assert (cut["referrerCount"], cut["complete"]) == (2, False)
    monkeypatch.setattr(usage, "SUMMED_VERSIONS_MAX", 1)
    api.register("base", record("Base", "a", "b"))
    assert api.get(f"{SUMMARY}?include=usage").json["usage"]["complete"] is False
    monkeypatch.setattr(summary, "VERSIONS_MAX", 1)
    assert api.get(f"{SUMMARY}?include=referrers").json["referrers"]["complete"] is False


def test_uses_of_an_id_that_two_versions_share_count_once(api: Api) -> None:
    api.put("/mode/twice", {"mode": "IMPORT"})
    for version in (1, 2):
        api.register("twice", record("Twice", "a"), id=9, version=version)
    assert api.get("/subjects/twice/versions").json == [1, 2]
    take_census(api, ["value", "id", 9, 3, 60, 5, 7, True], ["key", "id", 9, 1, 60, -1, -1, True])
    found = api.get("/subjects/twice/summary?include=usage").json["usage"]
    assert [found[name] for name in ("messages", "first", "last")] == [4, 5, 7]


class Away(ListBackend):
    """A registry whose node does not say who has asked."""

    async def ask(self, query: Any, request: Any) -> Any:
        if query is ASKERS:
            raise UNAVAILABLE("The node does not answer")
        return await super().ask(query, request)


def test_a_part_that_fails_leaves_the_others() -> None:
    with Api(Away()) as api:
        api.register("base", record("Base", "a"))
        found = api.get(SUMMARY)
        assert found.status == 200
        assert found.json["askers"]["error_code"] == 503
        assert found.json["referrers"]["referrerCount"] == 0


class Silent(ListBackend):
    """A registry whose node never says who has asked."""

    async def ask(self, query: Any, request: Any) -> Any:
        return await asyncio.Event().wait()


def test_a_part_ends_in_the_time_of_a_request() -> None:
    settings = ApiSettings(request_timeout_s=0.1)
    with Api(Silent(settings), settings) as api:
        api.register("base", record("Base", "a"))
        found = api.get(f"{SUMMARY}?include=details,askers").json
        assert found["details"]["version"] == 1
        assert found["askers"] == {"error_code": 504, "message": "Request timed out"}


def test_who_asks_and_who_refers_is_shown_to_those_who_may_see_it() -> None:
    with PermittingApi(rule("dev", "reader", "base", "user") + rule("hid", "reader", "user")) as api:
        api.register("base", record("Base", "a"))
        for subject in ("hidden", "user"):
            refer(api, subject)
        asker = Asker("alice", "user", "", "curl/8")
        api.backend.answers[ASKERS.number] = Askers(asks=[Ask(asker, Thing("", 1), 1, 2, 5)], since=1)
        take_census(api, ["value", "id", 1, 3, 60, 5, 7, True])
        root, dev = (api.request("GET", SUMMARY, user=user).json for user in ("root", "dev"))
        assert [each["principal"] for each in root["askers"]["askers"]] == ["alice"]
        assert "versions" not in root["askers"]["askers"][0]
        assert (dev["askers"]["askers"], dev["askers"]["askerCount"], dev["askers"]["requests"]) == ([], 1, 5)
        assert [each["subject"] for each in root["referrers"]["referrers"]] == ["hidden", "user"]
        assert dev["referrers"] == {
            "referrers": [{"subject": "user", "version": 1, "deleted": False, "to": 1}],
            "referrerCount": 1, "complete": True,
        }  # fmt: skip
        assert dev["usage"] == root["usage"]
        assert api.request("GET", SUMMARY, user="hid").status == 403


def test_an_id_is_looked_up_in_all_contexts_and_a_guid_under_all_ids(api: Api) -> None:
    api.register(":.eu:other", record("Other", "a"))
    api.register(":.eu:copy", record("Base", "a"))
    api.register("same", record("Base", "a"))
    api.request("DELETE", "/subjects/base")
    by_id = api.get("/schemas/lookup?id=1").json
    assert [(each["context"], each["versions"]) for each in by_id["schemas"]] == [
        (".", [
            {"subject": "base", "version": 1, "deleted": True},
            {"subject": "same", "version": 1, "deleted": False},
        ]),
        (".eu", [{"subject": ":.eu:other", "version": 1, "deleted": False}]),
    ]  # fmt: skip
    first = by_id["schemas"][0]
    kept = {name: value for name, value in api.get("/schemas/ids/1").json.items() if name in first}
    assert {"schema", "guid", "schemaType"} <= kept.keys()
    assert kept == {name: first[name] for name in kept}
    by_guid = api.get(f"/schemas/lookup?guid={first['guid']}").json["schemas"]
    assert [(each["context"], each["id"]) for each in by_guid] == [(".", 1), (".eu", 2)]
    for context in (".eu", "eu", ":.eu:"):
        found = api.get(f"/schemas/lookup?id=1&context={context}").json
        assert [each["context"] for each in found["schemas"]] == [".eu"]
    assert api.get("/schemas/lookup?id=99999999999").json == {"schemas": [], "next": None}


@pytest.mark.parametrize("query", ["", "id=1&guid=x", "guid=x", "id=x"])
def test_a_lookup_needs_an_id_or_a_guid(api: Api, query: str) -> None:
    assert api.get(f"/schemas/lookup?{query}").error[0] == 422


@pytest.mark.parametrize("bound", ["limit", "CHARACTERS_MAX", "CONTEXTS_MAX"])
def test_a_lookup_goes_on_where_a_page_has_ended(
    api: Api, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    for context in (".a", ".b", ".c"):
        api.register(f":{context}:s", record("R", context[1:]))
    if bound != "limit":
        monkeypatch.setattr(lookup, bound, 1)
    found, after, pages = [], "", 0
    while after is not None:
        page = api.get(f"/schemas/lookup?id=1&limit={1 if bound == 'limit' else 100}&after={after}").json
        found += [each["context"] for each in page["schemas"]]
        after, pages = page["next"], pages + 1
    assert (found, pages) == ([".", ".a", ".b", ".c"], 4)


def test_a_page_can_end_among_the_ids_of_a_guid(api: Api) -> None:
    for number in (5, 7, 9):
        subject = f":.eu:s{number}"
        api.put(f"/mode/{subject}", {"mode": "IMPORT"})
        api.register(subject, record("Base", "a"), id=number, version=1)
    guid = api.get("/schemas/ids/1").json["guid"]
    for only, ids in (("", [1, 5, 7, 9]), (".eu", [5, 7, 9])):
        found, after = [], ""
        while after is not None:
            page = api.get(f"/schemas/lookup?guid={guid}&context={only}&limit=2&after={after}").json
            assert 0 < len(page["schemas"]) <= 2
            found += [each["id"] for each in page["schemas"]]
            after = page["next"]
        assert found == ids
    assert api.get(f"/schemas/lookup?guid={guid}&after=.eu:x").error[0] == 422


def test_a_schema_names_the_first_versions_with_its_id(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "USES_MAX", 1)
    api.register("same", record("Base", "a"))
    (found,) = api.get("/schemas/lookup?id=1").json["schemas"]
    assert ([each["subject"] for each in found["versions"]], found["more"]) == (["base"], True)


def test_a_lookup_shows_only_what_may_be_read() -> None:
    with PermittingApi(rule("dev", "reader", "own")) as api:
        api.register("secret", record("R", "a"))
        api.register("own", record("R", "a"))
        api.register(":.eu:secret", record("S", "a"))
        (found,) = api.request("GET", "/schemas/lookup?id=1", user="dev").json["schemas"]
        assert found["versions"] == [{"subject": "own", "version": 1, "deleted": False}]
        assert len(api.get("/schemas/lookup?id=1").json["schemas"]) == 2
