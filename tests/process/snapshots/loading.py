"""Loading snapshots in tests: into a separate store, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import scan
from registry.store.lmdb import Store
from registry.store.open import Load, open_store
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from snapshots.format.parts import Row
from snapshots.format.writer import merge_runs, publish, write_run
from snapshots.loading.load import OnStep, load
from tests.support.sample_snapshots import LOG, MAP, about

ANY_END = 10_000  # beyond all records here, and not far enough for a writable map


def parted(location: Location, runs: Sequence[Sequence[Row]], offset: int = 7) -> Manifest:
    """Write a snapshot with one part for each run of rows."""
    known = about(offset)
    return publish(location, known, merge_runs(write_run(location, known.id, [run]) for run in runs))


def quiet(step: str, rows: int, size: int) -> None:
    pass


def loading(location: Location, manifest: Manifest, on_step: OnStep = quiet) -> Load:
    """Return the loader for :func:`open_store`, whatever the store holds."""

    def make(folder: Path, applied: int) -> bool:
        load(manifest, location, folder, map_bytes=MAP, on_step=on_step)
        return True

    return make


def opened(path: Path, load: Load | None = None, log: str = LOG) -> Store:
    return open_store(path / "store", log, ANY_END, map_bytes=MAP, load=load)[0]


def rows_in_store(store: Store) -> list[Row]:
    with store.view() as view:
        return list(scan(view, b"", b""))


def follow(store: Store, tail: Iterable[Record]) -> None:
    """Apply records one by one, as the follower does."""
    for record in tail:
        changes: dict[bytes, bytes | None] = {}
        with store.view() as view:
            changes.update(apply(OverlayView(view, changes), record))
        store.commit(changes, record.offset + 1)


def verified(store: Store) -> bool:
    """Return true if its rows give its digest."""
    while not store.verify_step(1000):
        pass
    return True


# Changes to a file; ``None``: it is deleted.
Damage = Callable[[bytes], bytes | None]
