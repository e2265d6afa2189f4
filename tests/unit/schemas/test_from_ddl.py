"""Schemas from DDL: what each format makes of it, and what is refused (``format=logical`` in a registration).

The rows and texts are those of Confluent 8.4, but for dates that do not exist, and what its formats cannot
hold: it answers 500.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.schemas import FORMATS, STEPS_MAX, Budget, Dependency, Exhausted, InvalidSchema
from registry.domain.schemas.logical import comparing, script, tokens
from registry.domain.schemas.logical.ddl import ddl
from registry.domain.schemas.logical.engines import FLINK, ICEBERG_V2

CORPUS = Path(__file__).parents[2] / "corpus"
KINDS = ("AVRO", "JSON", "PROTOBUF")


def native(
    text: str,
    kind: str,
    *dependencies: Dependency,
    subject: str = "orders-value.v1",
    steps: int = STEPS_MAX,
) -> str:
    budget = Budget(steps)
    declared = script.read(text, budget)
    return FORMATS[kind].from_logical(declared, tokens.root_name(subject), dependencies, budget)


def table(schema: str, kind: str) -> str:
    return ddl(FORMATS[kind].parse(schema).logical(Budget()), "orders-value.v1", Budget())


def refusal(text: str, kind: str = "AVRO") -> str:
    with pytest.raises(InvalidSchema) as refused:
        native(text, kind)
    return str(refused.value)


def in_avro(column: str) -> dict[str, Any]:
    field: dict[str, Any] = json.loads(native(f"STRUCT P (x {column})", "AVRO"))["fields"][0]
    return field


def in_json(column: str) -> Any:
    declared = json.loads(native(f"STRUCT P (x {column})", "JSON"))["$defs"]["P"]
    found = dict(declared["properties"]["x"])
    assert found.pop("connect.index") == 0
    assert ("x" in declared.get("required", ())) is (found.get("oneOf", [None])[0] != {"type": "null"})
    return found


def in_protobuf(column: str) -> str:
    text = native(f"STRUCT P (x {column})", "PROTOBUF").partition("message P {\n")[2]
    return " ".join(text.rpartition("}")[0].replace("{ key:", "{key:").split())


FLINK_VERSION = {"flink.version": "1"}
CONNECT = "org.apache.kafka.connect.data."


def meta(**params: str) -> str:
    """Return the option that holds parameters, whose names have dots for double underscores."""
    named = {name.replace("__", "."): value for name, value in params.items()} | FLINK_VERSION
    listed = ", ".join(f'{{ key: "{key}", value: "{named[key]}" }}' for key in sorted(named))
    return f"[(confluent.field_meta) = {{ params: [ {listed} ] }}]".replace("{ key", "{ key")


NUMBER = {"type": "number"}


def connected(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "number", "connect.type": name} | more


@pytest.mark.parametrize(
    ("column", "avro", "json_schema"),
    [
        ("BOOLEAN", "boolean", {"type": "boolean"}),
        ("TINYINT", {"type": "int", "connect.type": "int8"}, connected("int8")),
        ("SMALLINT", {"type": "int", "connect.type": "int16"}, connected("int16")),
        ("INTEGER", "int", connected("int32")),
        ("BIGINT", "long", connected("int64")),
        ("REAL", "float", connected("float32")),
        ("DOUBLE PRECISION", "double", connected("float64")),
        ("STRING", "string", {"type": "string"}),
        (
            "CHARACTER VARYING(5)",
            {"type": "string", "flink.maxLength": 5} | FLINK_VERSION,
            {"type": "string", "maxLength": 5},
        ),
        (
            "VARCHAR(-1)",
            {"type": "string", "flink.maxLength": 1} | FLINK_VERSION,
            {"type": "string", "maxLength": 1},
        ),
        (
            "CHAR(3)",
            {"type": "string", "flink.maxLength": 3, "flink.minLength": 3} | FLINK_VERSION,
            {"type": "string", "minLength": 3, "maxLength": 3},
        ),
        ("BYTES", "bytes", {"type": "string", "connect.type": "bytes"}),
        (
            "VARBINARY(4)",
            {"type": "bytes", "flink.maxLength": 4} | FLINK_VERSION,
            {"type": "string", "connect.type": "bytes", "flink.maxLength": 4} | FLINK_VERSION,
        ),
        (
            "BINARY(4)",
            {"type": "fixed", "name": "P_x", "size": 4},
            {"type": "string", "connect.type": "bytes", "flink.minLength": 4, "flink.maxLength": 4}
            | FLINK_VERSION,
        ),
        (
            "NUMERIC(10, 2)",
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            connected(
                "bytes",
                title=f"{CONNECT}Decimal",
                **{"connect.parameters": {"connect.decimal.precision": "10", "scale": "2"}},
            ),
        ),
        ("DATE", {"type": "int", "logicalType": "date"}, connected("int32", title=f"{CONNECT}Date")),
        (
            "TIME",
            {"type": "int", "logicalType": "time-millis", "flink.precision": 0} | FLINK_VERSION,
            connected("int32", title=f"{CONNECT}Time", **{"flink.precision": 0} | FLINK_VERSION),
        ),
        (
            "TIME(9)",
            {"type": "long", "logicalType": "time-micros", "flink.precision": 9} | FLINK_VERSION,
            connected("int32", title=f"{CONNECT}Time", **{"flink.precision": 9} | FLINK_VERSION),
        ),
        (
            "TIMESTAMP(3) WITHOUT TIME ZONE",
            {"type": "long", "logicalType": "local-timestamp-millis"},
            connected("int64", **{"flink.type": "timestamp"} | FLINK_VERSION),
        ),
        (
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
            {"type": "long", "logicalType": "timestamp-millis"},
            connected("int64", title=f"{CONNECT}Timestamp"),
        ),
        (
            "TIMESTAMP_LTZ(8)",
            {"type": "long", "logicalType": "timestamp-nanos", "flink.precision": 8} | FLINK_VERSION,
            connected("int64", title=f"{CONNECT}Timestamp", **{"flink.precision": 8} | FLINK_VERSION),
        ),
        (
            "VARIANT",
            {
                "type": "record",
                "name": "Variant",
                "namespace": "confluent.type",
                "fields": [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}],
                "logicalType": "variant",
            },
            {},
        ),
        (
            "ARRAY<INT NOT NULL>",
            {"type": "array", "items": "int"},
            {"type": "array", "items": connected("int32")},
        ),
        (
            "MAP<STRING NOT NULL, INT NOT NULL>",
            {"type": "map", "values": "int"},
            {"type": "object", "additionalProperties": connected("int32"), "connect.type": "map"},
        ),
        (
            "MAP<CHAR(2) NOT NULL, INT NOT NULL>",
            {"type": "map", "values": "int", "logical.key.length": 2, "logical.key.type": "CHAR"},
            {
                "type": "object",
                "additionalProperties": connected("int32"),
                "connect.type": "map",
                "logical.key.length": 2,
                "logical.key.type": "CHAR",
            },
        ),
        (
            "MAP<INT NOT NULL, STRING>",
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "P_x_Entry",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", "string"]}],
                    "connect.internal.type": "MapEntry",
                },
                "logicalType": "map",
            },
            {
                "type": "array",
                "connect.type": "map",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "key": connected("int32"),
                        "value": {"oneOf": [{"type": "null"}, {"type": "string"}]},
                    },
                },
            },
        ),
        (
            "MULTISET<STRING NOT NULL>",
            {"type": "map", "values": "int", "flink.type": "multiset"} | FLINK_VERSION,
            {
                "type": "object",
                "additionalProperties": connected("int32"),
                "connect.type": "map",
                "flink.type": "multiset",
            }
            | FLINK_VERSION,
        ),
        (
            "ROW(a INT NOT NULL)",
            {
                "type": "record",
                "name": "P_x",
                "fields": [{"name": "a", "type": "int"}],
                "logical.anonymous": "true",
            },
            {
                "type": "object",
                "title": "P_x",
                "additionalProperties": False,
                "required": ["a"],
                "properties": {"a": connected("int32", **{"connect.index": 0})},
            },
        ),
    ],
)
def test_types_in_avro_and_json_schema(column: str, avro: Any, json_schema: Any) -> None:
    assert in_avro(f"{column} NOT NULL") == {"name": "x", "type": avro}
    assert in_avro(column) == {"name": "x", "type": ["null", avro]}
    assert in_json(f"{column} NOT NULL") == json_schema
    assert in_json(column) == {"oneOf": [{"type": "null"}, json_schema]}


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("INT", "optional int32 x = 1;"),
        ("INT NOT NULL", "int32 x = 1;"),
        ("DATE", "optional .google.type.Date x = 1;"),
        ("DATE NOT NULL", f".google.type.Date x = 1 {meta(flink__notNull='true')};"),
        ("SMALLINT NOT NULL", f"int32 x = 1 {meta(connect__type='int16')};"),
        ("VARCHAR(5) NOT NULL", f"string x = 1 {meta(flink__maxLength='5')};"),
        ("BINARY(2) NOT NULL", f"bytes x = 1 {meta(flink__maxLength='2', flink__minLength='2')};"),
        ("DECIMAL(4, 1)", f"optional .confluent.type.Decimal x = 1 {meta(precision='4', scale='1')};"),
        ("TIME(9)", "optional .google.type.TimeOfDay x = 1;"),
        ("TIMESTAMP_LTZ(9)", "optional .google.protobuf.Timestamp x = 1;"),
        ("TIMESTAMP(9)", f"optional .google.protobuf.Timestamp x = 1 {meta(flink__type='timestamp')};"),
        ("VARIANT", "optional .confluent.type.Variant x = 1;"),
        ("INT NOT NULL ARRAY NOT NULL", "repeated int32 x = 1;"),
        (
            "ARRAY<INT> NOT NULL",
            f"repeated .P.XElementWrapper x = 1 {meta(flink__wrapped='true')}; "
            "message XElementWrapper { optional int32 value = 1; }",
        ),
        (
            "ARRAY<INT NOT NULL>",
            f".P.XRepeatedWrapper x = 1 {meta(flink__wrapped='true')}; "
            "message XRepeatedWrapper { repeated int32 value = 1; }",
        ),
        (
            "MAP<STRING NOT NULL, INT> NOT NULL",
            "repeated .P.XEntry x = 1; message XEntry { string key = 1; optional int32 value = 2; }",
        ),
        (
            "MULTISET<INT NOT NULL> NOT NULL",
            f"repeated .P.XEntry x = 1 {meta(flink__type='multiset')}; "
            "message XEntry { int32 key = 1; int32 value = 2; }",
        ),
        ("UNION<a INT, b STRING>", "oneof x { int32 a = 1; string b = 2; }"),
        (
            "UNION<a ARRAY<INT NOT NULL> NOT NULL>",
            f"oneof x {{ .P.ARepeatedWrapper a = 1 {meta(flink__wrapped='true')}; }} "
            "message ARepeatedWrapper { repeated int32 value = 1; }",
        ),
        ("STRUCT<a INT>", "optional .P.XRow x = 1; message XRow { optional int32 a = 1; }"),
    ],
)
def test_types_in_protobuf(column: str, field: str) -> None:
    assert in_protobuf(column) == field


def test_a_union_keeps_the_names_of_its_branches() -> None:
    union = "UNION<a INT NOT NULL, b STRING NOT NULL COMMENT 'why' WITH ('k' = 'v')>"
    names = [{"name": "a"}, {"doc": "why", "name": "b", "params": {"k": "v"}}]
    assert in_avro(f"{union} NOT NULL") == {"name": "x", "type": ["int", "string"], "confluent:union": names}
    assert in_avro(union)["type"] == ["null", "int", "string"]
    assert in_json(union) == {
        "oneOf": [{"type": "null"}, connected("int32"), {"type": "string"}], "confluent:union": names,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("column", "avro", "json_schema"),
    [
        ("INT DEFAULT NULL", None, None),
        ("BOOLEAN DEFAULT true", True, True),
        ("BIGINT DEFAULT -5", -5, -5),
        ("DOUBLE DEFAULT 1", 1.0, 1.0),
        ("VARCHAR(3) DEFAULT 'it''s'", None, None),
        ("STRING DEFAULT 'it''s'", "it's", "it's"),
        ("BYTES DEFAULT X'00fF'", "\u0000\u00ff", "AP8="),
        ("DECIMAL(6, 2) DEFAULT '12.3'", "\u0004\u00ce", "12.3"),
        ("DECIMAL(6, 2) DEFAULT -1.28", "\u0080", "-1.28"),
        ("DATE DEFAULT '2020-02-29'", 18_321, "2020-02-29"),
        ("DATE DEFAULT '0001-01-01'", -719_162, "0001-01-01"),
        ("TIME(3) DEFAULT '10:00:00.5'", 36_000_500, "10:00:00.500"),
        ("TIMESTAMP(9) DEFAULT '1969-12-31T23:59:59.999999999'", -1, "1969-12-31T23:59:59.999999999"),
        ("TIMESTAMP_LTZ(3) DEFAULT '2020-01-01T00:00:00Z'", 1_577_836_800_000, "2020-01-01T00:00:00Z"),
    ],
)
def test_defaults(column: str, avro: Any, json_schema: Any) -> None:
    if column.startswith("VARCHAR"):
        assert refusal(f"STRUCT P (x {column})").endswith("exceeds the declared length (4 > 3)")
        return
    assert in_avro(column)["default"] == avro
    assert in_json(column)["default"] == json_schema
    assert in_avro(column)["type"].index("null") == (avro is not None)


def test_what_is_said_about_parts_goes_along() -> None:
    text = """
        // A comment,
        /* and one that
        ends */
        STRUCT P (
          x INT NOT NULL COMMENT 'Key' TAGS ('PII', 'B') WITH ('k' = 'v', 'avro.aliases' = 'y, z',
                                                                'protobuf.field.number' = '7'),
          k K NOT NULL
        ) 'One row' TAGS ('T') WITH ('p' = 'q');
        ENUM K ('A' 'first' WITH ('n' = '1'), 'B') COMMENT 'Kind'
    """
    record = json.loads(native(text, "AVRO"))
    assert record["doc"] == "One row"
    assert (record["confluent:tags"], record["confluent:params"]) == (["T"], {"p": "q"})
    assert record["fields"][0] == {
        "name": "x", "type": "int", "doc": "Key", "aliases": ["y", "z"], "confluent:tags": ["PII", "B"],
        "confluent:params": {"k": "v"},
    }  # fmt: skip
    kind = record["fields"][1]["type"]
    assert (kind["doc"], kind["confluent:enum"]) == (
        "Kind", [{"doc": "first", "name": "A", "params": {"n": "1"}}, {"name": "B"}],
    )  # fmt: skip
    assert "optional" not in native(text, "PROTOBUF")
    assert "int32 x = 7" in native(text, "PROTOBUF")
    assert ".K k = 1" in native(text, "PROTOBUF")
    shown = table(native(text, "JSON"), "JSON")
    assert shown == (
        "STRUCT P (x INT NOT NULL COMMENT 'Key' TAGS ('PII', 'B') WITH ('k' = 'v'), k K NOT NULL) "
        "COMMENT 'One row' TAGS ('T') WITH ('p' = 'q');\n"
        "ENUM K ('A' COMMENT 'first' WITH ('n' = '1'), 'B') COMMENT 'Kind';\n"
    )


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("TYPE INT", '["null","int"]'),
        ("TYPE STRING NOT NULL;", '"string"'),
        (
            "STRUCT P (a INT NOT NULL); TYPE P",
            '["null",{"type":"record","name":"P","fields":[{"name":"a","type":"int"}]}]',
        ),
        (
            "NAMESPACE n; STRUCT P (a INT NOT NULL)",
            '{"type":"record","name":"P","namespace":"n","fields":[{"name":"a","type":"int"}]}',
        ),
        (
            "STRUCT A (x INT NOT NULL); STRUCT B (y INT NOT NULL)",
            '[{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]},'
            '{"type":"record","name":"B","fields":[{"name":"y","type":"int"}]}]',
        ),
        (
            "TYPE STRUCT<a INT NOT NULL> NOT NULL",
            '{"type":"record","name":"orders_value_v1","fields":[{"name":"a","type":"int"}],'
            '"logical.anonymous":"true"}',
        ),
    ],
)
def test_roots(text: str, root: str) -> None:
    assert native(text, "AVRO") == root


def test_names() -> None:
    text = """
        NAMESPACE com.x;
        STRUCT Outer (i Outer.Inner NOT NULL, o other.Bar NOT NULL, `date` INT, map INT);
        STRUCT Outer.Inner (a INT);
        struct other.Bar (b int)
    """
    record = json.loads(native(text, "AVRO"))
    inner = record["fields"][0]["type"]
    assert [record["namespace"], inner["name"], inner["namespace"]] == [
        "com.x", "Inner", "com.x.Outer",
    ]  # fmt: skip
    assert record["fields"][1]["type"]["namespace"] == "other"
    assert [each["name"] for each in record["fields"][2:]] == ["date", "map"]
    assert refusal(text, "PROTOBUF").startswith("Proto requires all named types to share the file's package")
    nested = native(text.replace("other.Bar", "Bar"), "PROTOBUF")
    assert "package com.x;" in nested
    assert "  .com.x.Outer.Inner i = 1" in nested
    assert "  message Inner {\n    option (confluent.message_meta)" in nested


def test_types_of_other_schemas_are_named() -> None:
    avro = Dependency("r", '{"type": "record", "name": "x.A", "fields": []}')
    assert native("STRUCT P (a x.A NOT NULL)", "AVRO", avro).endswith('{"name":"a","type":"x.A"}]}')
    assert refusal("STRUCT P (a FOO)") == "Unknown named type reference: FOO"
    proto = Dependency(
        "a.proto", 'syntax = "proto3"; package x; message A { message B {} } enum E { Z = 0; }'
    )
    text = native("STRUCT P (a x.A.B NOT NULL, e x.E NOT NULL)", "PROTOBUF", proto)
    assert 'import "a.proto";' in text
    assert ".x.A.B a = 1" in text
    assert "  .x.E e = 2;" in text
    json_schema = Dependency("http://e/a.json", '{"$defs": {"A": {"type": "string"}}}')
    text = native(
        "USING TYPE U FOR 'http://e/a.json'; STRUCT P (a A NOT NULL, u U NOT NULL)", "JSON", json_schema
    )
    assert '"a":{"$ref":"http://e/a.json#/$defs/A","connect.index":0}' in text
    assert '"U":{"$ref":"http://e/a.json","logical.ref":true}' in text
    assert refusal("USING TYPE U FOR 'u'; STRUCT P (u U)") == (
        "Cannot emit to Avro: LogicalType carries JSON-specific synthetic external imports [U]. Re-construct "
        "the LT against Avro-compatible externals."
    )


CHECK = "CHECK is not supported; write a rule in the request's ruleSet"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("STRUCT P (a INT ", "Parse error at line 1, col 17: mismatched input '<EOF>' expecting {',', ')'}"),
        (
            "STRUCT P (a INT);\nSTRUKT Q",
            "Parse error at line 2, col 1: mismatched input 'STRUKT' expecting {<EOF>, TYPE}",
        ),
        (
            "STRUCT P (date INT)",
            "Parse error at line 1, col 11: mismatched input 'date' expecting {ID, QUOTED_ID}",
        ),
        (
            "STRUCT P (a INT -- no\n)",
            "Parse error at line 1, col 17: mismatched input '-' expecting {',', ')'}",
        ),
        ("STRUCT P (a INT #)", "Parse error at line 1, col 17: token recognition error at: '#)'"),
        ("STRUCT P (id INT, id INT)", "Duplicate field: id"),
        ("ENUM E ('A', 'A')", "Duplicate enum symbol: A"),
        ("STRUCT P (a INT); STRUCT P (a INT)", "Duplicate named type: P"),
        ("STRUCT P (`a b` INT)", "Field name must not contain whitespace or control characters; got: 'a b'"),
        ("ENUM E ('a b')", "Enum symbol name must not contain whitespace or control characters; got: 'a b'"),
        (
            "STRUCT P (u UNION<`a b` INT>)",
            "Union branch name must not contain whitespace or control characters; got: 'a b'",
        ),
        ("STRUCT P (a INT DEFAULT 'x')", "Default literal 'x' is not compatible with type INT"),
        ("STRUCT P (a TINYINT DEFAULT 300)", "TINYINT default value out of range: 300"),
        ("STRUCT P (a INT ARRAY DEFAULT 1)", "Default values are not supported for type: ARRAY"),
        (
            "STRUCT P (a CHAR(3) DEFAULT 'ab')",
            "CHAR(3) default value 'ab' has 2 characters; must be exactly 3 (CHAR is fixed-length — use "
            "VARCHAR for variable length).",
        ),
        (
            "STRUCT P (a VARCHAR DEFAULT 'ab')",
            "VARCHAR(1) default value 'ab' exceeds the declared length (2 > 1)",
        ),
        (
            "STRUCT P (a BINARY(2) DEFAULT x'00')",
            "BINARY(2) default value has 1 bytes; must be exactly 2 (BINARY is fixed-length — use VARBINARY "
            "for variable length).",
        ),
        (
            "STRUCT P (a VARBINARY DEFAULT x'0000')",
            "VARBINARY(1) default value of 2 bytes exceeds the declared length (max 1)",
        ),
        (
            "STRUCT P (a BYTES DEFAULT x'0')",
            "Bytes literal x'0' has odd number of hex digits; must be even (each pair = one byte)",
        ),
        ("STRUCT P (a BYTES DEFAULT x'0g')", "Invalid hex character at position 0 in bytes literal x'0g'"),
        (
            "STRUCT P (a DECIMAL(4, 2) DEFAULT '1.234')",
            "DECIMAL(4, 2) default value '1.234' has scale 3 (more digits after the decimal point than "
            "declared scale)",
        ),
        (
            "STRUCT P (a DECIMAL(4, 2) DEFAULT '123.4')",
            "DECIMAL(4, 2) default value '123.4' exceeds declared precision (integer-part digits 3 > 2)",
        ),
        (
            "STRUCT P (a TIME DEFAULT '10:00:00.5')",
            "TIME(0) default value '10:00:00.5' has 1 fractional-second digits, exceeds the declared "
            "precision (0).",
        ),
        ("STRUCT P (a TIME(10))", "TIME precision must be in [0, 9], got 10"),
        (
            "STRUCT A (a INT); STRUCT A.B.C (b INT)",
            "Nested type 'A.B.C' has no immediate parent. Found ancestor 'A' but missing 'A.B'. Declare "
            "'A.B' first.",
        ),
        (
            "STRUCT A (b A.B); STRUCT A.B (c INT); TYPE A.B",
            "Cannot register nested type 'A.B' as the root; register 'A' instead.",
        ),
        (
            "STRUCT A (b B); STRUCT B (a A)",
            "Cannot infer the type to register: dependency cycle among defined types: A -> B -> A. Add an "
            "explicit trailing 'TYPE <name>' statement.",
        ),
        ("USING TYPE X FOR ' '; TYPE X", "USING TYPE X FOR clause must be a non-empty URI"),
        (
            "USING TYPE X FOR 'u'; USING TYPE X FOR 'v'; TYPE X",
            "Duplicate USING TYPE: X (each alias FQN may be declared at most once)",
        ),
        # Their servers answer 500 to these.
        ("STRUCT P (a DATE DEFAULT 'zz')", "Default literal 'zz' is not compatible with type DATE"),
        (
            "STRUCT P (a DATE DEFAULT '2021-02-29')",
            "Default literal '2021-02-29' is not compatible with type DATE",
        ),
        ("STRUCT P (a TIME DEFAULT '25:00')", "Default literal '25:00' is not compatible with type TIME"),
        (
            "STRUCT P (a CHAR(99999999999))",
            "Type parameter at line 1, col 18 is out of range: 99999999999",
        ),
        # Ours.
        ("STRUCT `` (a INT)", "Type name must not be empty"),
        ("STRUCT P (a ``)", "Type name must not be empty"),
        (
            "STRUCT P (a DECIMAL(4) DEFAULT '1_0')",
            "Default literal '1_0' is not compatible with type DECIMAL",
        ),
        ("STRUCT P (a DECIMAL(4) DEFAULT ' 1')", "Default literal ' 1' is not compatible with type DECIMAL"),
        (
            "STRUCT P (a DECIMAL(4) DEFAULT 'NaN')",
            "Default literal 'NaN' is not compatible with type DECIMAL",
        ),
        (
            "STRUCT P (id INT CHECK (id > 1))",
            f"CHECK constraint at line 1, col 18: {CHECK}",
        ),
        (
            "STRUCT P (id INT, CONSTRAINT c CHECK (id > 1))",
            f"CHECK constraint at line 1, col 19: {CHECK}",
        ),
    ],
)
def test_faults_are_refused_whatever_the_format(text: str, message: str) -> None:
    assert {refusal(text, kind) for kind in KINDS} == {message}


SECOND = "WITH ('protobuf.field.number' = '2')"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "STRUCT P (`a-b` INT)",
            "AVRO",
            "Illegal field name for AVRO format `a-b`. AVRO expects field names to start with [A-Za-z_] "
            "subsequently contain only [A-Za-z0-9_].",
        ),
        ("STRUCT P (a DECIMAL(5))", "AVRO", "DECIMAL needs a scale"),
        ("STRUCT P (a UNION<x INT, y INT>)", "AVRO", "Duplicate in union:int"),
        ("STRUCT P (a UNION<x UNION<y INT>>)", "AVRO", "A union cannot be a branch of another union"),
        (
            "STRUCT P (a ARRAY<UNION<x INT, y STRING>>)",
            "AVRO",
            "A union that may be null is supported only as a field",
        ),
        ("STRUCT P (a INT NOT NULL DEFAULT NULL)", "AVRO", 'Invalid default for field a: null not a "int"'),
        ("TYPE INT ARRAY", "PROTOBUF", "Top-level schema must be STRUCT, got ARRAY"),
        ("TYPE INT", "PROTOBUF", "Top-level schema must be STRUCT, got INT"),
        (
            f"STRUCT P (a INT {SECOND}, b INT {SECOND})",
            "PROTOBUF",
            "Duplicate protobuf.field.number 2 in struct 'P'",
        ),
        (
            "STRUCT P (`a-b` INT)",
            "PROTOBUF",
            "Failed to translate the provided schema to a Protobuf descriptor",
        ),
        (
            "STRUCT P (b STRUCT<x INT>, B STRUCT<x INT>)",
            "PROTOBUF",
            "Failed to translate the provided schema to a Protobuf descriptor",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_refused(text: str, kind: str, message: str) -> None:
    assert refusal(text, kind) == message


COLUMNS = [
    "BOOLEAN",
    "TINYINT NOT NULL",
    "SMALLINT",
    "INT NOT NULL DEFAULT 1",
    "BIGINT DEFAULT -5",
    "FLOAT",
    "DOUBLE DEFAULT 1.5",
    "STRING DEFAULT 'it''s'",
    "VARCHAR(10)",
    "CHAR(3) DEFAULT 'abc'",
    "BYTES DEFAULT x'00ff'",
    "VARBINARY(4)",
    "BINARY(4) NOT NULL",
    "DECIMAL(10, 2) DEFAULT 1.50",
    "DATE NOT NULL DEFAULT '2020-01-01'",
    "TIME(0)",
    "TIME(6)",
    "TIME(9)",
    "TIMESTAMP(3)",
    "TIMESTAMP(5) NOT NULL",
    "TIMESTAMP_LTZ(9) DEFAULT '2020-01-01T00:00:00Z'",
    "VARIANT",
    "ARRAY<INT NOT NULL> NOT NULL",
    "ARRAY<INT>",
    "ARRAY<ARRAY<ARRAY<INT NOT NULL>>>",
    "ARRAY<ARRAY<INT> NOT NULL>",
    "MAP<STRING NOT NULL, INT>",
    "MAP<CHAR(3) NOT NULL, INT NOT NULL> NOT NULL",
    "MAP<VARCHAR(9) NOT NULL, ARRAY<INT>>",
    "MAP<INT NOT NULL, STRING>",
    "MULTISET<STRING NOT NULL>",
    "MULTISET<INT NOT NULL> NOT NULL",
    "K NOT NULL DEFAULT 'B'",
    "ARRAY<K NOT NULL>",
    "N",
    "N NOT NULL",
    "ARRAY<N NOT NULL> NOT NULL",
    "MAP<STRING NOT NULL, N>",
]
TAIL = "ENUM K ('A', 'B' COMMENT 'second');\nSTRUCT N (next N, `position` INT COMMENT 'of it');\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_comes_back_as_it_was_written(kind: str) -> None:
    """All columns in one table, and a union, which Protobuf puts last."""
    columns = [f"  c{number} {each.strip()},\n" for number, each in enumerate(COLUMNS)]
    text = f"STRUCT P (\n{''.join(columns)}  u UNION<x INT, y STRING COMMENT 'why'>\n) TAGS ('T');\n{TAIL}"
    assert script.read(text, Budget())
    shown = table(native(text, kind), kind)
    declared = {each.partition(" (")[0]: each for each in shown.split(";\n")}
    written = {each.partition(" (")[0]: each for each in text.split(";\n")}
    # Types are declared where they are used first, and Avro prints a decimal with all places.
    assert declared == written


def _schemas() -> list[tuple[str, str, str]]:
    found = []
    for kind, name in (("AVRO", "avro"), ("JSON", "json_schema"), ("PROTOBUF", "protobuf")):
        rows = json.loads((CORPUS / f"{name}_compatibility.json").read_text(encoding="utf-8"))
        for row in rows:
            for side in ("old", "new"):
                given = row[side]
                is_text = isinstance(given, str) and (kind == "PROTOBUF" or given[:1] in ("{", "[", '"'))
                found.append((kind, f"{row['case']} ({side})", given if is_text else json.dumps(given)))
    return found


def _is_faithful(kind: str, shown: str) -> bool:
    """Return false for what DDL cannot hold: nothing in brackets, and Protobuf's types of other files."""
    return "()" not in shown and not (kind == "PROTOBUF" and "STRUCT google." in shown)


