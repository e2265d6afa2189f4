"""Whether a field's default is a value of its type (Java Avro 1.12: a union's may match any branch)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from registry.domain.schemas.contract import InvalidSchema

from .canonical import canonical_text
from .json_text import printed
from .model import MISSING, Array, Json, Map, Node, Record, Union, Unresolved
from .walk import Walk, run

_RANGES: Final = {"int": 2**31, "long": 2**63}
_FLOATING: Final = frozenset({"float", "double"})


def check_default(field: str, node: Node, value: Json, done: AbstractSet[int] | None = None) -> None:
    """Raise :class:`InvalidSchema` unless ``value`` may be the default of a field of type ``node``.

    ``done``, where given, holds the identities of the records whose fields are known: Java refuses an object
    for a record that it is still putting together.
    """
    valid = _plain(node, value)
    if valid is None:
        valid = run(_deep(node, value, {}, done))
    if not valid:
        text = canonical_text(node, ())
        raise InvalidSchema(f"Invalid default for field {field}: {printed(value)} not a {text}")


def _plain(node: Node, value: Json) -> bool | None:
    """The verdict where no array or object has to be entered, else None."""
    kind = node.kind
    if kind == "union":
        assert type(node) is Union
        return _plain_union(node, value)
    if kind == "record":
        return None if type(value) is dict else False
    if kind == "array":
        return (not value or None) if type(value) is list else False
    if kind == "map":
        return (not value or None) if type(value) is dict else False
    if kind == "null":
        return value is None
    if kind == "boolean":
        return type(value) is bool
    if kind in _RANGES:
        return type(value) is int and -_RANGES[kind] <= value < _RANGES[kind]
    if kind in _FLOATING:
        return type(value) is int or type(value) is float
    return type(value) is str


def _plain_union(node: Union, value: Json) -> bool | None:
    verdict: bool | None = False
    for branch in node.branches:
        valid = _plain(branch, value)
        if valid:
            return verdict is None or True
        if valid is None:
            return None
    return verdict


def _deep(
    node: Node, value: Json, seen: dict[tuple[int, int], bool], done: AbstractSet[int] | None
) -> Walk[bool]:
    """As :func:`_plain` for what is nested; ``seen`` bounds the work where unions offer many ways."""
    key = (id(node), id(value))
    if key not in seen:
        seen[key] = yield _judge(node, value, seen, done)
    return seen[key]


def _judge(
    node: Node, value: Json, seen: dict[tuple[int, int], bool], done: AbstractSet[int] | None
) -> Walk[bool]:
    parts: list[tuple[Node, Json]]
    if type(node) is Union:
        for branch in node.branches:
            valid = _plain(branch, value)
            if valid is None:
                valid = yield _deep(branch, value, seen, done)
            if valid:
                return True
        return False
    if type(node) is Unresolved:
        return True
    if type(node) is Array:
        parts = [(node.items, item) for item in value]
    elif type(node) is Map:
        parts = [(node.values, item) for item in value.values()]
    else:
        assert type(node) is Record
        if done is not None and id(node) not in done:
            raise InvalidSchema("Schema fields not set yet")
        # A field that the value leaves out takes its own default, checked when that record was defined.
        if any(field.name not in value and field.default is MISSING for field in node.fields):
            return False
        parts = [(field.type, value[field.name]) for field in node.fields if field.name in value]
    for part, item in parts:
        valid = _plain(part, item)
        if valid is None:
            valid = yield _deep(part, item, seen, done)
        if not valid:
            return False
    return True
