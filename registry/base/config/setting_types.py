"""Types of settings: how to parse and print a value, and how to describe the allowed ones.

A kind parses text (environment, flags) and TOML values. Invalid values raise :class:`ValueError`; the message
for the user is the kind's ``allowed``.

A comma-separated list of ``ACTION NAME:VALUE``; an item that contains a comma is in double quotes. The
messages are those of Confluent 8.3.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

_UNITS = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "": 1}
_SIZE = re.compile(r"(\d{1,18}) ?([KMGT]iB)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_COUNT = re.compile(r"([0-9]{1,15})([smhd]?)")


class NotAllowed(ValueError):
    """An invalid value; the text says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of settings.

    ``read`` parses text or a TOML value, ``show`` prints a value as TOML, ``allowed`` ends the sentence
    "allowed: …". A ``secret`` value is never printed.
    """

    read: Callable[[object], Any]
    allowed: str
    show: Callable[[Any], str] = str
    secret: bool = False


def quote_toml(value: object) -> str:
    """Return ``value`` as a TOML basic string."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", str(value))
    escaped = re.sub(r"[\0-\x1f\x7f]", lambda match: f"\\u{ord(match[0]):04x}", escaped)
    return f'"{escaped}"'


def whole(low: int, high: int) -> Kind:
    """Return the kind of whole numbers from ``low`` to ``high``, both included."""

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
            value = int(value)
        if type(value) is not int or not low <= value <= high:
            raise ValueError(value)
        return value

    return Kind(read, f"a whole number from {low} to {high}")


def seconds(low: float, high: float) -> Kind:
    """Return the kind of times in seconds."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
        number = float(value)
        if not math.isfinite(number) or not low <= number <= high:
            raise ValueError(value)
        return number

    return Kind(read, f"a number of seconds from {low:g} to {high:.15g}", lambda value: f"{value:.15g}")


def size(low: int, high: int) -> Kind:
    """Return the kind of numbers of bytes, plain or with a unit."""

    def read(value: object) -> int:
        if isinstance(value, str) and (match := _SIZE.fullmatch(value)):
            value = int(match[1]) * _UNITS[match[2] or ""]
        if type(value) is not int or not low <= value <= high:
            raise ValueError(value)
        return value

    def show(value: int) -> str:
        text = size_text(value)
        return text if text.isdigit() else quote_toml(text)

    return Kind(
        read,
        f'bytes, or a size such as "512 KiB" or "5 MiB", from {size_text(low)} to {size_text(high)}',
        show,
    )


def size_text(value: int) -> str:
    """Return a number of bytes in the largest unit that divides it."""
    unit = next(unit for unit, factor in _UNITS.items() if value and value % factor == 0)
    return f"{value // _UNITS[unit]} {unit}".rstrip()


def choice(*values: str, fold: Callable[[str], str] = str.lower) -> Kind:
    """Return the kind of these words, in any letter case."""

    def read(value: object) -> str:
        word = fold(value) if isinstance(value, str) else None
        if word not in values:
            raise ValueError(value)
        return word

    return Kind(read, "one of " + ", ".join(value or "empty" for value in values), quote_toml)


def one_of_numbers(*values: int) -> Kind:
    """Return the kind of these whole numbers."""

    def read(value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if type(value) is not int or value not in values:
            raise ValueError(value)
        return value

    return Kind(read, "one of " + ", ".join(map(str, values)))


def text(pattern: str, allowed: str) -> Kind:
    """Return the kind of texts that match ``pattern``."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(value)
        return value

    return Kind(read, allowed, quote_toml)


# Printed instead of a secret.
HIDDEN = "***"


