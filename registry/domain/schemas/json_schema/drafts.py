"""The drafts of JSON Schema: their keywords for each type of value, and their rules.

A schema is checked level by level with the draft's own meta-schema by the ``jsonschema`` library, which looks
at schemas inside only as far as that they are objects (or booleans). So the library can check any nesting,
and unreferenced schemas may be invalid, as with Confluent's parsers. Like those, it ignores sizes and
duplicates (``"required": []``, an ``enum`` without values) and annotations such as ``examples``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import jsonschema
from jsonschema import validators
from jsonschema_specifications import REGISTRY
from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import Json, print_json

from .model import Array, Number, Object, String

_NUMBER: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_STRING: Final = frozenset({"minLength", "maxLength", "pattern"})
_OBJECT: Final = frozenset(
    {"properties", "required", "minProperties", "maxProperties", "patternProperties", "additionalProperties"}
)
_ARRAY: Final = frozenset({"items", "minItems", "maxItems", "uniqueItems"})
_CONDITIONAL: Final = frozenset({"if", "then", "else"})


class Keywords(NamedTuple):
    """The keywords that imply something in a schema without ``type``."""

    # Each type with those that imply it.
    of_types: tuple[tuple[str, frozenset[str]], ...]
    conditional: frozenset[str]
    # All of these.
    all: frozenset[str]


@cache
def keywords(draft: Draft) -> Keywords:
    """Return the keywords of a draft that imply a type or a condition."""
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
    conditional = frozenset({"if"}) if draft.modern else _CONDITIONAL if draft is DRAFT_7 else frozenset()
    of_types = (("array", array), ("object", object_), ("number", _NUMBER), ("string", string))
    return Keywords(of_types, conditional, conditional.union(*(each for _, each in of_types)))


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


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """One draft, by its differences from the others; it equals only itself."""

    # Without its scheme, as in ``$schema``.
    uri: str
    meta: str
    specification: Specification[Any]
    validator: Any
    id_keyword: str = "$id"
    # 2019-09 and later: keywords next to ``$ref`` count, and there are ``$defs`` and ``unevaluated…``.
    modern: bool = False
    # True if ``true`` and ``false`` are schemas.
    booleans: bool = True


DRAFT_4: Final = Draft(
    "json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-04/schema",
    DRAFT4,
    jsonschema.Draft4Validator,
    id_keyword="id",
    booleans=False,
)
DRAFT_6: Final = Draft(
    "json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-06/schema",
    DRAFT6,
    jsonschema.Draft6Validator,
)
DRAFT_7: Final = Draft(
    "json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-07/schema",
    DRAFT7,
    jsonschema.Draft7Validator,
)
DRAFT_2019_09: Final = Draft(
    "json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2019-09/schema",
    DRAFT201909,
    jsonschema.Draft201909Validator,
    modern=True,
)
DRAFT_2020_12: Final = Draft(
    "json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2020-12/schema",
    DRAFT202012,
    jsonschema.Draft202012Validator,
    modern=True,
)
_BY_URI: Final = {draft.uri: draft for draft in (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12)}

# Demands of the meta-schemas beyond types of values, which Confluent's parsers do not check.
_UNMINDED: Final = frozenset({"minItems", "uniqueItems", "minimum", "exclusiveMinimum", "format", "pattern"})

# Keywords that Confluent's parsers ignore.
_NOTES: Final = frozenset(
    {
        "$comment", "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema",
        "definitions", "$defs",
        "deprecated", "examples", "readOnly", "writeOnly",
    }
)  # fmt: skip

# Largest value, in characters, whose result is cached.
_KEPT_MAX: Final = 100

_TEXTS: Final = frozenset({"$id", "$ref", "$schema", "description", "format", "id", "pattern", "title"})


# The contents of the meta-schemas, by identity.
META_SCHEMAS: Final = {id(REGISTRY.contents(draft.meta)): draft for draft in _BY_URI.values()}


def draft_of(schema: Json) -> Draft:
    """Return the draft in ``$schema``, with http or https, with or without ``#``; draft 07 by default."""
    named = schema.get("$schema") if type(schema) is dict else None
    return (draft_named(named) if type(named) is str else None) or DRAFT_7


def draft_named(uri: str) -> Draft | None:
    """Return the draft whose meta-schema has this URI, with http or https, with or without ``#``."""
    return _BY_URI.get(uri.removesuffix("#").removeprefix("http://").removeprefix("https://"))