def test_every_schema_of_the_corpora_comes_back_from_its_table() -> None:
    """Only Protobuf's fields come back in the order of their numbers."""
    tried = 0
    for kind, case, schema in _schemas():
        try:
            before = FORMATS[kind].parse(schema).logical(Budget())
        except InvalidSchema:
            continue
        shown = ddl(before, "s", Budget())
        if not _is_faithful(kind, shown):
            continue
        tried += 1
        after = FORMATS[kind].parse(native(shown, kind, subject="s")).logical(Budget())
        findings = [
            each.rule
            for engine in (FLINK, ICEBERG_V2)
            for pair in ((before, after), (after, before))
            for each in comparing.change_findings(*pair, engine, Budget())
        ]
        assert set(findings) <= ({"FIELD_REORDERED"} if kind == "PROTOBUF" else set()), case
        if not findings:
            assert ddl(after, "s", Budget()) == shown, case
    assert tried > 700


def test_every_table_of_the_corpora_is_the_same_in_the_other_formats_or_refused() -> None:
    """Unions of one branch become the branch, and of several roots Protobuf takes the first."""
    tried = dict.fromkeys(KINDS, 0)
    tables: dict[str, str] = {}
    for kind, _, schema in _schemas():
        try:
            shown = ddl(FORMATS[kind].parse(schema).logical(Budget()), "s", Budget())
        except InvalidSchema:
            continue
        if _is_faithful(kind, shown):
            tables.setdefault(shown, kind)
    for shown, kind in tables.items():
        before = FORMATS[kind].parse(native(shown, kind, subject="s")).logical(Budget())
        for other in {*KINDS} - {kind}:
            try:
                made = native(shown, other, subject="s")
            except InvalidSchema:
                continue
            tried[other] += 1
            after = FORMATS[other].parse(made).logical(Budget())
            rules = {
                each.rule
                for pair in ((before, after), (after, before))
                for each in comparing.change_findings(*pair, FLINK, Budget())
            }
            # Protobuf's collections are empty by default.
            assert rules <= {"NON_NULLABLE_DEFAULT_REMOVED"} or "UNION<" in shown, (other, shown)
    assert min(tried.values()) > 60


