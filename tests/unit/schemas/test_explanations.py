"""Every change is explained with its parts, its lines and, if incompatible, a compatible alternative."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.schemas import (
    FORMATS,
    LENIENT,
    STRICT,
    Budget,
    Change,
    Dependency,
    Exhausted,
    InvalidSchema,
)
from registry.domain.schemas.avro import compatibility as avro
from registry.domain.schemas.avro.explaining import FIXES as AVRO_FIXES
from registry.domain.schemas.explaining import CHARACTERS_MAX, LINE_MAX, Lines, Spot, excerpt
from registry.domain.schemas.json_schema import changes as json_changes
from registry.domain.schemas.json_schema.explaining import FIXES as JSON_FIXES
from registry.domain.schemas.protobuf import changes
from registry.domain.schemas.protobuf.explaining import FIXES as PROTOBUF_FIXES
from tests.unit.schemas.test_json_schema_properties import Builder

CORPUS = Path(__file__).parents[2] / "corpus"
LENIENT_KINDS = {
    "ADDITIONAL_PROPERTIES_NARROWED", "ADDITIONAL_PROPERTIES_REMOVED",
    "UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_PROPERTIES_REMOVED",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}  # fmt: skip


def cases(kind):
    found = json.loads((CORPUS / f"{kind}_compatibility.json").read_text())
    return [pytest.param(kind, each, id=f"{kind}: {each['case']}") for each in found]


CASES = [*cases("avro"), *cases("json_schema"), *cases("protobuf")]
SCHEMA_TYPES = {"avro": "AVRO", "json_schema": "JSON", "protobuf": "PROTOBUF"}


def parsed(kind, case, side):
    text = case[side] if kind == "protobuf" else json.dumps(case[side])
    dependencies = [Dependency(*each) for each in (case.get(f"{side}_references") or {}).items()]
    return FORMATS[SCHEMA_TYPES[kind]].parse(text, dependencies)


def told(change):
    return change.type, change.path, change.message


def both_ways(old, new):
    return (("new", new, old), ("old", old, new))


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_what_is_explained_is_the_verdict(kind, case):
    served = FORMATS[SCHEMA_TYPES[kind]]
    old, new = parsed(kind, case, "old"), parsed(kind, case, "new")
    for policy in (STRICT, LENIENT):
        for reader_is, reader, writer in both_ways(old, new):
            changes = served.changes(reader, writer, reader_is, policy=policy, lines=True)
            differences = served.differences(reader, writer, reader_is, policy=policy)
            assert [told(each) for each in changes if not each.compatible] == [
                (each.type, each.path, each.text) for each in differences
            ]
            for each in changes:
                check_explained(each)


def check_explained(change: Change) -> None:
    assert bool(change.fix) is not change.compatible
    assert bool(change.message) is not change.compatible
    assert "\n" not in change.fix
    assert change.old or change.new or change.type == "UNEXPECTED_EXCEPTION"
    for part in (change.old, change.new):
        if part is not None:
            assert 0 < len(part.text) <= CHARACTERS_MAX
            assert len(part.shown) <= LINE_MAX
            assert bool(part.shown) is bool(part.line)


def test_every_kind_of_change_that_does_harm_has_a_fix_for_both_directions():
    assert set(AVRO_FIXES) == {*avro._DESCRIPTIONS, "UNEXPECTED_EXCEPTION"}
    assert set(JSON_FIXES) == {*json_changes._SENTENCES, "SCHEMA_ADDED"}
    assert set(PROTOBUF_FIXES) == set(changes._SENTENCES)
    for fixes in (AVRO_FIXES, JSON_FIXES, PROTOBUF_FIXES):
        for kind, fix in fixes.items():
            for sentence in fix:
                assert sentence, kind
                sentence.format(name="n", old="o", new="w")


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_what_is_explained_of_random_schemas_is_the_verdict(seed):
    served = FORMATS["JSON"]
    builder = Builder(random.Random(seed))
    one, other = (served.parse(json.dumps(builder.document())) for _ in range(2))
    try:
        for reader_is, reader, writer in both_ways(one, other):
            changes = served.changes(reader, writer, reader_is, Budget(100_000), lines=True)
            differences = served.differences(reader, writer, reader_is, Budget(100_000))
            assert [told(each) for each in changes if not each.compatible] == [
                (each.type, each.path, each.text) for each in differences
            ]
    except (Exhausted, InvalidSchema):
        return


def harmful(schema_type, old, new, level, policy=STRICT):
    served = FORMATS[schema_type]
    before, after = served.parse(old), served.parse(new)
    pair = (after, before, "new") if level == "BACKWARD" else (before, after, "old")
    changes = served.changes(*pair, policy=policy, lines=True)
    return [each for each in changes if not each.compatible]


def record(*fields, name="R", **more):
    return json.dumps({"type": "record", "name": name, "fields": fields, **more})


def field(name, kind="int", **more):
    return {"name": name, "type": kind, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


def obj(properties, **more):
    return json.dumps({"type": "object", "properties": properties, **more})


def message(*lines):
    return 'syntax = "proto3"; message M {' + " ".join(lines) + "}"


STRING, INT, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
CLOSED = {"additionalProperties": False}
A = field("a")


@pytest.mark.parametrize(
    ("level", "schema_type", "old", "new", "kind", "fix", "mended"),
    [
        ("BACKWARD", "AVRO", record(A), record(A, field("age")), "READER_FIELD_MISSING_DEFAULT_VALUE",
         "give `age` a default", record(A, field("age", default=0))),
        ("FORWARD", "AVRO", record(A, field("b")), record(A), "READER_FIELD_MISSING_DEFAULT_VALUE",
         "keep the field `b`, which has no default in the old schema", record(A, field("b"))),
        ("BACKWARD", "AVRO", record(A), record(A, name="S"), "NAME_MISMATCH",
         'keep the name "R", or add its full name to the aliases of "S"',
         record(A, name="S", aliases=["R"])),
        ("BACKWARD", "AVRO", record(field("e", enum("X", "Y"))), record(field("e", enum("X"))),
         "MISSING_ENUM_SYMBOLS", 'keep all symbols of `E` (["X","Y"]), or give the enum a default',
         record(field("e", enum("X", default="X")))),
        ("FORWARD", "AVRO", record(field("e", enum("X"))), record(field("e", enum("X", "Y"))),
         "MISSING_ENUM_SYMBOLS", 'add no symbols to `E`, which has no default in the old schema: ["X"]',
         record(field("e", enum("X")))),
        ("BACKWARD", "AVRO", record(field("a", "int")), record(field("a", "string")), "TYPE_MISMATCH",
         'keep the type "int" of `a`, or use a type that it can be promoted to, or a union with it',
         record(field("a", ["int", "string"]))),
        ("FORWARD", "AVRO", record(field("a", "long")), record(field("a", "double")), "TYPE_MISMATCH",
         'keep the type "long" of `a`, or use a type that can be promoted to it',
         record(field("a", "int"))),
        ("BACKWARD", "AVRO", record(field("a", ["null", "int"])), record(field("a", ["null", "string"])),
         "MISSING_UNION_BRANCH", 'keep all branches in the union of `a`: ["null","int"]',
         record(field("a", ["null", "int", "string"]))),
        ("BACKWARD", "JSON", obj({"a": {**STRING, "maxLength": 9}}), obj({"a": {**STRING, "maxLength": 8}}),
         "MAX_LENGTH_DECREASED", "keep `maxLength` at 9 or more", obj({"a": {**STRING, "maxLength": 10}})),
        ("FORWARD", "JSON", obj({"a": {**STRING, "maxLength": 9}}), obj({"a": {**STRING, "maxLength": 10}}),
         "MAX_LENGTH_DECREASED", "keep `maxLength` at 9 or less", obj({"a": {**STRING, "maxLength": 8}})),
        ("BACKWARD", "JSON", obj({"a": INT}), obj({"a": {**INT, "minimum": 1}}), "MINIMUM_ADDED",
         "remove `minimum`, which the old schema lacks", obj({"a": INT})),
        ("BACKWARD", "JSON", obj({"a": {**INT, "multipleOf": 2}}), obj({"a": {**INT, "multipleOf": 4}}),
         "MULTIPLE_OF_EXPANDED", "keep `multipleOf` at 2, or use a divisor of it",
         obj({"a": {**INT, "multipleOf": 1}})),
        ("BACKWARD", "JSON", obj({"a": {"enum": [1, 2]}}), obj({"a": {"enum": [1, 3]}}), "ENUM_ARRAY_CHANGED",
         "keep all values of the old schema: [1,2]", obj({"a": {"enum": [1, 2, 3]}})),
        ("BACKWARD", "JSON", obj({"a": INT}), obj({"a": INT}, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED",
         "do not require `a`, or give it a default", obj({"a": {**INT, "default": 1}}, required=["a"])),
        ("BACKWARD", "JSON", obj({"a": INT}), obj({"a": INT, "b": STRING}),
         "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
         "use an empty schema for `b`, or set compatibilityPolicy to LENIENT: the old schema is open, so its "
         "data may have any value there", obj({"a": INT, "b": {}})),
        ("BACKWARD", "JSON", obj({"a": INT, "b": INT}, **CLOSED), obj({"a": INT}, **CLOSED),
         "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
         "keep `b`, or permit additional properties, or set compatibilityPolicy to LENIENT", obj({"a": INT})),
        ("BACKWARD", "JSON", obj({"a": INT}), obj({"a": STRING}), "TYPE_CHANGED",
         'keep the type {"type":"integer"}, or accept both types by `anyOf`',
         obj({"a": {"anyOf": [INT, STRING]}})),
        ("BACKWARD", "JSON", obj({"a": NUMBER}), obj({"a": INT}), "TYPE_NARROWED",
         'keep the type "number": not every number is an integer', obj({"a": NUMBER})),
        ("BACKWARD", "JSON", obj({"a": {"oneOf": [INT, STRING]}}), obj({"a": {"allOf": [INT, STRING]}}),
         "COMBINED_TYPE_CHANGED", "keep the combination of the old schema, or use `anyOf`",
         obj({"a": {"anyOf": [INT, STRING]}})),
        ("BACKWARD", "PROTOBUF", message("string a = 1;"), message("int32 a = 1;"),
         "FIELD_SCALAR_KIND_CHANGED",
         "keep `string a = 1;`, or reserve its number and give the new field another one; only types with "
         "the same encoding are interchangeable", message("reserved 1; int32 a = 2;")),
        ("BACKWARD", "PROTOBUF", message("oneof o { int32 a = 1; int32 b = 2; }"),
         message("oneof o { int32 a = 1; }"), "ONEOF_FIELD_REMOVED",
         "keep `int32 b = 2;` in its oneof, or remove the whole oneof with all its fields", message()),
        ("FORWARD", "PROTOBUF", message("oneof o { int32 a = 1; }"),
         message("oneof o { int32 a = 1; int32 b = 2; }"), "ONEOF_FIELD_REMOVED",
         "declare `b` outside of the oneof: the old schema has to know all of its fields",
         message("oneof o { int32 a = 1; } int32 b = 2;")),
        ("BACKWARD", "PROTOBUF", message("message N {}"), message(), "MESSAGE_REMOVED",
         "keep the message `N`, even if no field uses it any more", message("message N {}")),
        ("BACKWARD", "PROTOBUF", message("int32 a = 1; int32 b = 2;"),
         message("oneof o { int32 a = 1; int32 b = 2; }"), "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
         "move at most one field that stood alone into a new oneof: leave the others of `o` outside",
         message("oneof o { int32 a = 1; } int32 b = 2;")),
    ],
)  # fmt: skip
def test_what_the_fix_says_passes(level, schema_type, old, new, kind, fix, mended):
    found = {each.type: each for each in harmful(schema_type, old, new, level)}
    assert found[kind].fix == fix
    assert harmful(schema_type, old, mended, level) == []


def test_the_lenient_policy_passes_where_a_fix_names_it():
    named = set()
    corpus = json.loads((CORPUS / "json_schema_compatibility.json").read_text())
    for level, each in product(("BACKWARD", "FORWARD"), corpus):
        if not LENIENT_KINDS & {text.split()[0] for text in each["changes"] + each["reverse_changes"]}:
            continue
        old, new = (json.dumps(each[side]) for side in ("old", "new"))
        strict = harmful("JSON", old, new, level)
        lenient = {(each.type, each.path) for each in harmful("JSON", old, new, level, LENIENT)}
        for change in strict:
            if "LENIENT" in change.fix:
                named.add(change.type)
                assert (change.type, change.path) not in lenient
    assert named == LENIENT_KINDS


def test_the_lenient_policy_accepts_what_it_is_said_to_and_nothing_else():
    assert json_changes.harmless_under(LENIENT) - json_changes.HARMLESS == LENIENT_KINDS
    for policy in (STRICT, "LOGICAL", "odd"):
        assert json_changes.harmless_under(policy) == json_changes.HARMLESS


def test_parts_stand_in_the_lines_that_are_named():
    [change] = harmful("AVRO", record(A, field("b", enum("X", "Y"))), record(A, field("b", enum("X"))),
                       "BACKWARD")  # fmt: skip
    assert change.old == ('["X","Y"]', 14, '"symbols": ["X","Y"]')
    assert change.new == ('["X"]', 14, '"symbols": ["X"]')
    [change] = harmful("PROTOBUF", message("message N { oneof o { string s = 1; } }"),
                       message("message N { oneof o { bool s = 1; } }"), "BACKWARD")  # fmt: skip
    assert change.old == ("string s = 1;", 6, "string s = 1;")
    assert change.new == ("bool s = 1;", 6, "bool s = 1;")


def test_what_a_referred_schema_says_has_no_line():
    served = FORMATS["JSON"]
    named = json.dumps({"$ref": "other.json"})
    old = served.parse(named, [Dependency("other.json", '{"type":"string"}')])
    new = served.parse(named, [Dependency("other.json", '{"type":"string","maxLength":3}')])
    [change] = served.changes(new, old, "new", lines=True)
    assert (change.type, change.old) == ("MAX_LENGTH_ADDED", None)
    assert change.new == ("3", 0, "")


def test_lines_are_those_of_json_tool():
    value = {"a": [1, {"b": [], "c": {}}, "é"], "d": {"e": None}, "f": True}
    lines = Lines(value)
    assert "\n".join(lines.lines) == json.dumps(value, indent=2, ensure_ascii=False)
    assert lines.part(Spot(value["a"][1], "c")) == ("{}", 6, '"c": {}')
    assert lines.part(Spot(value, "d")) == ('{"e":null}', 10, '"d": {"e":null}')
    assert lines.part(Spot(value)) == (excerpt(value), 1, excerpt(value))
    assert Lines("int").part(Spot("int")) == ('"int"', 1, '"int"')


def test_long_parts_are_cut_and_deep_ones_shown_all_the_same():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    assert excerpt(deep) == "[" * (CHARACTERS_MAX - 1) + "…"
    assert len(excerpt({"a": "x" * 10_000, "b": list(range(10**5))})) == CHARACTERS_MAX
    assert len(Lines(deep).lines) == 20_001
    assert Lines(list(range(300_000))).lines == []
