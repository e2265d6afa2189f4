"""Comparison of two schemas, or of two versions, at every level and for tables; nothing is registered."""

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
from registry.domain.parsing import querying, stored
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View
from registry.domain.schemas import LOGICAL, STRICT, Change, Exhausted, InvalidSchema

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


class ExplainOptions(NamedTuple):
    """The policy and the targets of a comparison, and the form of its answer."""

    policy: str = STRICT
    # Engines and table formats whose tables must be able to follow.
    targets: tuple[str, ...] = ()
    # As a text report with line numbers instead of JSON.
    plain: bool = False


class ExplainRequest(NamedTuple):
    """Two schemas of one type. ``subject``: provides the context of references without one."""

    old: Register
    new: Register
    subject: Subject


def explain(view: View, request: ExplainRequest, options: ExplainOptions) -> Querying[bytes]:
    """Return the answer of ``POST /compatibility/explain``.

    Raises 42201, which names the schema that is invalid, and 422 if the comparison takes too long.
    """
    old = yield from _read(view, request, request.old, "old", new=False)
    new = yield from _read(view, request, request.new, "new", new=True)
    explained = yield from _explain(old.source, new.source, options)
    return _text(explained) if options.plain else orjson.dumps(_members(explained))


def explain_version(
    view: View, new: Registered, old: Registered | None, options: ExplainOptions, *, strict: bool
) -> Querying[bytes]:
    """Return the answer about a registered version and the one that it follows; None: it follows none.

    ``strict`` as for :func:`.stored.resolve`. Raises as :func:`explain`.
    """
    number = None if old is None else old.version
    new_source = _source_of(view, new, strict=strict)
    old_source = None if old is None else _source_of(view, old, strict=strict)
    explained = yield from _explain(old_source, new_source, options, number)
    name = new.subject.qualified
    if options.plain:
        follows = "which is compared with none" if number is None else f"compared with version {number}"
        return printing.lines([f"{name} version {new.version}, {follows}"]) + _text(explained)
    place = {"subject": name, "version": new.version, "versionCompared": number}
    return orjson.dumps({**place, **_members(explained)})


def _source_of(view: View, version: Registered, *, strict: bool) -> Source:
    try:
        return stored.source_of(view, version, strict=strict)
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(f"version {version.version}: {error}") from None


def _explain(
    old: Source | None, new: Source, options: ExplainOptions, number: int | None = None
) -> Querying[Explanation]:
    """Return the comparison; ``number``: of the old version, if it is registered."""
    found: Mapping[Reader, list[Change]] = {way: [] for way in _WAYS}
    refusals = []
    if old is not None and old.schema_type != new.schema_type:
        change = results.other_type(old.schema_type, new.schema_type)
        refusals = [_Refusal("", number, _WAYS, change.message, [change])]
        old = None
    try:
        if old is not None:
            found = yield from _compare(old, new, options)
        refusals += yield from _engines(old, new, options, number)
    except Exhausted:
        raise errors.UNPROCESSABLE(_TOO_LONG) from None
    levels = {
        level: [
            *(each.message for way in ways for each in found[way] if not each.compatible),
            *(each.message for each in refusals if each.counts_in is None or {*each.counts_in} & {*ways}),
        ]
        for level, ways in READERS.items()
    }
    changes = [(each, results.direction(way), number) for way in reversed(_WAYS) for each in found[way]]
    changes += [(each, said.direction, said.version) for said in refusals for each in said.changes]
    return Explanation(levels, [ReportedChange(change, half, half, of) for change, half, of in changes])


def _read(view: View, request: ExplainRequest, side: Register, name: str, *, new: bool) -> Querying[Content]:
    if not side.schema.strip():
        raise errors.INVALID_SCHEMA(f"{name}: Empty schema")
    try:
        return (yield from registration.read(view, request.subject, side, new=new, normalize=False))
    except RegistryError as error:
        raise RegistryError(error.code, f"{name}: {error.message}") from None


def _compare(old: Source, new: Source, options: ExplainOptions) -> Querying[Mapping[Reader, list[Change]]]:
    how: dict[str, Any] = {"policy": options.policy, "lines": options.plain}
    ways = [
        querying.changes(old, new, reader_is="old", **how),
        querying.changes(new, old, reader_is="new", **how),
    ]
    try:
        found = yield from querying.together(ways, _TOO_LONG)
    except InvalidSchema as error:
        text = f"Unexpected exception during compatibility check: {error}"
        return {way: [results.unexpected_change(text)] for way in _WAYS}
    return {way: list(changes) for way, changes in zip(_WAYS, found, strict=True)}


class _Refusal(NamedTuple):
    """An objection to the new schema, or to the change in one direction."""

    # Empty for the new schema itself, and for both directions.
    direction: str
    # The version compared with, if there is one and it is registered.
    version: int | None
    # It counts in the levels with one of these readers; None: in all.
    counts_in: tuple[Reader, ...] | None
    message: str
    changes: list[Change]


def _engines(
    old: Source | None, new: Source, options: ExplainOptions, number: int | None
) -> Querying[list[_Refusal]]:
    """Return the objections of lakes and engines that the policy or the request asks for."""
    sides = (None,) if old is None else (None, old)
    asked: list[Querying[Sequence[Report]]] = []
    if options.policy == LOGICAL:
        asked += [querying.logical(new, each, () if each is None else _WAYS) for each in sides]
    if options.targets:
        asked += [querying.targets(new, each, options.targets) for each in sides]
    try:
        reports = yield from querying.together(asked, _TOO_LONG)
    except InvalidSchema as error:
        change = results.not_logical(error)
        return [_Refusal("", None, None, change.message, [change])]
    refusals = []
    for each in (each for found in reports for each in found):
        reader_is = results.reader_of(each.direction)
        counts_in = None if each.is_target or reader_is is None else (reader_is,)
        half, version = results.direction(reader_is), None if reader_is is None else number
        refusals.append(_Refusal(half, version, counts_in, each.message, each.changes()))
    return refusals


def _members(explained: Explanation) -> dict[str, Any]:
    levels = {
        level: {"compatible": not messages, "messages": messages}
        for level, messages in explained.levels.items()
    }
    return {"levels": levels, "changes": [printing.change_entity(each) for each in explained.changes]}


def _text(explained: Explanation) -> bytes:
    verdicts = (
        f"{level:<20} {'in' if messages else ''}compatible" for level, messages in explained.levels.items()
    )
    return printing.lines([*verdicts, *printing.change_lines(explained.changes)])