WORDS = st.sampled_from(
    """STRUCT ENUM NAMESPACE USING TYPE FOR P Q a `b` , ; ( ) < > . - = INT STRING DECIMAL ARRAY MAP UNION
    NOT NULL DEFAULT COMMENT TAGS WITH 'x' '' x'00' 1 2.5 1e9 TRUE CHECK TIMESTAMP INTERVAL ROW
    MULTISET VARIANT protobuf.field.number // /* */ § 99999999999999999999""".split()  # noqa: SIM905 (one word after the other)
)


@given(st.lists(WORDS, max_size=40).map(" ".join), st.sampled_from(KINDS))
def test_no_text_fails_otherwise_than_with_a_refusal(text: str, kind: str) -> None:
    for each in (text, f"STRUCT P (a {text})", f"STRUCT P (a INT {text}"):
        try:
            native(each, kind)
        except (InvalidSchema, Exhausted):
            continue


NAMES = st.sampled_from(("A", "A.B", "n.A", "A.B.C", "n", "`a/b`", "`~1%41`", "`é`", "``"))
TYPES = st.one_of(
    NAMES,
    st.sampled_from(("INT", "STRING", "DATE", "BINARY(2)")),
    st.builds("ARRAY<{}>".format, NAMES),
    st.builds("MAP<{}, {}>".format, NAMES, NAMES),
    st.builds("STRUCT<x {}>".format, NAMES),
    st.builds("UNION<x {}, X {}>".format, NAMES, NAMES),
)
SCRIPTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", "NAMESPACE n; ", "NAMESPACE n.A; ", "NAMESPACE `e f`; ")),
    st.lists(st.builds("STRUCT {} (a {} NOT NULL, A {})".format, NAMES, TYPES, TYPES), max_size=4).map(
        "; ".join
    ),
    st.one_of(st.just(""), TYPES.map("; TYPE {}".format)),
)


