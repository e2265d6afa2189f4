"""Folding in a second process while the node commits, so that a store far behind uses two cores.

The node sends batches of records. The process applies them over the store, which it reads itself, and over
its own changes that the store does not hold yet; it replies with the changes in key order. Batches and
replies go through pipes, each prefixed with its length. The processes take turns: the next batch is always
received before the last reply is sent, so that full pipes cannot block both.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple, cast

import msgspec

from registry.base.processes.child_process import keep_freed_memory, module_command, receive, send
from registry.domain.fold.fold import apply_all, has_quarantine
from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Record
from registry.domain.rows.layout import QUARANTINE
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import Change
from registry.log.contract import Fetched
from registry.store.lmdb import Store
from registry.store.reader import StoreReader

# The maximum for unprivileged users; with a smaller pipe, the two processes wait for each other more often.
_PIPE_BYTES = 1 << 20
_END_S = 5.0

Changes = dict[bytes, bytes | None]


class FoldingEnded(Exception):
    """The second process has ended; the store is as the last commit left it."""


class Batch(NamedTuple):
    """A batch of records, sent by the node."""

    records: list[Record]
    # The store's applied offset after this batch.
    next: int


class Folded(NamedTuple):
    """The changes of a batch, sent by the second process; see :meth:`.lmdb.Store.commit_folded`."""

    new: list[tuple[bytes, bytes]]
    changed: list[Change]
    applied: int


_encode = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(Batch).decode
_decode_folded = msgspec.msgpack.Decoder(Folded).decode


class Pending(NamedTuple):
    """A batch that was folded, and may not be committed yet."""

    next: int
    changes: Changes
    # True if it may have left quarantine rows.
    quarantined: bool


class FoldingProcess:
    """The node's side of the second process. ``read`` is :meth:`registry.log.contract.Log.read`."""

    def __init__(
        self, read: Callable[[int, int, int], Fetched], store: Store, records_max: int, bytes_max: int
    ) -> None:
        self._read, self._store = read, store
        self._bounds = records_max, bytes_max
        self._sent = store.applied
        self._lineage = store.lineage
        # Lineage of the log up to the end of each batch in flight; empty batches have none.
        self._lineages: deque[Lineage] = deque()
        self._under_way = 0
        keep_freed_memory(keep=True)  # Each batch needs as much as the one before.
        command, environment = module_command("registry.store.folding.parallel_fold", str(store.path.parent))
        self._process = subprocess.Popen(  # noqa: S603 (our own module and a path from the settings)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, pipesize=_PIPE_BYTES
        )

    @property
    def position(self) -> int:
        """The offset from which the next batch is read, ahead of the committed one."""
        return self._sent

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def step(self) -> None:
        """Send the next batch, receive the reply to an earlier one and commit it.

        Raises :class:`FoldingEnded`, and the errors of the log and the store.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            while self._under_way < 2:
                self._send(self._process.stdin)
            answer = receive(self._process.stdout)
        except OSError as error:
            raise FoldingEnded from error
        if answer is None:
            raise FoldingEnded
        self._under_way -= 1
        if answer:
            folded = _decode_folded(answer)
            self._store.commit_folded(folded.new, folded.changed, folded.applied, self._lineages.popleft())

    def _send(self, pipe: IO[bytes]) -> None:
        # At the log's end, send an empty batch to keep the turns.
        fetched = self._read(self._sent, *self._bounds)
        if fetched.next > self._sent:
            self._lineage = self._lineage.with_records(fetched.records, fetched.epoch, fetched.epoch_end)
            self._lineages.append(self._lineage)
            send(pipe, _encode(Batch(fetched.records, fetched.next)))
        else:
            send(pipe, b"")
        self._sent = fetched.next
        self._under_way += 1

    def close(self) -> None:
        """End the process; batches that were folded but not committed are folded again later."""
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._store.reader_check()
        keep_freed_memory(keep=False)


def fold_batches(path: Path, batches: IO[bytes], answers: IO[bytes]) -> None:
    """Fold batches over the store at ``path`` until ``batches`` ends: the main loop of the second process."""
    store = StoreReader(path)
    pending: deque[Pending] = deque()
    answer: bytes | None = None
    while (batch := receive(batches)) is not None:
        if answer is not None:
            send(answers, answer)
        answer = _encode(_fold(store, _decode_batch(batch), pending)) if batch else b""
    store.close()


def _fold(store: StoreReader, batch: Batch, pending: deque[Pending]) -> Folded:
    changes: Changes = {}
    with store.view() as view:
        committed = view.applied()
        while pending and pending[0].next <= committed:
            pending.popleft()
        seen = OverlayView(view)
        for earlier in pending:
            seen.changes.update(earlier.changes)
        overlay = OverlayView(seen if pending else view, changes)
        # Looking for quarantine rows among pending changes would put all of them in order.
        quarantined = any(earlier.quarantined for earlier in pending) or has_quarantine(view)
        known = apply_all(overlay, batch.records, changes, may_have_quarantine=quarantined)
    pending.append(Pending(batch.next, changes, any(key.startswith(QUARANTINE) for key in known)))
    return Folded(*split_new(changes, known), batch.next)


def split_new(changes: Changes, known: Collection[bytes]) -> tuple[list[tuple[bytes, bytes]], list[Change]]:
    """Return the new rows among ``changes``, and the changes of ``known`` keys, both in order of keys."""
    rows = sorted(changes.items(), key=itemgetter(0))
    if not known:
        return cast("list[tuple[bytes, bytes]]", rows), []
    new = [(key, value) for key, value in rows if key not in known and value is not None]
    return new, [row for row in rows if row[0] in known]


if __name__ == "__main__":
    # Garbage collection would take a fifth of the time, to look for cycles in tuples that have none.
    gc.disable()
    keep_freed_memory(keep=True)
    fold_batches(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