def secret(length_min: int, allowed: str) -> Kind:
    """Return the kind of texts that are never printed; empty if not set."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value == HIDDEN or "\0" in value:
            raise ValueError
        if value and len(value) < length_min:
            raise ValueError
        return value

    return Kind(read, allowed, lambda value: quote_toml(HIDDEN if value else ""), secret=True)


def secrets(length_min: int, count_max: int, allowed: str) -> Kind:
    """Return the kind of texts with a secret on each line, none of which is ever printed."""
    one = secret(length_min, allowed)

    def read(value: object) -> str:
        lines = [each.removesuffix("\r") for each in one.read(value).split("\n")]
        found = [one.read(each) for each in lines if each]
        if len(found) > count_max:
            raise ValueError
        return "\n".join(found)

    return replace(one, read=read)


def _read_switch(value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower())
    if not isinstance(value, bool):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    return value


def _read_folder(value: object) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(value)
    return Path(value)


def _read_file(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or (value and not value.strip()):
        raise ValueError(value)
    return value


SWITCH = Kind(_read_switch, "true or false", lambda value: "true" if value else "false")
FOLDER = Kind(_read_folder, "the path of a folder, which is created if it does not exist", quote_toml)
FILE = Kind(_read_file, "the path of a readable file, or empty", quote_toml)


class Schedule(NamedTuple):
    """Records and seconds since the last time; 0 for one that does not count."""

    records: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse ``"100000"`` records, ``"6h"``, ``"100000,6h"``, or ``""`` for never.

        Raises :class:`ValueError` for anything else, for a unit given twice, and for zero.
        """
        records = seconds = 0
        for word in filter(None, (each.strip() for each in text.split(","))):
            match = _COUNT.fullmatch(word)
            count = int(match[1]) if match else 0
            if match is None or not count or (seconds if match[2] else records):
                raise ValueError(text)
            if match[2]:
                seconds = count * _SECONDS[match[2]]
            else:
                records = count
        return cls(records, seconds)


def _read(value: object) -> str:
    text = str(value) if type(value) is int else value
    if not isinstance(text, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    Schedule.parse(text)
    return text.strip()


SCHEDULE = Kind(
    _read,
    'a number of records, a time such as 90s, 30m, 6h or 1d, or both as in "100000,6h", or empty',
    quote_toml,
)


ACTIONS = ("set", "add", "setDate", "addDate")
_BY_WORD = {action.lower(): action for action in ACTIONS}
_ITEM = re.compile(r'\s*(?:"([^"]*)"|([^",]*))\s*(?:,|$)')
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_OFFSET = re.compile(r"-?[0-9]{1,15}")


class HeaderRule(NamedTuple):
    """An action on one header of every answer."""

    action: str
    name: str
    # For dates: milliseconds from now.
    value: str


def parse_header_rules(config: str) -> tuple[HeaderRule, ...]:
    """Parse the setting. Raises :class:`NotAllowed`."""
    return tuple(map(_rule, _items(config)))


def _items(config: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(config):
        match = _ITEM.match(config, at)
        if match is None or match.end() == at:
            raise NotAllowed(f"Invalid format of header config {config[at:]!r}: a double quote is not closed")
        at = match.end()
        item = (match[1] or match[2] or "").strip()
        if item:
            found.append(item)
    return found


def _rule(item: str) -> HeaderRule:
    words = item.split(None, 1)
    if len(words) != 2:
        expected = '"[ation] [header name]:[header value]"'
        raise NotAllowed(f'Invalid format of header config "{item}". Expected: {expected}')
    word, pair = words
    action = _BY_WORD.get(word.lower())
    if action is None:
        known = ", ".join(f'"{each}"' for each in ACTIONS)
        raise NotAllowed(f'Invalid header config action: "{word}". The action need be one of [{known}]')
    name, colon, value = (part.strip() for part in pair.partition(":"))
    if not colon or not name:
        wanted = 'Expected: "[header name]:[header value]"'
        raise NotAllowed(f'Invalid format of header name and header value pair "{pair}". {wanted}')
    if len(name.split()) > 1:
        raise NotAllowed(f'Invalid header name "{name}". The "[header name]" cannot contain whitespace')
    if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise NotAllowed(f'Invalid header "{name}": it holds a character that no header can have')
    if action.endswith("Date") and not _OFFSET.fullmatch(value):
        raise NotAllowed(f'Invalid value of header "{name}": {action} takes milliseconds from now')
    return HeaderRule(action, name, value)


def _read_headers(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    parse_header_rules(value)
    return value


HEADER_CONFIG = Kind(
    _read_headers,
    "ACTION NAME:VALUE, where ACTION is one of set, add, setDate, addDate; several are separated by commas, "
    "and one that contains a comma is in double quotes; or empty",
    quote_toml,
)