@given(SCRIPTS, st.sampled_from(KINDS))
def test_names_in_any_order_are_a_schema_or_refused(text: str, kind: str) -> None:
    try:
        made = native(text, kind)
    except (InvalidSchema, Exhausted):
        return
    assert FORMATS[kind].parse(made, new=True).canonical == made


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_before_the_one_around_it_lies_in_no_namespace(kind: str) -> None:
    text = "NAMESPACE n; STRUCT A.B (x INT); STRUCT A (b {}); TYPE A NOT NULL"
    assert "A.B" in refusal(text.format("A.B"), kind)
    if kind != "PROTOBUF":
        assert native(text.format("INT"), kind)


def test_names_of_types_may_hold_what_separates_names_in_an_address() -> None:
    names = ("`x/y`", "`~1`", "`50%25`", "`#a b`")
    columns = ",\n".join(f"  c{at} {name} NOT NULL" for at, name in enumerate(names))
    text = f"STRUCT P (\n{columns}\n);\n" + "".join(f"STRUCT {each} (n INT NOT NULL);\n" for each in names)
    assert table(native(text, "JSON"), "JSON") == text


def test_what_says_the_type_of_a_column_counts_more_than_its_parameters() -> None:
    made = native("STRUCT P (x DECIMAL(4, 2) WITH ('precision' = '9', 'k' = 'v'))", "PROTOBUF")
    assert table(made, "PROTOBUF") == "STRUCT P (x DECIMAL(4, 2) WITH ('k' = 'v'));\n"


