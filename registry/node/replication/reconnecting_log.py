"""A log that may be unreachable when its node starts, and may turn out not to be the store's.

Until the right log is attached, every call raises the reason, and a thread keeps trying to open it. The node
meanwhile serves from its store, and resumes by itself when the log is back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Protocol, TypeVar

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import AppendedBatch, Entry
from registry.log.contract import (
    NO_HEADERS,
    AsyncLog,
    Claim,
    Fencing,
    Fetched,
    ForeignLog,
    LogClosed,
    LogError,
    OnAppended,
    OutcomeUnknown,
    RecordHeaders,
    Unreachable,
)

from .read_barrier import StaleStore

RETRY_S = 2.0
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Topic(AsyncLog, Protocol):
    """A log on brokers, whose topic configuration may be changed by others."""

    @property
    def brokers(self) -> str:
        """A human-readable description of the brokers: their release, and features missing or assumed."""
        ...

    def check_topic(self) -> list[str]:
        """Return human-readable problems with the topic's configuration. Raises :class:`LogError`."""
        ...


# Checks a log: raises :class:`ForeignLog` if it is not the store's, :class:`StaleStore` if the store cannot
# resume from it and has to be rebuilt.
Suits = Callable[[Topic], None]


def _run_in_thread(search: Callable[[], None]) -> None:
    threading.Thread(target=search, name="reconnect", daemon=True).start()


