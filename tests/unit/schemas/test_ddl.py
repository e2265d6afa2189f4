"""Logical types as DDL: the text that ``?format=logical`` answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.domain.schemas import FORMATS, Budget, Exhausted
from registry.domain.schemas.logical import script
from registry.domain.schemas.logical.ddl import ddl
from registry.domain.schemas.logical.reading import NotLogical
from registry.domain.schemas.logical.types import Array, Field, Kind, Leaf, Struct, Type


def written(schema_type: str, schema: Any, subject: str = "orders-value.v1") -> str:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return ddl(FORMATS[schema_type].parse(text).logical(Budget()), subject, Budget())


def record(*fields: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "record", "name": "com.x.Order", "fields": fields, **members}


def column(type: Any, **members: Any) -> str:
    text = written("AVRO", record({"name": "c", "type": type, **members}))
    return text.partition(" (c ")[2].partition(");\n")[0]


def test_an_avro_record_is_a_declaration_with_those_that_it_uses() -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    found = written(
        "AVRO",
        record(
            {"name": "id", "type": "long", "doc": "The order's key"},
            {"name": "date", "type": ["null", "string"], "default": None},
            {"name": "kind", "type": kind, "default": "A", "aliases": ["sort", "type"]},
            {"name": "either", "type": ["int", "com.x.Kind"]},
            doc="One order",
        ),
    )
    assert found == (
        "STRUCT com.x.Order (\n"
        "  id BIGINT NOT NULL COMMENT 'The order''s key',\n"
        "  `date` STRING DEFAULT NULL,\n"
        "  kind com.x.Kind NOT NULL DEFAULT 'A' WITH ('avro.aliases' = 'sort,type'),\n"
        "  either UNION<`int` INT, Kind com.x.Kind> NOT NULL\n"
        ") COMMENT 'One order';\n"
        "ENUM com.x.Kind ('A', 'B');\n"
    )


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}


@pytest.mark.parametrize(
    ("type", "default", "literal"),
    [
        ("boolean", True, "TRUE"),
        ("int", -5, "-5"),
        ("double", 1.5, "1.5"),
        ("string", "it's", "'it''s'"),
        ("bytes", "\u0000\u00ff", "x'00ff'"),
        (PRICE, "\u0004\u00d2", "12.34"),
        (PRICE, "\u00ff", "-0.01"),
        ({"type": "int", "logicalType": "date"}, 18_321, "'2020-02-29'"),
        ({"type": "int", "logicalType": "date"}, -1, "'1969-12-31'"),
        ({"type": "int", "logicalType": "time-millis"}, 36_000_500, "'10:00:00.5'"),
        (MILLIS, 1_577_836_800_001, "'2020-01-01T00:00:00.001Z'"),
        ([MILLIS, "null"], 0, "'1970-01-01T00:00:00Z'"),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, -1, "'1969-12-31T23:59:59.999999999'"),
    ],
)
def test_defaults_are_literals(type: Any, default: Any, literal: str) -> None:
    assert column(type, default=default).endswith(f" DEFAULT {literal}")


@pytest.mark.parametrize(
    ("type", "default", "comment"),
    [
        ({"type": "array", "items": "string"}, ["*/"], '/* DEFAULT ["* /"] */'),
        (["int", "string"], 1, "/* DEFAULT 1 */"),
        ("double", "NaN", '/* DEFAULT "NaN" */'),
        ("long", 1.5, "/* DEFAULT 1.5 */"),
        ("int", 2**31, "/* DEFAULT 2147483648 */"),
        (PRICE, 0.001, "/* DEFAULT 0.001 */"),
        ({"type": "string", "flink.maxLength": 1, "flink.version": "1"}, "ab", '/* DEFAULT "ab" */'),
        ({"type": "enum", "name": "K", "symbols": ["A"]}, "B", '/* DEFAULT "B" */'),
        ({"type": "int", "logicalType": "date"}, "2021-02-29", '/* DEFAULT "2021-02-29" */'),
    ],
)
def test_a_default_without_a_literal_is_a_comment(type: Any, default: Any, comment: str) -> None:
    schema = Struct("R")
    shape = FORMATS["AVRO"].parse(json.dumps(type)).logical(Budget())
    schema.fields.append(Field("c", shape, default))
    text = ddl(Type(schema), "s", Budget())
    assert text.partition(";\n")[0].endswith(f" {comment})")
    assert script.read(text, Budget())


def test_tags_that_no_clause_takes_are_a_comment() -> None:
    kind = {"type": "enum", "name": "K", "symbols": ["A"], "confluent:tags": ["PII", "*/"]}
    text = written("AVRO", record({"name": "k", "type": kind, "confluent:tags": ["T"]}))
    assert "(k com.x.K NOT NULL TAGS ('T'));\nENUM com.x.K ('A') /* TAGS ('PII', '* /') */;\n" in text
    assert script.read(text, Budget())
    tag = '[(confluent.field_meta).tags = "PII"]'
    fields = f"oneof o {{ int32 a = 1 {tag}; }} int32 b = 2 {tag};"
    text = written("PROTOBUF", f'syntax = "proto3"; import "confluent/meta.proto"; message M {{ {fields} }}')
    assert "b INT NOT NULL TAGS ('PII')" in text
    assert "a INT /* TAGS ('PII') */" in text
    assert script.read(text, Budget())


def test_a_json_object_is_named_after_the_subject_and_its_definitions_are_declared() -> None:
    schema = {
        "type": "object",
        "required": ["in"],
        "properties": {
            "in": {"type": "object", "properties": {"kind": {"enum": ["x", 1]}, "a b": {"type": "string"}}},
            "next": {"$ref": "#/$defs/Next"},
            "when": {
                "title": "org.apache.kafka.connect.data.Date", "connect.type": "int32", "type": "number",
                "default": "2020-01-01",
            },
        },
        "$defs": {"Next": {"type": "object", "properties": {"any": {}, "n": {"type": "integer"}}}},
    }  # fmt: skip
    assert written("JSON", schema) == (
        "STRUCT orders_value_v1 (\n"
        "  `in` STRUCT<`a b` STRING, kind orders_value_v1_kind> NOT NULL,\n"
        "  next Next,\n"
        "  `when` DATE DEFAULT '2020-01-01'\n"
        ");\n"
        "ENUM orders_value_v1_kind ('x', '1');\n"
        "STRUCT Next (`any` VARIANT, n BIGINT);\n"
    )
    assert written("JSON", {"type": "object", "properties": {"a": {}}}, "9x").startswith("STRUCT Envelope9x ")


def test_protobuf_notes_numbers_that_do_not_count_from_one() -> None:
    text = 'syntax = "proto3"; package p; message M { repeated N n = 1; oneof o { string a = %d; M.N b = 3; }'
    text += " message N { optional bytes b = 1; } }"
    assert written("PROTOBUF", text % 2) == (
        "NAMESPACE p;\n"
        "STRUCT p.M (n ARRAY<p.M.N NOT NULL> NOT NULL, o UNION<a STRING, b p.M.N>);\n"
        "STRUCT p.M.N (b BYTES);\n"
    )
    assert "a STRING WITH ('protobuf.field.number' = '4')" in written("PROTOBUF", text % 4)


def test_documentation_of_protobuf_is_a_comment() -> None:
    text = """
        syntax = "proto3"; import "confluent/meta.proto";
        message M { int32 a = 1 [(confluent.field_meta) = { doc: "The key" }];
                    string b = 2 [(confluent.field_meta).doc = "The name"]; }
    """
    assert written("PROTOBUF", text) == (
        "STRUCT M (a INT NOT NULL COMMENT 'The key', b STRING NOT NULL COMMENT 'The name');\n"
    )


@pytest.mark.parametrize(
    ("schema", "end"),
    [
        ('"string"', "TYPE STRING NOT NULL;\n"),
        ('["null", "int"]', "TYPE INT;\n"),
        ({"type": "map", "values": "int"}, "TYPE MAP<STRING NOT NULL, INT NOT NULL> NOT NULL;\n"),
        (["null", record({"name": "a", "type": "int"})], "TYPE com.x.Order;\n"),
        (record({"name": "n", "type": ["null", "com.x.Order"]}), "TYPE com.x.Order NOT NULL;\n"),
    ],
)
def test_the_root_is_named_where_nobody_could_infer_it(schema: Any, end: str) -> None:
    assert written("AVRO", schema).endswith(end)


def test_a_union_that_contains_itself_has_no_declaration() -> None:
    schema = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]}
    with pytest.raises(NotLogical, match="contains itself"):
        written("JSON", schema)


def test_objects_used_twice_at_each_level_are_written_once() -> None:
    deep = Type(Leaf(Kind.INT), nullable=True)
    for level in range(200):
        struct = Struct(is_union=level % 2 == 0)
        struct.fields += (Field(each, deep) for each in ("a", "b"))
        deep = Type(struct, nullable=True)
    assert len(ddl(deep, "s", Budget(20_000))) < 50_000


def test_a_text_that_would_become_too_long_is_not_written() -> None:
    deep = Type(Leaf(Kind.INT), nullable=True)
    for _ in range(200):
        union = Struct(is_union=True)
        union.fields += (Field(each, Type(Array(deep), nullable=True)) for each in ("a", "b"))
        deep = Type(union, nullable=True)
    with pytest.raises(Exhausted):
        ddl(deep, "s", Budget())
