"""Following: one thread keeps the store the fold of the log; others may wait for an offset, or step along."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import orjson

from registry.domain import rows
from registry.log.contract import Log, LogError
from registry.store.layout import DamagedStore, StoreError
from registry.store.lmdb import Store

from .follower import Follower

_PROGRESS_EVERY_S = 5.0
_RETRY_S = 1.0
_WAIT_S = 1.0
_QUARANTINE_SHOWN_MAX = 20
_log = logging.getLogger(__name__)


class Following:
    """Drives the follower.

    ``caught_up`` is called once, when the log was read up to its end as of the start.
    """

    def __init__(self, log: Log, store: Store, follower: Follower, caught_up: Callable[[], None]) -> None:
        self._log = log
        self._store = store
        self._follower = follower
        self._caught_up = caught_up
        self._stepping = threading.Lock()
        self._stopping = threading.Event()
        self._told_at = time.monotonic()
        self._seen = store.applied
        self.started = False
        """Whether the log was read up to its end once."""
        self.trouble = ""
        """Why the store does not go on, while it does not."""

    def reach(self, offset: int) -> None:
        """Return when the store holds the log up to ``offset``, which must not lie beyond its end.

        Raises :class:`StoreError`. The caller's thread makes the steps itself: handing over to another and
        back costs more than a step.
        """
        with self._stepping:
            while self._store.applied < offset:
                self._follower.step()

    def run(self) -> None:
        """Follow until :meth:`stop`. Raises :class:`DamagedStore` and the damage of the log."""
        end = self._log.end()
        behind = end - self._store.applied
        if behind > 0:
            _log.info("reading the log: %d records from offset %d", behind, self._store.applied)
        began = time.monotonic()
        while not self._stopping.is_set():
            try:
                with self._stepping:
                    went = self._follower.step()
            except DamagedStore:
                raise
            except StoreError as error:
                self.trouble = str(error)
                _log.error("%s; trying again", error)
                self._stopping.wait(_RETRY_S)
                continue
            self.trouble = ""
            if not self.started:
                if self._store.applied >= end:
                    self._start(behind, time.monotonic() - began)
                else:
                    self._tell_progress()
            if not went:
                self._wait()

    def _wait(self) -> None:
        if self.started:
            # The writer, the only one who appends, follows its own records itself (:meth:`reach`): to wake
            # this thread with every append would only have it compete with the writer.
            self._stopping.wait(_WAIT_S)
            return
        try:
            self._log.wait(self._store.applied, _WAIT_S)
        except LogError:
            if not self._stopping.is_set():
                raise

    def _start(self, records: int, seconds: float) -> None:
        if records > 0:
            _log.info("the log was read: %d records in %.1f s", records, seconds)
        self.started = True
        self._caught_up()

    def _tell_progress(self) -> None:
        if time.monotonic() - self._told_at < _PROGRESS_EVERY_S:
            return
        self._told_at = time.monotonic()
        progress = self._follower.progress()
        eta = "unknown" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
        _log.info(
            "reading the log: %d of %d (%.0f records/s), left: %s",
            progress.applied, progress.end, progress.records_per_s, eta,
        )  # fmt: skip

    def quarantined(self) -> int:
        """How many records could not be read; each is logged when it is seen for the first time."""
        found, fresh = 0, []
        with self._store.view() as view:
            applied = view.applied()
            for _, value in rows.scan(view, rows.QUARANTINE):
                found += 1
                entry = orjson.loads(value)
                if entry["offset"] >= self._seen:
                    fresh.append(entry)
        for entry in fresh[:_QUARANTINE_SHOWN_MAX]:
            _log.warning("the record at offset %d is quarantined: %s", entry["offset"], entry["reason"])
        if len(fresh) > _QUARANTINE_SHOWN_MAX:
            _log.warning("%d more records are quarantined", len(fresh) - _QUARANTINE_SHOWN_MAX)
        self._seen = max(applied, self._seen)
        return found

    def stop(self) -> None:
        """Make :meth:`run` return soon."""
        self._stopping.set()
