"""JSON text as Jackson prints it: compact, non-ASCII characters unescaped, numbers as in Java."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from .json_scanner import Json

# Longest quotation of a schema in a message.
MAX_SHOWN: Final = 10_240

# The rest of each open array and object, with its closing mark.
_Stack: TypeAlias = list[tuple[Iterator[tuple[str, Json]], str]]

_CONTROLS: Final = {i: f"\\u{i:04X}" for i in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
}


def quoted(text: str) -> str:
    r"""Return a JSON string. Control characters without a short form become ``\u001F``, in upper case."""
    done: str = encode_basestring(text)
    return done if "\\u00" not in done else f'"{text.translate(_CONTROLS)}"'


def double(value: float) -> str:
    """Return ``Double.toString`` of Java 19 and later: the shortest digits; NaN and infinity quoted."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    sign = "-" if repr(value)[0] == "-" else ""
    digits, point = _digits(abs(value))
    if not digits:
        return f"{sign}0.0"
    if not -3 < point < 8:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def _digits(value: float) -> tuple[str, int]:
    """Return a positive number's shortest digits, stripped of zeros, and the position of the point."""
    text = repr(value)
    mantissa, _, power = text.partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    # Java prints two digits if one would do, the nearest two: 4.9E-324, which is 5e-324 in Python.
    nearest = f"{value:.1e}"
    if len(digits) == 1 and float(nearest) == value:
        return nearest[:3].replace(".", "").rstrip("0"), int(nearest[4:]) + 1
    return digits, point


def _scalar(value: Json) -> str | None:
    if type(value) is str:
        return quoted(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return double(value)
    if type(value) is Decimal:
        return str(value)  # as Java's BigDecimal prints it: 1.50, 1E+2
    if not value:
        return "{}" if type(value) is dict else "[]"
    return None


def printed(value: Json) -> str:
    """Return any JSON value as text, members in their order."""
    simple = _scalar(value)
    if simple is not None:
        return simple
    out: list[str] = []
    stack: _Stack = []
    _open(value, out, stack)
    while stack:
        members, end = stack[-1]
        for prefix, member in members:
            out.append(prefix)
            text = _scalar(member)
            if text is None:
                _open(member, out, stack)
                break
            out.append(text)
        else:
            stack.pop()
            out.append(end)
    return "".join(out)


def clip(text: str) -> str:
    """Return ``text`` shortened for a message."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _open(value: Json, out: list[str], stack: _Stack) -> None:
    if type(value) is dict:
        out.append("{")
        stack.append((_members(value), "}"))
    else:
        out.append("[")
        stack.append((_elements(value), "]"))


def _members(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    comma = ""
    for name, member in value.items():
        yield f"{comma}{quoted(name)}:", member
        comma = ","


def _elements(value: list[Json]) -> Iterator[tuple[str, Json]]:
    comma = ""
    for element in value:
        yield comma, element
        comma = ","
