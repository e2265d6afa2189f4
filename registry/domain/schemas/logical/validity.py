"""Comparison of a logical type with the limits of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.domain.schemas.contract import Budget

from . import limits
from .engines import Engine
from .findings import Finding, inside
from .types import Array, Leaf, Map, Struct, Type


def findings(root: Type, engine: Engine, budget: Budget) -> list[Finding]:
    """Return the limits that a type exceeds, in the order of the fields; each struct counts once.

    Raises :class:`.contract.Exhausted`.
    """
    return [*_Walk(engine, budget).run(root)]


class _Left:
    """Marks the end of a struct's contents."""

    def __init__(self, struct: Struct) -> None:
        self.struct: Final = struct


class _Walk:
    def __init__(self, engine: Engine, budget: Budget) -> None:
        self._limits: Final = (limits.sizes, *engine.limits)
        self._budget = budget
        self._seen: set[int] = set()
        # Structs that contain the present part.
        self._around: set[int] = set()

    def run(self, root: Type) -> Iterator[Finding]:
        todo: list[tuple[Type | _Left, str, int]] = [(root, "", 0)]
        while todo:
            part, path, depth = todo.pop()
            self._budget.spend()
            if isinstance(part, _Left):
                self._around.discard(id(part.struct))
                continue
            if isinstance(part.shape, Struct):
                if id(part.shape) in self._around:
                    yield _cycle(part.shape, path)
                if id(part.shape) in self._seen:
                    continue
                self._seen.add(id(part.shape))
                self._around.add(id(part.shape))
                todo.append((_Left(part.shape), "", 0))
            for limit in self._limits:
                yield from (Finding(rule, path, text) for rule, text in limit(part, depth))
            todo += reversed([*_contents(part, path, depth)])


def _contents(part: Type, path: str, depth: int) -> Iterator[tuple[Type, str, int]]:
    match part.shape:
        case Array(element):
            yield element, f"{path}[]", depth
        case Map(key, value):
            yield key, f"{path}{{key}}", depth
            yield value, f"{path}{{}}", depth
        case Struct() as struct:
            yield from ((each.type, inside(path, each.name), depth + 1) for each in struct.fields)
        case Leaf():
            return


def _cycle(struct: Struct, path: str) -> Finding:
    name = struct.name.rpartition(".")[2] if struct.name else "union"
    text = f"named type '{name}' refers to itself, and cannot be represented by a non-recursive type system"
    return Finding("CYCLIC_TYPE", path, text)
