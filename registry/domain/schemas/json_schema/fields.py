"""The fields of a JSON schema: its properties; see :mod:`registry.domain.schemas.fields`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import orjson

from registry.domain.schemas import tags
from registry.domain.schemas.contract import SchemaField
from registry.domain.schemas.explaining import excerpt
from registry.domain.schemas.fields import (
    DEPTH_MAX,
    NAMED_MAX,
    default_in,
    extend_path,
    join_path,
    list_names,
    text_in,
)
from registry.domain.schemas.json_text import Json

from .text import read

_COMBINING = ("allOf", "anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else")
_BUCKETS = ("definitions", "$defs")


def fields(text: str) -> Iterator[SchemaField]:
    """Yield objects and properties in the order of the text. Raises :class:`InvalidSchema`: no JSON."""
    try:
        root = orjson.loads(text)
    except ValueError:
        root = read(text)
    if type(root) is dict and (name := text_in(root, "title")):
        yield _type(root, "", name)
    waiting: list[tuple[Json, str]] = [(root, "")]
    while waiting:
        schema, path = waiting.pop()
        if type(schema) is not dict:
            continue
        inside: list[tuple[Json, str]] = []
        required = schema.get("required")
        must = {each for each in required if type(each) is str} if type(required) is list else set()
        for name, each in _members(schema, "properties"):
            place = join_path(path, name)
            yield _field(each, place, name, required=name in must)
            inside.append((each, place))
        for name, each in chain.from_iterable(_members(schema, bucket) for bucket in _BUCKETS):
            if type(each) is dict:
                yield _type(each, name, name)
            inside.append((each, name))
        inside += _others(schema, path)
        waiting.extend(reversed(inside))


def _others(schema: dict[str, Json], path: str) -> Iterator[tuple[Json, str]]:
    for keyword in _COMBINING:
        branches = schema.get(keyword)
        yield from ((each, path) for each in (branches if type(branches) is list else ()))
    for keyword in _CONDITIONAL:
        yield schema.get(keyword), path
    for keyword in ("prefixItems", "items"):
        items = schema.get(keyword)
        yield from ((each, extend_path(path, "[]")) for each in (items if type(items) is list else (items,)))
    yield from ((each, extend_path(path, "{}")) for _, each in _members(schema, "patternProperties"))
    yield schema.get("additionalProperties"), extend_path(path, "{}")


def _members(schema: dict[str, Json], keyword: str) -> list[tuple[str, Json]]:
    value = schema.get(keyword)
    return list(value.items()) if type(value) is dict else []


def _field(each: Json, path: str, name: str, *, required: bool) -> SchemaField:
    if type(each) is not dict:
        return SchemaField("field", path, name, "any" if each is True else "never", required=required)
    doc, found = text_in(each, "description", "title"), tuple(tags.tags_in(each.get(tags.NAME)))
    return SchemaField("field", path, name, _type_text(each), default_in(each), doc, found, required)


def _type(each: dict[str, Json], path: str, name: str) -> SchemaField:
    doc = text_in(each, "description", "title")
    found = tuple(tags.tags_in(each.get(tags.NAME)))
    return SchemaField("type", path, name, _type_text(each), doc="" if doc == name else doc, tags=found)


def _type_text(schema: Json, depth: int = 0) -> str:
    if type(schema) is not dict:
        return "any"
    if depth == DEPTH_MAX:
        return "…"
    if target := text_in(schema, "$ref", "$dynamicRef", "$recursiveRef"):
        return target.rpartition("/")[2] or target
    if type(values := schema.get("enum")) is list:
        return f"enum ({list_names([excerpt(each) for each in values[: NAMED_MAX + 1]])})"
    if "const" in schema:
        return f"const {excerpt(schema['const'])}"
    kind = schema.get("type")
    if type(kind) is list:
        return list_names([each for each in kind if type(each) is str], " | ")
    if type(kind) is not str:
        return _branches_text(schema, depth)
    items = schema.get("items")
    if kind == "array" and type(items) is dict:
        return f"array<{_type_text(items, depth + 1)}>"
    note = text_in(schema, "format")
    return f"{kind} ({note})" if note else kind


def _branches_text(schema: dict[str, Json], depth: int) -> str:
    for keyword in _COMBINING:
        branches = schema.get(keyword)
        if type(branches) is list:
            shown = [_type_text(each, depth + 1) for each in branches[: NAMED_MAX + 1]]
            return list_names(shown, " & " if keyword == "allOf" else " | ")
    return "object" if "properties" in schema else "any"
