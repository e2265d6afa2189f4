"""The normal form, equal for schemas that differ only in insignificant order or spelling.

As Confluent 8.x does it: properties and aliases are sorted, a valid logical type comes first with its
parameters, empty docs of types are dropped, ``error`` becomes ``record``, defaults are written as values of
their type. Unlike Confluent's, this form keeps a union's default that is not a value of the first branch, and
the null namespace of a type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import Final

from registry.domain.schemas.trampoline import Walk, run

from .model import (
    MISSING,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Node,
    Primitive,
    Record,
    Union,
)

_LOGICAL: Final = {
    "big-decimal": "bytes",
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
_INCOMPATIBLE: Final = ("avro.java.string", "java-class", "java-key-class", "java-element-class")


def normal_form(node: Node) -> Node:
    """Return a normalized copy of ``node``."""
    return run(_normal(node, {}))


def _normal(node: Node, done: dict[int, Node]) -> Walk[Node]:
    if node.text is not None:
        return node
    if type(node) is Primitive:
        return Primitive(node.kind, _logical_first(node))
    if type(node) is Union:
        branches = []
        for branch in node.branches:
            normal = yield _normal(branch, done)
            branches.append(normal)
        return Union(branches)
    if type(node) is Array:
        return Array((yield _normal(node.items, done)), _sort_props(node.props))
    if type(node) is Map:
        return Map((yield _normal(node.values, done)), _sort_props(node.props))
    if id(node) not in done:
        if type(node) is Record:
            yield _record(node, done)
        elif type(node) is Enum:
            aliases = _aliases(node.aliases, node.name)
            done[id(node)] = Enum(
                node.name, node.doc or None, node.symbols, node.default, aliases, _sort_props(node.props)
            )
        elif type(node) is Fixed:
            aliases = _aliases(node.aliases, node.name)
            done[id(node)] = Fixed(node.name, node.doc or None, node.size, aliases, _logical_first(node))
    return done[id(node)]


def _record(node: Record, done: dict[int, Node]) -> Walk[None]:
    fields: list[Field] = []
    aliases = _aliases(node.aliases, node.name)
    done[id(node)] = Record(
        node.name, node.doc or None, fields, aliases, _sort_props(node.props), is_error=False
    )
    for field in node.fields:
        inner = yield _normal(field.type, done)
        default = MISSING if field.default is MISSING else run(_default(field.type, field.default))
        names = tuple(_in_order(field.aliases))
        fields.append(
            Field(field.name, inner, field.doc, default, field.order, names, _sort_props(field.props))
        )


def _default(node: Node, value: Json) -> Walk[Json]:
    """Return a default as Java prints it for its type; for a union, its first branch."""
    if type(node) is Union:
        node = node.branches[0] if node.branches else _ANY
    if type(value) is dict:
        inner = {}
        for key in _in_order(value):
            inner[key] = yield _default(_member(node, key), value[key])
        return inner
    if type(value) is list:
        items = []
        for item in value:
            kept = yield _default(node.items if type(node) is Array else _ANY, item)
            items.append(kept)
        return items
    if node.kind == "float" and type(value) in (int, float):
        return _single(_double(value))
    if node.kind == "double" and type(value) is int:
        return _double(value)
    if node.kind in ("bytes", "fixed") and type(value) is str:
        return value.encode("latin-1", "replace").decode("latin-1")
    return value


_ANY: Final = PRIMITIVES["null"]


def _member(node: Node, key: str) -> Node:
    if type(node) is Map:
        return node.values
    if type(node) is Record:
        return next((field.type for field in node.fields if field.name == key), _ANY)
    return _ANY


def _double(value: float) -> float:
    """Return a number as Java's ``doubleValue`` does: infinity for an integer out of range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _single(value: float) -> float:
    """Return ``value`` rounded to a 32-bit float, with the fewest digits that identify it."""
    try:
        kept = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    if not math.isfinite(kept):
        return float(kept)
    return next(
        short
        for digits in range(1, 18)
        if struct.unpack("f", struct.pack("f", short := float(f"{kept:.{digits}g}")))[0] == kept
    )


def _logical_first(node: Primitive | Fixed) -> dict[str, Json] | None:
    props = _sort_props(node.props)
    if not props or not _is_logical(node, props):
        return props
    first = ["logicalType"]
    if props["logicalType"] == "decimal":
        first += ["precision", "scale"] if props.get("scale") else ["precision"]
    return {key: props[key] for key in first} | props


def _is_logical(node: Primitive | Fixed, props: dict[str, Json]) -> bool:
    """Return true if Java knows the logical type and accepts it here."""
    name = props.get("logicalType")
    if type(name) is not str or any(type(props.get(key)) is str for key in _INCOMPATIBLE):
        return False
    size = node.size if type(node) is Fixed else None
    if name == "uuid":
        return node.kind == "string" or size == 16
    if name == "duration":
        return size == 12
    if name == "decimal":
        return (node.kind == "bytes" or size is not None) and _is_decimal(props, size)
    return _LOGICAL.get(name) == node.kind


def _is_decimal(props: dict[str, Json], size: int | None) -> bool:
    precision, scale = props.get("precision"), props.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return False
    most = 2**31 - 1 if size is None else math.floor(math.log10(2) * (8 * size - 1))
    return 0 < precision <= most and 0 <= scale <= precision


def _sort_props(props: dict[str, Json] | None) -> dict[str, Json] | None:
    return {key: run(_sorted_value(props[key])) for key in _in_order(props)} if props else None


def _sorted_value(value: Json) -> Walk[Json]:
    if type(value) is dict:
        members = {}
        for key in _in_order(value):
            members[key] = yield _sorted_value(value[key])
        return members
    if type(value) is list:
        items = []
        for item in value:
            kept = yield _sorted_value(item)
            items.append(kept)
        return items
    return value


def _aliases(aliases: tuple[Name, ...], name: Name) -> tuple[Name, ...]:
    """Sorted by Java's texts: an alias in no namespace begins with a dot where the type is in one."""
    by_text = {f".{a.simple}" if a.space is None and name.space is not None else a.full: a for a in aliases}
    return tuple(by_text[text] for text in _in_order(by_text))


def _in_order(texts: Iterable[str]) -> list[str]:
    """Sort strings as Java does, by UTF-16 units."""
    return sorted(texts, key=lambda text: text.encode("utf-16-be"))
