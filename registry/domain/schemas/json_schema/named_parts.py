"""The named parts of a JSON schema, for lint rules, and the tags of its objects and properties.

A path consists of the kinds of the schemas on the way and the properties between them, as in
``object.address.object.zip``, ``array.object.f``, ``oneOf.0.object.f``, ``object.definitions.Name.object.f``.
A branch of a combined schema is named by its position in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from registry.domain.schemas import tags
from registry.domain.schemas.contract import Entity, Tagged
from registry.domain.schemas.json_text import Json
from registry.domain.schemas.lint import Element


def elements(value: Json) -> Iterator[Element]:
    """Yield objects and their properties, which a description or a title documents."""
    for entity, schema, name in parts(value):
        doc = bool(schema.get("description") or schema.get("title"))
        yield Element("object" if entity.kind == tags.RECORD else "field", entity.path, name, doc=doc)


_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONAL: Final = ("if", "then", "else")
_BUCKETS: Final = ("definitions", "$defs")


def list_tagged(value: Json) -> list[Tagged]:
    """Return the tagged entities in the order of the text."""
    return tags.collect_tagged(_entities(value), _read)


def change(value: Json, wanted: tags.Changes) -> None:
    """Change the tags of the schemas in ``value``, which must not be shared.

    Raises :class:`~.contract.InvalidSchema` for a path that does not exist.
    """
    tags.give(_entities(value), wanted, _read, _write)


def _read(each: dict[str, Json]) -> object:
    return each.get(tags.NAME)


def _write(each: dict[str, Json], value: list[str]) -> None:
    if value:
        each[tags.NAME] = value
    else:
        each.pop(tags.NAME, None)


def _entities(value: Json) -> Iterator[tuple[Entity, dict[str, Json]]]:
    return ((each.entity, each.schema) for each in parts(value))


class Part(NamedTuple):
    """An object, or a property of one."""

    entity: Entity
    schema: dict[str, Json]
    # The property's name; empty for an object.
    name: str


def parts(value: Json) -> Iterator[Part]:
    """Yield objects, each before its properties, in the order of the text."""
    waiting: list[tuple[Json, str, bool]] = [(value, "", False)]
    while waiting:
        schema, scope, is_property = waiting.pop()
        if type(schema) is not dict:
            continue
        inside: list[tuple[Json, str, bool]] = []
        if _is_object(schema):
            if not is_property:
                yield Part(Entity(f"{scope}object", tags.RECORD), schema, "")
            for name, each in _members(schema, "properties"):
                if type(each) is dict:
                    yield Part(Entity(f"{scope}object.{name}", tags.FIELD), each, name)
                inside.append((each, f"{scope}object.{name}.", True))
            for bucket in _BUCKETS:
                inside += (
                    (each, f"{scope}object.{bucket}.{name}.", False)
                    for name, each in _members(schema, bucket)
                )
        inside += _other_parts(schema, scope)
        waiting.extend(reversed(inside))


def _is_object(schema: dict[str, Json]) -> bool:
    value = schema.get("type")
    return "properties" in schema or value == "object" or (type(value) is list and "object" in value)


def _members(schema: dict[str, Json], keyword: str) -> list[tuple[str, Json]]:
    value = schema.get(keyword)
    return list(value.items()) if type(value) is dict else []


def _other_parts(schema: dict[str, Json], scope: str) -> Iterator[tuple[Json, str, bool]]:
    for keyword in _COMBINING:
        branches = schema.get(keyword)
        for at, each in enumerate(branches if type(branches) is list else ()):
            yield each, f"{scope}{keyword}.{at}.", False
    if "items" in schema:
        yield schema["items"], f"{scope}array.", False
    for keyword in _CONDITIONAL:
        if keyword in schema:
            yield schema[keyword], f"{scope}conditional.{keyword}.", False
    if "not" in schema:
        yield schema["not"], f"{scope}not.", False
