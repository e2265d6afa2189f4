"""Decisions on what a census found: the usage of sources, and the census itself."""

from __future__ import annotations

import msgspec

from registry.domain import errors
from registry.domain.commands import DeleteUsage, PutCensus, PutUsage, UsageCommand
from registry.domain.log_format import records, usage
from registry.domain.log_format.records import CENSUS_KEY, Entry
from registry.domain.log_format.values import BadValue
from registry.domain.rows.view import View

from .decision import Decision

# Kafka's names of topics have up to 249; paths of files are longer.
SOURCE_CHARACTERS_MAX = 1_000


def decide_usage(view: View, command: UsageCommand) -> Decision:
    """Return the records of a command of a census; none if nothing is new. Raises 40483, 42284."""
    try:
        match command:
            case PutUsage(source, value):
                return Decision(_put_usage(view, source, value), b"")
            case DeleteUsage(source):
                return Decision(_delete_usage(view, source), b"")
            case PutCensus(value):
                return Decision(_put_census(view, value), b"")
    except BadValue as error:
        raise errors.INVALID_USAGE(error.reason) from None


def _put_usage(view: View, source: str, value: bytes) -> list[Entry]:
    if not source.isprintable() or not 1 <= len(source) <= SOURCE_CHARACTERS_MAX:
        raise BadValue(f"a source's name has 1 to {SOURCE_CHARACTERS_MAX} printable characters")
    new, old = usage.read_usage_value(value), usage.source(view, source)
    if old is not None and usage.says_the_same(new, old):
        return []
    if old is not None and new.ms < min(old.ms, old.ts):
        raise BadValue(f"the usage is older than the stored one, of the census {old.census}")
    parts = usage.split(new)
    written = [Entry(records.usage_key(source, each.part), usage.usage_value(each)) for each in parts]
    left = [number for number in usage.part_numbers(view, source) if number >= len(parts)]
    removed = [Entry(records.usage_key(source, number), None) for number in left]
    return _incomplete_census(view, new) + written + removed


def _incomplete_census(view: View, new: usage.Usage) -> list[Entry]:
    """Return the newest census as one that is not complete, if ``new`` may lack uses that it has counted.

    Its successor may never come, and until then it would call unused what the source still needs.
    """
    newest = usage.census(view)
    if new.state == "read" or newest is None or not newest.complete:
        return []
    changed = msgspec.structs.replace(newest, complete=False, unread=newest.unread + 1)
    return [Entry(CENSUS_KEY, usage.census_value(changed))]


def _delete_usage(view: View, source: str) -> list[Entry]:
    stored = usage.part_numbers(view, source)
    if not stored:
        raise errors.SOURCE_NOT_FOUND(source)
    return [Entry(records.usage_key(source, number), None) for number in stored]


def _put_census(view: View, value: bytes) -> list[Entry]:
    new, old = usage.read_census_value(value), usage.census(view)
    written = usage.census_value(new)
    if old is not None and usage.census_value(old) == written:
        return []
    if old is not None and new.started < min(old.started, old.ts):
        raise BadValue(f"the census began before the newest one, {old.id}")
    return [Entry(CENSUS_KEY, written)]
