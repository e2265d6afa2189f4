"""The defaults that DDL gives to fields, and the dates and times among them (Confluent 8.4).

Unlike Confluent's server, which answers 500, a date or time that does not exist is a fault of the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from registry.domain.schemas.contract import InvalidSchema

from .types import UNBOUNDED, Kind, Leaf, Shape, name_of

_SHOWN_MAX: Final = 200
_INTEGERS: Final = {Kind.TINYINT: 7, Kind.SMALLINT: 15, Kind.INT: 31, Kind.BIGINT: 63}
_DIGITS_MAX: Final = 20
# The greatest finite numbers.
_FLOATS: Final = {Kind.FLOAT: (2 - 2**-23) * 2.0**127, Kind.DOUBLE: (2 - 2**-52) * 2.0**1023}
# As Java's ``BigDecimal`` reads them; longer ones could take long to convert.
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DECIMAL_MAX: Final = 1000
# Digits of a decimal before its point that are computed with.
_WHOLE_MAX: Final = 1000
_DATE: Final = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<part>[0-9]{1,9}))?)?"
_MOMENTS: Final[Mapping[Kind, re.Pattern[str]]] = {
    Kind.DATE: re.compile(_DATE),
    Kind.TIME: re.compile(_TIME),
    Kind.TIMESTAMP: re.compile(f"{_DATE}T{_TIME}"),
    Kind.TIMESTAMP_LTZ: re.compile(f"{_DATE}T{_TIME}Z"),
}
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 2
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class Literal(NamedTuple):
    """A literal as written."""

    # ``number``, ``string``, ``bytes``, ``boolean`` or ``null``; ``other`` for those that only CHECK takes.
    kind: str
    text: str
    # The text of a string, without quotes.
    value: str = ""

    @property
    def is_integer(self) -> bool:
        """True for a number without a point and an exponent."""
        return self.kind == "number" and self.text.lstrip("-").isdigit()


class Moment(NamedTuple):
    """A date, a time or both: days from 1970, and nanoseconds from midnight."""

    days: int
    nanoseconds: int


def default_value(shape: Shape, literal: Literal) -> Any:
    """Return the default of a field as :class:`.types.Field` holds it. Raises :class:`InvalidSchema`."""
    if literal.kind == "null":
        return None
    read = _READERS.get(shape.kind) if isinstance(shape, Leaf) else None
    if read is None or not isinstance(shape, Leaf):
        raise InvalidSchema(f"Default values are not supported for type: {name_of(shape)}")
    return read(shape, literal)


def moment(kind: Kind, text: str) -> Moment | None:
    """Return what a text stands for; None if there is no such date or time."""
    found = _MOMENTS[kind].fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    days = seconds = 0
    if "year" in parts:
        year, month, day = (int(parts[each]) for each in ("year", "month", "day"))
        if not (1 <= month <= len(_MONTHS) and 1 <= day <= _length(year, month)):
            return None
        days = _days(year, month, day)
    if "hour" in parts:
        hour, minute, second = (int(parts[each] or 0) for each in ("hour", "minute", "second"))
        if hour > 23 or minute > 59 or second > 59:
            return None
        seconds = hour * 3600 + minute * 60 + second
    return Moment(days, seconds * 10**9 + int((parts.get("part") or "0").ljust(9, "0")))


def _length(year: int, month: int) -> int:
    has_29 = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTHS[month - 1] + (month == _FEBRUARY and has_29)


def _days(year: int, month: int, day: int) -> int:
    """Return the days from 1970; years begin in March while it computes."""
    year -= month <= _FEBRUARY
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _boolean(leaf: Leaf, literal: Literal) -> bool:
    if literal.kind != "boolean":
        raise _mismatch(leaf, literal)
    return literal.text.upper() == "TRUE"


def _integer(leaf: Leaf, literal: Literal) -> int:
    if not literal.is_integer:
        raise _mismatch(leaf, literal)
    digits = literal.text.lstrip("-").lstrip("0") or "0"
    number = int(digits) * (-1 if literal.text[0] == "-" else 1) if len(digits) <= _DIGITS_MAX else None
    limit = 2 ** _INTEGERS[leaf.kind]
    if number is None or not -limit <= number < limit:
        raise InvalidSchema(f"{leaf.kind} default value out of range: {_cut(literal.text)}")
    return number


def _float(leaf: Leaf, literal: Literal) -> float:
    if literal.kind != "number":
        raise _mismatch(leaf, literal)
    number = float(literal.text)
    if not abs(number) <= _FLOATS[leaf.kind]:
        raise InvalidSchema(f"{leaf.kind} default value out of range: {_cut(literal.text)}")
    return number


def _decimal(leaf: Leaf, literal: Literal) -> str:
    text = literal.value if literal.kind == "string" else literal.text
    is_number = len(text) <= _DECIMAL_MAX and _DECIMAL.fullmatch(text)
    if literal.kind not in ("number", "string") or not is_number:
        raise _mismatch(leaf, literal)
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    of_type = f"{leaf.kind}({leaf.size}{'' if leaf.scale is None else f', {leaf.scale}'})"
    if leaf.scale is not None and -exponent > leaf.scale:
        raise InvalidSchema(
            f"{of_type} default value '{_cut(text)}' has scale {-exponent} "
            "(more digits after the decimal point than declared scale)"
        )
    whole = len(digits) + exponent
    allowed = min((leaf.size or 0) - (leaf.scale or 0), _WHOLE_MAX)
    if number and whole > allowed:
        raise InvalidSchema(
            f"{of_type} default value '{_cut(text)}' exceeds declared precision "
            f"(integer-part digits {whole} > {allowed})"
        )
    # A zero may have any exponent, and formats write as many digits as it says.
    return str(number) if number or exponent < 0 else "0"


def _text(leaf: Leaf, literal: Literal) -> str:
    if literal.kind != "string":
        raise _mismatch(leaf, literal)
    text, length = literal.value, len(literal.value)
    if leaf.kind is Kind.CHAR and length != leaf.size:
        raise InvalidSchema(
            f"{leaf} default value '{_cut(text)}' has {length} characters; must be exactly {leaf.size} "
            "(CHAR is fixed-length — use VARCHAR for variable length)."
        )
    if leaf.kind is Kind.VARCHAR and length > (leaf.size or 0):
        raise InvalidSchema(
            f"{leaf} default value '{_cut(text)}' exceeds the declared length ({length} > {leaf.size})"
        )
    return text


def _bytes(leaf: Leaf, literal: Literal) -> bytes:
    if literal.kind != "bytes":
        raise _mismatch(leaf, literal)
    digits = literal.text[2:-1].replace("''", "'")
    if len(digits) % 2:
        raise InvalidSchema(
            f"Bytes literal {_cut(literal.text)} has odd number of hex digits; "
            "must be even (each pair = one byte)"
        )
    wrong = next((at for at, each in enumerate(digits) if each not in _HEX), None)
    if wrong is not None:
        raise InvalidSchema(
            f"Invalid hex character at position {wrong // 2 * 2} in bytes literal {_cut(literal.text)}"
        )
    value = bytes.fromhex(digits)
    if leaf.kind is Kind.BINARY and len(value) != leaf.size:
        raise InvalidSchema(
            f"{leaf} default value has {len(value)} bytes; must be exactly {leaf.size} "
            "(BINARY is fixed-length — use VARBINARY for variable length)."
        )
    if leaf.size != UNBOUNDED and len(value) > (leaf.size or 0):
        raise InvalidSchema(
            f"{leaf} default value of {len(value)} bytes exceeds the declared length (max {leaf.size})"
        )
    return value


def _moment(leaf: Leaf, literal: Literal) -> str:
    if literal.kind != "string":
        raise _mismatch(leaf, literal)
    part = re.search(r"\.([0-9]*)", literal.value)
    digits = len(part[1]) if part else 0
    if leaf.size is not None and digits > leaf.size:
        raise InvalidSchema(
            f"{leaf} default value '{_cut(literal.value)}' has {digits} fractional-second digits, "
            f"exceeds the declared precision ({leaf.size})."
        )
    found = moment(leaf.kind, literal.value)
    if found is None:
        raise _mismatch(leaf, literal)
    return literal.value if leaf.kind is Kind.DATE else _as_java(leaf.kind, literal.value, found)


def _as_java(kind: Kind, text: str, found: Moment) -> str:
    """Return a time as Java prints it: in full minutes, seconds, or groups of three digits of a second."""
    seconds, part = divmod(found.nanoseconds, 10**9)
    time = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if seconds % 60 or part or kind is Kind.TIMESTAMP_LTZ:
        time += f":{seconds % 60:02d}"
    if part:
        digits = f"{part:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        time += f".{digits}"
    date = "" if kind is Kind.TIME else text[: text.index("T") + 1]
    return f"{date}{time}{'Z' if kind is Kind.TIMESTAMP_LTZ else ''}"


def _symbol(leaf: Leaf, literal: Literal) -> str:
    if literal.kind != "string" or literal.value not in leaf.symbols:
        raise _mismatch(leaf, literal)
    return literal.value


_READERS: Final[Mapping[Kind, Callable[[Leaf, Literal], Any]]] = {
    Kind.BOOLEAN: _boolean,
    **dict.fromkeys(_INTEGERS, _integer),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _float),
    Kind.DECIMAL: _decimal,
    **dict.fromkeys((Kind.CHAR, Kind.VARCHAR), _text),
    **dict.fromkeys((Kind.BINARY, Kind.VARBINARY), _bytes),
    **dict.fromkeys(_MOMENTS, _moment),
    Kind.ENUM: _symbol,
}


def _mismatch(leaf: Leaf, literal: Literal) -> InvalidSchema:
    shown = _cut(literal.text)
    return InvalidSchema(f"Default literal {shown} is not compatible with type {leaf.kind}")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
