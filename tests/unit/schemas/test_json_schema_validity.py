"""JSON schemas that may be registered, draft by draft, and the targets of their references."""

from __future__ import annotations

import json
import socket

import pytest

from registry.domain.schemas import FORMATS, Budget, Dependency, InvalidSchema
from registry.domain.schemas.json_schema.compatibility import compare
from registry.domain.schemas.json_schema.drafts import draft_of

JSON = FORMATS["JSON"]
D4 = "http://json-schema.org/draft-04/schema#"
D6 = "http://json-schema.org/draft-06/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D19 = "https://json-schema.org/draft/2019-09/schema"
D20 = "https://json-schema.org/draft/2020-12/schema"
DRAFTS = [D4, D6, D7, D19, D20]


def parse(schema, *dependencies):
    listed = [Dependency(name, json.dumps(each)) for name, each in dependencies]
    return JSON.parse(json.dumps(schema), listed, new=True)


def refusal(schema, *dependencies):
    with pytest.raises(InvalidSchema) as refused:
        parse(schema, *dependencies)
    return str(refused.value)


def same(one, other):
    return not compare(one.node(), other.node(), Budget()).changes(Budget())


@pytest.mark.parametrize(
    ("named", "draft"),
    [
        (D4, D4), (D6, D6), (D7, D7), (D19, D19), (D20, D20),
        ("https://json-schema.org/draft-04/schema", D4),
        ("http://json-schema.org/draft/2020-12/schema#", D20),
        ("http://json-schema.org/schema#", D7),
        ("http://example.com/own", D7),
        (5, D7),
    ],
)  # fmt: skip
def test_the_draft_is_the_one_named(named, draft):
    assert draft_of({"$schema": named}).meta == draft.removesuffix("#")
    assert draft_of({}).meta == draft_of(True).meta == D7.removesuffix("#")


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "strin"}, "#/type"),
        ({"type": ["string", 5]}, "#/type"),
        ({"type": {}}, "#/type"),
        ({"required": True}, "#/required"),
        ({"required": [1]}, "#/required/0"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"patternProperties": {"a": "b"}}, "#/patternProperties/a"),
        ({"additionalProperties": 5}, "#/additionalProperties"),
        ({"items": 5}, "#/items"),
        ({"minLength": "1"}, "#/minLength"),
        ({"minLength": True}, "#/minLength"),
        ({"maxItems": 1.5}, "#/maxItems"),
        ({"maximum": "1"}, "#/maximum"),
        ({"enum": {}}, "#/enum"),
        ({"allOf": {}}, "#/allOf"),
        ({"anyOf": [5]}, "#/anyOf/0"),
        ({"not": "x"}, "#/not"),
        ({"title": 5}, "#/title"),
        ({"pattern": []}, "#/pattern"),
        ({"properties": {"a": {"type": "nonsense"}}}, "#/type"),
        ({"multipleOf": 0}, "multipleOf should not be 0"),
        ({"multipleOf": 0.0}, "multipleOf should not be 0"),
    ],
)  # fmt: skip
def test_keywords_with_values_of_wrong_types_are_refused(draft, schema, where):
    assert where in refusal({"$schema": draft, **schema})
    assert JSON.parse(json.dumps(schema))  # Stored schemas are read all the same.


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ('"additionalProperties": null', "#/additionalProperties: null is not of type 'object', 'boolean'"),
        ('"exclusiveMinimum": true', "#/exclusiveMinimum: true is not of type 'number'"),
        ('"minLength": 1.0', "#/minLength: 1.0 is not of type 'integer'"),
        ('"minLength": 1.00', "#/minLength: 1.00 is not of type 'integer'"),
        ('"required": {"a": false}', "#/required: {\"a\":false} is not of type 'array'"),
        ('"maximum": "1"', "#/maximum: '1' is not of type 'number'"),
    ],
)
def test_refusals_show_values_as_json(keyword: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        JSON.parse(f"{{{keyword}}}", new=True)
    assert str(refused.value) == f"Invalid JSON Schema: {message}"


@pytest.mark.parametrize(
    ("draft", "schema"),
    [
        (D4, {"properties": {"a": True}}),
        (D4, {"exclusiveMaximum": 5}),
        (D6, {"exclusiveMaximum": True}),
        (D7, {"if": 5}),
        (D7, {"dependencies": {"a": 5}}),
        (D19, {"dependentRequired": {"a": "b"}}),
        (D19, {"unevaluatedItems": 5}),
        (D20, {"items": [{}]}),
        (D20, {"prefixItems": {}}),
    ],
)
def test_drafts_differ_in_what_they_refuse(draft, schema):
    assert refusal({"$schema": draft, **schema}).startswith("Invalid JSON Schema: #/")


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "schema",
    [
        {"required": []},
        {"required": ["a", "a"]},
        {"enum": []},
        {"minLength": -1},
        {"examples": {"a": 1}},
        {"readOnly": "yes"},
        {"pattern": "("},
        {"definitions": {"a": 5}},
        {"definitions": []},
        {"$defs": {"a": {"type": "nonsense"}}},
        {"x": {"$ref": "nowhere"}},
        {"anyOf": []},
    ],
)
def test_what_confluents_parsers_do_not_mind_is_taken(draft, schema):
    assert parse({"$schema": draft, **schema})