class ReconnectingLog:
    """The log that ``open_log`` opens, once ``suits`` accepts it; ``log`` is one already accepted.

    ``identity`` and ``applied`` are the store's. Calls raise :class:`Unreachable` or :class:`ForeignLog`
    while no log is attached, and :class:`StaleStore` if the store has to be rebuilt. ``retry_s``: seconds
    between attempts. ``run_in_thread`` runs the search, which waits on a ``condition``.
    """

    def __init__(
        self,
        open_log: Callable[[], Topic],
        suits: Suits,
        *,
        identity: str,
        applied: int,
        log: Topic | None = None,
        error: LogError | None = None,
        retry_s: float = RETRY_S,
        run_in_thread: Callable[[Callable[[], None]], object] = _run_in_thread,
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._open_log = open_log
        self._suits = suits
        self._identity = identity
        self._applied = applied
        self._retry_s = retry_s
        self._log = log
        self._error: LogError | StaleStore = error or Unreachable("")
        self._run_in_thread = run_in_thread
        self._changed = condition()
        self._closed = False
        if log is None:
            self._look()
        else:
            _log.info("%s", log.brokers)

    @property
    def identity(self) -> str:
        """The identity of the store's log, which the attached log must have."""
        return self._identity

    @property
    def record_bytes_max(self) -> int:
        """The maximum size of a record's key and value together, in bytes."""
        return self._with(lambda log: log.record_bytes_max)

    @property
    def tombstone_retention_ms(self) -> int | None:
        """The minimum time for which a tombstone is kept; also ``None`` while no log is attached."""
        log = self._log
        return None if log is None else log.tombstone_retention_ms

    @property
    def fencing(self) -> Fencing:
        """The state of fencing at the last check; the default while no log is attached."""
        log = self._log
        return Fencing() if log is None else log.fencing

    def end(self) -> int:
        """Return the log's end as last known; while none is attached, the end of what the store holds."""
        log = self._log
        return self._applied if log is None else log.end()

    def query_end(self, timeout_s: float) -> int:
        """Forward to :meth:`.contract.Log.query_end`."""
        return self._with(lambda log: log.query_end(timeout_s))

    def divergence(self, lineage: Lineage) -> int | None:
        """Forward to :meth:`.contract.Log.divergence`."""
        return self._with(lambda log: log.divergence(lineage))

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Forward to :meth:`.contract.Log.read`."""
        return self._with(lambda log: log.read(offset, records_max, bytes_max))

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Forward to :meth:`.contract.Log.read_again`."""
        return self._with(lambda log: log.read_again(offset, records_max, bytes_max))

    def query_start(self) -> int:
        """Forward to :meth:`.contract.Log.query_start`."""
        return self._with(lambda log: log.query_start())

    def first_after(self, time_ms: int) -> int | None:
        """Forward to :meth:`.contract.Log.first_after`."""
        return self._with(lambda log: log.first_after(time_ms))

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until a log is attached, then forward to :meth:`.contract.Log.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: self._log is not None or self._closed, timeout_s)
        return self._with(lambda log: log.wait(offset, timeout_s))

    def claim(self) -> Claim | None:
        """Forward to :meth:`.contract.Log.claim`."""
        return self._with(lambda log: log.claim())

    def fence(self, earlier: Claim) -> None:
        """Forward to :meth:`.contract.Log.fence`."""
        self._with(lambda log: log.fence(earlier))

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        """Forward to :meth:`.contract.Log.headers_before`."""
        return self._with(lambda log: log.headers_before(offset, records_max))

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """Forward to :meth:`.contract.Log.append`."""
        return self._with(lambda log: log.append(entries, cuts, headers))

    def begin_append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes], done: OnAppended
    ) -> None:
        """Forward to :meth:`.contract.AsyncLog.begin_append`."""
        self._with(lambda log: log.begin_append(entries, cuts, headers, partial(self._end_append, log, done)))

    def _end_append(self, log: Topic, done: OnAppended, result: int | Exception) -> None:
        if isinstance(result, ForeignLog):
            # On another thread, because to close the log waits for the calling one.
            self._run_in_thread(partial(self._detach, log, result))
        elif isinstance(result, LogError) and not isinstance(result, OutcomeUnknown) and self._log is not log:
            result = copy(self._error)
        done(result)

    def is_at_hand(self, offset: int) -> bool:
        """Forward to :meth:`.contract.AsyncLog.is_at_hand`; false while no log is attached."""
        log = self._log
        return log is not None and log.is_at_hand(offset)

    def last_append(self, end: int) -> AppendedBatch | None:
        """Forward to :meth:`.contract.AsyncLog.last_append`; ``None`` while no log is attached."""
        log = self._log
        return None if log is None else log.last_append(end)

    def offer(self, batch: AppendedBatch) -> bool:
        """Forward to :meth:`.contract.AsyncLog.offer`; false while no log is attached."""
        log = self._log
        return log is not None and log.offer(batch)

    def check_topic(self) -> list[str]:
        """Return human-readable problems with the topic's configuration; none while no log is attached."""
        log = self._log
        return [] if log is None else log.check_topic()

    def close(self) -> None:
        """Release the log and stop looking for one; later and waiting calls raise :class:`LogClosed`."""
        with self._changed:
            self._closed = True
            log, self._log = self._log, None
            self._error = LogClosed("the log is closed")
            self._changed.notify_all()
        if log is not None:
            log.close()

    def _with(self, call: Callable[[Topic], _T]) -> _T:
        log = self._log
        if log is None:
            raise copy(self._error)
        try:
            return call(log)
        except ForeignLog as error:
            self._detach(log, error)
            raise
        except OutcomeUnknown:
            raise
        except LogError as error:
            if self._log is log:
                raise
            # Another call has found the reason, and closed the log during this one.
            raise copy(self._error) from error

    def _detach(self, log: Topic, error: ForeignLog) -> None:
        """Detach a log that is no longer the store's, and start looking for the right one."""
        with self._changed:
            if self._closed or self._log is not log:
                return
            self._applied = max(self._applied, log.end())
            self._log = None
            self._say(error)
            self._look()
        log.close()

    def _look(self) -> None:
        self._run_in_thread(self._attach)

    def _attach(self) -> None:
        while not self._closed:
            try:
                log = self._open_log()
            except LogError as error:
                self._wait_after(error)
                continue
            if self._try_attach(log):
                return

    def _try_attach(self, log: Topic) -> bool:
        """Attach ``log`` if it is the store's; return true if the search is over.

        A foreign log is checked repeatedly until it fails, because it may yet be seeded.
        """
        try:
            while not self._closed:
                try:
                    self._suits(log)
                except ForeignLog as error:
                    self._wait_after(error)
                    log.query_end(self._retry_s)
                    continue
                if self._attach_found(log):
                    return True
        except StaleStore as error:
            self._say(error)
            log.close()
            return True
        except LogError as error:
            self._wait_after(error)
        log.close()
        return False

    def _attach_found(self, log: Topic) -> bool:
        with self._changed:
            if self._closed:
                return False
            self._log = log
            self._changed.notify_all()
        _log.info("the log is attached and ends at offset %d; %s", log.end(), log.brokers)
        return True

    def _wait_after(self, error: LogError) -> None:
        self._say(error)
        with self._changed:
            self._changed.wait_for(lambda: self._closed, self._retry_s)

    def _say(self, error: LogError | StaleStore) -> None:
        if not self._closed and str(error) != str(self._error):
            _log.error("%s", error)
        if not self._closed:
            self._error = copy(error)  # its traceback would keep the frames of the closed log
