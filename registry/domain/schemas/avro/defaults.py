"""Checks that defaults are values of their types (Java Avro 1.12: for unions, of any branch)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import clip, printed
from registry.domain.schemas.trampoline import Walk, run

from .canonical import canonical_text
from .model import MISSING, Array, Json, Map, Node, Record, Union, Unresolved

# Limit on comparisons of values with types in one text; a text that needs more is refused.
MAX_STEPS: Final = 1_000_000

_RANGES: Final = {"int": 2**31, "long": 2**63}
_FLOATING: Final = frozenset({"float", "double"})


class DefaultChecks:
    """The checks of all defaults in one text, which share a limit."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    def check(self, field: str, node: Node, value: Json, done: AbstractSet[int] | None = None) -> None:
        """Raise :class:`InvalidSchema` unless ``value`` may be the default of a field of type ``node``.

        ``done``: the identities of the records whose fields are known. Java refuses an object as the default
        for a record that it is still building.
        """
        valid = _plain(node, value)
        if valid is None:
            valid = run(_Check(self, done).fits(node, value))
        if not valid:
            shown = f"{clip(printed(value))} not a {clip(canonical_text(node, ()))}"
            raise InvalidSchema(f"Invalid default for field {field}: {shown}")

    def count(self, steps: int) -> None:
        """Use up ``steps`` of the limit."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise InvalidSchema("Invalid default: too large to be checked against its type")


def _plain(node: Node, value: Json) -> bool | None:
    """Return the result if no array or object has to be searched, else None."""
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
    for branch in node.branches:
        valid = _plain(branch, value)
        if valid is not False:
            return valid
    return False


class _Check:
    """The check of one default. It keeps results, because unions can lead to the same pair in many ways."""

    __slots__ = ("_checks", "_done", "_verdicts")

    def __init__(self, checks: DefaultChecks, done: AbstractSet[int] | None) -> None:
        self._checks = checks
        self._done = done
        self._verdicts: dict[tuple[int, int], bool] = {}

    def fits(self, node: Node, value: Json) -> Walk[bool]:
        """Return true if the value fits, searching arrays and objects."""
        key = (id(node), id(value))
        if key not in self._verdicts:
            self._verdicts[key] = yield self._judge(node, value)
        return self._verdicts[key]

    def _judge(self, node: Node, value: Json) -> Walk[bool]:
        if type(node) is Union:
            some: bool = yield self._some([(branch, value) for branch in node.branches])
            return some
        if type(node) is Unresolved:
            return True
        if type(node) is Array:
            every: bool = yield self._every([(node.items, item) for item in value])
            return every
        if type(node) is Map:
            every = yield self._every([(node.values, item) for item in value.values()])
            return every
        assert type(node) is Record
        if self._done is not None and id(node) not in self._done:
            raise InvalidSchema("Schema fields not set yet")
        self._checks.count(len(node.fields))
        # A field that the value leaves out has its own default, which was checked with that record.
        if any(field.name not in value and field.default is MISSING for field in node.fields):
            return False
        fields = [(field.type, value[field.name]) for field in node.fields if field.name in value]
        every = yield self._every(fields)
        return every

    def _some(self, parts: list[tuple[Node, Json]]) -> Walk[bool]:
        self._count(parts)
        for part, item in parts:
            valid = _plain(part, item)
            if valid is None:
                valid = yield self.fits(part, item)
            if valid:
                return True
        return False

    def _every(self, parts: list[tuple[Node, Json]]) -> Walk[bool]:
        self._count(parts)
        for part, item in parts:
            valid = _plain(part, item)
            if valid is None:
                valid = yield self.fits(part, item)
            if not valid:
                return False
        return True

    def _count(self, parts: list[tuple[Node, Json]]) -> None:
        self._checks.count(sum([len(part.branches) if type(part) is Union else 1 for part, _ in parts]))
