"""Requests about what a census found."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from registry.api import checks, version_usage
from registry.api.asks import Ask, Asker, Askers, Thing
from registry.api.backend import ApiSettings
from registry.api.node_queries import ASKERS
from registry.api.operations import Call
from registry.api.parameters import SCOPE
from registry.api.request_context import RequestContext
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.queries.scope import Defaults
from tests.api.driver import FIRST_TS, Api, Reply, record
from tests.api.permitting import PermittingApi, rule

CENSUS = {
    "id": "c1", "location": "/census/c1", "sha256": "00", "started": 10, "ended": 20, "complete": True,
    "patterns": ["*"], "sources": 1, "unread": 0, "partitions": 3, "messages": 4, "base": "",
}  # fmt: skip
USES = [["value", "id", 1, 3, 60, 5, 7, True], ["key", "none", None, 1, 4, 5, 5, True]]


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as found:
        yield found


def put(api: Api, path: str, body: Any, **more: Any) -> Reply:
    return api.request("PUT", path, body, {"content-type": "application/json"}, **more)


def usage(**members: Any) -> dict[str, Any]:
    return {"census": "c1", "state": "read", "ms": 9, "messages": 4, "uses": USES, **members}


def test_what_is_published_is_returned(api: Api) -> None:
    assert api.get("/usage/census").error[:2] == (404, 40482)
    assert put(api, "/usage/sources/orders", usage()).status == 204
    assert put(api, "/usage/census", CENSUS).status == 204
    assert api.get("/usage/census").json == CENSUS
    source = {"source": "orders", "reason": "", "context": ".", **usage()}
    assert api.get("/usage/sources/orders").json == source
    assert api.get("/usage/sources").json == [source]
    assert api.request("DELETE", "/usage/sources/orders").status == 204
    assert api.get("/usage/sources/orders").error == (404, 40483, "Source 'orders' not found.")


def test_an_equal_value_appends_nothing(api: Api) -> None:
    for _ in range(2):
        put(api, "/usage/sources/orders", usage())
        put(api, "/usage/census", CENSUS)
    assert len(api.backend.log) == 2


def test_a_source_may_be_a_path(api: Api) -> None:
    name = "/data/2026/*.parquet#value"
    assert put(api, f"/usage/sources/{quote(name, safe='')}", usage()).status == 204
    assert [each["source"] for each in api.get("/usage/sources").json] == [name]


def test_sources_come_in_pages(api: Api) -> None:
    for name in ("a", "b", "c" * 200):
        put(api, f"/usage/sources/{name}", usage())
    first = api.get("/usage/sources?limit=2")
    assert [each["source"] for each in first.json] == ["a", "b"]
    following = first.headers["link"].partition("<")[2].partition(">")[0]
    assert [each["source"] for each in api.get(following).json] == ["c" * 200]
    assert [each["source"] for each in api.get("/usage/sources?offset=1&limit=1").json] == ["b"]


def test_bad_bodies_are_refused_and_change_nothing(api: Api) -> None:
    for body, code in (({}, 42284), (usage(state="half"), 42284), ([], 400), (None, 422)):
        assert put(api, "/usage/sources/orders", body).error[1] == code
    assert put(api, "/usage/census", {**CENSUS, "unread": 1}).error[1] == 42284
    many = usage(uses=[USES[0]] * 20_001)
    assert put(api, "/usage/sources/orders", many).error[1] == 42284
    assert api.backend.log == []


def test_places_in_the_census_are_only_for_administrators() -> None:
    with PermittingApi(rule("reader", "reader", "*") + rule("admin", "admin", "*")) as api:
        put(api, "/usage/census", CENSUS, user="admin")
        assert api.request("GET", "/usage/census", user="admin").json == CENSUS
        shown = api.request("GET", "/usage/census", user="reader").json
        assert CENSUS.keys() - shown.keys() == {"location", "sha256", "patterns"}
        assert api.request("GET", "/usage/sources", user="reader").status == 403


JAVA, SHOP = Asker("billing", "", "java", "token"), Asker("", "192.0.2.1", "shop/1.2")
ASKERS_FOUND = Askers(
    asks=[
        Ask(JAVA, Thing("", 1), 20_000, 20_002, 3), Ask(SHOP, Thing("", 0), 20_001, 20_001, 1),
        Ask(JAVA, Thing("", 2), 20_001, 20_003, 5),
    ],
    since=19_990, other=7, more=1, missing=["http://node-2:8081"],
)  # fmt: skip


def test_who_asks_is_named_to_administrators_and_counted_for_others() -> None:
    rules = rule("reader", "reader", "s") + rule("admin", "admin", "*") + rule("stranger", "reader", "other")
    with PermittingApi(rules) as api:
        api.register("s", record("R", "a"))
        api.put("/config/alias", {"alias": "s"})
        api.backend.answers[ASKERS.number] = ASKERS_FOUND
        sums = {"since": "2024-09-24", "requests": 9, "first": "2024-10-04", "last": "2024-10-07"}
        numbers = {"askerCount": 3, "other": 7, "missingCount": 1}
        named = [
            {
                "principal": "billing", "kind": "token", "address": "", "agent": "java",
                "requests": 8, "first": "2024-10-04", "last": "2024-10-07",
                "versions": [
                    {"version": 1, "requests": 3, "first": "2024-10-04", "last": "2024-10-06"},
                    {"version": 2, "requests": 5, "first": "2024-10-05", "last": "2024-10-07"},
                ],
            },
            {
                "principal": "", "kind": "", "address": "192.0.2.1", "agent": "shop/1.2",
                "requests": 1, "first": "2024-10-05", "last": "2024-10-05",
                "versions": [{"version": None, "requests": 1, "first": "2024-10-05", "last": "2024-10-05"}],
            },
        ]  # fmt: skip
        names = {"askers": named, "missing": ["http://node-2:8081"]}
        for path in ("s", "alias"):
            found = api.request("GET", f"/usage/subjects/{path}/askers", user="admin").json
            assert found == {"subject": "s", **sums, **numbers, **names}
        nobody = {"askers": [], "missing": []}
        assert api.request("GET", "/usage/subjects/s/askers", user="reader").json == {
            "subject": "s", **sums, **numbers, **nobody,
        }  # fmt: skip
        assert api.request("GET", "/usage/subjects/s/askers", user="stranger").status == 403
        found = api.request("GET", "/contexts/.c/usage/schemas/7/askers", user="admin").json
        assert found == {"id": 7, "context": ".c", **sums, **numbers, **names}
        assert api.request("GET", "/usage/schemas/7/askers", user="reader").status == 403
        assert api.get("/usage/subjects/missing/askers").error[:2] == (404, 40401)


BASE, USER, OTHER = record("Base", "a"), record("User", "b"), record("Other", "c")
LATER = FIRST_TS + 1_000_000


@pytest.fixture
def used(api: Api) -> Api:
    """A registry with a version that messages name, one that it refers to, and one that nothing needs."""
    fill(api)
    return api


def fill(api: Api) -> None:
    api.register("base", BASE)
    references = [{"name": "Base", "subject": "base", "version": 1}]
    api.register("orders-value", USER.replace('"int"', '"Base"', 1), references=references)
    api.register("other-value", OTHER)
    uses = [["value", "id", 2, 3, 60, 5, 7, True], ["value", "id", 99, 1, 60, 5, 5, True], USES[1]]
    put(api, "/usage/sources/orders", usage(uses=uses))
    put(api, "/usage/sources/lost", usage(uses=[["value", "header-id", 2, 1, 60, 9, 9, False]]))
    put(api, "/usage/census", {**CENSUS, "started": LATER, "ended": LATER + 1})


def test_a_version_is_shown_with_its_sources_and_its_uses_by_reference(used: Api) -> None:
    shown = used.get("/usage/subjects/orders-value").json
    assert shown["census"] == {
        "id": "c1", "started": LATER, "ended": LATER + 1, "complete": True, "unread": 0,
        "usableUntil": LATER + 1 + 7 * 86_400_000,
    }  # fmt: skip
    [version] = shown["versions"]
    assert (version["version"], version["state"], version["messages"]) == (1, "used", 4)
    assert (version["first"], version["last"], version["exact"], version["sourceCount"]) == (5, 9, False, 2)
    assert [(each["source"], each["framing"]) for each in version["sources"]] == [
        ("lost", "header-id"), ("orders", "id"),
    ]  # fmt: skip
    [version] = used.get("/usage/subjects/base").json["versions"]
    assert (version["state"], version["messages"]) == ("used", 0)
    assert version["referrers"] == [{"subject": "orders-value", "version": 1}]
    assert used.get("/usage/subjects/other-value").json["versions"][0]["state"] == "unused"
    assert used.get("/usage/subjects/missing").error[:2] == (404, 40401)


def test_only_a_complete_census_that_began_later_finds_a_version_unused(used: Api) -> None:
    def state() -> str:
        return str(used.get("/usage/subjects/other-value").json["versions"][0]["state"])

    for members, expected in (
        ({"complete": False, "unread": 1}, "unknown"),
        ({"started": FIRST_TS, "ended": LATER}, "unknown"),
        ({"started": LATER, "ended": LATER}, "unused"),
    ):
        put(used, "/usage/census", {**CENSUS, **members} if "started" in members else {
            **CENSUS, "started": LATER, "ended": LATER, **members
        })  # fmt: skip
        assert state() == expected


def test_the_list_names_unused_versions_and_subjects_without_a_topic(used: Api) -> None:
    used.delete("/subjects/other-value")
    found = {each["subject"]: each for each in used.get("/usage/subjects").json}
    assert {name: (each["used"], each["hasTopic"]) for name, each in found.items()} == {
        "base": (1, False), "orders-value": (1, True), "other-value": (0, False),
    }  # fmt: skip
    [unused] = found["other-value"]["unused"]
    assert (unused["version"], unused["deleted"]) == (1, True)
    assert unused["deletedAt"] == used.backend.log[-1].ts
    assert [each["subject"] for each in used.get("/usage/subjects?unused=true").json] == ["other-value"]


def test_the_census_names_the_first_subjects_with_unused_versions(
    used: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "examined" not in used.get("/usage/census").json

    def found(query: str) -> dict[str, Any]:
        census = used.get(f"/usage/census?{query}").json
        return {name: census.get(name) for name in ("unusedSubjects", "examined", "more")}

    other = {"subject": "other-value", "unused": 1}
    assert found("unused=5") == {"unusedSubjects": [other], "examined": 3, "more": False}
    monkeypatch.setattr("registry.api.version_usage.EXAMINED_MAX", 2)
    assert found("unused=1") == {"unusedSubjects": [], "examined": 2, "more": True}
    later = {**CENSUS, "started": LATER, "ended": LATER, "complete": False, "unread": 1}
    put(used, "/usage/census", later)
    assert found("unused=1")["examined"] is None, "an incomplete census finds nothing unused"


def test_what_nobody_can_explain_is_listed(used: Api) -> None:
    found = used.get("/usage/unknown").json
    assert [(each["source"], each["problem"], (each["use"] or {}).get("schema")) for each in found] == [
        ("lost", "topic", None), ("orders", "unknown", 99), ("orders", "unframed", None),
    ]  # fmt: skip
    page = used.get("/usage/unknown?limit=2")
    following = page.headers["link"].partition("<")[2].partition(">")[0]
    assert used.get(following).json == found[2:]


def test_an_id_is_found_whether_or_not_the_registry_knows_it(used: Api) -> None:
    known, unknown = (used.get(f"/usage/schemas/{each}").json for each in (2, 99))
    assert (known["known"], known["messages"]) == (True, 4)
    assert (unknown["known"], unknown["messages"], unknown["sources"][0]["source"]) == (False, 1, "orders")
    assert used.get("/usage/schemas/98").error == (404, 40403, "Schema 98 not found")
    assert used.get("/contexts/.c/usage/schemas/2").error[:2] == (404, 40403)
    put(used, "/usage/sources/orders-c", usage(context=".c", uses=[["key", "id", 2, 8, 1, 1, 1, True]]))
    assert used.get("/contexts/.c/usage/schemas/2").json["messages"] == 8
    assert used.get("/usage/schemas/2").json["messages"] == 4


def test_referrers_of_an_id_are_searched_for_in_slices(used: Api) -> None:
    for number in range(20):
        references = [{"name": "Base", "subject": "base", "version": 1}]
        used.register(f"user{number}", USER.replace('"int"', '"Base"', 1), references=references)
    call = Call(
        context=RequestContext.__new__(RequestContext), path={"id": "1"}, args={SCOPE.name: ""}, body=b"",
        settings=ApiSettings(), memory=SchemaMemory(1_000),
    )  # fmt: skip
    with used.backend.view() as view:
        pending = version_usage.get_schema(call, view)
        assert sum(1 for _ in pending.search(view)) >= 20


def test_those_who_may_not_read_a_subject_do_not_learn_of_it() -> None:
    with PermittingApi(rule("reader", "reader", "base")) as api:
        fill(api)
        reader = partial(api.request, "GET", user="reader")
        [version] = reader("/usage/subjects/base").json["versions"]
        assert (version["state"], version["referrers"], version["referrerCount"]) == ("used", [], 1)
        assert reader("/usage/subjects/orders-value").status == 403
        assert [each["subject"] for each in reader("/usage/subjects").json] == ["base"]
        assert reader("/usage/schemas/2").status == 404
        assert reader("/usage/schemas/99").status == 404
        assert reader("/usage/schemas/1").json["known"]
        assert reader("/usage/unknown").status == 403


def guarded(guard: str, *rules: str) -> PermittingApi:
    """Return a registry with a guard, and a soft-deleted version that messages use."""
    defaults = Defaults(deletion_guard=guard, now=LATER + 2)
    api = PermittingApi("".join(rules), ApiSettings(defaults=defaults))
    fill(api)
    api.delete("/subjects/orders-value")
    return api


PERMANENTLY = "/subjects/orders-value?permanent=true"
REASON = "version 1 is in use: messages: 4, topics or files: 2"


def test_the_guard_refuses_what_messages_use_unless_somebody_may_force_it() -> None:
    rules = rule("operator", "operator", "*") + rule("forcing", "read,delete,force", "orders-*")
    with guarded("refuse", rules) as api:
        for path in (PERMANENTLY, "/subjects/orders-value/versions/1?permanent=true"):
            status, code, message = api.delete(path).error
            assert (status, code) == (409, 40984)
            assert REASON in message
        delete = partial(api.request, "DELETE", f"{PERMANENTLY}&force=true")
        assert delete(user="operator").error[:2] == (403, 40301)
        assert delete(user="forcing").json == [1]
        assert api.backend.origins[-1].checked is not None
        assert api.backend.origins[-1].checked.cover("force", "orders-value")


def test_the_guard_may_only_warn() -> None:
    with guarded("warn", rule("deleting", "delete", "orders-*")) as api:
        deleted = api.request("DELETE", PERMANENTLY, user="deleting")
        assert (deleted.status, deleted.headers["warning"]) == (200, f'299 - "{REASON}"')
        assert "warning" not in api.delete("/subjects/base").headers


def test_a_subject_goes_with_its_strong_association_only_by_force() -> None:
    with guarded("refuse") as api:
        strong = {
            "subject": ":.n:t-value",
            "associationType": "value",
            "lifecycle": "STRONG",
            "frozen": True,
        }
        resource = {"resourceName": "t", "resourceNamespace": "n", "resourceId": "t-id"}
        body = {**resource, "associations": [{**strong, "schema": {"schema": OTHER}}]}
        assert api.post("/associations", body).status == 200
        path = "/associations/resources/t-id?resourceType=topic&cascadeLifecycle=true"
        assert api.delete(path).error[:2] == (409, 40984)
        assert api.delete(f"{path}&force=true").status == 204
        assert api.get("/subjects/:.n:t-value/versions").status == 404


def test_a_check_can_compare_with_the_versions_that_messages_use(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enumeration(*symbols: str) -> str:
        return f'{{"type":"enum","name":"E","symbols":[{",".join(map(json.dumps, symbols))}]}}'

    api.put("/config", {"compatibility": "NONE"})
    for symbols in ("ab", "ac", "ad", "abc"):
        api.register("s", enumeration(*symbols))
    api.delete("/subjects/s/versions/2")
    check = partial(api.post, "/compatibility/subjects/s/versions?level=BACKWARD_USED")
    assert check({"schema": enumeration(*"abc")}).error[:2] == (422, 42285)
    uses = [["value", "id", each, 1, 1, 1, 1, True] for each in (1, 2)]
    put(api, "/usage/sources/s", usage(uses=uses))
    put(api, "/usage/census", {**CENSUS, "started": LATER, "ended": LATER})
    passing = check({"schema": enumeration(*"abc")})
    assert (passing.json["is_compatible"], passing.headers["x-registry-compared-versions"]) == (
        True,
        "4, 2, 1",
    )
    assert "x-registry-compared-versions-more" not in passing.headers
    monkeypatch.setattr(checks, "COMPARED_NAMED_MAX", 1)
    headers = check({"schema": enumeration(*"abc")}).headers
    assert headers["x-registry-compared-versions"] == "4"
    assert headers["x-registry-compared-versions-more"] == "2"
    assert not check({"schema": enumeration(*"ab")}).json["is_compatible"]
    transitive = api.post(
        "/compatibility/subjects/s/versions?level=BACKWARD_TRANSITIVE", {"schema": enumeration(*"abc")}
    )
    assert not transitive.json["is_compatible"]
    verbose = api.post(
        "/compatibility/subjects/s/versions?verbose=true&level=BACKWARD_USED", {"schema": enumeration(*"ab")}
    )
    assert "missing enum symbols" in verbose.json["messages"][0]
    put(api, "/usage/census", {**CENSUS, "started": LATER, "ended": LATER, "complete": False})
    assert "is not complete" in check({"schema": enumeration(*"abc")}).error[2]


def test_a_level_for_versions_in_use_decides_registrations(api: Api) -> None:
    def enumeration(*symbols: str) -> dict[str, str]:
        return {"schema": f'{{"type":"enum","name":"E","symbols":[{",".join(map(json.dumps, symbols))}]}}'}

    api.put("/config", {"compatibility": "NONE"})
    for symbols in ("abx", "ac", "a"):
        assert api.post("/subjects/s/versions", enumeration(*symbols)).status == 200
    api.put("/config", {"compatibility": "BACKWARD"})
    shown = {"compatibilityLevel": "BACKWARD_TRANSITIVE", "compatibilityUsed": True}
    said = api.put("/config/s", {"compatibility": "backward_used"})
    assert said.json == {"compatibility": "BACKWARD_TRANSITIVE", "compatibilityUsed": True}
    assert api.get("/config/s").json == shown
    new = enumeration(*"acd")

    def refusal() -> str:
        refused = api.post("/subjects/s/versions", new)
        verbose = api.post("/compatibility/subjects/s/versions?verbose=true", new).json
        plain = api.post("/compatibility/subjects/s/versions", new, accept="text/plain")
        assert (refused.error[:2], verbose["is_compatible"]) == ((409, 40901), False)
        assert verbose["compared"] in plain.body.decode()
        assert refused.error[2].endswith(f"{verbose['compared']}]")
        return str(verbose["compared"])

    assert refusal() == "Compared with all versions: no census has been published."
    put(api, "/usage/sources/s", usage(uses=[["value", "id", 2, 1, 1, 1, 1, True]]))
    put(api, "/usage/census", {**CENSUS, "started": LATER, "ended": LATER, "complete": False})
    assert refusal() == "Compared with all versions: the newest census, c1, is not complete."
    now = time.time_ns() // 1_000_000
    old = {**CENSUS, "id": "c2", "started": now - 8 * 86_400_000, "ended": now - 8 * 86_400_000}
    put(api, "/usage/sources/s", usage(census="c2", uses=[["value", "id", 2, 1, 1, 1, 1, True]]))
    put(api, "/usage/census", old)
    assert re.fullmatch(r".*: the newest census, c2, ended 8\.0 days ago\.", refusal())

    put(api, "/usage/sources/s", usage(census="c3", uses=[["value", "id", 2, 1, 1, 1, 1, True]]))
    put(api, "/usage/census", {**CENSUS, "id": "c3", "started": now, "ended": now})
    checked = api.post("/compatibility/subjects/s/versions?verbose=true", new)
    text = "Compared with the versions in use or the latest: 3, 2; the census c3 found no messages of others."
    assert (checked.json["is_compatible"], checked.json["compared"]) == (True, text)
    assert checked.headers["x-registry-compared-versions"] == "3, 2"
    assert "lacks" not in api.post("/subjects/s/versions", enumeration(*"ad")).error[2]
    assert text in api.post("/subjects/s/versions", enumeration(*"ad")).error[2]
    assert api.post("/subjects/s/versions", new).status == 200

    # Another level ends it; the member alone needs a transitive one.
    assert api.put("/config/s", {"normalize": True}).json["compatibilityUsed"]
    assert "compatibilityUsed" not in api.put("/config/s", {"compatibility": "FULL_TRANSITIVE"}).json
    assert api.put("/config/s", {"compatibilityUsed": True}).json["compatibilityUsed"]
    assert "compatibilityUsed" not in api.put("/config/s", {"compatibilityUsed": False}).json
    api.put("/config/s", {"compatibility": "FULL"})
    for wrong in ({"compatibilityUsed": True}, {"compatibility": "NONE_USED"}):
        assert api.put("/config/s", wrong).error[:2] == (422, 42203)
    assert api.get("/config/s").json == {"normalize": True, "compatibilityLevel": "FULL"}
