"""The engine ``local``: builds a snapshot on one host, without Spark and with little memory.

It folds the log into a temporary store, as a node does, and writes the rows in key order. Tests compare
Spark's snapshots with its own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from registry.domain.rows import digest
from registry.log.contract import Fetched, Unreachable
from registry.store.folding.log_fold import LogFold
from registry.store.layout import PREFIX, Current, write_current
from registry.store.lmdb import Store
from registry.store.open import open_store
from snapshots.format.manifest import Manifest
from snapshots.format.parts import Row
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.writer import WrittenRows, publish, write_run
from snapshots.loading.load import load

from .sources import ReadableLog
from .task import Progress, Task, WrongRows, with_keyset, workspace

ENGINE = "local"
READING, LOADING, WRITING = "reading the log", "loading the base", "writing the parts"
VERIFYING = "verifying the parts"
_ROWS = 1_000
_WAIT_S = 60.0


def build(task: Task, progress: Progress) -> Manifest:
    """Build a snapshot; see :class:`.task.Engine`.

    Needs room for one store in the data folder, where one build runs at a time.

    Raises also :class:`.task.WrongRows`, :class:`snapshots.format.stored.UnusableSnapshot` for the base, and
    :class:`registry.store.layout.StoreError`.
    """
    with (
        _without_collector(),
        workspace(task.settings.data, "building", wait=True) as folder,
        closing(_open_base(task, folder, progress)) as store,
    ):
        _fold(task, store, progress)
        about = task.about(ENGINE)
        written = _write(task, store, progress)
        return publish(task.location, with_keyset(task, about, written), written)


def _write(task: Task, store: Store, progress: Progress) -> WrittenRows:
    """Write the store's rows, and compare what the files hold with the digest that folding them gave."""

    def verifying(done: int, total: int) -> None:
        progress(VERIFYING, done, total)

    try:
        with store.view() as view:
            rows = _with_progress(view.batches(_ROWS), store.stat().rows, progress)
            written = write_run(task.location, task.id, rows, verifying, task.base)
    except UnusableSnapshot as error:
        raise WrongRows(f"what was written cannot be read: {error}") from error
    # The store's digest began with that of the base's manifest, so it differs if the base's rows did.
    if written.digest != store.digest:
        found, kept = digest.text(written.digest), digest.text(store.digest)
        raise WrongRows(f"the files hold rows with the digest {found}, but folding them gave {kept}")
    return written


@contextmanager
def _without_collector() -> Iterator[None]:
    # Rows have no reference cycles, and searching for them would take a quarter of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _open_base(task: Task, folder: Path, progress: Progress) -> Store:
    """Open a store with the base's rows, or an empty one."""
    identity, map_bytes = task.source.log.identity, task.settings.store_map_bytes
    if task.base:
        name, total = f"{PREFIX}1", task.base.rows

        def on_step(step: str, rows: int, size: int) -> None:
            progress(LOADING, rows, total)

        load(task.base, task.location, folder / name, map_bytes=map_bytes, on_step=on_step)
        write_current(folder, Current(name, identity))
    store, messages = open_store(folder, identity, task.end, map_bytes=map_bytes)
    if messages:
        store.close()
        raise WrongRows(" ".join(messages))
    return store


def _fold(task: Task, store: Store, progress: Progress) -> None:
    log = _Upto(task.source.log, task.end)
    fold = LogFold(log, store)
    try:
        while store.applied < task.end:
            if not fold.step().advanced and not log.wait(fold.position, _WAIT_S):
                raise Unreachable(
                    f"nothing could be read from offset {store.applied} on within {_WAIT_S:g} s"
                )
            progress(READING, store.applied - task.start, task.end - task.start)
    finally:
        fold.close()


class _Upto:
    """A log that appears to end at ``end``."""

    def __init__(self, log: ReadableLog, end: int) -> None:
        self._log, self._end = log, end

    def end(self) -> int:
        return self._end

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        fetched = self._log.read(offset, records_max, bytes_max)
        if fetched.next <= self._end:
            return fetched
        records = [record for record in fetched.records if record.offset < self._end]
        return fetched._replace(records=records, next=max(offset, self._end))

    def wait(self, offset: int, timeout_s: float) -> bool:
        return offset < self._end and self._log.wait(offset, timeout_s)


def _with_progress(
    batches: Iterator[Sequence[Row]], total: int, progress: Progress
) -> Iterator[Sequence[Row]]:
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        progress(WRITING, done, total)
