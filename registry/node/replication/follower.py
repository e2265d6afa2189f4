"""The follower: applies the log to the node's store, and reports barriers and progress.

The steps are those of :class:`registry.store.folding.log_fold.LogFold`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from registry.domain.log_format.records import BARRIER_KEY, Record
from registry.log.contract import Fetched, Log
from registry.node.leadership.claim import Barrier, newest_barrier, read_barrier
from registry.store.folding.log_fold import RECORDS_MAX, FoldedRows, LogFold
from registry.store.layout import FAR_BEHIND

from .dedup import DedupCache

_PACE_S = 5.0


class Progress(NamedTuple):
    """The position of the store in the log, for health and metrics."""

    applied: int
    end: int
    # Measured over the last seconds in which there were records to apply.
    records_per_s: float
    # Seconds until the current end is reached; ``None`` if unknown, 0 at the end.
    eta_s: float | None


class Follower:
    """Keeps ``store`` equal to the fold of ``log``.

    One thread at a time makes steps; any may query the progress. ``far_behind``: the number of records from
    which a second process is used; ``None`` for never. ``history``: the store keeps the history of the
    records. ``barrier`` is called by the stepping thread with the
    newest barrier after it was applied. ``memory`` gets the result of every read; ``seen`` is called with all
    records before their rows are visible. ``on_applied`` is called after each step with its records, or
    ``None`` if the second process applied them, and the offset up to which rows are visible.
    """

    def __init__(
        self,
        log: Log,
        store: FoldedRows,
        *,
        far_behind: int | None = FAR_BEHIND,
        history: bool = False,
        clock: Callable[[], float] = time.monotonic,
        barrier: Callable[[Barrier], None] = lambda _: None,
        memory: DedupCache | None = None,
        seen: Callable[[list[Record]], None] = lambda _: None,
        on_applied: Callable[[list[Record] | None, int], None] = lambda _, __: None,
    ) -> None:
        self._log = log
        self._store = store
        self._fold = LogFold(log, store, far_behind=far_behind, history=history, on_read=self._on_read)
        self._clock = clock
        self._barrier = barrier
        self._memory = memory
        self._seen = seen
        self._on_applied = on_applied
        self._reported = -1
        self._watch: list[Barrier] | None = None
        self._since: tuple[float, int] | None = None
        self._pace = 0.0

    def step(self, records_max: int = RECORDS_MAX) -> int:
        """Apply at most ``records_max`` records; return by how many offsets the store advanced.

        0 at the log's end as last known, or if the next records are not available yet.

        Raises the errors of the log and the store; the store is then as after the step before.
        """
        before = self._store.applied
        behind = self._log.end() - before
        if behind <= 0:
            self._since = None
            return 0
        if self._since is None:
            self._since = (self._clock(), before)
        # Watched barriers are found in the records, which the second process does not return.
        step = self._fold.step(records_max, here=self._watch is not None)
        if step.records is None:
            self._report_newest()
        elif any(record.key == BARRIER_KEY for record in step.records):
            self._watch_barriers(step.records)
            self._report_newest()
        if step.advanced:
            self._on_applied(step.records, before + step.advanced)
        self._measure()
        return step.advanced

    def _on_read(self, offset: int, fetched: Fetched) -> None:
        if self._memory is not None:
            self._memory.read(offset, fetched)
        self._seen(fetched.records)

    def _watch_barriers(self, records: list[Record]) -> None:
        if self._watch is None:
            return
        for record in records:
            barrier = read_barrier(record)
            if barrier is not None:
                self._watch.append(barrier)

    def _report_newest(self) -> None:
        with self._store.view() as view:
            newest = newest_barrier(view)
        if newest is not None and newest.offset > self._reported:
            self._reported = newest.offset
            self._barrier(newest)

    @contextmanager
    def watching(self) -> Iterator[list[Barrier]]:
        """Yield a list that collects the barriers applied during the block; one block at a time."""
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
        return self._fold.position

    @property
    def second(self) -> int | None:
        """The id of the second process, while there is one."""
        return self._fold.process_id

    def progress(self) -> Progress:
        """Return the position of the store in the log."""
        applied, end = self._store.applied, self._log.end()
        behind = max(0, end - applied)
        eta = behind / self._pace if self._pace else None
        return Progress(applied, end, self._pace, eta if behind else 0.0)

    def close(self) -> None:
        """End the second process, if there is one. The log and the store stay open."""
        self._fold.close()
