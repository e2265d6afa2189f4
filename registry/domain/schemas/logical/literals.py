"""Defaults of columns as SQL literals (Confluent 8.4)."""

from __future__ import annotations

import re
from typing import Any, Final

from registry.domain.schemas.json_text import print_json

from .types import Kind, Leaf

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBERS: Final = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
)
_TEXTS: Final = frozenset(
    {Kind.CHAR, Kind.VARCHAR, Kind.ENUM, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}
)
_DAY_S: Final = 86_400


def quote(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def comment(text: str) -> str:
    """Return a text as a comment that ends where the text ends."""
    return f"/* {text.replace('*/', '* /')} */"


def literal(type: object, value: Any) -> str | None:
    """Return a default as SQL; None if there is no literal for it, as for all types with parts."""
    if value is None:
        return "NULL"
    if not isinstance(type, Leaf):
        return None
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    text = value if isinstance(value, str) else print_json(value)
    if type.kind is Kind.BOOLEAN:
        return text.upper() if text in ("true", "false") else None
    if type.kind in _NUMBERS:
        return text if _NUMBER.fullmatch(text) else None
    return quote(value) if type.kind in _TEXTS and isinstance(value, str) else None


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
