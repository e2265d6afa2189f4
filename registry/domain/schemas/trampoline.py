"""Recursion without the interpreter's stack, for schemas that nest as deep as their text permits."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar, cast

T = TypeVar("T")

# A recursive function as a generator: it yields each recursive call and is sent its result.
Walk = Generator[Any, Any, T]


def run(walk: Walk[T]) -> T:
    """Run a walk to its end and return its result; nesting takes heap, not stack."""
    stack: list[Walk[Any]] = [walk]
    value: Any = None
    while stack:
        try:
            step = stack[-1].send(value)
        except StopIteration as end:
            stack.pop()
            value = end.value
        else:
            stack.append(step)
            value = None
    return cast("T", value)
