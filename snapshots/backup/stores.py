"""Lists of snapshots, snapshots and registries as stores, and equal schemas in them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import orjson

from registry.base.config.settings import Settings
from registry.base.observe.progress import Steps
from registry.domain.fold import former
from registry.domain.fold.fold import apply_all
from registry.domain.log_format import values
from registry.domain.log_format.records import Record, schema_key
from registry.domain.lookup.duplicates import DuplicateGroup, find_groups
from registry.domain.model import DEFAULT_TYPE, Metadata, Reference, RuleSet, Subject, guid_text
from registry.domain.queries.walks import run_search
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View
from registry.store.layout import PREFIX, Current, write_current
from registry.store.lmdb import Store
from registry.store.offline import OfflineStore
from registry.store.open import open_store
from snapshots.building.task import Progress, workspace
from snapshots.catalogue.catalogue import Entry, newest_first, ready_fields
from snapshots.catalogue.open import open_location
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from snapshots.format.stored import SnapshotNotFound
from snapshots.loading.load import load

from .diff_sources import RunningRegistry

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


_LOADING, _READING = "loading the snapshot", "reading the registry"
_URL_LOG = "registry"  # stands for the identity of a log that is not known
_BATCH = 1000  # versions in one transaction


@contextmanager
def snapshot_store(
    settings: Settings, location: Location, manifest: Manifest, folder: Path, progress: Progress
) -> Iterator[OfflineStore]:
    """Load a snapshot's rows into a store in ``folder``, for a ``with`` block.

    The snapshot may be of a former version of the fold. Raises :class:`.stored.SnapshotNotFound` for one of a
    version that this release does not know, :class:`.stored.UnusableSnapshot`, and the errors of the store
    and the location.
    """
    if not former.can_read(str(manifest.fold)):
        raise SnapshotNotFound(
            f"{manifest.id} has rows of fold {manifest.fold}, which this version does not know: use the "
            "version that built it"
        )

    def on_step(step: str, rows: int, size: int) -> None:
        progress(_LOADING, rows, manifest.rows)

    name = f"{PREFIX}1"
    load(manifest, location, folder / name, map_bytes=settings.store_map_bytes, on_step=on_step)
    write_current(folder, Current(name, manifest.log))
    with OfflineStore(folder) as store:
        yield store


@contextmanager
def registry_store(
    settings: Settings, registry: RunningRegistry, folder: Path, progress: Progress
) -> Iterator[Store]:
    """Fold all versions of a running registry into a store in ``folder``, for a ``with`` block.

    The registry may be Confluent's. What is written to it meanwhile may be missing. Raises the errors of its
    client and of the store.
    """
    subjects = len(registry.subjects)
    seen: set[str] = set()
    store, _ = open_store(folder, _URL_LOG, 0, map_bytes=settings.store_map_bytes)
    with closing(store):
        versions = registry.versions()
        while batch := list(islice(versions, _BATCH)):
            records = [_record(offset, each) for offset, each in enumerate(batch, store.applied)]
            changes: dict[bytes, bytes | None] = {}
            with store.view() as view:
                apply_all(OverlayView(view, changes), records, changes)
            store.commit(changes, store.applied + len(records))
            seen.update(each["subject"] for each in batch)
            progress(_READING, len(seen), subjects)
        yield store


def _record(offset: int, entity: dict[str, Any]) -> Record:
    """Return the record that a version, as ``GET /schemas`` shows it, would have in a log."""
    subject, version = Subject.parse(entity["subject"]), int(entity["version"])
    guid = entity.get("guid")
    value = values.schema_value(
        subject,
        version,
        int(entity["id"]),
        entity["schema"],
        schema_type=entity.get("schemaType") or DEFAULT_TYPE,
        references=msgspec.convert(entity.get("references") or [], list[Reference]),
        metadata=msgspec.convert(entity.get("metadata"), Metadata | None),
        rule_set=msgspec.convert(entity.get("ruleSet"), RuleSet | None),
        deleted=bool(entity.get("deleted")),
        md5=bytes.fromhex(guid.replace("-", "")) if guid else None,
    )
    return Record(offset, 0, schema_key(subject, version), value)


FOUND = 1
_HEADER = ("group", "type", "guid", "id", "subject", "version")
_GROUP_NUMBERS = {"group", "id", "version"}


def print_duplicates(settings: Settings, options: dict[str, Any]) -> int:
    """Print the groups of equal schemas; return 0 if there are none, else :data:`FOUND`.

    The option ``source`` is the name of a snapshot or a :class:`.diff_sources.RunningRegistry`. Raises the
    errors of the snapshot, the registry and the store.
    """
    # Standard output is for what is found.
    bars = Steps(sys.stderr, quiet=True, bars=not options["json"])
    with bars as steps, workspace(settings.data, "searching") as folder, ExitStack() as opened:
        view = opened.enter_context(_rows(settings, options["source"], folder, steps))
        search = find_groups(view, options["subject_prefix"], deleted=options["deleted"], progress=steps)
        groups = run_search(search).groups
    print(groups_as_json(groups) if options["json"] else groups_as_table(groups))
    return FOUND if groups else 0


@contextmanager
def _rows(
    settings: Settings, source: RunningRegistry | str, folder: Path, progress: Progress
) -> Iterator[View]:
    """Open a view of the rows of a running registry or of a snapshot."""
    if not isinstance(source, str):
        with registry_store(settings, source, folder, progress) as store, store.view() as view:
            yield view
        return
    location = open_location(settings)
    manifest = stored.find(location, source)
    with snapshot_store(settings, location, manifest, folder, progress) as kept, kept.view() as view:
        yield view


def groups_as_json(groups: Sequence[DuplicateGroup]) -> str:
    """Return a JSON array with one object for each group."""
    return orjson.dumps([each.as_json() for each in groups], option=orjson.OPT_INDENT_2).decode()


def groups_as_table(groups: Sequence[DuplicateGroup]) -> str:
    """Return aligned lines, one for each registered version of a content that has an equal one."""
    if not groups:
        return "there are no duplicates"
    rows = [
        (str(number), group.schema_type, guid_text(md5), str(each.schema_id),
         each.subject.qualified, str(each.version))
        for number, group in enumerate(groups, 1)
        for md5, content in group.contents.items()
        for each in content.places
    ]  # fmt: skip
    return "\n".join(align([_HEADER, *rows], _GROUP_NUMBERS))
