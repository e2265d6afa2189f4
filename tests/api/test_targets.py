"""Targets: engines and table formats whose tables must be able to follow a new schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.domain.policies import parse
from registry.domain.queries.scope import Defaults
from registry.domain.schemas.logical.engines import TARGETS
from registry.domain.target_names import TARGET_NAMES
from tests.api.driver import Api
from tests.api.permitting import PermittingApi, rule
from tests.unit.small_registry import record

POLICIES = parse("""
[[policy]]
subjects = ["refused"]
targets = ["delta"]

[[policy]]
subjects = ["warned"]
target_warnings = ["delta"]
""")
OLD, ADDED = record("R", "a"), record("R", "a", "b")
CHECK = "/compatibility/subjects/s/versions/latest"
ADDED_TEXT = (
    "REQUIRED_FIELD_ADDED at 'b': added column is not nullable, "
    "and rows written before it existed read as null"
)


@pytest.fixture
def api() -> Iterator[Api]:
    settings = ApiSettings(policies=lambda: POLICIES, defaults=Defaults(policies=POLICIES))
    with Api(settings=settings) as api:
        api.put("/config", {"compatibility": "NONE"})
        yield api


def register(api: Api, subject: str, schema: str) -> Any:
    return api.post(f"/subjects/{subject}/versions", {"schema": schema})


def test_each_name_is_that_of_an_engine() -> None:
    assert tuple(TARGETS) == TARGET_NAMES


def test_a_policy_refuses_what_the_table_cannot_follow(api: Api) -> None:
    assert register(api, "refused", OLD).status == 200
    refused = register(api, "refused", ADDED)
    assert refused.error == (
        409,
        40901,
        'Schema being registered is incompatible with an earlier schema for subject "refused", details: '
        f"[Target delta: {ADDED_TEXT}, {{validateFields: 'false', compatibility: 'NONE'}}]",
    )
    check = api.post("/compatibility/subjects/refused/versions/latest", {"schema": ADDED})
    assert check.json == {"is_compatible": False}
    nullable = OLD.replace("}]", '},{"name":"b","type":["null","int"]}]')
    assert register(api, "refused", nullable).status == 200


def test_force_registers_it_all_the_same(api: Api) -> None:
    register(api, "refused", OLD)
    assert api.post("/subjects/refused/versions?force=true", {"schema": ADDED}).status == 200


def test_a_policy_that_warns_answers_with_a_header_for_each_finding(api: Api) -> None:
    assert "x-registry-targets" not in register(api, "warned", OLD).headers
    warned = register(api, "warned", ADDED)
    assert warned.status == 200
    assert "REQUIRED_FIELD_ADDED at 'b'" in warned.headers["x-registry-targets"]
    assert "x-registry-targets" not in register(api, "s", ADDED).headers


def test_a_check_asks_for_targets(api: Api) -> None:
    register(api, "s", OLD)
    assert api.post(CHECK, {"schema": ADDED}).json == {"is_compatible": True}
    assert api.post(f"{CHECK}?target=delta", {"schema": ADDED}).json == {"is_compatible": False}
    found = api.post(f"{CHECK}?target=Delta,flink&target=parquet&verbose=true", {"schema": ADDED}).json
    assert [each.partition(":")[0] for each in found["messages"]] == [
        "Target delta", "Target flink", "Target parquet", "{validateFields",
    ]  # fmt: skip
    assert {each["fix"] for each in found["changes"] if not each["compatible"]} == {
        f"make the field nullable ({name})" for name in ("delta", "flink", "parquet")
    }
    assert {each["engine"]: each["reason"] for each in found["changes"] if "engine" in each} == {
        "delta": ADDED_TEXT.partition(": ")[2],
        "flink": "added column is neither nullable nor defaulted, so rows written before it existed have no "
        "value for it",
        "parquet": ADDED_TEXT.partition(": ")[2],
    }


def test_the_text_report_says_what_is_wrong_and_what_to_write(api: Api) -> None:
    register(api, "s", OLD)
    report = api.post(f"{CHECK}?target=delta", {"schema": ADDED}, accept="text/plain").body.decode()
    assert "   added column is not nullable, and rows written before it existed read as null\n" in report
    assert "   fix: make the field nullable (delta)\n" in report


def test_an_unknown_target_is_refused_with_those_there_are(api: Api) -> None:
    refused = api.post(f"{CHECK}?target=hudi", {"schema": OLD})
    assert refused.error == (422, 422, f"target: unknown target hudi; there are {', '.join(TARGET_NAMES)}")


def test_two_schemas_are_explained_for_targets(api: Api) -> None:
    body = {"schemaType": "AVRO", "old": {"schema": OLD}, "new": {"schema": ADDED}, "targets": ["delta"]}
    found = api.post("/compatibility/explain", body).json
    assert found["levels"]["NONE"] == {"compatible": False, "messages": [f"Target delta: {ADDED_TEXT}"]}
    assert found["levels"]["FORWARD"]["messages"] == [f"Target delta: {ADDED_TEXT}"]
    assert [(each["engine"], each["direction"]) for each in found["changes"] if "engine" in each] == [
        ("delta", "BACKWARD")
    ]
    del body["targets"]
    assert api.post("/compatibility/explain?target=delta", body).json == found


def test_a_rename_is_seen_by_alias_and_by_number(api: Api) -> None:
    old = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    new = '{"type": "record", "name": "R", "fields": [{"name": "b", "type": "int", "aliases": ["a"]}]}'
    for kind, before, after in (
        ("AVRO", old, new),
        *[("PROTOBUF", *(f'syntax = "proto3"; message M {{ int32 {name} = 1; }}' for name in "ab"))],
    ):
        body = {
            "schemaType": kind,
            "old": {"schema": before},
            "new": {"schema": after},
            "targets": ["duckdb"],
        }
        assert api.post("/compatibility/explain", body).json["levels"]["NONE"]["messages"] == [
            "Target duckdb: FIELD_RENAMED at 'b': field was named 'a', and columns are matched by name"
        ]


def test_a_transitive_level_compares_with_every_version(api: Api) -> None:
    api.put("/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
    for each in (record("R", "a?"), record("R", "a?", "b?"), record("R", "a?")):
        register(api, "s", each)
    without_a = {"schema": record("R", "b?")}
    found = api.post("/compatibility/subjects/s/versions?target=iceberg-v2&verbose=true", without_a).json
    assert {each["versionCompared"] for each in found["changes"] if each["type"] == "FIELD_DELETED"} == {1, 2}


def test_a_warning_shows_nothing_of_a_version_that_may_not_be_read() -> None:
    rules = rule("reader", "read,write", "warned") + rule("writer", "write", "warned")
    for user, is_warned in (("writer", False), ("reader", True)):
        with PermittingApi(rules, ApiSettings(policies=lambda: POLICIES)) as api:
            api.put("/config", {"compatibility": "NONE"})
            api.post("/subjects/warned/versions", {"schema": OLD})
            reply = api.request("POST", "/subjects/warned/versions", {"schema": ADDED}, user=user)
            assert reply.status == 200
            assert ("x-registry-targets" in reply.headers) is is_warned


def test_a_version_is_shown_as_the_table_that_it_describes(api: Api) -> None:
    """Only a version and its text know the format, as in Confluent 8.4; others show the stored text."""
    registered = register(api, "s", OLD).json
    stored = api.get("/subjects/s/versions/1").json
    table = "STRUCT R (a INT NOT NULL);\n"
    shown = api.get("/subjects/s/versions/1?format=Logical").json
    assert shown == stored | {"schema": table}
    assert api.get("/subjects/s/versions/latest/schema?format=logical").body.decode() == table
    for other in (f"/schemas/ids/{registered['id']}", "/subjects/s/metadata"):
        assert api.get(f"{other}?format=logical").json["schema"] == stored["schema"]
    register(api, "n", '"null"')
    assert api.get("/subjects/n/versions/1?format=logical").error == (
        422,
        42201,
        "Stored schema cannot be represented as a logical type: Standalone NULL type is not supported",
    )


def versions(schema_type: str, fields: int = 40) -> tuple[str, str]:
    """Return a schema with many fields, and one with an optional field more."""
    types = ("int", "long", "string", "boolean")
    if schema_type == "AVRO":
        columns = [{"name": f"f{each}", "type": ["null", types[each % 4]]} for each in range(fields)]
        added = {"name": "z", "type": ["null", "int"], "default": None}
        old, new = (
            json.dumps({"type": "record", "name": "R", "fields": each})
            for each in (columns, [*columns, added])
        )
        return old, new
    if schema_type == "JSON":
        properties = {f"f{each}": {"type": "string"} for each in range(fields)}
        old, new = (
            json.dumps({"type": "object", "additionalProperties": False, "properties": each})
            for each in (properties, properties | {"z": {"type": "integer"}})
        )
        return old, new
    text = 'syntax = "proto3"; message M { %s }'
    numbered = " ".join(f"optional string f{each} = {each + 1};" for each in range(fields))
    return text % numbered, text % f"{numbered} optional int32 z = {fields + 1};"


@pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
def test_a_registration_under_logical_takes_at_most_twice_the_calls(schema_type: str) -> None:
    taken: dict[str, int] = {}
    for policy in ("STRICT", "STRICT", "LOGICAL", "LOGICAL"):  # the first time, modules are loaded
        with Api() as api:
            api.put("/config", {"compatibility": "BACKWARD", "compatibilityPolicy": policy})
            first, second = ({"schema": each, "schemaType": schema_type} for each in versions(schema_type))
            assert api.post("/subjects/s/versions", first).status == 200
            taken[policy] = 0

            def note(frame: Any, event: str, argument: Any, policy: str = policy) -> None:
                taken[policy] += event in ("call", "c_call")

            before = sys.getprofile()
            sys.setprofile(note)
            try:
                assert api.post("/subjects/s/versions", second).status == 200
            finally:
                sys.setprofile(before)
    assert 0 < taken["STRICT"] < taken["LOGICAL"] <= 2 * taken["STRICT"]


@pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
def test_the_schema_of_a_table_is_parsed_once(api: Api, schema_type: str) -> None:
    """Neither reader nor primary reads again what DDL makes: it is known to be valid and canonical."""
    parsed: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "parse" and "format.py" in frame.f_code.co_filename:
            parsed.append(frame.f_locals["text"])

    def declare(body: dict[str, Any]) -> Any:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            return api.post("/subjects/s/versions?format=logical", {"schemaType": schema_type, **body}).json
        finally:
            sys.setprofile(before)

    made = declare({"schema": "STRUCT P (a INT NOT NULL, b BINARY(2))"})
    assert len(parsed) == 1
    sent = {"schemaType": schema_type, "schema": made["schema"]}
    assert api.post("/subjects/s/versions", sent).json == made
    assert api.post("/subjects/s/versions?normalize=true", sent).json == made
