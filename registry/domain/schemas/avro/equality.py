"""Equality of definitions, and digests that are equal for equal ones.

:func:`same_definition` is Java's ``Schema.equals``, which permits defining a type twice. :func:`equivalent`
also compares docs, aliases and enum defaults, as Confluent's lookup does.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from registry.domain.schemas.contract import Fingerprints, digest
from registry.domain.schemas.json_text import print_json
from registry.domain.schemas.trampoline import Walk, run

from .model import (
    MISSING,
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
    Unresolved,
)

_Seen = set[tuple[int, int]]


def same_definition(one: Node, other: Node, seen: set[tuple[int, int]]) -> bool:
    """Return true if names, types, defaults, orders and properties are equal.

    Docs, aliases and enum defaults do not count. ``seen`` keeps pairs found equal, so that none is compared
    twice.
    """
    return run(_same(one, other, False, seen))


def equivalent(one: Node, other: Node) -> bool:
    """Return true if both are equal apart from the order of attributes and properties."""
    return run(_same(one, other, True, set()))


def _same(one: Node, other: Node, full: bool, seen: _Seen) -> Walk[bool]:
    if one is other:
        return True
    # An unresolved name equals nothing, not even the same name elsewhere.
    if isinstance(one, Unresolved) or isinstance(other, Unresolved):
        return False
    if isinstance(one, Union) and isinstance(other, Union):
        if len(one.branches) != len(other.branches):
            return False
        for left, right in zip(one.branches, other.branches, strict=True):
            if left is not right and not (yield _same(left, right, full, seen)):
                return False
        return True
    if (
        isinstance(one, Union)
        or isinstance(other, Union)
        or one.kind != other.kind
        or not _same_props(one.props, other.props)
    ):
        return False
    if type(one) is Array and type(other) is Array:
        same: bool = yield _same(one.items, other.items, full, seen)
        return same
    if type(one) is Map and type(other) is Map:
        same = yield _same(one.values, other.values, full, seen)
        return same
    if isinstance(one, (Record, Enum, Fixed)) and isinstance(other, (Record, Enum, Fixed)):
        same = yield _same_named(one, other, full, seen)
        return same
    return True


def _same_named(
    one: Record | Enum | Fixed, other: Record | Enum | Fixed, full: bool, seen: _Seen
) -> Walk[bool]:
    if one.name.full != other.name.full:
        return False
    if full and (one.doc != other.doc or _aliases(one.aliases) != _aliases(other.aliases)):
        return False
    if type(one) is Enum and type(other) is Enum:
        return one.symbols == other.symbols and (not full or one.default == other.default)
    if type(one) is Fixed and type(other) is Fixed:
        return one.size == other.size
    assert type(one) is Record
    assert type(other) is Record
    if (id(one), id(other)) in seen:
        return True
    seen.add((id(one), id(other)))
    if len(one.fields) != len(other.fields):
        return False
    for left, right in zip(one.fields, other.fields, strict=True):
        if not _same_field(left, right, full):
            return False
        if left.type is not right.type and not (yield _same(left.type, right.type, full, seen)):
            return False
    return True


def _same_field(one: Field, other: Field, full: bool) -> bool:
    return (
        one.name == other.name
        and one.order == other.order
        and _same_default(one.default, other.default)
        and _same_props(one.props, other.props)
        and (not full or (one.doc == other.doc and set(one.aliases) == set(other.aliases)))
    )


def _same_default(one: Json, other: Json) -> bool:
    if one is MISSING or other is MISSING:
        return one is other
    return _same_value(one, other)


def _same_props(one: dict[str, Json] | None, other: dict[str, Json] | None) -> bool:
    if not one or not other:
        return not one and not other
    return one.keys() == other.keys() and all(_same_value(one[key], other[key]) for key in one)


def _same_value(one: Json, other: Json) -> bool:
    """Compare JSON values as Jackson does: 1, 1.0 and true all differ, members have no order."""
    if type(one) is not type(other):
        return False
    if type(one) is float or type(one) is list or type(one) is dict:
        return value_text(one) == value_text(other)
    return bool(one == other)


def value_text(value: Json) -> str:
    """Return a text that is equal for equal values of a type, in any order of members."""
    return print_json(run(_order(value)))


def _order(value: Json) -> Walk[Json]:
    if type(value) is dict:
        result = {}
        for key in sorted(value):
            item = value[key]
            result[key] = (yield _order(item)) if type(item) is dict or type(item) is list else item
        return result
    if type(value) is list:
        elements = []
        for item in value:
            element = yield _order(item)
            elements.append(element)
        return elements
    return value


def _aliases(aliases: tuple[Name, ...]) -> set[str]:
    return {alias.full for alias in aliases}


def fingerprints(node: Node, known: AbstractSet[str]) -> Fingerprints:
    """Return both digests; ``known``: the full names that the dependencies define."""
    return Fingerprints(
        _Content(known, inside=True).digest(node), _Content(frozenset(), inside=False).digest(node)
    )


class _Content:
    """The content of a schema as a list of texts: types in the order of a walk, each named one once.

    Two equivalent schemas are walked in step, so types recur at the same points. ``inside``: with the
    definitions of named types inside the first one.
    """

    def __init__(self, known: AbstractSet[str], *, inside: bool) -> None:
        self._out: list[str] = []
        self._seen = set(known)
        self._inside = inside
        self._top = True

    def digest(self, node: Node) -> bytes:
        """Return the digest of the content of ``node``."""
        run(self._node(node))
        return digest(self._out)

    def _node(self, node: Node) -> Walk[None]:
        out = self._out
        out.append(node.kind)
        top, self._top = self._top, False
        if type(node) is Union:
            out.append(str(len(node.branches)))
            for branch in node.branches:
                yield self._node(branch)
        elif type(node) is Record or type(node) is Enum or type(node) is Fixed:
            out.append(node.name.full)
            if node.name.full not in self._seen and (self._inside or top):
                self._seen.add(node.name.full)
                yield self._walk_named(node)
        elif isinstance(node, Primitive | Array | Map):
            self._props(node.props)
            if type(node) is Array:
                yield self._node(node.items)
            elif type(node) is Map:
                yield self._node(node.values)

    def _walk_named(self, node: Record | Enum | Fixed) -> Walk[None]:
        self._texts(node.doc, sorted({alias.full for alias in node.aliases}))
        self._props(node.props)
        if type(node) is Enum:
            self._texts(node.default, node.symbols)
        elif type(node) is Fixed:
            self._out.append(str(node.size))
        else:
            assert type(node) is Record
            self._out.append(str(len(node.fields)))
            for field in node.fields:
                self._field(field)
                yield self._node(field.type)

    def _field(self, field: Field) -> None:
        self._out += (field.name, field.order)
        self._texts(field.doc, sorted(set(field.aliases)))
        self._out.append("" if field.default is MISSING else _value(field.default))
        self._props(field.props)

    def _texts(self, one: str | None, many: list[str]) -> None:
        self._out += ("-" if one is None else f"+{one}", str(len(many)), *many)

    def _props(self, props: dict[str, Json] | None) -> None:
        self._out.append(str(len(props or ())))
        for key in sorted(props or ()):
            assert props is not None
            self._out += (key, _value(props[key]))


def _value(value: Json) -> str:
    return f"{type(value).__name__} {value_text(value)}"
