"""``registrar census …``: which schemas the messages of topics and files name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from registry.base.config.loading import Loaded
from registry.cli.client.resources import ErrorAnswer
from registry.cli.output import (
    OK,
    REFUSED,
    Failure,
    Refusal,
    json_option,
    note,
    print_json,
    print_table,
    progress,
)
from registry.cli.registry_flags import report_errors, with_connection
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.client.connect import Connection
    from snapshots.census.files import Census
    from snapshots.census.run import Result

_GROUPS = ("snapshots", "census", "where", "cluster", "security", "encoder")
_SHOWN = ("snapshots", "data", "kafka", "topic", "snapshots_spark_master")
_NUMBERS = ("messages", "bytes", "read", "unread")
_LATEST = "latest"


@click.group(cls=VerbGroup)
def census() -> None:
    """Count which schemas the messages of topics and files use, and list and show what was counted."""


def _verb(status: str) -> Callable[[Callable[..., int]], click.Command]:
    def decorate(run: Callable[..., int]) -> click.Command:
        return census.command(run.__name__.strip("_"), cls=Verb, epilog=status)(
            with_settings(*_GROUPS, shown=_SHOWN)(json_option(run))
        )

    return decorate


_to = click.option(
    "--to", "location", default="", metavar="LOCATION", help="The location of censuses [default: snapshots]."
)


@_verb("Exit status: 0 every source was read, 1 some were not, 2 no census was taken.")
@click.option(
    "--topics", default="", metavar="NAME,PREFIX*,!NAME,…", help="Topics to count [default: census_topics]."
)
@click.option(
    "--files",
    multiple=True,
    metavar="FORMAT:PATH#COLUMN",
    help="Files to count, such as parquet:/lake#value [default: census_files].",
)
@_to
@with_connection()
def _run(
    connection: Connection,
    loaded: Loaded,
    *,
    topics: str,
    files: tuple[str, ...],
    location: str,
    as_json: bool,
) -> int:
    """Count with Spark which schemas the messages of topics name, in keys and in values.

    A run reads only what was written since the last one with the same topics and files. The result is
    published to the registry that --url or --registry names.
    """
    from snapshots.census.run import (  # noqa: PLC0415 - the help needs no census
        FileSource,
        Scope,
        configured_scope,
        open_location,
        run,
    )
    from snapshots.census.topics import parse_patterns  # noqa: PLC0415 - as above

    try:
        scope = configured_scope(loaded.settings)
        if topics or files:
            named = parse_patterns(topics) if topics else ()
            scope = Scope(named, tuple(map(FileSource.parse, files)))
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    with _failures(), progress(as_json=as_json) as steps:
        where = open_location(loaded.settings, location)
        result = run(loaded.settings, scope, where, steps)
    if connection.url or os.environ.get("REGISTRAR_URL"):
        with report_errors(), connection.open(os.environ) as registry:
            _publish(registry, result, str(where), loaded.settings.census_contexts)
    if as_json:
        print_json(_about(result.census))
    else:
        _print_summary(result)
    return REFUSED if result.census.sources.unread else OK


def _publish(registry: RegistryClient, result: Result, location: str, contexts: str) -> None:
    """Make the registry hold the usage of every source, then the census; unchanged sources are not sent."""
    import msgspec  # noqa: PLC0415 - the help needs no census

    from registry.domain.log_format.usage import Usage, says_the_same  # noqa: PLC0415 - as above
    from snapshots.census.plan import UNREAD  # noqa: PLC0415 - as above
    from snapshots.census.published import census_record, context_of, usages  # noqa: PLC0415 - as above
    from snapshots.census.topics import infer_contexts, stale_sources  # noqa: PLC0415 - as above

    stored = {each["source"]: msgspec.convert(each, Usage) for each in registry.pages("/usage/sources")}
    inferred = infer_contexts(registry.pages("/subjects", str, subjectPrefix=":*:", deleted="true"))
    new = dict(usages(result, context_of(contexts, inferred)))
    for source, found in new.items():
        if source not in stored or not says_the_same(stored[source], found):
            registry.put(f"/usage/sources/{quote(source, safe='')}", msgspec.to_builtins(found))
    unread = {row.source for row in result.rows.partitions if row.state == UNREAD}
    for source, found in new.items():
        if found.reason and source not in unread:
            note(f"{source} is published as unread: {found.reason}")
    former = _former_patterns(registry)
    record = census_record(result.census, location, new.values())
    registry.put("/usage/census", msgspec.to_builtins(record))
    # Last: if this census may have missed some sources, the newest one says so by now.
    for source in stale_sources(stored, new, result.census.patterns, former):
        registry.delete(f"/usage/sources/{quote(source, safe='')}")


def _former_patterns(registry: RegistryClient) -> list[str]:
    """Return the patterns of the newest census of a registry; none without one."""
    try:
        found: dict[str, Any] = registry.get("/usage/census", dict[str, Any])
    except ErrorAnswer as error:
        if error.status != 404:
            raise
        return []
    return list(found.get("patterns", ()))


@_verb("Exit status: 0 shown, 1 not found, 2 the location cannot be read.")
@_to
def _list(loaded: Loaded, *, location: str, as_json: bool) -> int:
    """List the censuses in a location, newest first."""
    from snapshots.census.files import newest_first  # noqa: PLC0415 - the help needs no census
    from snapshots.census.run import open_location  # noqa: PLC0415 - as above

    with _failures():
        found = list(newest_first(open_location(loaded.settings, location)))
    if as_json:
        print_json([_about(each) for each in found])
    else:
        columns = ("id", "ended", "complete", "read", "unread", "messages", "topics and files")
        print_table(columns, map(_row, found), right=_NUMBERS)
    return OK


@_verb("Exit status: 0 shown, 1 not found, 2 the location cannot be read.")
@click.argument("id", default=_LATEST, help="Id as shown by list, or latest (the default).")
@_to
def _show(loaded: Loaded, *, id: str, location: str, as_json: bool) -> int:
    """Show what a census has counted: a line for each source, side and schema, and sources not read."""
    from snapshots.census.files import newest_first, read_manifest, read_rows  # noqa: PLC0415 - as above
    from snapshots.census.run import Result, open_location  # noqa: PLC0415 - as above

    with _failures():
        where = open_location(loaded.settings, location)
        found = next(newest_first(where), None) if id == _LATEST else read_manifest(where, id)
        if found is None:
            raise Refusal(f"there is no census in {where}")
        result = Result(found, read_rows(where, found))
    if as_json:
        print_json(_about(found) | {"uses": [each._asdict() for each in result.rows.uses]})
    else:
        _print_summary(result)
        print_table(("source", "side", "schema", "messages", "bytes", "last"), _lines(result), right=_NUMBERS)
    return OK


@contextmanager
def _failures() -> Iterator[None]:
    from snapshots.census.run import FAILURES  # noqa: PLC0415 - the help needs no census

    try:
        yield
    except FAILURES as error:
        raise Failure(str(error)) from None


def _about(found: Census) -> dict[str, Any]:
    import msgspec  # noqa: PLC0415 - as above

    members: dict[str, Any] = msgspec.to_builtins(found)
    return members


def _row(found: Census) -> tuple[object, ...]:
    counts = found.sources
    complete = "yes" if found.complete else "no"
    return (
        found.id, _time(found.ended_ms), complete, counts.read, counts.unread, found.messages,
        " ".join(found.patterns),
    )  # fmt: skip


def _print_summary(result: Result) -> None:
    from snapshots.census.plan import UNREAD  # noqa: PLC0415 - the help needs no census

    found = result.census
    word = "complete" if found.complete else "not complete"
    print(f"{found.id}: {word}, {found.messages} messages in {found.sources.read} sources")
    reasons = Counter((row.source, row.state, row.reason) for row in result.rows.partitions if row.reason)
    for (source, state, reason), partitions in reasons.items():
        what = "not read" if state == UNREAD else "read as a whole again"
        note(f"{source} was {what} ({partitions} partitions): {reason}")


def _lines(result: Result) -> Iterator[tuple[object, ...]]:
    """Yield the uses, summed over the partitions of each source."""
    messages, sizes = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    last: dict[tuple[str, str, str], int] = {}
    for use in result.rows.uses:
        named = use.guid or (use.framing if use.id is None else f"id {use.id}")
        key = use.source, use.side, named
        messages[key] += use.messages
        sizes[key] += use.bytes
        last[key] = max(last.get(key, -1), -1 if use.last_ms is None else use.last_ms)
    for key in sorted(messages):
        yield *key, messages[key], sizes[key], _time(last[key]) if last[key] >= 0 else ""


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
