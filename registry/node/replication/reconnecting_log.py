"""A log that may be out of reach when its node starts, and may turn out to be another than its store's.

Until the right log is there, every call says what is the matter, and a thread keeps looking for it. So a node
serves what its store holds, whatever became of the log, and goes on by itself when the log is there again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Entry
from registry.log.contract import (
    NO_HEADERS,
    Claim,
    Fencing,
    Fetched,
    ForeignLog,
    Log,
    LogError,
    OutcomeUnknown,
    RecordHeaders,
    Unreachable,
)

from .staleness import StaleStore

RETRY_S = 2.0
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Topic(Log, Protocol):
    """A log on brokers, whose settings others may change."""

    @property
    def brokers(self) -> str:
        """The brokers' release, and what is missing or assumed there, for people."""
        ...

    def check_topic(self) -> list[str]:
        """What is not as it should be, for people. Raises :class:`LogError`."""
        ...


Suits = Callable[[Topic], None]
"""Raises :class:`ForeignLog` when a log is not the store's, :class:`StaleStore` when the store cannot go on
with it and has to be built anew."""


class ReconnectingLog:
    """The log that ``open_log`` opens, when ``suits`` takes it; ``log`` is one that was taken already.

    ``identity`` and ``applied`` are the store's. Calls raise :class:`Unreachable` and :class:`ForeignLog`
    while there is no such log, and :class:`StaleStore` when the store has to be built anew.
    """

    def __init__(
        self,
        open_log: Callable[[], Topic],
        suits: Suits,
        *,
        identity: str,
        applied: int,
        log: Topic | None = None,
        trouble: LogError | None = None,
        retry_s: float = RETRY_S,
    ) -> None:
        self._open_log = open_log
        self._suits = suits
        self._identity = identity
        self._applied = applied
        self._retry_s = retry_s
        self._log = log
        self._text = str(trouble or "")
        self._kind: type[LogError | StaleStore] = type(trouble) if trouble else Unreachable
        self._changed = threading.Condition()
        self._closed = False
        self._looking: threading.Thread | None = None
        if log is None:
            self._look()
        else:
            _log.info("%s", log.brokers)

    @property
    def identity(self) -> str:
        """The store's: what this log must be."""
        return self._identity

    @property
    def record_bytes_max(self) -> int:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.record_bytes_max)

    @property
    def tombstone_retention_ms(self) -> int | None:
        """See :class:`.contract.Log`; ``None`` while there is no log."""
        log = self._log
        return None if log is None else log.tombstone_retention_ms

    @property
    def fencing(self) -> Fencing:
        """See :class:`.contract.Log`."""
        log = self._log
        return Fencing() if log is None else log.fencing

    def end(self) -> int:
        """See :class:`.contract.Log`; while there was no log, what the store held."""
        log = self._log
        return self._applied if log is None else log.end()

    def query_end(self, timeout_s: float) -> int:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.query_end(timeout_s))

    def divergence(self, lineage: Lineage) -> int | None:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.divergence(lineage))

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.read(offset, records_max, bytes_max))

    def wait(self, offset: int, timeout_s: float) -> bool:
        """See :class:`.contract.Log`."""
        with self._changed:
            self._changed.wait_for(lambda: self._log is not None or self._closed, timeout_s)
        return self._with(lambda log: log.wait(offset, timeout_s))

    def claim(self) -> Claim | None:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.claim())

    def fence(self, earlier: Claim) -> None:
        """See :class:`.contract.Log`."""
        self._with(lambda log: log.fence(earlier))

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.headers_before(offset, records_max))

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """See :class:`.contract.Log`."""
        return self._with(lambda log: log.append(entries, cuts, headers))

    def check_topic(self) -> list[str]:
        """What is not as it should be with the topic, for people; nothing while there is no log."""
        log = self._log
        return [] if log is None else log.check_topic()

    def close(self) -> None:
        """See :class:`.contract.Log`."""
        with self._changed:
            self._closed = True
            log, self._log = self._log, None
            self._kind, self._text = LogError, "the log is closed"
            self._changed.notify_all()
        if log is not None:
            log.close()

    def _with(self, call: Callable[[Topic], _T]) -> _T:
        log = self._log
        if log is None:
            raise self._kind(self._text)
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
            # Another call has found out why, and closed the log under this one.
            raise self._kind(self._text) from error

    def _detach(self, log: Topic, error: ForeignLog) -> None:
        """Let go of a log that is no longer the store's, and look for the one that is."""
        with self._changed:
            if self._closed or self._log is not log:
                return
            self._applied = max(self._applied, log.end())
            self._log = None
            self._say(error)
            self._look()
        log.close()

    def _look(self) -> None:
        self._looking = threading.Thread(target=self._attach, name="attach", daemon=True)
        self._looking.start()

    def _attach(self) -> None:
        while not self._closed:
            try:
                log = self._open_log()
            except LogError as error:
                self._wait_after(error)
                continue
            if self._taken(log):
                return

    def _taken(self, log: Topic) -> bool:
        """Whether ``log`` is the store's; looked at until it is or ends, because it may yet be seeded."""
        try:
            while not self._closed:
                try:
                    self._suits(log)
                except ForeignLog as error:
                    self._wait_after(error)
                    log.query_end(self._retry_s)
                    continue
                if self._attached(log):
                    return True
        except StaleStore as error:
            self._say(error)
            log.close()
            return True
        except LogError as error:
            self._wait_after(error)
        log.close()
        return False

    def _attached(self, log: Topic) -> bool:
        with self._changed:
            if self._closed:
                return False
            self._log = log
            self._changed.notify_all()
        _log.info("the log is attached, at offset %d; %s", log.end(), log.brokers)
        return True

    def _wait_after(self, error: LogError) -> None:
        self._say(error)
        with self._changed:
            self._changed.wait_for(lambda: self._closed, self._retry_s)

    def _say(self, error: LogError | StaleStore) -> None:
        text = str(error)
        if not self._closed and text != self._text:
            _log.error("%s", text)
        if not self._closed:
            self._kind, self._text = type(error), text
