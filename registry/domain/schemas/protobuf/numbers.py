"""Numbers in the normal form, as Java's default ``DecimalFormat`` prints them (Confluent 8.x)."""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal
from math import isfinite
from typing import Final

_INTEGER: Final = re.compile(r"(-?)(0[xX][0-9A-Fa-f]+|[0-9]+)")
_DECIMAL: Final = re.compile(r"-?(?:[0-9]+(?:\.([0-9]*))?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# Longest number, in digits; a longer one, or one that would get longer, stays as it is.
_LENGTH_MAX: Final = 400
_PLACES: Final = Decimal("0.001")
_EXACT: Final = Context(prec=2 * _LENGTH_MAX)


def normal(text: str) -> str:
    """Return ``text`` without grouping and with at most three decimals; a text that is not a number stays.

    Java reads a number with few decimals as a float, so only the first digits of a large one remain.
    """
    if len(text) > _LENGTH_MAX:
        return text
    whole = _INTEGER.fullmatch(text)
    if whole is not None:
        return _whole(whole.group(1), whole.group(2).lower())
    found = _DECIMAL.fullmatch(text)
    if found is None or Decimal(text).adjusted() > _LENGTH_MAX:
        return text
    return _shown(_read(text, len(found.group(1) or "")))


def _whole(sign: str, digits: str) -> str:
    if digits.startswith("0x"):
        value = int(digits, 16)
    elif digits.startswith("0") and len(digits) > 1:
        if not set(digits) <= set("01234567"):
            return sign + digits
        value = int(digits, 8)
    else:
        value = int(digits)
    return str(-value if sign else value)


def _read(text: str, decimals: int) -> Decimal:
    exact, double = Decimal(text), float(text)
    if decimals <= 7:
        try:
            (single,) = struct.unpack("f", struct.pack("f", double))
        except OverflowError:
            single = 0.0
        if (single or not exact) and isfinite(single):
            return Decimal(repr(single))
    return Decimal(repr(double)) if decimals <= 16 and (double or not exact) and isfinite(double) else exact


def _shown(value: Decimal) -> str:
    text = f"{value.quantize(_PLACES, ROUND_HALF_EVEN, _EXACT):f}"
    return text.rstrip("0").rstrip(".")
