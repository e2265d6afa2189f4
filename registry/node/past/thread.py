"""The thread that reconstructs the past, and the filling of what the history lacks.

What is filled must not take the room that the next writes need: rows are more important than the history.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.admission import FairQueue
from registry.domain.errors import TOO_LATE, UNAVAILABLE, UNEXPECTED, RegistryError
from registry.domain.history.entries import slice_of
from registry.domain.history.moment import Moment, OwnerRows
from registry.log.contract import Log, LogError
from registry.store.layout import DamagedStore, StoreError
from registry.store.lmdb import Store

from .reconstruction import PastReader

# One step: few milliseconds of work, so that neither commits nor the event loop wait for long.
RECORDS_MAX = 300
BYTES_MAX = 256 << 10
# Filling goes from the newest window of offsets to the oldest, and upwards in each.
WINDOW = 8192
_RETRY_S = 5.0
# The part of the map up to which the history is filled, and the free space on disk that it leaves.
_MAP_SHARE = 0.75
_DISK_BYTES_MIN = 64 << 20
_log = logging.getLogger(__name__)


class HistoryFiller:
    """Fills the history of ``store`` from ``log``, step by step, the newest ``window`` of offsets first."""

    def __init__(self, log: Log, store: Store, window: int = WINDOW) -> None:
        self._log, self._store, self._window = log, store, window
        self._next_at = 0.0
        self._lack = ""

    def step(self) -> bool:
        """Add some records; return true if there is nothing to do now."""
        if time.monotonic() < self._next_at:
            return True
        gap = self._store.history_gap()
        if gap is None:
            return True
        if not self._has_room(gap[1]):
            self._next_at = time.monotonic() + _RETRY_S
            return True
        try:
            self._fill(*gap)
        except DamagedStore:
            raise
        except (LogError, StoreError):
            # The follow thread reports logs that are unavailable and disks that are full.
            self._next_at = time.monotonic() + _RETRY_S
            return True
        return False

    def _has_room(self, end: int) -> bool:
        """Return true if there is room to fill the history below ``end``; log once if there is not."""
        before, self._lack = self._lack, self._lack_of_room()
        if self._lack and not before:
            _log.warning("the history before offset %d is not filled, because %s", end, self._lack)
        return not self._lack

    def _lack_of_room(self) -> str:
        stat = self._store.stat()
        if stat.bytes_used > stat.map_bytes * _MAP_SHARE:
            return f"the store has used {_MAP_SHARE:.0%} of store_map_bytes: raise it, or set history = false"
        try:
            free = shutil.disk_usage(self._store.path).free
        except OSError:
            return ""
        return "the disk is nearly full" if free < _DISK_BYTES_MIN else ""

    def _fill(self, begin: int, end: int) -> None:
        begin = max(begin, end - self._window)
        fetched = self._log.read_again(begin, RECORDS_MAX, BYTES_MAX)
        reached = min(fetched.next, end)
        if reached <= begin:
            raise LogError(f"the log does not return its records from {begin} on")
        records = [each for each in fetched.records if each.offset < reached]
        self._store.fill_history(slice_of(begin, records, reached))


WAITING_MAX = 32
# Requests of one asker that may wait, for a client alone too.
WAITING_OF_ONE_MAX = 16
RECONSTRUCT_S = 10.0

Reconstructed = OwnerRows | RegistryError


class _Request(NamedTuple):
    asker: str
    moment: Moment
    owners: list[bytes]
    deadline: float
    answer: Callable[[Reconstructed], None]


class PastThread:
    """Answers questions about the past with ``past_reader``; ``soon`` runs the answers on the event loop.

    ``reconstruct_s``: how long a request may wait and take, in seconds; half of it if others wait meanwhile.
    """

    def __init__(
        self,
        past_reader: PastReader,
        soon: Callable[[Callable[[], None]], None],
        reconstruct_s: float = RECONSTRUCT_S,
    ) -> None:
        self._past_reader, self._soon, self._reconstruct_s = past_reader, soon, reconstruct_s
        self._requests: FairQueue[_Request] = FairQueue()
        self._changed = threading.Condition()  # guards the queue
        self._stopping = False

    def ask(
        self, moment: Moment, owners: list[bytes], answer: Callable[[Reconstructed], None], asker: str = ""
    ) -> None:
        """Pass the rows of owners at a moment to ``answer``, or the error. Any thread may call this.

        ``asker``: the principal or the network of the client that asks; each has its turns.
        """
        request = _Request(asker, moment, owners, time.monotonic() + self._reconstruct_s, answer)
        with self._changed:
            refused = self._put(request)
            self._changed.notify()
        if refused is not None:
            error = UNAVAILABLE("Too many requests for past state are waiting").with_retry_after(1)
            self._soon(lambda: refused.answer(error))

    def _put(self, request: _Request) -> _Request | None:
        """Let a request wait; return the one that cannot: itself, or the last of who has most waiting."""
        if self._requests.count(request.asker) >= WAITING_OF_ONE_MAX:
            return request
        dropped = None
        if len(self._requests) >= WAITING_MAX:
            dropped = self._requests.give_way(request.asker)
            if dropped is None:
                return request
        self._requests.put(request.asker, request)
        return dropped

    def run(self) -> None:
        """Answer until :meth:`stop`."""
        while (request := self._next()) is not None:
            self._answer(request)

    def _next(self) -> _Request | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or len(self._requests))
            return None if self._stopping else self._requests.pop()

    def _others_wait(self, asker: str) -> bool:
        with self._changed:
            return len(self._requests) > self._requests.count(asker)

    def _answer(self, request: _Request) -> None:
        result: Reconstructed
        half = time.monotonic() + self._reconstruct_s / 2

        def check_time() -> None:
            now = time.monotonic()
            if self._stopping or now >= request.deadline:
                raise TOO_LATE()
            if now >= half and self._others_wait(request.asker):
                raise TOO_LATE().with_retry_after(1)

        try:
            check_time()
            result = self._past_reader.reconstruct(request.moment, request.owners, check_time)
        except RegistryError as error:
            result = error
        except Exception:
            # An error with the past must not end a node that serves the present.
            if not self._stopping:
                _log.exception("unexpected error while reconstructing past state")
            result = UNEXPECTED()
        self._soon(lambda: request.answer(result))

    def stop(self) -> None:
        """Make :meth:`run` return after its current step."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
