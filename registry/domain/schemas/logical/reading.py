"""The common parts of reading schemas of all formats."""

from __future__ import annotations

from collections import Counter
from typing import Final

from registry.domain.schemas.contract import InvalidSchema

from .types import UNBOUNDED, Kind, Leaf

# Levels of nesting that a reader follows (Confluent 8.4).
_DEPTH_MAX: Final = 256
_DIGITS_MAX: Final = 10


class NotLogical(InvalidSchema):
    """Raised for a schema that has no logical type; ``str(error)`` says which part of it has none."""


def leaf_of_lengths(fixed: Kind, varying: Kind, least: int | None, most: int | None) -> Leaf:
    """Return the type of a string or binary with a least and a greatest length; None: not said."""
    if most is None:
        return Leaf(varying, UNBOUNDED)
    return Leaf(fixed if least == most else varying, most)


def integer(value: object) -> int | None:
    """Return an integer that a property holds as a number or as a text; None for all else."""
    if type(value) is int:
        return value
    written = type(value) is str and value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX
    return int(str(value)) if written else None


def check_depth(depth: int) -> None:
    """Raise :class:`NotLogical` for a type nested too deeply."""
    if depth > _DEPTH_MAX:
        raise NotLogical(f"Schema type nesting depth exceeds the maximum of {_DEPTH_MAX}")


def unique_names(candidates: list[tuple[str, str]]) -> list[str]:
    """Return a name for each branch of a union: the short one, or the long one where short ones are equal."""
    times = Counter(name for name, _ in candidates)
    return [name if times[name] == 1 else long for name, long in candidates]
