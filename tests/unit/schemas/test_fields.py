"""The fields of schemas, in one shape for all formats."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest

from registry.domain.schemas import FORMATS, InvalidSchema, SchemaField
from registry.domain.schemas.fields import (
    DOC_MAX,
    FIELDS_MAX,
    PATH_MAX,
    TYPE_MAX,
    FieldChange,
    FieldCounts,
    changed_fields,
    count_changes,
    field_differences,
    fields_of,
    page_of,
)

AVRO = {
    "type": "record",
    "name": "shop.Order",
    "doc": "An order",
    "confluent:tags": ["GOLD"],
    "fields": [
        {
            "name": "email",
            "type": ["null", "string"],
            "default": None,
            "doc": "Whose",
            "confluent:tags": ["PII"],
        },
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {
                            "name": "price",
                            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                        },
                    ],
                },
            },
        },
        {
            "name": "state",
            "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
            "default": "NEW",
        },
        {"name": "notes", "type": {"type": "map", "values": "shop.Line"}},
    ],
}
JSON = {
    "title": "Order",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "description": "The number", "confluent:tags": ["KEY"]},
        "customer": {
            "type": "object",
            "properties": {"mail": {"type": "string", "format": "email", "default": ""}},
        },
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "either": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"deep": {"const": 1}}}]},
        "rest": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": True}}},
    },
    "$defs": {"Line": {"type": "object", "title": "A line", "properties": {"state": {"enum": ["new", 1]}}}},
}
PROTOBUF = """syntax = "proto2";
package shop;
message Order {
  required int64 id = 1 [(confluent.field_meta) = { doc: "The number", tags: ["KEY"] }];
  optional string state = 2 [default = "new", deprecated = true];
  map<string, Line> lines = 3;
  oneof payment { string card = 4; }
  message Line { repeated double price = 1; }
  enum Kind { A = 0; B = 1; }
}
"""


def fields(kind: str, text: str) -> list[tuple[Any, ...]]:
    return [tuple(each) for each in page_of(FORMATS[kind].fields(text), 0, 100).fields]


@pytest.mark.parametrize(("kind", "value"), [("AVRO", AVRO), ("JSON", JSON), ("PROTOBUF", PROTOBUF)])
def test_a_search_reads_the_same_fields(kind: str, value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    read = [(each.kind, each.name, each.doc, each.tags) for each in FORMATS[kind].fields(text)]
    found = [(*part, tuple(tags)) for *part, tags in FORMATS[kind].search_parts(text)]
    assert found == read
    assert len(found) > 3


def test_avro_fields_come_with_the_types_where_they_are_defined() -> None:
    assert fields("AVRO", json.dumps(AVRO)) == [
        ("type", "", "shop.Order", "record", None, "An order", ("GOLD",), False),
        ("field", "email", "email", "null | string", "null", "Whose", ("PII",), False),
        ("field", "lines", "lines", "array<Line>", None, "", (), True),
        ("type", "lines[]", "Line", "record", None, "", (), False),
        ("field", "lines[].price", "price", "bytes (decimal 9, 2)", None, "", (), True),
        ("field", "state", "state", "State", '"NEW"', "", (), False),
        ("type", "state", "State", "enum (NEW, PAID)", None, "", (), False),
        ("field", "notes", "notes", "map<Line>", None, "", (), True),
    ]


def test_json_schema_fields_are_properties_at_any_depth() -> None:
    assert fields("JSON", json.dumps(JSON)) == [
        ("type", "", "Order", "object", None, "", (), False),
        ("field", "id", "id", "integer", None, "The number", ("KEY",), True),
        ("field", "customer", "customer", "object", None, "", (), False),
        ("field", "lines", "lines", "array<Line>", None, "", (), False),
        ("field", "either", "either", "string | object", None, "", (), False),
        ("field", "rest", "rest", "object", None, "", (), False),
        ("type", "Line", "Line", "object", None, "A line", (), False),
        ("field", "customer.mail", "mail", "string (email)", '""', "", (), False),
        ("field", "either.deep", "deep", "const 1", None, "", (), False),
        ("field", "rest{}.x", "x", "any", None, "", (), False),
        ("field", "Line.state", "state", 'enum ("new", 1)', None, "", (), False),
    ]


def test_protobuf_fields_are_named_after_their_messages() -> None:
    assert fields("PROTOBUF", PROTOBUF) == [
        ("type", "Order", "Order", "message", None, "", (), False),
        ("field", "Order.id", "id", "int64", None, "The number", ("KEY",), True),
        ("field", "Order.state", "state", "optional string, deprecated", "new", "", (), False),
        ("field", "Order.lines", "lines", "map<string, Line>", None, "", (), False),
        ("field", "Order.card", "card", "string (oneof payment)", None, "", (), False),
        ("type", "Order.Line", "Line", "message", None, "", (), False),
        ("field", "Order.Line.price", "price", "repeated double", None, "", (), False),
        ("type", "Order.Kind", "Kind", "enum (A, B)", None, "", (), False),
    ]


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_texts_that_are_no_schemas_have_no_fields(kind: str) -> None:
    odd = [
        '"string"',
        "true",
        "[]",
        "7",
        '{"type":7,"fields":7,"properties":7,"items":[7]}',
        '{"type":["null",{}]}',
    ]
    for text in odd:
        assert [each for each in fields(kind, text) if each[0] == "field"] == []
    with pytest.raises(InvalidSchema):
        fields(kind, "{")


def test_what_a_schema_may_hold_is_bounded() -> None:
    deep: Any = "string"
    for at in range(120):
        deep = {
            "type": "record",
            "name": f"R{at}",
            "fields": [{"name": "n" * 50, "type": deep, "doc": "d" * 9999}],
        }
    found = page_of(FORMATS["AVRO"].fields(json.dumps(deep)), 0, 10_000)
    assert found.total == 240
    assert max(len(each.path) for each in found.fields) == PATH_MAX
    assert max(len(each.doc) for each in found.fields) == DOC_MAX
    wide = {
        "enum": ["s" * 50] * 1000,
        "properties": {"a": {"type": ["null"] * 500, "default": ["x" * 50] * 1000}},
    }
    assert max(len(str(value)) for each in fields("JSON", json.dumps(wide)) for value in each) <= TYPE_MAX
    nested = '{"items":' * 3000 + "{}" + "}" * 3000
    assert list(islice(FORMATS["JSON"].fields(nested), 5)) == []


def test_a_page_is_a_part_of_the_fields() -> None:
    many = {
        "type": "record",
        "name": "M",
        "fields": [{"name": f"f{at}", "type": "int"} for at in range(5000)],
    }
    page = page_of(FORMATS["AVRO"].fields(json.dumps(many)), 4999, 6000)
    assert (page.total, [each.name for each in page.fields]) == (5001, ["f4998", "f4999"])


def changed(schema_type: str, old: str, new: str) -> tuple[FieldCounts, list[FieldChange]]:
    found = changed_fields(*(list(FORMATS[schema_type].fields(each)) for each in (old, new)))
    return count_changes(found), found


def test_fields_differ_by_their_paths_in_all_formats() -> None:
    pairs = {
        "AVRO": (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}',
            '{"type":"record","name":"R","fields":[{"name":"c","type":"int"},{"name":"a","type":"long"}]}',
        ),
        "JSON": (
            '{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}',
            '{"properties":{"c":{"type":"integer"},"a":{"type":"number"}}}',
        ),
        "PROTOBUF": (
            'syntax = "proto3"; message R { int32 a = 1; int32 b = 2; }',
            'syntax = "proto3"; message R { int32 c = 3; int64 a = 1; }',
        ),
    }
    for schema_type, (old, new) in pairs.items():
        counts, found = changed(schema_type, old, new)
        assert counts == (1, 1, 1), schema_type
        names = [(None if each is None else each.name) for pair in found for each in pair]
        assert names == [None, "c", "a", "a", "b", None], schema_type
        assert changed(schema_type, old, old) == (FieldCounts(0, 0, 0), [])


def test_branches_of_a_union_that_share_a_path_are_paired_where_they_are_equal() -> None:
    def union(*kinds: str) -> str:
        records = (
            {"type": "record", "name": f"R{kind}{at}", "fields": [{"name": "f", "type": kind}]}
            for at, kind in enumerate(kinds)
        )
        return json.dumps([*records])

    counts, found = changed("AVRO", union("int", "long"), union("int", "string", "float"))
    kinds = [[each and (each.kind, each.type) for each in pair] for pair in found]
    assert [["field", "long"], ["field", "string"]] in [[list(each or ()) for each in pair] for pair in kinds]
    assert [None, ("field", "float")] in kinds
    assert (counts.added, counts.removed) == (1, 0)


def test_a_type_counts_by_its_fields_and_its_symbols_as_a_change() -> None:
    enum = '{"type":"enum","name":"E","symbols":["A"]}'
    assert changed("AVRO", enum, enum.replace('"A"', '"A","B"'))[0] == (0, 0, 1)
    inner = '{"type":"record","name":"I","fields":[{"name":"x","type":"int"},{"name":"y","type":"int"}]}'
    outer = '{"type":"record","name":"R","fields":[{"name":"i","type":%s}]}'
    assert changed("AVRO", outer % '"int"', outer % inner)[0] == (2, 0, 1)


def test_what_differs_is_cut_and_too_many_fields_are_not_compared() -> None:
    long = [SchemaField("field", "a", "a", "int", doc="d" * (DOC_MAX + 5))]
    [shown] = field_differences([], long, 5).first
    assert shown.old is None
    assert shown.new is not None
    assert len(shown.new.doc) <= DOC_MAX + 1
    assert field_differences([], long * 3, 2).counts == (3, 0, 0)
    fields = [{"name": f"f{at}", "type": "int"} for at in range(FIELDS_MAX)]
    wide = {"type": "record", "name": "W", "fields": fields}
    assert fields_of(FORMATS["AVRO"], json.dumps(wide)) is None
