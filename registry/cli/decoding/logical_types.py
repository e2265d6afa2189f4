"""Avro's logical types as text; values that their type cannot have stay as they are."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

# Digits of a fraction of a second, by the end of the type's name.
_FRACTIONS: Final = {"millis": 3, "micros": 6, "nanos": 9}
_DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION_BYTES: Final = 12
_UUID_BYTES: Final = 16
# Longer numbers take long to convert; no database has decimals of so many digits.
_DECIMAL_BYTES_MAX: Final = 1024
_SCALE_MAX: Final = 10_000

Props = Mapping[str, Any]


def logical_value(props: Props, value: Any) -> Any:
    """Return the value of a logical type as JSON; ``props`` are the properties of the type."""
    name = props["logicalType"]
    if not isinstance(name, str):
        return value
    base, _, fraction = name.rpartition("-")
    if base in _OF_FRACTIONS and fraction in _FRACTIONS and isinstance(value, int):
        return _OF_FRACTIONS[base](value, _FRACTIONS[fraction])
    convert = _OTHERS.get(name)
    return value if convert is None else convert(props, value)


def _decimal(props: Props, value: Any) -> Any:
    scale = props.get("scale", 0)
    if not isinstance(value, bytes) or not 0 < len(value) <= _DECIMAL_BYTES_MAX:
        return value
    if not isinstance(scale, int) or not 0 <= scale <= _SCALE_MAX:
        return value
    unscaled = int.from_bytes(value, signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _date(props: Props, value: Any) -> Any:
    moment = _moment(value * _DAY_S) if isinstance(value, int) else None
    return value if moment is None else f"{moment:%Y-%m-%d}".rjust(10, "0")


def _uuid(props: Props, value: Any) -> Any:
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) and len(value) == _UUID_BYTES else value


def _duration(props: Props, value: Any) -> Any:
    if not isinstance(value, bytes) or len(value) != _DURATION_BYTES:
        return value
    numbers = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return dict(zip(("months", "days", "millis"), numbers, strict=True))


def _time(value: int, digits: int) -> str | int:
    seconds, fraction = divmod(value, 10**digits)
    if not 0 <= seconds < _DAY_S:
        return value
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"


def _local_timestamp(value: int, digits: int) -> str | int:
    seconds, fraction = divmod(value, 10**digits)
    moment = _moment(seconds)
    if moment is None:
        return value
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{fraction:0{digits}}"


def _timestamp(value: int, digits: int) -> str | int:
    local = _local_timestamp(value, digits)
    return f"{local}Z" if isinstance(local, str) else local


def _moment(seconds: int) -> datetime | None:
    """Return the moment so many seconds after the epoch; None if it is not in the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


_OF_FRACTIONS: Final[dict[str, Callable[[int, int], str | int]]] = {
    "time": _time,
    "timestamp": _timestamp,
    "local-timestamp": _local_timestamp,
}
_OTHERS: Final[dict[str, Callable[[Props, Any], Any]]] = {
    "decimal": _decimal,
    "date": _date,
    "uuid": _uuid,
    "duration": _duration,
}
