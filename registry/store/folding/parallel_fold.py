"""Folding in a second process while the node commits, so that a store far behind uses two cores.

The node sends batches of records. The process applies them over the store, which it reads itself, and over
its own changes that the store does not hold yet; it replies with the changes. The node puts them in order,
because folding takes longer than committing. Batches and replies go through pipes, each prefixed with its
length. A pipe holds less than a batch, so each side sends in a thread: it goes on while the other one has not
received yet. Several batches are under way, so that one waits to be folded and one to be committed at any
time.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from queue import Queue
from threading import Thread
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
# Batches that were sent and not committed: one is folded, one waits on each side.
_AHEAD = 3
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
    """The changes of a batch, sent by the second process."""

    changes: list[Change]
    # Keys of changes that may have had a row before.
    known: set[bytes]
    # The store's applied offset after this batch.
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


class Outbox:
    """Sends messages through a pipe, in a thread.

    If the other side has ended, they are dropped: who waits for its answers finds that out.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        # Nobody sends more than what is under way, and the end.
        self._messages: Queue[bytes | None] = Queue(_AHEAD + 1)
        self._thread = Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> None:
        """Send a message after those before it. Does not wait."""
        self._messages.put(message)

    def close(self) -> None:
        """Close the pipe after the last message. Does not wait."""
        self._messages.put(None)

    def join(self) -> None:
        """Wait until the pipe is closed."""
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError), self._pipe:
            while (message := self._messages.get()) is not None:
                send(self._pipe, message)


class FoldingProcess:
    """The node's side of the second process. ``read`` is :meth:`registry.log.contract.Log.read`."""

    def __init__(
        self, read: Callable[[int, int, int], Fetched], store: Store, records_max: int, bytes_max: int
    ) -> None:
        self._read, self._store = read, store
        self._bounds = records_max, bytes_max
        self._sent = store.applied
        self._lineage = store.lineage
        # Lineage of the log up to the end of each batch under way.
        self._lineages: deque[Lineage] = deque()
        command, environment = module_command("registry.store.folding.parallel_fold", str(store.path.parent))
        self._process = subprocess.Popen(  # noqa: S603 (our own module and a path from the settings)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, pipesize=_PIPE_BYTES
        )
        assert self._process.stdin is not None
        self._outbox = Outbox(self._process.stdin)
        self._process.stdin = None  # Only the outbox closes it.
        keep_freed_memory(keep=True)  # Each batch needs as much as the one before.

    @property
    def position(self) -> int:
        """The offset from which the next batch is read, ahead of the committed one."""
        return self._sent

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def step(self) -> None:
        """Send the next batches, receive the reply to an earlier one and commit it.

        Does nothing if no records are available. Raises :class:`FoldingEnded`, and the errors of the log and
        the store.
        """
        while len(self._lineages) < _AHEAD and self._send():
            pass
        if not self._lineages:
            return
        assert self._process.stdout is not None
        try:
            answer = receive(self._process.stdout)
        except OSError as error:
            raise FoldingEnded from error
        if answer is None:
            raise FoldingEnded
        folded = _decode_folded(answer)
        new, changed = split_new(folded.changes, folded.known)
        self._store.commit_folded(new, changed, folded.applied, self._lineages.popleft())

    def _send(self) -> bool:
        """Send the next batch, if the log has more records at hand."""
        fetched = self._read(self._sent, *self._bounds)
        if fetched.next <= self._sent:
            return False
        self._lineage = self._lineage.with_records(fetched.records, fetched.epoch, fetched.epoch_end)
        self._lineages.append(self._lineage)
        self._outbox.put(_encode(Batch(fetched.records, fetched.next)))
        self._sent = fetched.next
        return True

    def close(self) -> None:
        """End the process; batches that were folded but not committed are folded again later."""
        self._outbox.close()
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._outbox.join()
        self._store.reader_check()
        keep_freed_memory(keep=False)


def fold_batches(path: Path, batches: IO[bytes], answers: IO[bytes]) -> None:
    """Fold batches over the store at ``path`` until ``batches`` ends: the main loop of the second process."""
    store = StoreReader(path)
    pending: deque[Pending] = deque()
    outbox = Outbox(answers)
    while (batch := receive(batches)) is not None:
        outbox.put(_encode(_fold(store, _decode_batch(batch), pending)))
    outbox.close()
    outbox.join()
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
    return Folded(list(changes.items()), known, batch.next)


def split_new(
    changes: Iterable[Change], known: Collection[bytes]
) -> tuple[list[tuple[bytes, bytes]], list[Change]]:
    """Return the new rows among ``changes``, and the changes of ``known`` keys, both in order of keys."""
    rows = sorted(changes, key=itemgetter(0))
    if not known:
        return cast("list[tuple[bytes, bytes]]", rows), []
    new = [(key, value) for key, value in rows if key not in known and value is not None]
    return new, [row for row in rows if row[0] in known]


if __name__ == "__main__":
    # Garbage collection would take a fifth of the time, to look for cycles in tuples that have none.
    gc.disable()
    keep_freed_memory(keep=True)
    fold_batches(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
