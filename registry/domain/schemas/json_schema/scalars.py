"""Changes to strings, numbers and lists of values."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation
from typing import Final

from registry.domain.schemas.json_text import MAX_NUMBER, Json

from .change_set import ChangeSet
from .model import Number, String, Values

_EXACT: Final = Context(prec=2 * MAX_NUMBER, traps=[InvalidOperation])


def limit(found: ChangeSet, old: Json, new: Json, name: str, keyword: str) -> None:
    """Add the change if a limit was added, removed, raised or lowered, as doubles (Confluent 8.x)."""
    if old is None and new is None:
        return
    if old is None:
        found.add(f"{name}_ADDED", keyword)
    elif new is None:
        found.add(f"{name}_REMOVED", keyword)
    else:
        before, after = double(old), double(new)
        if before < after:
            found.add(f"{name}_INCREASED", keyword)
        elif before > after:
            found.add(f"{name}_DECREASED", keyword)


def double(value: int | Decimal) -> float:
    """Return the number as a Java double."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def strings(old: String, new: String, found: ChangeSet) -> None:
    """Compare length limits and patterns; patterns are compared as texts."""
    limit(found, old.max_length, new.max_length, "MAX_LENGTH", "maxLength")
    limit(found, old.min_length, new.min_length, "MIN_LENGTH", "minLength")
    if old.pattern is None and new.pattern is None:
        return
    if old.pattern is None:
        found.add("PATTERN_ADDED", "pattern")
    elif new.pattern is None:
        found.add("PATTERN_REMOVED", "pattern")
    elif old.pattern != new.pattern:
        found.add("PATTERN_CHANGED", "pattern")


def numbers(old: Number, new: Number, found: ChangeSet) -> None:
    """Compare limits, multiples, and whether only integers are valid."""
    limit(found, old.maximum, new.maximum, "MAXIMUM", "maximum")
    limit(found, old.minimum, new.minimum, "MINIMUM", "minimum")
    limit(found, old.exclusive_maximum, new.exclusive_maximum, "EXCLUSIVE_MAXIMUM", "exclusiveMaximum")
    limit(found, old.exclusive_minimum, new.exclusive_minimum, "EXCLUSIVE_MINIMUM", "exclusiveMinimum")
    _multiples(old.multiple_of, new.multiple_of, found)
    if old.is_integer != new.is_integer:
        found.add("TYPE_EXTENDED" if old.is_integer else "TYPE_NARROWED")


def _multiples(old: Json, new: Json, found: ChangeSet) -> None:
    if old is None and new is None:
        return
    if old is None:
        found.add("MULTIPLE_OF_ADDED", "multipleOf")
    elif new is None:
        found.add("MULTIPLE_OF_REMOVED", "multipleOf")
    elif old == new:
        return
    elif _is_multiple(new, old):
        found.add("MULTIPLE_OF_EXPANDED", "multipleOf")
    elif _is_multiple(old, new):
        found.add("MULTIPLE_OF_REDUCED", "multipleOf")
    else:
        found.add("MULTIPLE_OF_CHANGED", "multipleOf")


def _is_multiple(value: int | Decimal, of: int | Decimal) -> bool:
    try:
        return not _EXACT.remainder(Decimal(value), Decimal(of))
    except InvalidOperation:  # the quotient has thousands of digits
        return False


def values(old: Values, new: Values, found: ChangeSet) -> None:
    """Compare ``enum`` and ``const``."""
    if old.values == new.values:
        return
    if old.kind == "const":
        found.add("ENUM_ARRAY_CHANGED", "const")
    elif new.values > old.values:
        found.add("ENUM_ARRAY_EXTENDED", "enum")
    elif new.values < old.values:
        found.add("ENUM_ARRAY_NARROWED", "enum")
    else:
        found.add("ENUM_ARRAY_CHANGED", "enum")