@pytest.mark.parametrize("kind", KINDS)
def test_empty_and_open_values_come_back(kind: str) -> None:
    columns = ["s STRING DEFAULT ''", "b BYTES DEFAULT x''"]
    columns += [] if kind == "AVRO" else ["d DECIMAL(5)", "z DECIMAL(5, 1) DEFAULT 0"]
    shown = table(native(f"STRUCT P ({', '.join(columns)})", kind), kind)
    assert all(each in shown for each in columns), shown


@pytest.mark.parametrize("kind", KINDS)
def test_a_zero_with_a_large_exponent_is_a_zero(kind: str) -> None:
    made = native("STRUCT P (a DECIMAL(9, 2) DEFAULT '0E999999999')", kind)
    assert len(made) < 500


def test_no_field_of_a_wide_message_has_a_reserved_number() -> None:
    columns = ",".join(f"c{number} INT NOT NULL" for number in range(19_001))
    made = native(f"STRUCT P ({columns})", "PROTOBUF")
    assert "int32 c18998 = 18999;\n  int32 c18999 = 20000;\n" in made


DEEP = ("ARRAY<" * 500, ">" * 500)


@pytest.mark.parametrize(
    "text",
    [
        f"TYPE {DEEP[0]}INT{DEEP[1]}",
        f"TYPE INT {'ARRAY ' * 500}",
        f"STRUCT P ({'a STRUCT<' * 500}b INT{DEEP[1]})",
        f"STRUCT {'a.' * 500}b (a INT)",
        ";".join(f"STRUCT A{n} (a A{(n + 1) % 500})" for n in range(500)),
        f"STRUCT P (a DOUBLE DEFAULT {'9' * 10_000})",
        "STRUCT P (a DECIMAL(10, 2) DEFAULT '1E999999999')",
        "STRUCT P (a DECIMAL(2147483647, 2147483646) DEFAULT 1)",
        f"STRUCT P (a /* {'*' * 10_000}",
        f"STRUCT P (a INT DEFAULT '{'x' * 100_000})",
    ],
)
def test_hostile_texts_are_refused_with_short_messages(text: str) -> None:
    with pytest.raises((InvalidSchema, Exhausted)) as refused:
        native(text, "AVRO")
    assert len(str(refused.value)) < 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_steps_of_a_conversion_are_bounded(kind: str) -> None:
    """By the number of tokens, and by the length of the names that are made of others."""
    for text in (
        f"STRUCT P ({', '.join(f'a{n} INT' for n in range(200))})",
        f"NAMESPACE {'n' * 10_000}; " + ";".join(f"STRUCT A{n} (a INT)" for n in range(5)),
        f"STRUCT P ({'a' * 5_000} STRUCT<{'b' * 5_000} STRUCT<c INT>>)",
        f"STRUCT P (a INT COMMENT '{'x' * 10_000}')",
    ):
        native(text, kind)
        with pytest.raises(Exhausted):
            native(text, kind, steps=300)
