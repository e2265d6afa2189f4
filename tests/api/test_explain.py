"""Results with explanations: verbose checks, readable text, comparison of two schemas, leniency."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.domain.log_format.subject_values import LEVELS
from tests.api.driver import Api, Requests

AGE = {"name": "age", "type": "int"}
NAME = {"name": "name", "type": "string"}
FEW = {"type": "object", "properties": {"a": {"type": "string"}}}
MORE = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


def person(*fields: dict[str, str]) -> str:
    return json.dumps({"type": "record", "name": "P", "fields": fields})


@pytest.fixture
def registered(api: Api) -> Api:
    api.register("s", person(NAME))
    return api


CHECK = "/compatibility/subjects/s/versions"
ADDED = {
    "type": "READER_FIELD_MISSING_DEFAULT_VALUE",
    "path": "/fields/1",
    "old": None,
    "new": '{"name":"age","type":"int"}',
    "level": "BACKWARD",
    "direction": "BACKWARD",
    "versionCompared": 1,
    "compatible": False,
    "fix": "give `age` a default",
}


def test_a_verbose_check_reports_every_change(registered: Api) -> None:
    for target in (CHECK, f"{CHECK}/latest", f"{CHECK}/1"):
        found = registered.post(f"{target}?verbose=true", {"schema": person(NAME, AGE)}).json
        assert list(found) == ["is_compatible", "messages", "changes"]
        assert found["changes"] == [ADDED]
        assert len(found["messages"]) == 4


def test_changes_without_harm_are_reported_too(registered: Api) -> None:
    renamed = person(NAME, {**AGE, "default": 0})  # type: ignore[dict-item]
    found = registered.post(f"{CHECK}?verbose=true", {"schema": renamed}).json
    assert (found["is_compatible"], found["messages"]) == (True, [])
    [change] = found["changes"]
    assert change == ADDED | {
        "type": "FIELD_WITH_DEFAULT_ADDED", "new": '{"name":"age","type":"int","default":0}',
        "compatible": True, "fix": "",
    }  # fmt: skip


def test_only_a_verbose_check_reports_changes(registered: Api) -> None:
    body = {"schema": person(NAME, AGE)}
    assert registered.post(CHECK, body).body == b'{"is_compatible":false}'
    assert list(registered.post("/subjects/s/versions", body).json) == ["error_code", "message"]


def test_both_halves_of_a_full_level_are_distinguished(registered: Api) -> None:
    registered.put("/config/s", {"compatibility": "FULL_TRANSITIVE"})
    found = registered.post(f"{CHECK}?verbose=true", {"schema": person(AGE)}).json["changes"]
    harmful = [each for each in found if not each["compatible"]]
    assert [(each["direction"], each["level"], each["fix"]) for each in harmful] == [
        ("FORWARD", "FULL_TRANSITIVE", "keep the field `name`, which has no default in the old schema"),
        ("BACKWARD", "FULL_TRANSITIVE", "give `age` a default"),
    ]


def test_the_version_that_fails_is_named(registered: Api) -> None:
    registered.put("/config/s", {"compatibility": "NONE"})
    registered.register("s", person(AGE, NAME))
    registered.put("/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
    found = registered.post(f"{CHECK}?verbose=true", {"schema": person(NAME, AGE)}).json["changes"]
    assert [each["versionCompared"] for each in found if not each["compatible"]] == [1]


def test_another_level_than_the_one_in_force_can_be_checked(registered: Api) -> None:
    registered.register("s", person(NAME, AGE | {"default": 0}))
    verdicts = {
        level: registered.post(f"{CHECK}?verbose=true&level={level}", {"schema": person(AGE)}).json
        for level in ("backward", "FORWARD", "FORWARD_TRANSITIVE", "NONE")
    }
    assert [each["is_compatible"] for each in verdicts.values()] == [True, False, False, True]
    assert {each["level"] for each in verdicts["FORWARD"]["changes"]} == {"FORWARD"}
    passing = {"schema": person(NAME, AGE)}
    assert registered.post(f"{CHECK}?level=FORWARD", passing).json == {"is_compatible": True}
    assert registered.post(f"{CHECK}?level=BACKWARD_TRANSITIVE", passing).json == {"is_compatible": False}
    assert registered.post(f"{CHECK}?level=SOME", passing).error[:2] == (422, 42203)
    assert registered.get("/config").json == {"compatibilityLevel": "BACKWARD"}


@pytest.mark.parametrize(
    ("config", "members", "kind", "fix"),
    [
        ({}, {"schema": "{}", "schemaType": "JSON"}, "SCHEMA_TYPE_CHANGED",
         "register a schema of type AVRO, or use another subject"),
        ({}, {"schema": "nonsense"}, "INVALID_SCHEMA", "correct the schema as the message says"),
        ({"validateFields": True},
         {"schema": person(NAME), "metadata": {"properties": {"confluent:reserved": "name"}}},
         "FIELD_CONFLICTS_WITH_RESERVED_FIELD", "rename `name`"),
    ],
)  # fmt: skip
def test_whatever_is_refused_is_a_change(
    registered: Api, config: dict[str, Any], members: dict[str, Any], kind: str, fix: str
) -> None:
    registered.put("/config/s", config)
    found = registered.post(f"{CHECK}?verbose=true", members).json
    assert not found["is_compatible"]
    assert [(each["type"], each["fix"]) for each in found["changes"] if not each["compatible"]] == [
        (kind, fix)
    ]


def test_a_name_that_is_reserved_no_longer_is_a_change(api: Api) -> None:
    api.register("s", person(NAME), metadata={"properties": {"confluent:reserved": "x"}})
    api.put("/config/s", {"validateFields": True, "compatibility": "NONE"})
    found = api.post(
        f"{CHECK}?verbose=true", {"schema": person(NAME), "metadata": {"properties": {"a": "b"}}}
    )
    [change] = found.json["changes"]
    assert (change["type"], change["old"]) == ("RESERVED_FIELD_REMOVED", "x")
    assert change["fix"] == "keep `x` among the reserved names in the metadata"


class TestText:
    def test_a_check_for_people(self, registered: Api) -> None:
        reply = registered.post(f"{CHECK}/1", {"schema": person(NAME, AGE)}, accept="text/plain")
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert reply.body.decode() == (
            "Incompatible: subject s at BACKWARD\n"
            "\n"
            "1. READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1 "
            "(the new schema has to read what version 1 wrote)\n"
            "   old     - | (nothing)\n"
            '   new     9 | {"name":"age","type":"int"}\n'
            "   fix: give `age` a default\n"
        )

    def test_both_lines_are_shown(self, registered: Api) -> None:
        body = {"schema": person({**NAME, "type": "int"}, {**AGE, "doc": "years"})}
        text = registered.post(f"{CHECK}/1", body, accept="text/*").body.decode()
        assert '   old     7 | "type": "string"\n   new     7 | "type": "int"\n' in text

    def test_what_changed_without_harm_comes_last(self, registered: Api) -> None:
        text = registered.post(CHECK, {"schema": person()}, accept="text/plain").body.decode()
        assert text == (
            "Compatible: subject s at BACKWARD\n"
            "\n"
            "Compatible changes:\n"
            " - FIELD_REMOVED at /fields (the new schema has to read what version 1 wrote)\n"
            '   old     5 | {"name":"name","type":"string"}\n'
            "   new     - | (nothing)\n"
        )

    @pytest.mark.parametrize("accept", ["", "*/*", "application/json", "text/plain;q=0.5, */*", "*"])
    def test_whoever_takes_json_gets_json(self, registered: Api, accept: str) -> None:
        reply = registered.post(CHECK, {"schema": person(NAME)}, accept=accept)
        assert reply.body == b'{"is_compatible":true}'

    def test_refusals_are_json(self, registered: Api) -> None:
        reply = registered.post(f"{CHECK}/7", {"schema": person(NAME)}, accept="text/plain")
        assert reply.error[:2] == (404, 40402)
        assert reply.headers["content-type"] == "application/vnd.schemaregistry.v1+json"

    def test_what_is_no_schema_is_incompatible(self, registered: Api) -> None:
        text = registered.post(CHECK, {"schema": "nonsense"}, accept="text/plain").body.decode()
        assert text.startswith("Incompatible: subject s\n\n1. INVALID_SCHEMA: Invalid schema of type AVRO, ")

    def test_other_resources_have_none(self, registered: Api) -> None:
        assert registered.get("/subjects", accept="text/plain").error[:2] == (406, 406)


class TestExplain:
    TARGET = "/compatibility/explain"

    def explain(self, api: Api, old: Any, new: Any, schema_type: str = "JSON", **more: Any) -> Any:
        body = {"schemaType": schema_type, "old": {"schema": old}, "new": {"schema": new}, **more}
        reply = api.post(self.TARGET, body)
        assert reply.status == 200, reply.body
        return reply.json

    def test_all_levels_at_once_and_nothing_is_registered(self, api: Api) -> None:
        found = self.explain(api, person(NAME), person(NAME, AGE), "AVRO")
        assert list(found["levels"]) == list(LEVELS)
        assert {level for level, each in found["levels"].items() if not each["compatible"]} == {
            "BACKWARD", "BACKWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
        }  # fmt: skip
        assert found["levels"]["FULL"]["messages"][0].startswith("{errorType:'READER_FIELD_MISSING_DEFAULT")
        assert [each for each in found["changes"] if not each["compatible"]] == [
            ADDED | {"versionCompared": None}
        ]
        assert api.get("/subjects?deleted=true").json == []
        assert api.backend.submitted == []

    def test_it_may_be_lenient(self, api: Api) -> None:
        strict = self.explain(api, json.dumps(FEW), json.dumps(MORE))
        assert not strict["levels"]["BACKWARD"]["compatible"]
        lenient = self.explain(api, json.dumps(FEW), json.dumps(MORE), compatibilityPolicy="lenient")
        assert all(each["compatible"] for each in lenient["levels"].values())

    def test_in_text(self, api: Api) -> None:
        body = {"old": {"schema": '"int"'}, "new": {"schema": '"long"'}}
        text = api.post(self.TARGET, body, accept="text/plain").body.decode()
        assert text.startswith("NONE                 compatible\nBACKWARD             compatible\n")
        assert "\nFULL_TRANSITIVE      incompatible\n\n1. TYPE_MISMATCH at / (the old schema has to" in text

    def test_references_are_those_of_the_registry(self, api: Api) -> None:
        api.register("base", '{"type":"enum","name":"E","symbols":["A","B"]}')
        api.register(":.c:base", '{"type":"enum","name":"E","symbols":["A"]}')
        listed = [{"name": "E", "subject": "base", "version": -1}]
        side = {"schema": '{"type":"array","items":"E"}', "references": listed}
        array = '{"type":"array","items":{"type":"enum","name":"E","symbols":["A"]}}'
        for target, compatible in ((self.TARGET, False), (f"/contexts/.c{self.TARGET}", True)):
            found = api.post(target, {"old": side, "new": {"schema": array}})
            assert found.json["levels"]["BACKWARD"]["compatible"] is compatible

    @pytest.mark.parametrize(
        ("body", "code", "message"),
        [
            ({"old": {"schema": "{"}, "new": {"schema": '"int"'}}, 42201, "old: Invalid schema of type AVRO"),
            ({"old": {"schema": '"int"'}, "new": {"schema": '"R-1"'}}, 42201, "new: Invalid schema of type"),
            ({"old": {"schema": ""}, "new": {"schema": '"int"'}}, 42201, "old: Empty schema"),
            ({"old": {"schema": '"int"'}, "new": {}}, 42201, "new: Empty schema"),
            ({"old": {"schema": '"int"'}}, 422, "new must not be null (was null)"),
            ({"schemaType": "avro", "old": {"schema": "1"}, "new": {"schema": "1"}}, 42201,
             "old: Invalid schema type avro"),
            ({"old": {"schema": '"int"'}, "new": {"schema": '"int"'}, "compatibilityPolicy": "LAX"}, 422,
             "compatibilityPolicy must be one of STRICT, LENIENT, LOGICAL"),
            ({"old": {"schema": '"int"'}, "new": {"schema": '"E"', "references": [
                {"name": "E", "subject": "no", "version": 1}]}}, 42201, "new: Invalid schema of type AVRO"),
        ],
    )  # fmt: skip
    def test_which_of_the_two_is_wrong_is_said(
        self, api: Api, body: dict[str, Any], code: int, message: str
    ) -> None:
        found = api.post(self.TARGET, body)
        assert found.error[:2] == (422, code)
        assert found.error[2].startswith(message)
        assert api.post(self.TARGET, [1]).error[:2] == (400, 400)


class TestVersions:
    """``GET /subjects/{subject}/versions/{version}/explain``."""

    @pytest.fixture
    def three(self, api: Api) -> Api:
        api.put("/config", {"compatibility": "NONE"})
        for each in (person(NAME), person(NAME, AGE), person(NAME, AGE | {"type": "long"})):
            api.register("s", each)
        return api

    def test_a_version_is_compared_with_the_one_before_at_all_levels(self, three: Api) -> None:
        found = three.get("/subjects/s/versions/2/explain").json
        assert [*found] == ["subject", "version", "versionCompared", "levels", "changes"]
        assert (found["subject"], found["version"], found["versionCompared"]) == ("s", 2, 1)
        both = {"old": {"schema": person(NAME)}, "new": {"schema": person(NAME, AGE)}}
        posted = three.post("/compatibility/explain", both).json
        assert found["levels"] == posted["levels"]
        assert found["changes"] == [each | {"versionCompared": 1} for each in posted["changes"]]
        assert three.get("/subjects/s/versions/latest/explain").json["versionCompared"] == 2

    def test_it_is_compared_with_any_version(self, three: Api) -> None:
        found = three.get("/subjects/s/versions/3/explain?against=1").json
        assert (found["version"], found["versionCompared"]) == (3, 1)
        assert three.get("/subjects/s/versions/1/explain?against=latest").json["versionCompared"] == 3
        assert three.get("/contexts/.x/subjects/:.:s/versions/2/explain").json["subject"] == "s"

    def test_deleted_versions_take_part_if_they_are_asked_for(self, three: Api) -> None:
        three.request("DELETE", "/subjects/s/versions/2")
        latest = "/subjects/s/versions/3/explain"
        assert three.get(latest).json["versionCompared"] == 1
        assert three.get(f"{latest}?deleted=true").json["versionCompared"] == 2
        assert three.get(f"{latest}?against=2&deleted=true").json["versionCompared"] == 2
        assert three.get(f"{latest}?against=2").error[:2] == (404, 40402)
        assert three.get("/subjects/s/versions/2/explain").error[:2] == (404, 40402)

    def test_targets_are_asked_as_in_a_check(self, three: Api) -> None:
        found = three.get("/subjects/s/versions/2/explain?target=Delta,flink&target=parquet").json
        messages = found["levels"]["NONE"]["messages"]
        assert [each.partition(":")[0] for each in messages] == [
            "Target delta", "Target flink", "Target parquet",
        ]  # fmt: skip
        assert [(each["engine"], each["direction"], each["versionCompared"], each["fix"])
                for each in found["changes"] if "engine" in each] == [
            (name, "BACKWARD", 1, f"make the field nullable ({name})")
            for name in ("delta", "flink", "parquet")
        ]  # fmt: skip
        widened = three.get("/subjects/s/versions/3/explain?target=iceberg-v2,parquet").json
        assert [each["engine"] for each in widened["changes"] if "engine" in each] == ["parquet"]

    def test_without_an_earlier_version_the_schema_itself_is_asked(self, api: Api) -> None:
        nanoseconds = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}}
        api.register("s", person(nanoseconds))  # type: ignore[arg-type]
        found = api.get("/subjects/s/versions/1/explain?target=spark&target=flink").json
        assert (found["version"], found["versionCompared"]) == (1, None)
        [change] = found["changes"]
        assert (change["engine"], change["type"]) == ("spark", "UNREPRESENTABLE_TYPE")
        assert (change["direction"], change["versionCompared"]) == ("", None)
        assert not any(each["compatible"] for each in found["levels"].values())
        quiet = api.get("/subjects/s/versions/1/explain").json
        assert (quiet["changes"], quiet["levels"]["FULL"]) == ([], {"compatible": True, "messages": []})
        text = api.get("/subjects/s/versions/1/explain?target=spark", accept="text/plain").body.decode()
        assert text.startswith(f"s version 1, which is compared with none\n{'NONE':<20} incompatible\n")
        assert "\n1. UNREPRESENTABLE_TYPE at at\n" in text

    def test_in_text(self, three: Api) -> None:
        text = three.get("/subjects/s/versions/2/explain?target=delta", accept="text/plain").body.decode()
        assert text.startswith("s version 2, compared with version 1\nNONE                 incompatible\n")
        assert "REQUIRED_FIELD_ADDED at age (the new schema has to read what version 1 wrote)" in text

    def test_the_policy_is_that_of_the_request(self, three: Api) -> None:
        found = three.get("/subjects/s/versions/3/explain?compatibilityPolicy=logical&against=1").json
        assert found["levels"]["NONE"]["compatible"]
        assert any(each.startswith("Logical compat") for each in found["levels"]["BACKWARD"]["messages"])

    def test_versions_of_two_types_are_not_compared(self, three: Api) -> None:
        three.post("/subjects/s/versions", {"schemaType": "JSON", "schema": json.dumps(FEW)})
        found = three.get("/subjects/s/versions/4/explain?target=delta").json
        assert found["levels"]["NONE"]["compatible"]
        assert found["levels"]["FULL"]["messages"] == ["Incompatible because of different schema type"]
        assert {each["type"] for each in found["changes"]} == {"SCHEMA_TYPE_CHANGED"}

    @pytest.mark.parametrize(
        ("query", "error"),
        [
            ("s/versions/9/explain", (404, 40402)),
            ("no/versions/1/explain", (404, 40401)),
            ("s/versions/x/explain", (422, 42202)),
            ("s/versions/1/explain?against=x", (422, 42202)),
            ("s/versions/1/explain?against=9", (404, 40402)),
            ("s/versions/1/explain?target=hudi", (422, 422)),
            ("s/versions/1/explain?compatibilityPolicy=LAX", (422, 422)),
        ],
    )
    def test_faults(self, three: Api, query: str, error: tuple[int, int]) -> None:
        assert three.get(f"/subjects/{query}").error[:2] == error

    def test_what_cannot_be_read_is_named(self, three: Api) -> None:
        log = three.backend.log
        for number, (member, text) in {2: ("schema", "{"), 3: ("schemaType", "OTHER")}.items():
            record = next(each for each in log if b'"version":%d' % number in (each.key or b""))
            value = json.loads(record.value or b"")
            three.backend.append(record.key, json.dumps(value | {member: text}).encode())
        broken = three.get("/subjects/s/versions/2/explain?target=delta").json
        assert {each["type"] for each in broken["changes"]} == {"UNEXPECTED_EXCEPTION", "NO_LOGICAL_TYPE"}
        assert three.get("/subjects/s/versions/3/explain").error == (
            422, 42201, "version 3: Invalid schema type OTHER"
        )  # fmt: skip


class TestLenient:
    """Adding an optional property to an open JSON object, which Confluent's default refuses."""

    JSON = Requests("JSON")

    def test_by_default_it_is_refused_and_the_way_out_is_reported(self, api: Api) -> None:
        self.JSON.register(api, "s", json.dumps(FEW))
        refused = api.post("/subjects/s/versions", self.JSON.body(json.dumps(MORE)))
        assert refused.error[:2] == (409, 40901)
        found = api.post(f"{CHECK}?verbose=true", self.JSON.body(json.dumps(MORE))).json
        assert "set compatibilityPolicy to LENIENT" in found["changes"][0]["fix"]

    @pytest.mark.parametrize(
        ("scope", "subject"),
        [("/config/s", "s"), ("/config", "s"), ("/config/:.c:", ":.c:s"), ("/config/:.__GLOBAL:", ":.c:s")],
    )
    def test_it_is_opted_in_to_by_subject_context_or_all(self, api: Api, scope: str, subject: str) -> None:
        self.JSON.register(api, subject, json.dumps(FEW))
        api.put(scope, {"compatibilityPolicy": "LENIENT"})
        assert self.JSON.check(api, subject, json.dumps(MORE)) == []
        self.JSON.register(api, subject, json.dumps(MORE))

    def test_other_subjects_stay_strict(self, api: Api) -> None:
        for subject in ("s", "t"):
            self.JSON.register(api, subject, json.dumps(FEW))
        api.put("/config/s", {"compatibilityPolicy": "LENIENT"})
        assert self.JSON.check(api, "t", json.dumps(MORE)) != []

    def test_a_subject_may_be_strict_under_a_lenient_top(self, api: Api) -> None:
        self.JSON.register(api, "s", json.dumps(FEW))
        api.put("/config", {"compatibilityPolicy": "LENIENT"})
        api.put("/config/s", {"compatibility": "BACKWARD"})
        assert self.JSON.check(api, "s", json.dumps(MORE)) == []
        api.put("/config/s", {"compatibilityPolicy": "STRICT"})
        assert self.JSON.check(api, "s", json.dumps(MORE)) != []

    def test_the_other_types_know_no_lenient_policy(self, registered: Api) -> None:
        registered.put("/config/s", {"compatibilityPolicy": "LENIENT"})
        assert registered.post(CHECK, {"schema": person(NAME, AGE)}).json == {"is_compatible": False}
        proto = Requests("PROTOBUF")
        proto.register(registered, "p", 'syntax = "proto3"; message M { string a = 1; }')
        assert proto.check(registered, "p", 'syntax = "proto3"; message M { int32 a = 1; }') != []


