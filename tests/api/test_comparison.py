"""Several verdicts in one answer: of a schema and a subject, of two versions, of two texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.domain.errors import UNAVAILABLE
from registry.domain.history.entries import packed_owner
from registry.domain.history.moment import Moment, OwnerRows
from registry.domain.model import Subject
from tests.api.driver import Api, ListBackend, Reply, record
from tests.api.permitting import PermittingApi, rule

EXPLAIN = "/compatibility/subjects/s/explain"
LEVELS = ("BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE")


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as found:
        found.put("/config", {"compatibility": "NONE"})
        for fields in ("a", "ab", "b"):
            found.register("s", record("R", *fields))
        found.put("/config", {"compatibility": "FORWARD"})
        yield found


def post(api: Api, path: str, body: Any, **more: Any) -> Reply:
    return api.request("POST", path, body, {"content-type": "application/json"}, **more)


def test_verdicts_at_several_levels_are_those_of_separate_checks(api: Api) -> None:
    draft = {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})}
    query = "&".join(f"level={each}" for each in LEVELS)
    found = post(api, f"{EXPLAIN}?{query}&target=spark,delta", draft).json
    assert found["level"] == "FORWARD"
    lint = post(api, "/schemas/lint?subject=s", draft).json
    assert found["lint"] == {name: lint[name] for name in ("valid", "findings")}
    check = "/compatibility/subjects/s/versions?verbose=true"
    assert found["levels"] == {each: post(api, f"{check}&level={each}", draft).json for each in LEVELS}
    assert found["tables"] == post(api, f"{check}&target=spark,delta", draft).json
    alone = post(api, EXPLAIN, draft).json
    assert (alone["levels"], "tables" in alone) == ({"FORWARD": found["levels"]["FORWARD"]}, False)
    assert post(api, f"{EXPLAIN}?level=forward,BACKWARD", draft).json["levels"].keys() == {
        "FORWARD",
        "BACKWARD",
    }
    assert post(api, f"{EXPLAIN}?level=SOME", draft).error[:2] == (422, 42203)
    assert post(api, f"{EXPLAIN}?target=spark,some", draft).error[:2] == (422, 422)


def test_a_schema_that_is_not_valid_gets_no_verdicts(api: Api) -> None:
    found = post(api, EXPLAIN, {"schema": "{"}).json
    assert (found["lint"]["valid"], [*found]) == (False, ["level", "lint"])
    assert "message" in found["lint"]


def test_a_level_that_cannot_be_checked_leaves_the_others(api: Api) -> None:
    found = post(api, f"{EXPLAIN}?level=BACKWARD_USED,BACKWARD", {"schema": record("R", "b")}).json["levels"]
    assert found["BACKWARD_USED"]["error_code"] == 42285
    assert found["BACKWARD"]["is_compatible"] is True
    # In force, it falls back to all versions, as a registration does.
    api.put("/config/s", {"compatibility": "BACKWARD_USED"})
    found = post(api, EXPLAIN, {"schema": record("R", "b")}).json
    assert found["level"] == "BACKWARD_USED"
    assert found["levels"]["BACKWARD_USED"]["compared"].startswith("Compared with all versions")


def compared(api: Api, query: str = "", path: str = "/subjects/s/versions/2") -> Any:
    return api.get(f"{path}/comparison{query}").json


def test_versions_are_compared_as_by_separate_requests(api: Api) -> None:
    found = compared(api, "?against=3")
    assert found["old"] == api.get("/subjects/s/versions/2").json
    assert found["new"] == api.get("/subjects/s/versions/3").json
    assert found["explanation"] == api.get("/subjects/s/versions/3/explain?against=2").json
    sides = {name: {each: found[name][each] for each in ("schema", "schemaType")} for name in ("old", "new")}
    assert found["differences"] == post(api, "/schemas/differences", sides).json
    assert compared(api, "?against=3", "/subjects/s/versions/2") == found
    assert compared(api, "?against=2", "/subjects/s/versions/3") == found
    turned = compared(api, "?against=3&reverse=true")
    assert (turned["old"], turned["new"]) == (found["new"], found["old"])
    assert compared(api)["old"]["version"] == 1
    first = compared(api, "", "/subjects/s/versions/1")
    assert [first[each] for each in ("old", "explanation", "differences")] == [None] * 3
    assert api.get("/subjects/s/versions/2/comparison?against=7").error[:2] == (404, 40402)


def test_a_version_is_compared_with_one_of_another_subject(api: Api) -> None:
    for fields in ("a", "ac", "acd"):
        api.register("t", record("R", *fields))
    api.request("DELETE", "/subjects/t/versions/3")
    found = compared(api, "?againstSubject=t")
    assert (found["old"]["subject"], found["old"]["version"], found["new"]["subject"]) == ("t", 2, "s")
    assert found["versions"] == [2, 1]
    found = compared(api, "?againstSubject=t&against=3&deleted=true&reverse=true")
    assert (found["new"]["version"], found["versions"]) == (3, [-3, 2, 1])
    assert api.get("/subjects/s/versions/2/comparison?againstSubject=u").error[:2] == (404, 40401)
    api.request("DELETE", "/subjects/t")
    assert api.get("/subjects/s/versions/2/comparison?againstSubject=t").error[:2] == (404, 40401)
    assert compared(api, "?againstSubject=t&deleted=true")["old"]["version"] == 3


def test_of_another_subject_the_newest_500_versions_are_named(api: Api) -> None:
    api.put("/config/t", {"compatibility": "NONE"})
    for number in range(501):
        api.register("t", record("R", f"f{number}"))
    assert compared(api, "?againstSubject=t")["versions"] == [*range(501, 1, -1)]


def test_a_part_that_cannot_be_compared_leaves_the_others(api: Api) -> None:
    text = record("R", "a")
    for more, code in ((0, None), (1, 422)):
        new = text.ljust(2 * 1024 * 1024 - len(text) + more)
        found = post(api, "/schemas/comparison", {"old": {"schema": text}, "new": {"schema": new}}).json
        assert found["differences"].get("error_code") == code
        assert found["explanation"]["levels"]["FULL"]["compatible"] is True


def test_versions_of_the_past_are_compared(api: Api) -> None:
    api.request("DELETE", "/subjects/s/versions/1")
    api.request("DELETE", "/subjects/s/versions/1?permanent=true")
    assert api.get("/subjects/s/versions/2/comparison?against=1").status == 404
    then = len(api.backend.log) - 3
    found = compared(api, f"?against=1&atOffset={then}")
    assert (found["old"]["version"], found["differences"]["added"]) == (1, 1)
    api.register("t", record("R", "a"))
    then = len(api.backend.log) - 1
    for permanent in ("", "?permanent=true"):
        api.request("DELETE", f"/subjects/t{permanent}")
    found = compared(api, f"?againstSubject=t&atOffset={then}")
    assert (found["old"]["subject"], found["versions"]) == ("t", [1])


class Forgetful(ListBackend):
    """A node that does not answer about a second subject of the past."""

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        if packed_owner(Subject.parse("base")) in owners:
            raise UNAVAILABLE("The node does not answer")
        return await super().past(moment, owners, asker)


def test_a_comparison_of_the_past_is_not_cached_because_a_part_can_fail() -> None:
    settings = ApiSettings(cache_max_age_s=60)
    with Api(Forgetful(settings), settings) as api:
        api.register("base", record("Base", "a"))
        uses = {"type": "record", "name": "User", "fields": [{"name": "f", "type": "Base"}]}
        used = {"name": "Base", "subject": "base", "version": 1}
        for doc in ("1", "2"):
            api.register("s", json.dumps({**uses, "doc": doc}), references=[used])
        then = len(api.backend.log) - 1
        reply = api.get(f"/subjects/s/versions/2/comparison?atOffset={then}")
        assert reply.json["explanation"]["error_code"] == 503
        assert "max-age" not in reply.headers["cache-control"]
        kept = api.get(f"/subjects/s/versions/2?atOffset={then}").headers["cache-control"]
        assert kept == "max-age=60"


def test_texts_are_compared_also_of_different_types(api: Api) -> None:
    old, new = {"schema": record("R", "a")}, {"schema": record("R", "a", "b")}
    found = post(api, "/schemas/comparison", {"old": old, "new": new}).json
    assert found["types"] == {"old": "AVRO", "new": "AVRO"}
    assert found["explanation"] == post(api, "/compatibility/explain", {"old": old, "new": new}).json
    assert found["differences"] == post(api, "/schemas/differences", {"old": old, "new": new}).json
    other = {"schemaType": "JSON", "schema": '{"properties": {"a": {"type": "string"}}}'}
    found = post(api, "/schemas/comparison", {"old": old, "new": other}).json
    assert (found["types"]["new"], found["explanation"]) == ("JSON", None)
    assert found["differences"]["changed"] >= 0
    broken = post(api, "/schemas/comparison", {"old": old, "new": {"schema": "{"}}).json
    assert [broken[each]["error_code"] for each in ("explanation", "differences")] == [42201, 42201]
    unknown = {"schemaType": "X", "schema": "{}"}
    assert post(api, "/schemas/comparison", {"old": old, "new": unknown}).error[:2] == (422, 42201)
    assert post(api, "/schemas/comparison", {"old": old}).error[0] == 422


def test_comparisons_show_only_what_may_be_read() -> None:
    with PermittingApi(rule("dev", "developer", "own")) as api:
        api.register("secret", record("Secret", "salary"))
        api.register("own", record("Own", "a"))
        uses = {"type": "record", "name": "Uses", "fields": [{"name": "f", "type": "Secret"}]}
        reference = {"name": "Secret", "subject": "secret", "version": 1}
        draft = {"schema": json.dumps(uses), "references": [reference]}
        body = {"old": draft, "new": {"schema": record("Own", "a")}}
        reply = post(api, "/schemas/comparison", body, user="dev")
        assert reply.json["explanation"]["error_code"] == 40301
        assert b"salary" not in reply.body
        assert post(api, "/compatibility/subjects/own/explain", draft, user="dev").status == 403
        # Nor what a schema uses through one that may be read.
        api.put("/config/own", {"compatibility": "NONE"})
        api.register("own", json.dumps(uses), references=[reference])
        top = {"type": "record", "name": "Top", "fields": [{"name": "f", "type": "Uses"}]}
        draft = {"schema": json.dumps(top), "references": [{"name": "Uses", "subject": "own", "version": 2}]}
        reply = post(api, "/schemas/comparison", {"old": draft, "new": draft}, user="dev")
        assert reply.json["explanation"]["error_code"] == 40301
        assert post(api, "/compatibility/subjects/own/explain", draft, user="dev").status == 403
        target = "/subjects/own/versions/1/comparison?againstSubject=secret"
        assert api.request("GET", target, user="dev").status == 403
        assert api.request("GET", target, user="root").status == 200


def test_a_verdict_counts_versions_that_its_reader_may_not_read() -> None:
    with PermittingApi(rule("ci", "compatibility", "own")) as api:
        api.register("own", record("Own", "a"))
        found = post(api, "/compatibility/subjects/own/explain", {"schema": record("New", "a")}, user="ci")
        assert (found.status, found.json["levels"]["BACKWARD"]["is_compatible"]) == (200, False)
