"""Compatibility of JSON schemas: Confluent's results and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.domain.schemas import FORMATS, Budget, Dependency, Exhausted, InvalidSchema
from registry.domain.schemas.json_schema import changes
from registry.domain.schemas.json_schema.compatibility import compare

JSON = FORMATS["JSON"]
CASES = json.loads((Path(__file__).parents[2] / "corpus" / "json_schema_compatibility.json").read_text())


def parsed(schema, *dependencies):
    return JSON.parse(schema if type(schema) is str else json.dumps(schema), dependencies, new=True)


def found(old, new):
    told = compare(parsed(old).node(), parsed(new).node(), Budget()).changes(Budget())
    return [f"{change} {path}" for change, path in told]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_changes_in_both_directions(case):
    assert found(case["old"], case["new"]) == case["changes"], case["reason"]
    assert found(case["new"], case["old"]) == case["reverse_changes"], case["reason"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_verdicts_in_both_directions(case):
    old, new = parsed(case["old"]), parsed(case["new"])
    backward, forward = JSON.differences(new, old, "new"), JSON.differences(old, new, "old")
    assert (not backward, not forward) == (case["backward"], case["forward"]), case["reason"]
    for told, all_changes in ((backward, case["changes"]), (forward, case["reverse_changes"])):
        assert [f"{each.type} {each.path}" for each in told] == [
            each for each in all_changes if each.split()[0] not in changes.HARMLESS
        ]


def test_the_corpus_is_large_and_has_every_kind_of_change():
    kinds = {text.split()[0] for case in CASES for text in case["changes"] + case["reverse_changes"]}
    assert len(CASES) >= 200
    assert kinds == changes.HARMLESS | set(changes._SENTENCES) | {"SCHEMA_ADDED"}
    assert all(case["reason"] for case in CASES)


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
OPEN, CLOSED = {"type": "object"}, {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("reader", "writer", "kind", "sentence"),
    [
        ({**STRING, "maxLength": 1}, STRING, "MAX_LENGTH_ADDED",
         "The keyword at path '#/maxLength' in the new schema is not present in the old schema"),
        ({**INTEGER, "minimum": 2}, {**INTEGER, "minimum": 1}, "MINIMUM_INCREASED",
         "The value at path '#/minimum' in the new schema is more than its value in the old schema"),
        ({**INTEGER, "maximum": 1}, {**INTEGER, "maximum": 2}, "MAXIMUM_DECREASED",
         "The value at path '#/maximum' in the new schema is less than its value in the old schema"),
        ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, "PATTERN_CHANGED",
         "The value at path '#/pattern' is different between the new and old schema"),
        ({"enum": [1]}, {"enum": [1, 2]}, "ENUM_ARRAY_NARROWED",
         "An array or combined type at path '#/enum' has fewer elements in the new schema "
         "than the old schema"),
        ({"not": {"type": "number"}}, {"not": INTEGER}, "NOT_TYPE_EXTENDED",
         "An array or combined type at path '#/not' has more elements in the new schema "
         "than the old schema"),
        (STRING, INTEGER, "TYPE_CHANGED",
         "A type at path '#/' is different between the new schema and the old schema"),
        ({**OPEN, "properties": {"a": STRING}}, OPEN, "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
         "The new schema has an open content model and has a property or item at path '#/properties/a' "
         "which is missing in the old schema"),
        ({**CLOSED, "properties": {"a": STRING}, "required": ["a"]}, CLOSED,
         "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
         "The new schema has an unopen content model and has a required property at path '#/properties/a' "
         "which is missing in the old schema"),
        (CLOSED, {**CLOSED, "properties": {"a": STRING}}, "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
         "The new schema has a closed content model and is missing a property or item present at path "
         "'#/properties/a' in the old schema"),
        ({"type": "array", "items": STRING}, {"type": "array"}, "SCHEMA_ADDED", ""),
    ],
)  # fmt: skip
def test_the_words_are_confluents(reader, writer, kind, sentence):
    one, other = parsed(reader), parsed(writer)
    text = f'{{errorType:"{kind}", description:"{sentence}\'}}'
    assert [difference.text for difference in JSON.differences(one, other, "new")] == [text]
    swapped = text.replace("new", "NEW").replace("old", "new").replace("NEW", "old")
    assert [difference.text for difference in JSON.differences(one, other, "old")] == [swapped]


@pytest.mark.parametrize("kind", ["COVERED", "CHANGED", "ADDED_TO_OPEN", "ADDED", "NARROWED", "EXTENDED"])
def test_every_change_that_is_not_harmless_has_a_sentence_but_one(kind):
    told = {text.split()[0] for case in CASES for text in case["changes"] + case["reverse_changes"]}
    for each in (each for each in told - changes.HARMLESS if kind in each and each != "SCHEMA_ADDED"):
        said = changes.difference(each, "#/path", "new").text
        assert "new" in said
        assert "'#/path'" in said


def test_another_type_cannot_be_compared():
    with pytest.raises(InvalidSchema, match="different schema type"):
        JSON.differences(parsed(STRING), FORMATS["AVRO"].parse('"string"'), "new")


def test_what_is_stored_and_makes_no_sense_cannot_be_compared():
    broken = JSON.parse('{"type":"nonsense"}')
    assert broken.canonical == '{"type":"nonsense"}'
    with pytest.raises(InvalidSchema, match="#/type"):
        JSON.differences(parsed(STRING), broken, "new")


def nested(depth, leaf):
    return '{"properties":{"a":' * depth + json.dumps(leaf) + "}}" * depth


def test_five_thousand_levels_are_compared():
    one, other = parsed(nested(5000, STRING)), parsed(nested(5000, INTEGER))
    [difference] = JSON.differences(one, other, "new")
    assert (difference.type, difference.path) == ("TYPE_CHANGED", "#/" + "/".join(["properties/a"] * 5000))
    assert JSON.differences(one, one, "new") == []
    assert one.normalized == one.canonical == nested(5000, STRING).replace(" ", "")


@pytest.mark.parametrize("around", ['{"not":%s}', '{"items":[%s]}', '{"allOf":[%s]}', '{"if":%s}'])
def test_five_thousand_levels_of_other_keywords_are_read_and_compared(around):
    first, last = around.split("%s")
    one = parsed(first * 5000 + '{"type":"string"}' + last * 5000)
    other = parsed(first * 5000 + '{"type":"number"}' + last * 5000)
    assert JSON.differences(one, one, "new") == []
    JSON.differences(one, other, "new")


def test_values_and_chains_of_references_may_be_as_deep():
    deep = "[" * 5000 + "]" * 5000
    one = parsed(f'{{"enum":[{deep}],"default":{deep}}}')
    assert JSON.differences(one, one, "new") == []
    chain = {f"d{i}": {"$ref": f"#/definitions/d{i + 1}"} for i in range(5000)} | {"d5000": STRING}
    other = parsed({"$ref": "#/definitions/d0", "definitions": chain})
    assert JSON.differences(other, parsed(STRING), "new") == []


def test_schemas_that_combine_without_end_use_up_their_budget():
    def unions(leaf):
        return '{"anyOf":[{"type":"null"},' * 2000 + leaf + "]}" * 2000

    one, other = parsed(unions('{"type":"string"}')), parsed(unions('{"type":"integer"}'))
    budget = Budget(10_000)
    with pytest.raises(Exhausted):
        JSON.differences(one, other, "new", budget)
    assert budget.left < 0


def test_parts_that_share_parts_are_compared_once():
    def shared(leaf):
        levels = {
            f"l{i}": {
                "oneOf": [{"$ref": f"#/definitions/l{i + 1}"}, {"items": {"$ref": f"#/definitions/l{i + 1}"}}]
            }
            for i in range(60)
        }
        return {"$ref": "#/definitions/l0", "definitions": {**levels, "l60": leaf}}

    budget = Budget(100_000)
    assert JSON.differences(parsed(shared({"type": "number"})), parsed(shared(INTEGER)), "new", budget) == []
    assert budget.left > 50_000


def test_recursive_unions_of_many_types_are_compared():
    def resources(count, leaf):
        kinds = {
            f"K{i}": {
                **CLOSED,
                "properties": {
                    "kind": {"const": f"K{i}"},
                    "value": leaf,
                    **{f"r{j}": {"$ref": f"#/definitions/K{(i + j) % count}"} for j in range(5)},
                    "contained": {"type": "array", "items": {"$ref": "#/definitions/any"}},
                },
            }
            for i in range(count)
        }
        listed = [{"$ref": f"#/definitions/{name}"} for name in reversed(kinds)]
        return {"$ref": "#/definitions/any", "definitions": {**kinds, "any": {"oneOf": listed}}}

    one, other = parsed(resources(200, INTEGER)), parsed(resources(200, {"type": "number"}))
    budget = Budget(50_000)
    assert JSON.differences(one, one, "new", budget) == JSON.differences(other, one, "new", budget) == []


def test_harmless_changes_are_not_gone_through_where_others_are_reported():
    def shared(leaf, other):
        levels = {
            f"l{i}": {
                "allOf": [{"items": {"$ref": f"#/definitions/l{i + 1}"}}, {"$ref": f"#/definitions/l{i + 1}"}]
            }
            for i in range(60)
        }
        properties = {"a": {"$ref": "#/definitions/l0"}, "b": other}
        return {**CLOSED, "properties": properties, "definitions": {**levels, "l60": leaf}}

    one, other = parsed(shared(INTEGER, STRING)), parsed(shared({"type": "number"}, INTEGER))
    told = JSON.differences(other, one, "new", Budget(100_000))
    assert [(each.type, each.path) for each in told] == [("TYPE_CHANGED", "#/properties/b")]


def test_no_more_than_a_thousand_differences_are_reported():
    def many(leaf):
        return {**OPEN, "properties": {f"p{i}": leaf for i in range(3000)}}

    assert len(JSON.differences(parsed(many(STRING)), parsed(many(INTEGER)), "new")) == 1000


def test_large_unions_find_their_partners():
    def union(first):
        return {"oneOf": [{"const": i} for i in range(first, first + 100)]}

    assert JSON.differences(parsed(union(0)), parsed(union(0)), "new") == []
    [difference] = JSON.differences(parsed(union(1)), parsed(union(0)), "new")
    assert difference.type == "COMBINED_TYPE_SUBSCHEMAS_CHANGED"


@pytest.mark.parametrize(
    ("pattern", "is_found"),
    [("^(a+)+$", True), ("^(?=(a+)+b)", False), ("(?!b)", True), ("[", False), ("a" * 5000 + "(", False),
     ("\\p{L}", True)],
)  # fmt: skip
def test_patterns_take_no_longer_than_names(pattern, is_found):
    name = "a" * 150
    old = {**CLOSED, "patternProperties": {pattern: STRING}}
    kinds = [each.split()[0] for each in found(old, {**old, "properties": {name: STRING}})]
    assert ("PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL" in kinds) is is_found


def test_references_are_compared_through_other_schemas():
    old = parsed({"$ref": "item.json"}, Dependency("item.json", '{"type":"integer"}'))
    new = parsed({"$ref": "item.json"}, Dependency("item.json", '{"type":"number"}'))
    assert JSON.differences(new, old, "new") == []
    assert [each.type for each in JSON.differences(old, new, "new")] == ["TYPE_NARROWED"]
