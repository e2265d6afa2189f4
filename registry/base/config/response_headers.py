"""Headers added to every answer, in the syntax of Confluent's setting ``response.http.headers.config``.

A comma-separated list of ``ACTION NAME:VALUE``; an item that contains a comma is in double quotes. The
messages are those of Confluent 8.3.1.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .setting_types import Kind, NotAllowed, quoted

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


def parse(config: str) -> tuple[HeaderRule, ...]:
    """Parse the setting. Raises :class:`NotAllowed`."""
    return tuple(map(_rule, _items(config)))


def _items(config: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(config):
        match = _ITEM.match(config, at)
        if match is None or match.end() == at:
            raise NotAllowed(f"Invalid format of header config {config[at:]!r}: a double quote has no end")
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


def _read(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    parse(value)
    return value


HEADER_CONFIG = Kind(
    _read,
    "ACTION NAME:VALUE, where ACTION is one of set, add, setDate, addDate; several are separated by commas, "
    "and one that contains a comma is in double quotes; or empty",
    quoted,
)