def check(schema: Json, draft: Draft) -> None:
    """Refuse keywords with values of wrong types, one level deep (:class:`InvalidSchema`)."""
    if type(schema) is bool and draft.booleans:
        return
    if type(schema) is not dict:
        raise InvalidSchema("Invalid JSON Schema: a schema is an object, or in later drafts a boolean")
    demanded = _one_level(draft)
    for name, value in schema.items():
        if name not in demanded:
            continue
        if type(value) is dict or type(value) is list:
            error = None if _is_plain(name, value) else _error(draft, name, value)
        elif name in _TEXTS and type(value) is str:
            error = None
        elif type(value) is str and len(value) > _KEPT_MAX:
            error = _error(draft, name, value)
        else:
            error = _kept_error(draft, name, repr(value), value)
        if error is not None:
            raise InvalidSchema(error)


def _is_plain(name: str, value: Json) -> bool:
    """Return true if the value is certainly valid, so that the library is not needed."""
    if name == "properties":
        return type(value) is dict and all(type(each) is dict for each in value.values())
    if name == "required":
        return type(value) is list and all(type(each) is str for each in value)
    if name in ("allOf", "anyOf", "oneOf"):
        return type(value) is list and all(type(each) is dict for each in value)
    if name == "items":
        return type(value) is dict
    return name in ("default", "const") or (name == "enum" and type(value) is list)


@lru_cache(maxsize=4096)
def _kept_error(draft: Draft, name: str, shown: str, value: Json) -> str | None:
    """Return the cached :func:`_error`; ``shown`` distinguishes 1 from ``true`` and from 1.0."""
    return _error(draft, name, value)


def _error(draft: Draft, name: str, value: Json) -> str | None:
    error = next(_one_level(draft)[name].iter_errors(_cut(value, 2)), None)
    if error is None:
        return None
    where = "/".join(["#", name, *map(str, error.absolute_path)])
    return f"Invalid JSON Schema: {where}: {_clip(_message(error))}"


def _message(error: jsonschema.ValidationError) -> str:
    """Return the library's message, which begins with the value as Python prints it, with JSON instead."""
    message: str = error.message
    shown = repr(error.instance)
    if isinstance(error.instance, str) or not message.startswith(shown):
        return message
    return print_json(error.instance) + message.removeprefix(shown)


def _cut(value: Json, depth: int) -> Json:
    """Return the value without the parts below the keyword's own level."""
    if type(value) is dict:
        return {name: _cut(each, depth - 1) for name, each in value.items()} if depth >= 0 else {}
    if type(value) is list:
        return [_cut(each, depth - 1) for each in value] if depth >= 0 else []
    return value


def _clip(message: str) -> str:
    return message if len(message) <= 500 else f"{message[:500]}..."


@cache
def _one_level(draft: Draft) -> dict[str, Any]:
    """Return a validator for each keyword of the draft that does not enter schemas inside the value."""
    parts: list[Json] = _vocabularies(draft.meta) if draft.modern else [REGISTRY.contents(draft.meta)]
    shared = {name: piece for part in parts for name, piece in _split_shared(part).items()}
    validator = validators.extend(draft.validator, {"additionalProperties": _additional})
    return {
        name: validator(_inline(demanded, shared, draft))
        for part in parts
        for name, demanded in part.get("properties", {}).items()
        if name not in _NOTES
    }


def _additional(validator: Any, demanded: Json, value: Json, _: Json) -> Iterator[Any]:
    """Yield the errors of all members in the order of the text; the library's differs between processes.

    Meta-schemas that demand this of a keyword's value list no properties with it.
    """
    if type(value) is dict:
        for name, each in value.items():
            yield from validator.descend(each, demanded, path=name)


def _split_shared(part: dict[str, Json]) -> dict[str, Json]:
    return {**part.get("definitions", {}), **part.get("$defs", {})}


def _vocabularies(meta: str) -> list[dict[str, Json]]:
    folder = meta.rsplit("/", 1)[0]
    return [
        REGISTRY.contents(meta),
        *(REGISTRY.contents(f"{folder}/{each['$ref']}") for each in REGISTRY.contents(meta)["allOf"]),
    ]


def _inline(demanded: Json, shared: dict[str, Json], draft: Draft) -> Json:
    """Return a piece of a meta-schema without references: those to pieces inlined, those to schemas cut."""
    if type(demanded) is list:
        return [_inline(each, shared, draft) for each in demanded]
    if type(demanded) is not dict:
        return demanded
    for name in ("$ref", "$dynamicRef", "$recursiveRef"):
        if name in demanded:
            target = demanded[name].rsplit("/", 1)
            if len(target) == 1:
                return {"type": ["object", "boolean"] if draft.booleans else "object"}
            return _inline(shared[target[1]], shared, draft)
    return {name: _inline(value, shared, draft) for name, value in demanded.items() if name not in _UNMINDED}
