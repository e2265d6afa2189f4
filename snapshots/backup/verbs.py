"""``registrar snapshot list | verify | restore | diff | export`` and ``registrar duplicates``."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from registry.base.config.settings import Settings
from registry.base.observe.progress import Steps
from registry.domain.queries.scope import Defaults
from registry.domain.rows import digest
from registry.store.layout import StoreError
from snapshots.building.task import WorkspaceBusy, silent, workspace
from snapshots.catalogue.catalogue import CatalogueError
from snapshots.catalogue.open import open_catalogue, open_location
from snapshots.format import stored
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.verify import verify

from . import diff, restore, stores
from .diff_sources import Content, LiveSide, RunningRegistry, SnapshotSide
from .export import OutputNotEmpty, export_files, export_lines
from .reseed_publish import ReseedRefused
from .stores import print_duplicates

# Errors that these commands may end with, in addition to those of the log, the store and running registries.
FAILURES = (
    stored.SnapshotNotFound,
    ReseedRefused,
    OutputNotEmpty,
    UnusableSnapshot,
    BadLocation,
    LocationUnreachable,
    WorkspaceBusy,
)


class CommandFailed(Exception):
    """A command that could not be run; the text says why. ``status``: its exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


# Errors of reading rows that no fold has made; hashes prove only that the files are those of the manifest.
_SENSELESS = (ValueError, LookupError, struct.error, msgspec.MsgspecError, lmdb.BadValsizeError)


@contextmanager
def _rows_make_sense(name: str) -> Iterator[None]:
    """Turn errors of reading a snapshot's rows into :class:`snapshots.format.stored.UnusableSnapshot`."""
    try:
        yield
    except _SENSELESS as error:
        raise UnusableSnapshot(
            f"{name} has rows that no release writes, so it may be forged: {type(error).__name__}: {error}"
        ) from error


def _verify(settings: Settings, options: dict[str, Any]) -> int:
    location = open_location(settings)
    named = _resolve_id(location, options["snapshot"])
    announced = _announced_hash(settings, named)
    with Steps() as steps:
        verified = verify(location, named, lambda done, total: steps("verifying", done, total), announced)
        findings = list(verified)
    for finding in findings:
        print(f"registrar: {named}: {finding}", file=sys.stderr)
    if not findings:
        manifest = stored.read(location, named)
        compared = f"{', as announced' if announced else ''}{', signed' if location.keys.current else ''}"
        print(f"{named} is sound{compared}: {manifest.rows} rows, digest {digest.text(manifest.digest)}")
    return 1 if findings else 0


def _announced_hash(settings: Settings, id: str) -> str:
    """Return the hash of a snapshot's manifest in the catalogue; empty if that has none."""
    try:
        with closing(open_catalogue(settings, command=True)) as catalogue:
            entry = catalogue.entries().get(id)
    except CatalogueError as error:
        print(f"registrar: {error}; the manifest is not compared with the catalogue", file=sys.stderr)
        return ""
    return entry.manifest if entry is not None else ""


def _restore(settings: Settings, options: dict[str, Any]) -> int:
    location = open_location(settings)
    manifest = stored.find(location, options["snapshot"], _report)
    with _rows_make_sense(manifest.id), Steps() as steps:
        restore.restore(
            settings, location, manifest, steps, dry_run=options["dry_run"], empty=options["empty"],
            flags=options["settings"],
        )  # fmt: skip
    return 0


def _report(sentence: str) -> None:
    print(f"registrar: {sentence}", file=sys.stderr)


def _resolve_id(location: Location, name: str) -> str:
    """Return the id of a snapshot, which may turn out to be unreadable."""
    if name == stored.LATEST:
        return stored.find(location, name, _report).id
    if name not in stored.names(location):
        raise stored.SnapshotNotFound(f"there is no snapshot {name} in {location}")
    return name


