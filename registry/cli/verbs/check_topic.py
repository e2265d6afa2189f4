"""``registrar check --decode``: whether the messages of a topic can be read with a new schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from registry.base.config.settings import Settings
from registry.cli.client.client import RegistryClient
from registry.cli.client.connect import Connection
from registry.cli.decoding.frame import Options, SchemaName
from registry.cli.decoding.message import WriterSchema
from registry.cli.decoding.rereading import Reader
from registry.cli.folder.contents import Contents
from registry.cli.folder.memory_registry import MemoryRegistry
from registry.cli.output import FAILED, OK, REFUSED, Failure, Refusal, note, print_lines, print_table
from registry.cli.promotion.reading import RegistryReader
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from snapshots.census.rereading import Failed, Verdict, reread
from snapshots.census.run import FAILURES

from .decoding_schemas import SchemasById
from .folder_source import source
from .plans import present_for

_COLUMNS = ("writer", "messages", "reason", "first at partition:offset")


class Wanted(NamedTuple):
    """The messages to read, and the subject whose new schema, in ``path``, reads them."""

    path: Path
    subject: str
    topic: str
    side: str
    # 0: all messages.
    sample: int


def read_topic(
    connection: Connection, settings: Settings, wanted: Wanted, progress: Callable[[str, int, int], None]
) -> Verdict:
    """Return which messages cannot be read. Raises :class:`Failure` and the client's errors."""
    if not settings.kafka:
        raise Failure("--decode needs --kafka HOST:PORT, the brokers that hold the topic")
    contents = source(wanted.path, wanted.subject).contents
    with connection.open(os.environ) as client:
        reader = _reader(client, contents, wanted)
        schemas = SchemasById(client, Subject.parse(wanted.subject).context, Options())
        known: dict[SchemaName, WriterSchema] = {}

        def writer(name: SchemaName) -> WriterSchema:
            return known[name] if name in known else known.setdefault(name, schemas.writer(name))

        try:
            return reread(settings, wanted.topic, wanted.side, reader, writer, progress, sample=wanted.sample)
        except FAILURES as error:
            raise Failure(str(error)) from None


def _reader(client: RegistryClient, contents: Contents, wanted: Wanted) -> Reader:
    found = contents.versions.get(wanted.subject, ())
    if not found:
        raise Failure(f"{wanted.path} has no schema of the subject {wanted.subject}")
    registry = MemoryRegistry()
    registry.load(Contents(present_for(RegistryReader(client), contents).versions))
    try:
        numbers = registry.adopt(contents)
        version = registry.resolve(contents, (wanted.subject, len(found) - 1), numbers)
        new = registry.source(wanted.subject, version)
    except RegistryError as error:
        raise Refusal(f"{wanted.path}: {error.message}") from None
    return Reader(WriterSchema(new.schema_type, new.text, new.dependencies))


def exit_status(found: Verdict) -> int:
    """Return the exit status: what could not be read may hold messages that fail."""
    if found.failures:
        return REFUSED
    return FAILED if found.unread else OK


def print_verdict(found: Verdict, wanted: Wanted) -> None:
    """Print how many messages cannot be read, and the first ones of each writer and reason."""
    which = f"{wanted.side}s of {wanted.topic}"
    sampled = " in the sample" if wanted.sample else ""
    nulls = f"; {found.nulls:,} are null" if found.nulls else ""
    print_lines([f"{found.failures:,} of {found.messages:,} {which}{sampled} fail to decode{nulls}"])
    for partition, offset in found.uncommitted.items():
        note(f"partition {partition} was read up to offset {offset}, where an open transaction begins")
    for partition, reason in found.unread.items():
        note(f"partition {partition} was not read to its end: {reason}")
    if found.unread:
        note(f"so there is no verdict on all {which}: run it again when every partition can be read")
    if found.failed:
        print_table(_COLUMNS, map(_row, found.failed), right=("messages",))


def _row(each: Failed) -> tuple[object, ...]:
    places = " ".join(f"{partition}:{offset}" for partition, offset in each.places)
    return str(each.writer or ""), f"{each.messages:,}", each.reason, places


def verdict_members(found: Verdict, wanted: Wanted) -> dict[str, Any]:
    """Return the verdict as members of a JSON object."""
    return {
        "topic": wanted.topic, "side": wanted.side, "sample": wanted.sample or None,
        "messages": found.messages, "nulls": found.nulls, "failures": found.failures,
        "failed": list(map(_members, found.failed)),
        "unread": [{"partition": each, "reason": reason} for each, reason in found.unread.items()],
        "uncommitted": [{"partition": each, "offset": offset} for each, offset in found.uncommitted.items()],
    }  # fmt: skip


def _members(each: Failed) -> dict[str, Any]:
    return {**dict(_names(each)), "reason": each.reason, "messages": each.messages, "first": each.places}


def _names(each: Failed) -> Iterator[tuple[str, Any]]:
    yield "id", each.writer.id if each.writer else None
    yield "guid", (each.writer.guid or None) if each.writer else None
