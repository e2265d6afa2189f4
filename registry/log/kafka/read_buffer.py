"""A bounded buffer of fetched batches, filled by the event loop and read by one follower's thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from registry.domain.log_format.records import Record
from registry.log.contract import Fetched, LogError

from . import record_batches
from .log_identity import LogMismatchEvidence

# Fetching stops while the buffer holds this much: what a follower far behind takes in one step. A larger
# buffer would only cost memory, because folding is slower than fetching.
AHEAD_BYTES = 4 << 20


class Chunk(NamedTuple):
    """The answer to one fetch."""

    next: int
    data: bytes
    # The leader epoch of its last batch; -1: unknown.
    epoch: int


class Target(NamedTuple):
    """The offset to fetch from next."""

    offset: int
    # Counts the reader's jumps: what was fetched for an earlier turn is dropped.
    turn: int


class ReadBuffer:
    """The buffer has one position. Reading at another offset drops its content and starts there.

    The callbacks run in the reader's thread: ``on_room`` when a full buffer has room again, ``on_wait`` when
    the reader waits for records, ``on_seek`` when it jumps to another offset. The reader waits on a
    ``condition``.
    """

    def __init__(
        self,
        mismatches: LogMismatchEvidence,
        *,
        on_room: Callable[[], None],
        on_wait: Callable[[], None],
        on_seek: Callable[[], None],
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._mismatches = mismatches
        self._on_room, self._on_wait, self._on_seek = on_room, on_wait, on_seek
        self._changed = condition()
        # Guarded by _changed:
        self._target: Target | None = None
        self._turn = 0
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self._error = ""
        self._closed = False
        # Guarded by _reading, which is acquired before _changed:
        self._reading = threading.Lock()
        self._next: int | None = None
        self._chunk_next = 0
        self._runs: Iterator[list[Record]] = iter(())
        self._run: list[Record] = []
        self._at = 0
        self._headers: list[tuple[int, bytes]] = []
        self._chunk_epoch = -1
        self._epoch, self._epoch_end = -1, 0

    # The reader's side.

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return buffered records, see :meth:`.contract.Log.read`."""
        with self._reading:
            self._seek(offset)
            try:
                found = self._take(records_max, bytes_max)
            except LogError:
                self._next = None
                raise
            assert self._next is not None
            headers = self._headers_before(self._next)
            return Fetched(found, self._next, headers, self._epoch, self._epoch_end)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until a read from ``offset`` would advance, see :meth:`.contract.Log.wait`."""
        with self._reading:
            self._seek(offset)
            if self._at < len(self._run):
                return True
        self._on_wait()
        with self._changed:
            self._changed.wait_for(lambda: self._chunks or self._over(), timeout_s)
            self._check()
            return bool(self._chunks)

    def is_at_hand(self, offset: int) -> bool:
        """Return true if a read from ``offset`` would advance now, and not fail."""
        with self._changed:
            return offset == self._next and bool(self._chunks) and not self._over()

    def _over(self) -> bool:
        return self._closed or bool(self._error) or self._mismatches.foreign

    def _check(self) -> None:
        if self._closed:
            raise LogError("the log is closed")
        self._mismatches.check_foreign()
        if self._error:
            raise LogError(self._error)

    def _seek(self, offset: int) -> None:
        with self._changed:
            self._check()
            if self._next == offset:
                return
            self._next, self._chunk_next = offset, offset
            self._runs, self._run, self._at, self._headers = iter(()), [], 0, []
            self._chunk_epoch = self._epoch = -1
            self._turn += 1
            self._target = Target(offset, self._turn)
            self._chunks.clear()
            self._bytes = 0
        self._on_seek()

    def _take(self, records_max: int, bytes_max: int) -> list[Record]:
        found: list[Record] = []
        left = bytes_max
        while len(found) < records_max and self._more():
            first, last = self._at, min(len(self._run), self._at + records_max - len(found))
            for record in islice(self._run, first, last):
                left -= len(record.key or b"") + len(record.value or b"")
                if left < 0 and found:
                    return found
                found.append(record)
                self._at += 1
                self._next = record.offset + 1
        self._more()
        return found

    def _more(self) -> bool:
        """Return True if another record is available. Skips offsets without records, up to the log's end."""
        while self._at >= len(self._run):
            if (run := next(self._runs, None)) is not None:
                self._run, self._at = run, 0
                continue
            self._next = self._chunk_next
            if self._chunk_epoch >= 0:
                self._epoch, self._epoch_end = self._chunk_epoch, self._chunk_next
            with self._changed:
                if not self._chunks:
                    return False
                full = self._bytes >= AHEAD_BYTES
                chunk = self._chunks.popleft()
                self._bytes -= len(chunk.data)
            if full:  # otherwise the event loop does not wait for room, and need not wake up
                self._on_room()
            self._runs, self._chunk_next = (
                record_batches.runs(chunk.data, self._next, self._headers),
                chunk.next,
            )
            self._chunk_epoch = chunk.epoch
        return True

    def _headers_before(self, offset: int) -> tuple[tuple[int, bytes], ...]:
        """Return, once, the headers of the records that were read up to ``offset``."""
        count = sum(at < offset for at, _ in self._headers)
        headers = tuple(self._headers[:count])
        del self._headers[:count]  # in place: the decoder of the current chunk appends to this list
        return headers

    # The event loop's side.

    def target(self) -> Target | None:
        """Return what to fetch next; ``None`` if nobody has read yet or the buffer is full."""
        with self._changed:
            return None if self._bytes >= AHEAD_BYTES else self._target

    def follows(self, offset: int) -> bool:
        """Return True if a chunk at ``offset`` comes next and fits."""
        return self._target is not None and offset == self._target.offset and self._bytes < AHEAD_BYTES

    def add(self, target: Target | None, chunk: Chunk) -> bool:
        """Add what was fetched; return False if it is empty or the reader has jumped meanwhile."""
        with self._changed:
            if target is None or target != self._target or chunk.next <= target.offset:
                return False
            self._target = Target(chunk.next, target.turn)
            self._chunks.append(chunk)
            self._bytes += len(chunk.data)
            self._changed.notify_all()
            return True

    def skip(self, target: Target, offset: int) -> None:
        """Continue at ``offset``, because the log begins there."""
        with self._changed:
            if self._target is not None and target.turn == self._target.turn:
                self._target = Target(offset, target.turn)

    def fail(self, error: str) -> None:
        """Let the reader fail with this error; empty: let it read again."""
        if error != self._error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def wake(self) -> None:
        """Let a waiting reader check if the log is still the same."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End all waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
