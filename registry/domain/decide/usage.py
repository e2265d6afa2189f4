"""Decisions on what a census found: the usage of sources, and the census itself."""

from __future__ import annotations

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
    parts = usage.split(new)
    written = [Entry(records.usage_key(source, each.part), usage.usage_value(each)) for each in parts]
    left = [number for number in usage.part_numbers(view, source) if number >= len(parts)]
    return written + [Entry(records.usage_key(source, number), None) for number in left]


def _delete_usage(view: View, source: str) -> list[Entry]:
    stored = usage.part_numbers(view, source)
    if not stored:
        raise errors.SOURCE_NOT_FOUND(source)
    return [Entry(records.usage_key(source, number), None) for number in stored]


def _put_census(view: View, value: bytes) -> list[Entry]:
    written, old = usage.census_value(usage.read_census_value(value)), usage.census(view)
    if old is not None and usage.census_value(old) == written:
        return []
    return [Entry(CENSUS_KEY, written)]
