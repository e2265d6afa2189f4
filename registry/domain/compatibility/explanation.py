"""Two schemas compared with each other at every level, nothing registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.lookup import registration
from registry.domain.lookup.registration import Content
from registry.domain.model import Subject
from registry.domain.parsing.parser import Parser, TooMuchText
from registry.domain.rows.layout import View
from registry.domain.schemas import Change, Exhausted, InvalidSchema

from . import results
from .results import READERS, Reader, Told

_TOO_LONG: Final = "The comparison of the two schemas takes too long; they combine too much"
_WAYS: Final[tuple[Reader, ...]] = ("old", "new")


class Explained(NamedTuple):
    """What each level says of the two, and every change between them."""

    levels: Mapping[str, list[str]]
    """Confluent's messages by level; none where the level lets the new schema follow the old one."""
    told: list[Told]


class Asked(NamedTuple):
    """Two schemas of one type. ``subject``: where references without a context are sought."""

    old: Register
    new: Register
    subject: Subject
    policy: str


def explain(view: View, parser: Parser, asked: Asked, *, plain: bool) -> bytes:
    """The answer of ``POST /compatibility/explain``; ``plain``: for people, with lines.

    Raises 42201, with which of the two is no schema, and 422 for what takes too long.
    """
    explained = _explained(view, parser, asked, lines=plain)
    return _text(explained) if plain else _json(explained)


def _explained(view: View, parser: Parser, asked: Asked, *, lines: bool) -> Explained:
    old = _read(view, parser, asked, asked.old, "old", new=False)
    new = _read(view, parser, asked, asked.new, "new", new=True)
    try:
        found = _compared(parser, old, new, asked.policy, lines=lines)
    except InvalidSchema as error:
        text = f"Unexpected exception during compatibility check: {error}"
        found = {way: [results.unexpected(text)] for way in _WAYS}
    except TooMuchText as too_much:
        too_much.refusal = _TOO_LONG
        raise
    except Exhausted:
        raise errors.UNPROCESSABLE(_TOO_LONG) from None
    levels = {
        level: [each.message for way in ways for each in found[way] if not each.compatible]
        for level, ways in READERS.items()
    }
    told = [
        Told(each, results.direction(way), results.direction(way), None)
        for way in reversed(_WAYS)
        for each in found[way]
    ]
    return Explained(levels, told)


def _read(view: View, parser: Parser, asked: Asked, side: Register, name: str, *, new: bool) -> Content:
    if not side.schema.strip():
        raise errors.INVALID_SCHEMA(f"{name}: Empty schema")
    try:
        return registration.read(view, parser, asked.subject, side, new=new, normalize=False)
    except RegistryError as error:
        raise RegistryError(error.code, f"{name}: {error.message}") from None


def _compared(
    parser: Parser, old: Content, new: Content, policy: str, *, lines: bool
) -> dict[Reader, list[Change]]:
    budget = parser.budget()
    how: dict[str, Any] = {"budget": budget, "policy": policy, "lines": lines}
    old_schema, new_schema = old.parsed(parser), new.parsed(parser)
    return {
        "old": list(parser.changes(old_schema, new_schema, reader_is="old", **how)),
        "new": list(parser.changes(new_schema, old_schema, reader_is="new", **how)),
    }


def _json(explained: Explained) -> bytes:
    levels = {
        level: {"compatible": not messages, "messages": messages}
        for level, messages in explained.levels.items()
    }
    return orjson.dumps(
        {"levels": levels, "changes": [results.change_entity(each) for each in explained.told]}
    )


def _text(explained: Explained) -> bytes:
    verdict = (
        f"{level:<20} {'in' if messages else ''}compatible" for level, messages in explained.levels.items()
    )
    return results.lines([*verdict, *results.change_lines(explained.told)])
