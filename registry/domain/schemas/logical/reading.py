"""The common parts of reading schemas of all formats, and of the values that they hold as defaults."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from registry.domain.schemas.contract import InvalidSchema

from .types import NO_NOTES, UNBOUNDED, Kind, Leaf, Notes, Shape

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


def scale_of(value: object) -> int | None:
    """Return the scale of a decimal, 0 if it is not said; None, which Confluent writes as -1: it is open."""
    return None if value in ("-1", -1) else integer(value) or 0


def notes_of(comment: object, tags: object = None, params: object = None) -> Notes:
    """Return what a schema says about one of its parts; anything but texts is left out."""
    if not (comment or tags or params):
        return NO_NOTES
    listed = tags if isinstance(tags, list | tuple) else ()
    pairs = params.items() if isinstance(params, dict) else ()
    return Notes(
        comment if isinstance(comment, str) else "",
        tuple(each for each in listed if isinstance(each, str)),
        tuple((key, value) for key, value in pairs if isinstance(key, str) and isinstance(value, str)),
    )


def named_notes(listed: Any, count: int) -> Sequence[tuple[str, Notes]] | None:
    """Return the names of ``count`` branches or symbols, and what is said about each.

    ``listed``: the names, or objects with ``name``, ``doc`` and ``params`` (``confluent:union``,
    ``confluent:enum``). None: it is neither, or of another length.
    """
    if type(listed) is not list or len(listed) != count:
        return None
    found = []
    for each in listed:
        about = each if type(each) is dict else {"name": each}
        found.append((str(about.get("name")), notes_of(about.get("doc"), None, about.get("params"))))
    return found


def enum_notes(own: Notes, listed: Any, count: int) -> tuple[Notes, ...]:
    """Return what is said about an enum, then about each of its symbols; nothing if nothing is said."""
    symbols = named_notes(listed, count)
    if own is NO_NOTES and symbols is None:
        return ()
    return (own, *(notes for _, notes in symbols or [("", NO_NOTES)] * count))


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


def bytes_of(leaf: Shape, default: Any) -> Any:
    """Return a default; that of a binary as bytes if it is a text in Base64."""
    is_text = isinstance(leaf, Leaf) and leaf.kind in (Kind.BINARY, Kind.VARBINARY) and type(default) is str
    if is_text:
        with suppress(ValueError):
            return base64.b64decode(default, validate=True)
    return default


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
