"""The follower: from the log into the store, one bounded step at a time.

A step reads records, applies them over an overlay of its own changes, and commits all changes with the new
offset. Far behind the log's end, folding and committing go on at the same time in two processes
(:mod:`.parallel_fold`); the steps, what they commit and where they resume are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

from registry.domain.fold.fold import apply
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import BARRIER_KEY, Record
from registry.domain.rows import layout
from registry.domain.rows.memory_views import OverlayView
from registry.log.contract import Fetched, Log
from registry.node.leadership.claim import Barrier, newest_barrier, read_barrier
from registry.store.layout import StoreError
from registry.store.lmdb import Store

from .dedup import Memory
from .parallel_fold import FoldingEnded, FoldingProcess

RECORDS_MAX = 4_000
"""Of one step: so many that pages are shared by many rows, so few that their copies stay under 100 MB."""
BYTES_MAX = 8 << 20
FAR_BEHIND = 50_000
"""Records from which a second process pays."""
_PACE_S = 5.0


class Rows(Protocol):
    """What a follower needs of a store."""

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        ...

    def view(self) -> AbstractContextManager[layout.View]:
        """The committed rows."""
        ...

    @property
    def lineage(self) -> Lineage:
        """What is remembered of the log that was applied."""
        ...

    def commit(self, changes: dict[bytes, bytes | None], applied: int, lineage: Lineage = NOTHING) -> None:
        """Write changes, move the applied offset and remember the lineage up to there, all or nothing."""
        ...


class Progress(NamedTuple):
    """How far the store is, for health and metrics."""

    applied: int
    end: int
    records_per_s: float
    """Over the last seconds in which there was something to do."""
    eta_s: float | None
    """Until the end as of now is reached; ``None`` when nothing is known, 0 at the end."""


class Follower:
    """Keeps ``store`` the fold of ``log``. One thread at a time makes steps; any may ask for progress.

    ``far_behind``: records from which a second process is used; ``None`` never uses one.
    ``barrier`` is called, by the stepping thread, with the newest barrier after it was applied. ``memory``
    is given all that is read, and ``seen`` all records before their rows can be seen.
    """

    def __init__(
        self,
        log: Log,
        store: Rows,
        *,
        far_behind: int | None = FAR_BEHIND,
        clock: Callable[[], float] = time.monotonic,
        barrier: Callable[[Barrier], None] = lambda _: None,
        memory: Memory | None = None,
        seen: Callable[[list[Record]], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._store = store
        self._far_behind = far_behind
        self._folding: FoldingProcess | None = None
        self._clock = clock
        self._barrier = barrier
        self._memory = memory
        self._seen = seen
        self._told = -1
        self._watch: list[Barrier] | None = None
        self._since: tuple[float, int] | None = None
        self._pace = 0.0

    def step(self, records_max: int = RECORDS_MAX) -> int:
        """Apply at most ``records_max`` records; how many offsets the store went on.

        0 at the log's end as last heard, or when what comes next is not here yet.

        Raises the errors of the log and the store; the store then is as after the step before.
        """
        before = self._store.applied
        behind = self._log.end() - before
        if behind <= 0:
            self._since = None
            return 0
        if self._since is None:
            self._since = (self._clock(), before)
        if not self._step_there(behind, records_max):
            self._step_here(records_max)
        self._measure()
        return self._store.applied - before

    def _step_there(self, behind: int, records_max: int) -> bool:
        """Make the step with the second process; whether it was made so."""
        store = self._store
        watched = self._watch is not None or not isinstance(store, Store)
        if behind <= records_max or self._far_behind is None or watched:
            self._stop_folding()
            return False
        if self._folding is None:
            if behind < self._far_behind:
                return False
            assert isinstance(store, Store)
            self._folding = FoldingProcess(self._read, store, records_max, BYTES_MAX)
        try:
            self._folding.step()
            self._tell_newest()
        except FoldingEnded:
            # Killed, most likely for memory: the slower way needs less.
            self._stop_folding()
            self._far_behind = None
            return False
        except StoreError:
            # What was folded and not committed must be folded again: later batches rest on it.
            self._stop_folding()
            raise
        return True

    def _step_here(self, records_max: int) -> None:
        fetched = self._read(self._store.applied, records_max, BYTES_MAX)
        if fetched.next <= self._store.applied:
            return
        changes: dict[bytes, bytes | None] = {}
        with self._store.view() as view:
            overlay = OverlayView(view, changes)
            for record in fetched.records:
                changes.update(apply(overlay, record))
        lineage = self._store.lineage.extended(fetched.records, fetched.epoch, fetched.epoch_end)
        self._store.commit(changes, fetched.next, lineage)
        if any(record.key == BARRIER_KEY for record in fetched.records):
            self._watch_barriers(fetched.records)
            self._tell_newest()

    def _read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        fetched = self._log.read(offset, records_max, bytes_max)
        if self._memory is not None:
            self._memory.read(offset, fetched)
        self._seen(fetched.records)
        return fetched

    def _watch_barriers(self, records: list[Record]) -> None:
        if self._watch is None:
            return
        for record in records:
            barrier = read_barrier(record)
            if barrier is not None:
                self._watch.append(barrier)

    def _tell_newest(self) -> None:
        with self._store.view() as view:
            newest = newest_barrier(view)
        if newest is not None and newest.offset > self._told:
            self._told = newest.offset
            self._barrier(newest)

    @contextmanager
    def watching(self) -> Iterator[list[Barrier]]:
        """All barriers that are applied during the block, as they are; one block at a time."""
        watched: list[Barrier] = []
        self._watch = watched
        try:
            yield watched
        finally:
            self._watch = None

    def _measure(self) -> None:
        assert self._since is not None
        since, offset = self._since
        now = self._clock()
        if now > since:
            self._pace = (self._store.applied - offset) / (now - since)
        if now - since > _PACE_S:
            self._since = (now, self._store.applied)

    @property
    def position(self) -> int:
        """The offset that the next step reads from."""
        return self._store.applied if self._folding is None else self._folding.position

    @property
    def second(self) -> int | None:
        """The id of the second process, while there is one."""
        return None if self._folding is None else self._folding.pid

    def progress(self) -> Progress:
        """How far the store is."""
        applied, end = self._store.applied, self._log.end()
        behind = max(0, end - applied)
        eta = behind / self._pace if self._pace else None
        return Progress(applied, end, self._pace, eta if behind else 0.0)

    def close(self) -> None:
        """End the second process, if there is one. The log and the store stay open."""
        self._stop_folding()

    def _stop_folding(self) -> None:
        if self._folding is not None:
            self._folding.close()
            self._folding = None
