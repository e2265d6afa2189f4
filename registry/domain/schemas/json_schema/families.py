"""The keywords of each type of value in each draft, and those limits that contain no schemas."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Final

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_scanner import Json

from .drafts import DRAFT_4, DRAFT_7, DRAFT_2020_12, Draft
from .model import Array, Number, Object, String

_NUMBER: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_STRING: Final = frozenset({"minLength", "maxLength", "pattern"})
_OBJECT: Final = frozenset(
    {"properties", "required", "minProperties", "maxProperties", "patternProperties", "additionalProperties"}
)
_ARRAY: Final = frozenset({"items", "minItems", "maxItems", "uniqueItems"})
_CONDITIONAL: Final = frozenset({"if", "then", "else"})


@cache
def of(draft: Draft) -> dict[str, frozenset[str]]:
    """Return the keywords of each type that imply the type in a schema without ``type``."""
    array, object_, string = _ARRAY, _OBJECT, _STRING
    if draft is not DRAFT_4:
        array, object_ = array | {"contains"}, object_ | {"propertyNames"}
    if draft is not DRAFT_2020_12:
        array |= {"additionalItems"}
    if draft.modern:
        array |= {"prefixItems", "unevaluatedItems"}
        object_ |= {"dependentRequired", "dependentSchemas", "unevaluatedProperties"}
    else:
        object_ |= {"dependencies"}
        string |= {"format"}
    conditional = {"if"} if draft.modern else _CONDITIONAL if draft is DRAFT_7 else ()
    return {
        "array": array,
        "object": object_,
        "number": _NUMBER,
        "string": string,
        "conditional": frozenset(conditional),
    }


def string(schema: dict[str, Json]) -> String:
    """Return the limits of a string."""
    node = String()
    node.max_length, node.min_length = schema.get("maxLength"), schema.get("minLength")
    node.pattern = schema.get("pattern")
    return node


def number(schema: dict[str, Json], *, is_integer: bool = False) -> Number:
    """Return a number's limits; the booleans of draft 04 are not compared (Confluent 8.x)."""
    node = Number(is_integer=is_integer)
    node.maximum, node.minimum = schema.get("maximum"), schema.get("minimum")
    node.exclusive_maximum = _number(schema.get("exclusiveMaximum"))
    node.exclusive_minimum = _number(schema.get("exclusiveMinimum"))
    node.multiple_of = schema.get("multipleOf")
    if node.multiple_of is not None and not node.multiple_of:
        raise InvalidSchema("Invalid JSON Schema: multipleOf should not be 0")
    return node


def limit_object(node: Object, schema: dict[str, Json]) -> None:
    """Set the counts and required names of an object."""
    node.required = frozenset(schema.get("required", ()))
    node.max_properties, node.min_properties = schema.get("maxProperties"), schema.get("minProperties")


def limit_array(node: Array, schema: dict[str, Json], draft: Draft) -> None:
    """Set the counts of an array. From 2019-09 on, ``contains`` alone requires one matching item."""
    node.max_items, node.min_items = schema.get("maxItems"), schema.get("minItems")
    node.unique = schema.get("uniqueItems", False)
    if not draft.modern:
        node.max_contains, node.min_contains = (
            _number(schema.get("maxContains")),
            _number(schema.get("minContains")),
        )
    elif "contains" in schema:
        node.max_contains, node.min_contains = schema.get("maxContains"), schema.get("minContains", 1)


def items(schema: dict[str, Json], draft: Draft) -> tuple[list[Json], Json, Json]:
    """Return the schemas of the first items, of all others (or a boolean), and of every item."""
    given = schema.get("items")
    if draft.modern and ("prefixItems" in schema or type(given) is not list):
        first = schema.get("prefixItems", [])
        if given is None or type(given) is bool:
            return first, given is not False, None
        return (first, given, None) if first else ([], True, given)
    rest = schema.get("additionalItems", True)
    return (given, rest, None) if type(given) is list else ([], rest, given)


def _number(value: Json) -> Json:
    return value if type(value) is int or type(value) is Decimal else None