@pytest.mark.parametrize("draft", ["-04", "-06", "-07", "/2019-09", "/2020-12"])
@pytest.mark.parametrize("end", ["", "#"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_meta_schemas_are_known_with_either_scheme(draft, end, scheme):
    uri = f"{scheme}://json-schema.org/draft{draft}/schema{end}"
    assert parse({"properties": {"a": {"$ref": uri}}})
    assert parse({"$schema": D20, "properties": {"a": {"$ref": uri}}})


@pytest.mark.parametrize(
    ("root", "kind"),
    [('"x"', "STRING"), ("1", "NUMBER"), ("1.5", "NUMBER"), ("[1]", "ARRAY"), ("null", "NULL")],
)
def test_a_root_that_cannot_be_a_schema_is_named(root, kind):
    with pytest.raises(InvalidSchema) as raised:
        JSON.parse(root)
    expected = f"Invalid JSON schema: expected an object or boolean at the root, found {kind}"
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "#/definitions/x"}, "cannot resolve '#/definitions/x'"),
        ({"$ref": "#x"}, "cannot resolve '#x'"),
        ({"$ref": "other.json"}, "cannot resolve 'other.json'"),
        ({"$ref": "#/$defs/x"}, "cannot resolve '#/$defs/x'"),
        ({"$ref": "#/title", "title": "t"}, "a schema is an object or a boolean"),
        ({"$ref": 5}, "$ref"),
        ({"$schema": D4, "$ref": 5}, "a reference is a string"),
        ({"$ref": "#"}, "a $ref leads back to itself"),
        ({"$ref": "http://["}, "cannot resolve"),
        ({"$id": "http://[", "$ref": "x"}, ""),
        (
            {"properties": {"a": {"$ref": "#/d/a"}}, "d": {"a": {"$ref": "#/d/b"}, "b": {"$ref": "#/d/a"}}},
            "a $ref leads back to itself",
        ),
        (
            {"$ref": "http://example.com/x.json"},
            "Remote schema reference fetching over HTTP(S) is disabled; cannot resolve "
            "'http://example.com/x.json'",
        ),
        (
            {"$id": "https://example.com/a.json", "items": {"$ref": "b.json"}},
            "Remote schema reference fetching over HTTP(S) is disabled; cannot resolve 'b.json'",
        ),
        ({"$ref": "http://json-schema.org/draft-07/schema#/nowhere"}, "cannot resolve"),
    ],
)
def test_references_that_lead_nowhere_are_refused(schema, message):
    assert message in refusal(schema)


@pytest.mark.parametrize("draft", DRAFTS)
def test_meta_schemas_are_known(draft):
    for meta in DRAFTS:
        assert parse({"$schema": draft, "properties": {"a": {"$ref": meta}}})


ITEM = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"$ref": "item.json"}, "item.json"),
        ({"$ref": "./item.json"}, "item.json"),
        ({"$ref": "item.json"}, "./item.json"),
        ({"$ref": "item.json#"}, "item.json"),
        ({"$ref": "http://example.com/item.json"}, "http://example.com/item.json"),
        ({"$id": "http://example.com/a.json", "allOf": [{"$ref": "item.json"}]}, "item.json"),
        (
            {"$id": "http://example.com/a.json", "allOf": [{"$ref": "http://example.com/item.json"}]},
            "item.json",
        ),
        (
            {"$id": "http://example.com/a.json", "allOf": [{"$ref": "item.json"}]},
            "http://example.com/item.json",
        ),
        ({"$id": "http://example.com/a#", "allOf": [{"$ref": "item.json"}]}, "item.json"),
        ({"$id": "a.json", "allOf": [{"$ref": "item.json"}]}, "item.json"),
        ({"$schema": D4, "id": "http://example.com/a.json", "allOf": [{"$ref": "item.json"}]}, "item.json"),
        ({"$schema": D20, "$id": "http://example.com/a.json", "$ref": "item.json"}, "item.json"),
        ({"$ref": "urn:item"}, "urn:item"),
        ({"$ref": "Item"}, "Item"),
    ],
)
def test_references_are_known_by_name(schema, name):
    expected = {"allOf": [ITEM]} if "allOf" in schema else ITEM
    one, other = parse(schema, (name, ITEM)), parse(expected)
    assert JSON.differences(one, other, "new") == JSON.differences(other, one, "new") == []
    changed = parse(schema, (name, {"type": "string"}))
    assert JSON.differences(changed, other, "new") != []


