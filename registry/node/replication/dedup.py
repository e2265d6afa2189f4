"""Cache of executed commands, built from the record headers of their records in the log.

With it, a primary repeats the first reply to a command that it, or a primary before it, has executed. The
cache is complete from some offset on; a command whose idempotency key is older is rejected as forgotten and
never decided.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import NamedTuple

from registry.domain.commands import IdempotencyKey
from registry.domain.log_format.headers import unpack_header
from registry.log.contract import Fetched, Log, LogError

COUNT_MAX = 8_192
# Bytes of all briefs together.
BYTES_MAX = 4 << 20
# Records before its start that a new primary reads again, because it may have started only recently.
LOOK_BACK = 2_000
_log = logging.getLogger(__name__)


class Remembered(NamedTuple):
    """An executed command."""

    # As in :class:`registry.domain.decide.Decision`; ``None`` if the reply is lost.
    brief: bytes | None
    # Of the record with its header. A command that was decided again has two: the later one counts.
    offset: int = 0


class DedupCache:
    """Bounded cache of the most recent commands. One thread at a time reads the log; any thread may look up.

    ``applied``: the offset at which reading begins.
    """

    def __init__(self, applied: int, *, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._begin = self._since = applied
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._order: deque[tuple[int, bytes]] = deque()
        self._known: dict[bytes, Remembered] = {}
        self._bytes = 0
        self._looked_back = False
        self._lock = threading.Lock()

    @property
    def since(self) -> int:
        """The offset from which on all commands are known, up to the last record read."""
        return self._since

    def knows(self, idempotency_key: IdempotencyKey) -> bool:
        """Return true if a command that :meth:`find` does not find was certainly not executed."""
        return idempotency_key.since >= self._since

    def find(self, idempotency_key: IdempotencyKey) -> Remembered | None:
        """Return an executed command, or ``None`` if it is not cached."""
        return self._known.get(idempotency_key.id)

    def read(self, offset: int, fetched: Fetched) -> None:
        """Add the result of a read from ``offset`` on."""
        with self._lock:
            if fetched.next - offset != len(fetched.records):
                # Compaction removed records, perhaps with record headers, before this node read them.
                self._forget_before(_whole_from(offset, fetched))
            for at, raw in fetched.headers:
                self._add(at, raw)
            self._shrink()

    def look_back(self, log: Log) -> None:
        """Read the record headers before the offset at which reading began; only the first call does so."""
        if not self._lacks_what_was_before():
            return
        try:
            # Read without the lock, so that the reading thread need not wait.
            since, headers = log.headers_before(self._begin, LOOK_BACK)
        except LogError as error:
            _log.warning("commands executed before offset %d are unknown: %s", self._begin, error)
            return
        with self._lock:
            if not self._lacks_what_was_before():
                return
            self._looked_back = True
            later, self._order = self._order, deque()
            for at, raw in headers:
                self._add(at, raw)
            self._order += later
            self._since = since
            self._shrink()

    def _lacks_what_was_before(self) -> bool:
        return not self._looked_back and self._since == self._begin

    def _add(self, offset: int, raw: bytes) -> None:
        header = unpack_header(raw)
        if header is None:
            return
        known = self._known.get(header.idempotency_key)
        if known is None:
            self._order.append((offset, header.idempotency_key))
        elif known.offset >= offset:
            return
        else:
            self._bytes -= len(known.brief or b"")
        self._known[header.idempotency_key] = Remembered(header.brief, offset)
        self._bytes += len(header.brief or b"")

    def _shrink(self) -> None:
        while len(self._order) > self._count_max or self._bytes > self._bytes_max:
            self._forget_before(self._order[0][0] + 1)

    def _forget_before(self, offset: int) -> None:
        while self._order and self._order[0][0] < offset:
            forgotten = self._known.pop(self._order.popleft()[1])
            self._bytes -= len(forgotten.brief or b"")
        self._since = max(self._since, offset)


def _whole_from(offset: int, fetched: Fetched) -> int:
    """Return the offset from which on no record of ``fetched`` is missing."""
    expected = fetched.next
    for record in reversed(fetched.records):
        if record.offset + 1 != expected:
            break
        expected = record.offset
    return expected
