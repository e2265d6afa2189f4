"""Folding a log into a store, one bounded step at a time, for nodes and for builds of snapshots.

A step reads records, applies them over an overlay of its own changes, and commits all changes with the new
offset. If the store is far behind, folding and committing run at the same time in two processes
(:mod:`.parallel_fold`); the steps, their commits and the offset to resume from are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from registry.domain.fold.fast_path import PlainRecords
from registry.domain.fold.fold import apply_all
from registry.domain.history.entries import Slice, slice_of
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import Change, Rows
from registry.log.contract import Fetched
from registry.store.counts import drops_counts
from registry.store.layout import FAR_BEHIND, StoreError
from registry.store.lmdb import Store

from .parallel_fold import FoldingEnded, FoldingProcess, split_new

# Records of one step: enough for many rows to share a page, few enough to keep their copies under 100 MB.
RECORDS_MAX = 4_000
BYTES_MAX = 8 << 20


class ReadableLog(Protocol):
    """The part of :class:`registry.log.contract.Log` that a fold needs."""

    def end(self) -> int:
        """Return the log's end as last known."""
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return the available records from ``offset`` on."""
        ...


class FoldedRows(Rows, Protocol):
    """The rows of a log, to which a fold adds what comes next."""

    @property
    def lineage(self) -> Lineage:
        """Lineage of the log up to ``applied``."""
        ...

    def commit_folded(
        self,
        new: Sequence[tuple[bytes, bytes]],
        changed: Sequence[Change],
        applied: int,
        lineage: Lineage = NOTHING,
        history: Slice | None = None,
    ) -> None:
        """Write changes, the applied offset, the lineage up to it and the history in one transaction.

        ``new`` are rows that had none before; both are in ascending order of keys.
        """
        ...


class FoldOutcome(NamedTuple):
    """The outcome of one step."""

    # By how many offsets the store advanced.
    advanced: int
    # The records, if this process applied them; ``None`` if the second process did.
    records: list[Record] | None


class LogFold:
    """Keeps ``store`` equal to the fold of ``log``. One thread at a time makes steps.

    ``far_behind``: the number of records from which a second process is used; ``None`` for never.
    ``history``: the store keeps the history of the records that are applied in this process.
    ``on_read`` is called with the offset and the result of every read, before its rows are visible.
    """

    def __init__(
        self,
        log: ReadableLog,
        store: FoldedRows,
        *,
        far_behind: int | None = FAR_BEHIND,
        history: bool = False,
        on_read: Callable[[int, Fetched], None] = lambda _, __: None,
    ) -> None:
        self._log = log
        self._store = store
        self._far_behind = far_behind
        self._history = history
        self._on_read = on_read
        self._process: FoldingProcess | None = None

    def step(self, records_max: int = RECORDS_MAX, *, here: bool = False) -> FoldOutcome:
        """Apply at most ``records_max`` records; if ``here`` is set, in this process.

        The store does not advance at the log's end as last known, or if the next records are not available.
        Raises the errors of the log and the store; the store is then as after the step before.
        """
        before = self._store.applied
        behind = self._log.end() - before
        records: list[Record] | None = []
        if behind > 0:
            if not here and self._step_in_process(behind, records_max):
                records = None
            else:
                self._stop_process()
                records = self._step_here(records_max)
        return FoldOutcome(self._store.applied - before, records)

    def _step_in_process(self, behind: int, records_max: int) -> bool:
        """Make the step with the second process; return false if it was not used."""
        store = self._store
        if behind <= records_max or self._far_behind is None or not isinstance(store, Store):
            return False
        if self._process is None:
            if behind < self._far_behind:
                return False
            self._process = FoldingProcess(self._read, store, records_max, BYTES_MAX)
        try:
            self._process.step()
        except FoldingEnded:
            # It was killed, most likely for lack of memory; folding in this process needs less.
            self._far_behind = None
            return False
        except StoreError:
            # Later batches depend on the one that was not committed, so it must be folded again.
            self._stop_process()
            raise
        return True

    def _step_here(self, records_max: int) -> list[Record]:
        begin = self._store.applied
        fetched = self._read(begin, records_max, BYTES_MAX)
        if fetched.next <= begin:
            return []
        changes: dict[bytes, bytes | None] = {}
        parsed: PlainRecords | None = {} if self._history else None
        with self._store.view() as view:
            known: Collection[bytes] = apply_all(OverlayView(view, changes), fetched.records, changes, parsed)
        if not drops_counts(changes):
            # Rows that are committed as new are not counted.
            known = changes.keys()
        lineage = self._store.lineage.with_records(fetched.records, fetched.epoch, fetched.epoch_end)
        history = slice_of(begin, fetched.records, fetched.next, parsed) if self._history else None
        self._store.commit_folded(*split_new(changes.items(), known), fetched.next, lineage, history)
        return fetched.records

    def _read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        fetched = self._log.read(offset, records_max, bytes_max)
        self._on_read(offset, fetched)
        return fetched

    @property
    def position(self) -> int:
        """The offset that the next step reads from."""
        return self._store.applied if self._process is None else self._process.position

    @property
    def process_id(self) -> int | None:
        """The id of the second process, while there is one."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the second process, if there is one. The log and the store stay open."""
        self._stop_process()

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
