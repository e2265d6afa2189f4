"""The common parts of reading schemas of all formats, and of the values that they hold as defaults."""

from __future__ import annotations

from collections import Counter
from typing import Final

from registry.domain.schemas.contract import InvalidSchema

from .types import UNBOUNDED, Kind, Leaf

# Levels of nesting that a reader follows (Confluent 8.4).
_DEPTH_MAX: Final = 256
_DIGITS_MAX: Final = 10
_DAY_S: Final = 86_400


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


def decimal_text(unscaled: bytes, scale: int) -> str:
    """Return the number that a big-endian two's complement and a scale stand for."""
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = f"{abs(number):0{scale + 1}d}"
    cut = len(digits) - scale
    return f"{'-' if number < 0 else ''}{digits[:cut]}{'.' if scale else ''}{digits[cut:]}"


def moment_text(leaf: Leaf, number: int, fraction_digits: int) -> str:
    """Return a date, a time or a timestamp as ISO 8601 writes it.

    ``number``: days from 1970, or units of so many digits of a second from midnight or from 1970.
    """
    if leaf.kind is Kind.DATE:
        return _date(number)
    seconds, fraction = divmod(number, 10**fraction_digits)
    days, second = divmod(seconds, _DAY_S)
    time = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    if fraction:
        time += f".{fraction:0{fraction_digits}d}".rstrip("0")
    if leaf.kind is Kind.TIME:
        return time
    return f"{_date(days)}T{time}{'Z' if leaf.kind is Kind.TIMESTAMP_LTZ else ''}"


def _date(days: int) -> str:
    """Return a day of the Gregorian calendar, counted from 1970; years begin in March while it computes."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    calendar_month = month + 3 if month < 10 else month - 9
    return f"{era * 400 + year + (calendar_month <= 2):04d}-{calendar_month:02d}-{day + 1:02d}"