def _list(settings: Settings, options: dict[str, Any]) -> int:
    with closing(open_catalogue(settings, command=True)) as catalogue:
        try:
            entries = catalogue.entries()
        except CatalogueError as error:
            print(f"registrar: {error}; listing only what the location holds", file=sys.stderr)
            entries = {}
    listed = stores.listing(open_location(settings), entries)
    print(stores.as_json(listed) if options["json"] else stores.as_table(listed))
    return 0


def _diff(settings: Settings, options: dict[str, Any]) -> int:
    """Run ``diff``; return 0 if both sides are identical, 1 if not. Raises :class:`CommandFailed` (2)."""
    try:
        with workspace(settings.data, "comparing") as folder, ExitStack() as open_sides:
            with Steps(sys.stderr, quiet=True, bars=not options["json"]) as steps:
                old, new = (
                    open_sides.enter_context(_side(settings, options[name], folder / name, steps))
                    for name in ("before", "after")
                )
            with _rows_make_sense("a side"):
                found = diff.differences(old, new)
                count = print_json_array(found, folder) if options["json"] else _print_differences(found)
            return 1 if count else 0
    except (*FAILURES, OSError) as error:
        raise CommandFailed(str(error), 2) from None


def _duplicates(settings: Settings, options: dict[str, Any]) -> int:
    """Run ``duplicates``; return 0 if there are none, else 1. Raises :class:`CommandFailed` (2)."""
    try:
        with _rows_make_sense("the snapshot"):
            return print_duplicates(settings, options)
    except (*FAILURES, StoreError, OSError) as error:
        raise CommandFailed(str(error), 2) from None


def _print_differences(found: Iterator[diff.Difference]) -> int:
    count = 0
    for each in found:
        print(each.as_text())
        count += 1
    if not count:
        print("no differences")
    return count


def print_json_array(found: Iterator[diff.Difference], folder: Path) -> int:
    """Print the differences as one JSON array, and return their number.

    They are collected in a file of ``folder``, so that nothing is printed if the last of them cannot be read.
    """
    count = 0
    with (folder / "differences").open("w+", encoding="utf-8") as collected:
        for count, each in enumerate(found, 1):
            collected.write(("[" if count == 1 else ",\n ") + each.as_json().decode())
        collected.write("]\n" if count else "[]\n")
        collected.seek(0)
        shutil.copyfileobj(collected, sys.stdout)
    return count


@contextmanager
def _side(
    settings: Settings, source: RunningRegistry | str, folder: Path, steps: Steps
) -> Iterator[diff.Side]:
    defaults = Defaults(compatibility=settings.compatibility)
    if not isinstance(source, str):
        with closing(LiveSide(source, folder, defaults, steps)) as live:
            yield live
        return
    location = open_location(settings)
    yield SnapshotSide(Content(location, stored.find(location, source, _report)), defaults)


def _export(settings: Settings, options: dict[str, Any]) -> int:
    location = open_location(settings)
    content = Content(location, stored.find(location, options["snapshot"], _report))
    with _rows_make_sense(content.manifest.id):
        return _export_content(content, options)


def _export_content(content: Content, options: dict[str, Any]) -> int:
    output = options["output"]
    if options["format"] == "jsonl" and output == "-":
        # Our own file object: with PYTHONUNBUFFERED, sys.stdout takes a partial write for a complete one.
        with open(sys.stdout.fileno(), "wb", closefd=False) as out:
            export_lines(content, out, silent)
        return 0
    with Steps() as steps:
        if options["format"] == "jsonl":
            with Path(output).open("xb") as out:
                export_lines(content, out, steps)
        else:
            export_files(content, Path(output), steps)
    print(f"exported {content.manifest.id} to {output}")
    return 0


COMMANDS: dict[str, Callable[[Settings, dict[str, Any]], int]] = {
    "diff": _diff,
    "duplicates": _duplicates,
    "export": _export,
    "list": _list,
    "restore": _restore,
    "verify": _verify,
}