class TestLarge:
    """Comparisons that would block the event loop too long are explained by a worker process, in the same
    words.
    """

    @pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
    def test_large_schemas_are_explained_too(self, api: Api, schema_type: str) -> None:
        old, new = LARGE[schema_type]
        requests = Requests(schema_type)
        requests.register(api, "s", old)
        found = api.post(f"{CHECK}?verbose=true", requests.body(new)).json
        assert len([each for each in found["changes"] if not each["compatible"]]) == 1000
        assert len(found["messages"]) == 1003
        text = api.post(CHECK, requests.body(new), accept="text/plain").body.decode()
        assert text.count("\n   fix: ") == 1000
        explained = api.post("/compatibility/explain", {
            "schemaType": schema_type, "old": {"schema": old}, "new": {"schema": new},
        })  # fmt: skip
        assert explained.json["levels"]["BACKWARD"]["messages"] == found["messages"][:-3]

    def test_many_versions_are_explained_too(self, api: Api) -> None:
        api.put("/config/s", {"compatibility": "FULL_TRANSITIVE"})
        for count in range(30):
            fields = [{"name": f"f{number}", "type": "int", "default": count} for number in range(30)]
            api.register("s", person(*fields))  # type: ignore[arg-type]
        found = api.post(f"{CHECK}?verbose=true", {"schema": person(AGE)}).json
        assert found["changes"][-1]["versionCompared"] == 30
        found = api.post(f"{CHECK}?verbose=true", {"schema": person()}).json
        assert found["is_compatible"]
        assert {each["versionCompared"] for each in found["changes"]} >= {30, 29, 28}


def fields(count: int, kind: str) -> list[dict[str, str]]:
    return [{"name": f"field_{number}", "type": kind} for number in range(count)]


def proto_fields(count: int, kind: str) -> str:
    lines = "".join(f"{kind} field_{number} = {number + 1}; " for number in range(count))
    return f'syntax = "proto3"; message M {{ {lines}}}'


def json_fields(count: int, kind: str) -> str:
    described = {"type": kind, "description": "large enough"}
    return json.dumps({"type": "object", "properties": {f"f{n}": described for n in range(count)}})


LARGE = {
    "AVRO": (person(*fields(1000, "int")), person(*fields(1000, "string"))),
    "JSON": (json_fields(1000, "integer"), json_fields(1000, "string")),
    "PROTOBUF": (proto_fields(1000, "int32"), proto_fields(1000, "string")),
}