def test_parts_of_other_schemas_and_further_ones():
    address = {"definitions": {"street": {"type": "string"}}, "properties": {"c": {"$ref": "country.json"}}}
    country = {"$defs": {"code": {"type": "string", "maxLength": 2}}, "$ref": "#/$defs/code"}
    whole = parse(
        {"properties": {"s": {"$ref": "address.json#/definitions/street"}, "a": {"$ref": "address.json"}}},
        ("country.json", country),
        ("address.json", address),
    )
    flat = parse(
        {
            "properties": {
                "s": {"type": "string"},
                "a": {"properties": {"c": {"type": "string", "maxLength": 2}}},
            }
        }
    )
    assert same(whole, flat)


def test_a_dependency_counts_from_its_own_id():
    address = {"$id": "http://example.com/deep/address.json", "items": {"$ref": "country.json"}}
    country = {"type": "integer"}
    whole = parse(
        {"$ref": "address.json"},
        ("http://example.com/deep/country.json", country),
        ("address.json", address),
    )
    again = parse({"$ref": "address.json"}, ("country.json", country), ("address.json", address))
    expected = parse({"$id": address["$id"], "items": country})
    assert same(whole, expected)
    assert same(again, expected)


def test_ids_inside_a_schema_are_known():
    inner = {"$id": "inner.json", "type": "object", "properties": {"x": {"$ref": "#/definitions/y"}},
             "definitions": {"y": {"type": "integer"}}}  # fmt: skip
    schema = {
        "$id": "http://example.com/a.json",
        "items": {"$ref": "inner.json"},
        "definitions": {"i": inner},
    }
    flat = parse({"items": {"type": "object", "properties": {"x": {"type": "integer"}}}})
    told = compare(parse(schema).node(), flat.node(), Budget()).changes(Budget())
    assert {change for change, _ in told} == {"ID_CHANGED"}


@pytest.mark.parametrize("top", ["", "http://example.com/a/b.json", "a/b.json"])
@pytest.mark.parametrize("inner", ["c/d.json", "/c/d.json", "http://example.org/c/d.json"])
@pytest.mark.parametrize("also_in_place", [True, False])
def test_relative_ids_count_once(top, inner, also_in_place):
    embedded = {"$id": inner, "items": {"$ref": "e.json"}}
    leaf = {"$id": inner.replace("d.json", "e.json"), "type": "integer"}
    schema = {"properties": {"x": {"$ref": inner}}, "definitions": {"leaf": leaf}}
    schema["properties" if also_in_place else "definitions"]["y"] = embedded
    node = parse({**({"$id": top} if top else {}), **schema}).node()
    assert node.properties["x"].target.all_items.target.is_integer
    if also_in_place:
        assert node.properties["x"].target is node.properties["y"]


def test_schemas_may_refer_to_themselves_by_name():
    schema = {"$id": "http://example.com/tree.json", "items": {"$ref": "tree.json"}}
    assert same(parse(schema), parse({"$id": schema["$id"], "items": {"$ref": "#"}}))


def test_nothing_is_fetched(monkeypatch):
    def refuse(*_):
        raise AssertionError("a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    assert "disabled" in refusal({"$ref": "https://example.com/x"})
    assert "cannot resolve" in refusal({"$ref": "file:///etc/passwd"})


def test_a_dependency_that_is_no_json_is_refused():
    with pytest.raises(InvalidSchema, match="Invalid JSON"):
        JSON.parse('{"$ref":"a"}', [Dependency("a", "{")], new=True)


def test_types_that_are_listed_again_are_one():
    schema = {"type": ["object", "null"] * 20_000, "properties": {f"p{i}": {} for i in range(200)}}
    assert len(parse(schema).node().branches) == 2


def test_many_references_by_name_are_found_quickly():
    names = [f"n{i}" for i in range(3000)]
    schema = {
        "properties": {name: {"$ref": f"#{name}"} for name in names},
        "definitions": {name: {"$id": f"#{name}", "type": "string"} for name in names},
    }
    assert len(parse(schema).node().properties) == 3000
