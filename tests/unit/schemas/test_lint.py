"""Lint rules on schemas of each format."""

from __future__ import annotations

import pytest

from registry.domain.schemas import FORMATS, Dependency
from registry.domain.schemas.lint import FINDINGS_MAX, RULES, Element, findings

AVRO = """{"type": "record", "name": "order_line", "namespace": "shop", "doc": "A line.", "fields": [
  {"name": "articleId", "type": "string", "doc": "The article."},
  {"name": "unit_price", "type": "int", "default": 0},
  {"name": "state", "doc": "Its state.", "default": null, "type": ["null", {"type": "enum",
    "name": "State", "symbols": ["OPEN", "closed"]}]},
  {"name": "again", "doc": "The same.", "type": "State", "default": "OPEN"}]}"""
JSON = """{"type": "object", "properties": {
  "orderId": {"type": "string", "description": "The order."},
  "ship.to": {"type": "object", "title": "Address", "properties": {"zip": {"type": "string"}}}}}"""
PROTOBUF = """syntax = "proto3";
message order_line {
  string articleId = 1;
  map<string, int32> price_by_currency = 2;
  enum State { OPEN = 0; closed = 1; }
  message Inner { oneof which { int32 one_of = 1; int32 oneOf = 2; } }
}"""


def paths(schema_type: str, text: str, rule: str) -> list[str]:
    schema = FORMATS[schema_type].parse(text)
    return [each.path for each in findings(schema.elements(), [rule])]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("pascal_case_types", ["shop.order_line"]),
        ("snake_case_fields", ["shop.order_line.articleId"]),
        ("camel_case_fields", ["shop.order_line.unit_price"]),
        ("upper_case_symbols", ["shop.State.closed"]),
        ("docs", ["shop.order_line.unit_price", "shop.State"]),
        ("field_defaults", ["shop.order_line.articleId"]),
        ("enum_defaults", ["shop.State"]),
        ("namespace", []),
    ],
)
def test_rules_on_avro(rule: str, expected: list[str]) -> None:
    assert paths("AVRO", AVRO, rule) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("snake_case_fields", ["object.orderId", "object.ship.to"]),
        ("camel_case_fields", ["object.ship.to"]),
        ("docs", ["object", "object.ship.to.object.zip"]),
        ("field_defaults", []),
        ("namespace", []),
    ],
)
def test_rules_on_json_schema(rule: str, expected: list[str]) -> None:
    assert paths("JSON", JSON, rule) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("pascal_case_types", ["order_line"]),
        ("snake_case_fields", ["order_line.articleId", "order_line.Inner.oneOf"]),
        ("upper_case_symbols", ["order_line.State.closed"]),
        ("docs", []),
        ("namespace", ["#"]),
    ],
)
def test_rules_on_protobuf(rule: str, expected: list[str]) -> None:
    assert paths("PROTOBUF", PROTOBUF, rule) == expected


def test_types_of_referenced_schemas_are_not_looked_at() -> None:
    other = '{"type": "enum", "name": "bad_name", "symbols": ["a"]}'
    text = '{"type": "record", "name": "Good", "fields": [{"name": "e", "type": "bad_name"}]}'
    schema = FORMATS["AVRO"].parse(text, [Dependency("bad_name", other)])
    assert findings(schema.elements(), ["pascal_case_types", "upper_case_symbols"]) == ()


def test_a_schema_without_a_namespace_has_one_finding() -> None:
    assert paths("AVRO", '{"type": "fixed", "name": "F", "size": 2}', "namespace") == ["#"]
    assert paths("AVRO", '"string"', "namespace") == []


def test_a_schema_that_refers_to_itself_is_looked_at_once() -> None:
    text = '{"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}'
    assert paths("AVRO", text, "pascal_case_types") == ["n"]


def test_findings_are_bounded() -> None:
    many = (Element("field", f"R.F{at}", f"F{at}") for at in range(1000))
    assert len(findings(many, ["snake_case_fields"])) == FINDINGS_MAX


def test_every_rule_says_how_to_mend_it() -> None:
    assert all(rule.fix and rule.message for rule in RULES.values())
