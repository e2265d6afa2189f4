"""Comparison of two schemas with each other at every level, without a registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.lookup import registration
from registry.domain.lookup.registration import Content
from registry.domain.model import Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.rows.view import View
from registry.domain.schemas import LOGICAL, Change, Exhausted, InvalidSchema

from . import printing, results
from .results import READERS, Reader, ReportedChange

if TYPE_CHECKING:
    from registry.domain.schemas.logical.findings import Report

_TOO_LONG: Final = "The comparison of the two schemas takes too long; they combine too many types"
_WAYS: Final[tuple[Reader, ...]] = ("old", "new")


class Explanation(NamedTuple):
    """The result of each level for two schemas, and every change between them."""

    # Confluent's messages by level; empty if the level lets the new schema follow the old one.
    levels: Mapping[str, list[str]]
    changes: list[ReportedChange]


class ExplainRequest(NamedTuple):
    """Two schemas of one type. ``subject``: provides the context of references without one."""

    old: Register
    new: Register
    subject: Subject
    policy: str
    targets: tuple[str, ...] = ()


def explain(view: View, request: ExplainRequest, *, plain: bool) -> Querying[bytes]:
    """Return the answer of ``POST /compatibility/explain``; ``plain``: as a text report with line numbers.

    Raises 42201, which names the schema that is invalid, and 422 if the comparison takes too long.
    """
    explained = yield from _explain(view, request, lines=plain)
    return _text(explained) if plain else _json(explained)


def _explain(view: View, request: ExplainRequest, *, lines: bool) -> Querying[Explanation]:
    old = yield from _read(view, request, request.old, "old", new=False)
    new = yield from _read(view, request, request.new, "new", new=True)
    try:
        found = yield from _compare(old.source, new.source, request.policy, lines=lines)
    except InvalidSchema as error:
        text = f"Unexpected exception during compatibility check: {error}"
        found = {way: [results.unexpected_change(text)] for way in _WAYS}
    except Exhausted:
        raise errors.UNPROCESSABLE(_TOO_LONG) from None
    try:
        engines = yield from _engines(old.source, new.source, request)
    except Exhausted:
        raise errors.UNPROCESSABLE(_TOO_LONG) from None
    levels = {
        level: [
            *(each.message for way in ways for each in found[way] if not each.compatible),
            *(each.message for each in engines if each.reader_is in (None, *ways)),
        ]
        for level, ways in READERS.items()
    }
    changes: list[tuple[Change, Reader | None]]
    changes = [(each, way) for way in reversed(_WAYS) for each in found[way]]
    changes += [(each, said.reader_is) for said in engines for each in said.changes]
    reported = [
        ReportedChange(each, results.direction(way), results.direction(way), None) for each, way in changes
    ]
    return Explanation(levels, reported)


def _read(view: View, request: ExplainRequest, side: Register, name: str, *, new: bool) -> Querying[Content]:
    if not side.schema.strip():
        raise errors.INVALID_SCHEMA(f"{name}: Empty schema")
    try:
        return (yield from registration.read(view, request.subject, side, new=new, normalize=False))
    except RegistryError as error:
        raise RegistryError(error.code, f"{name}: {error.message}") from None


def _compare(old: Source, new: Source, policy: str, *, lines: bool) -> Querying[dict[Reader, list[Change]]]:
    how: dict[str, Any] = {"policy": policy, "lines": lines}
    ways = [
        querying.changes(old, new, reader_is="old", **how),
        querying.changes(new, old, reader_is="new", **how),
    ]
    found = yield from querying.together(ways, _TOO_LONG)
    return {way: list(changes) for way, changes in zip(_WAYS, found, strict=True)}


class _Refusal(NamedTuple):
    """An engine's objection to the new schema, or to the change in one direction."""

    # None: the new schema itself.
    reader_is: Reader | None
    message: str
    changes: list[Change]


def _engines(old: Source, new: Source, request: ExplainRequest) -> Querying[list[_Refusal]]:
    """Return the objections of lakes and engines that the policy or the request asks for."""
    asked: list[Querying[Sequence[Report]]] = []
    if request.policy == LOGICAL:
        asked += [querying.logical(new), querying.logical(new, old, _WAYS)]
    if request.targets:
        asked += [querying.targets(new, each, request.targets) for each in (None, old)]
    try:
        reports = yield from querying.together(asked, _TOO_LONG)
    except InvalidSchema as error:
        change = results.not_logical(error)
        return [_Refusal(None, change.message, [change])]
    return [
        _Refusal(None if each.is_target else results.reader_of(each.direction), each.message, each.changes())
        for found in reports
        for each in found
    ]


def _json(explained: Explanation) -> bytes:
    levels = {
        level: {"compatible": not messages, "messages": messages}
        for level, messages in explained.levels.items()
    }
    return orjson.dumps(
        {"levels": levels, "changes": [printing.change_entity(each) for each in explained.changes]}
    )


def _text(explained: Explanation) -> bytes:
    verdicts = (
        f"{level:<20} {'in' if messages else ''}compatible" for level, messages in explained.levels.items()
    )
    return printing.lines([*verdicts, *printing.change_lines(explained.changes)])
