"""Listing the snapshots of the catalogue and of the location."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from snapshots.catalogue.catalogue import Entry, newest_first, ready_fields
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest

_COLUMNS = ("id", "state", "offset", "time", "versions", "rows", "bytes", "engine", "base")
_NUMBERS = {"offset", "versions", "rows", "bytes"}


def listing(location: Location, entries: Mapping[str, Entry]) -> list[Entry]:
    """Return all entries, the newest first, with entries for snapshots that the catalogue does not know.

    Raises :class:`snapshots.format.files.LocationUnreachable`.
    """
    unknown = [each for each in stored.manifests(location) if each.id not in entries]
    return newest_first([*entries.values(), *(_entry(location, each) for each in unknown)])


def _entry(location: Location, manifest: Manifest) -> Entry:
    return Entry(
        id=manifest.id,
        state="ready",
        log=manifest.log,
        offset=manifest.offset,
        uri=location.uri,
        requested_ms=manifest.created_ms,
        updated_ms=manifest.created_ms,
        **ready_fields(manifest),
    )


def as_json(entries: list[Entry]) -> str:
    """Return the entries as a JSON array."""
    return msgspec.json.format(msgspec.json.encode(entries), indent=2).decode()


def as_table(entries: list[Entry]) -> str:
    """Return the entries as aligned lines, followed by the steps of builds and the reasons of failed ones."""
    if not entries:
        return "there are no snapshots; registrar snapshot build builds one"
    lines = align([_COLUMNS, *(_cells(entry) for entry in entries)], _NUMBERS)
    built = [
        f"{entry.id} is being built: {now.step}, {now.done} of {now.total}"
        for entry in entries
        if (now := entry.progress)
    ]
    failed = [f"{entry.id} failed: {entry.reason}" for entry in entries if entry.state == "failed"]
    return "\n".join([*lines, *built, *failed])


def align(rows: Sequence[Sequence[str]], numbers: Collection[str]) -> list[str]:
    """Return rows as lines of aligned columns; the first row names the columns.

    Columns named in ``numbers`` are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if name in numbers else cell.ljust(width)
            for name, cell, width in zip(rows[0], row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _cells(entry: Entry) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(entry.updated_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    counted = (entry.schemas, entry.rows, entry.size) if entry.state == "ready" else ("", "", "")
    return (
        entry.id,
        f"{entry.state} {entry.progress.percent}%" if entry.progress else entry.state,
        str(entry.offset),
        moment,
        *(str(each) for each in counted),
        entry.engine or "-",
        entry.base or "-",
    )
