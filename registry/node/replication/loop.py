"""The follow thread: applies the log to the store; other threads wait for an offset or make steps too."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import orjson

from registry.domain.rows import layout
from registry.domain.rows.view import scan
from registry.log.contract import DamagedLog, ForeignLog, Log, LogError, Unreachable
from registry.store.layout import DamagedStore, StoreClosed, StoreError
from registry.store.lmdb import Store

from .follower import Follower
from .read_barrier import Moment, Staleness, StaleStore

# Timeout of a query for the log's end, in seconds.
ASK_S = 2.0
_PROGRESS_EVERY_S = 5.0
_RETRY_S = 0.5
_WAIT_S = 1.0
_TURN_S = 0.02
# Seconds for which a secondary lets records accumulate that no request waits for, while its change feed is
# read and otherwise: a step costs it and the brokers the same for one record as for many.
_COLLECT_FOR_FEED_S, _COLLECT_S = 0.05, 0.2
_NUDGED_LATELY_S = 1.0
# After a step that requests have waited for: the next fetch would compete with the answer, and then with the
# client's next request. A request that waits for records, or is sent to the primary, ends the pause.
_ANSWER_S = 0.005
_STUCK_S = 10.0
# Records of a step of another thread. One that keeps it this long leaves the next ones to the thread that
# follows, for that long.
_HERE_MAX, _SLOW_S, _SLOW_PAUSE_S = 8, 0.05, 1.0
# A log that does not answer for this long is an error; before, it is only a warning.
_ERROR_AFTER_S = 5.0
_QUARANTINE_SHOWN_MAX = 20
_log = logging.getLogger(__name__)


class FollowLoop:
    """Drives the follower.

    ``caught_up`` is called once, when the log has been read up to its end as queried at the start; the store
    is complete then. The stepping thread calls ``advanced`` after every step that advanced the store, and
    ``stuck`` if the store cannot be written. ``lost`` is called with the reason when the log turns out not to
    be the store's, before :attr:`foreign` says so. Without ``staleness`` no other node writes: errors of the
    log then end this process; otherwise the loop retries until the log recovers.
    """

    def __init__(
        self,
        log: Log,
        store: Store,
        follower: Follower,
        *,
        caught_up: Callable[[], None],
        advanced: Callable[[], None] = lambda: None,
        stuck: Callable[[], None] = lambda: None,
        lost: Callable[[str], None] = lambda _: None,
        staleness: Staleness | None = None,
        feed_is_read: Callable[[], bool] = lambda: False,
    ) -> None:
        self._log = log
        self._store = store
        self._follower = follower
        self._caught_up = caught_up
        self._advanced = advanced
        self._stuck = stuck
        self._lost = lost
        self._staleness = staleness
        self._feed_is_read = feed_is_read
        self._stepping = threading.Lock()
        self._moved = threading.Condition()
        self._stopping = threading.Event()
        self._nudged = threading.Event()
        self._nudged_at = 0.0
        # The thread applies the records up to there without being nudged.
        self._at_hand = 0
        # Until then other threads make no steps, because one took long.
        self._slow_until = 0.0
        self._logged_at = time.monotonic()
        self._asked_at = 0.0
        self._seen = store.applied
        self._store_error = ""
        self._log_error = ""
        # When the log became unavailable, on the monotonic clock; ``None`` while it is available.
        self._log_missing_since: float | None = None
        self._missing_is_error = False
        # The reason why nothing can be written while the log is not the store's; else empty.
        self.foreign = ""
        # True once the log has been read up to its end.
        self.started = False
        # True if the writer follows its own records, so that this thread need not poll the log.
        self.lazy = staleness is None

    @property
    def last_error(self) -> str:
        """The reason why the store does not advance; empty if it does."""
        return self._store_error or self._log_error

    @property
    def log_error(self) -> str:
        """The reason why the log is unavailable; empty if it is available."""
        return self._log_error

    @property
    def log_missing_s(self) -> float:
        """The time since the log became unavailable, in seconds; 0 while it is available."""
        since = self._log_missing_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def store_error(self) -> str:
        """The reason why the store cannot be written; empty again once the failed write has succeeded."""
        return self._store_error

    def reach(self, offset: int) -> None:
        """Wait until the store holds the log up to ``offset``, which must not lie beyond the log's end.

        Raises the errors of the log and the store, and :class:`Unreachable` if the log delivers nothing for
        long. The calling thread makes the steps itself: a switch to another thread and back costs more than a
        step.
        """
        at, moved_at = -1, 0.0
        while (applied := self._store.applied) < offset:
            now = time.monotonic()
            if applied > at:
                at, moved_at = applied, now
            elif self._stopping.is_set() or now - moved_at > _STUCK_S:
                raise Unreachable(f"the log does not return its records from {applied} on")
            if self._stepping.acquire(blocking=False):
                try:
                    self._step_or_wait()
                finally:
                    self._stepping.release()
            else:
                # The other thread makes a step, or waits for the log like this one, and may get there first.
                with self._moved:
                    self._moved.wait_for(lambda: self._store.applied >= offset, _TURN_S)

    def step_at_hand(self, *, is_busy: bool) -> None:
        """Apply what was read, in the calling thread, unless that has to wait for something.

        The thread that follows does what is left, and meets every error. ``is_busy``: it would have to wait.
        """
        began = time.monotonic()
        end = self._log.end()
        is_much = end - self._store.applied > _HERE_MAX
        is_slow = is_busy or is_much or began < self._slow_until
        if is_slow or not self.started or self.last_error or self._is_stale():
            self._nudged.set()
        elif not self._stepping.acquire(blocking=False):
            # The thread makes a step, or waits for the log, and pauses only at its end.
            self._at_hand = end
        else:
            try:
                self._step()
            except (StoreError, LogError):
                self._nudged.set()
            finally:
                self._stepping.release()
            if (ended := time.monotonic()) - began > _SLOW_S:
                self._slow_until = ended + _SLOW_PAUSE_S

    def _is_stale(self) -> bool:
        return self._staleness is not None and bool(self._staleness.too_long())

    def _step_or_wait(self) -> None:
        if not self._step():
            self._log.wait(self._follower.position, _WAIT_S)

    def _step(self) -> int:
        if self._staleness is not None and self._is_stale():
            # While the log is unreachable the node serves the stale store; once reachable, the node ends.
            self._log.query_end(ASK_S)
            raise StaleStore(self._staleness.too_long())
        try:
            went = self._follower.step()
        except (DamagedStore, StoreClosed):
            raise
        except StoreError as error:
            self._store_failed(error)
            raise
        if went:
            self._store_written()
            self._advanced()
            with self._moved:
                self._moved.notify_all()
        return went

    def run(self) -> None:
        """Follow until :meth:`stop`. Raises ``DamagedStore``, ``StaleStore`` and ``DamagedLog``."""
        end, behind, began = -1, 0, 0.0
        while not self._stopping.is_set():
            # The only writer follows its own records itself (:meth:`reach`): waking this thread with every
            # append would only make it compete with the writer. Nothing else is in the log of a standalone
            # node, and its thread never waits in the log after the start, where stop() could not wake it.
            alone = self._staleness is None
            resting = self.started and self.lazy and (alone or not self._nudged.is_set())
            self._nudged.clear()
            try:
                if end < 0:
                    end, began = self._query_end(), time.monotonic()
                    behind = end - self._store.applied
                with self._stepping:
                    went = self._step()
                    # A node that starts at the log's end need not wait for records.
                    if not (went or resting) and (self.started or self._store.applied < end):
                        self._log.wait(self._follower.position, _WAIT_S)
                if not self.started:
                    if self._store.applied >= end:
                        self._start(behind, time.monotonic() - began)
                    else:
                        self._log_progress()
                if resting and not went and not self._stopping.is_set():
                    self._nudged.wait(_WAIT_S)
                elif went and self._is_at_end():
                    self._nudged.wait(self._pause_s())
                self._look()
            except (DamagedStore, StoreClosed, StaleStore, DamagedLog):
                raise
            except StoreError:
                self._stopping.wait(_RETRY_S)
            except LogError as error:
                if self._stopping.is_set():
                    return
                if self._staleness is None:
                    raise
                self.on_reply(error)
                self._stopping.wait(_RETRY_S)

    def _query_end(self) -> int:
        """Return the end of the log up to which a start reads; only an attached log can answer."""
        end = self._log.query_end(ASK_S)
        self.on_reply(None)
        if end > self._store.applied:
            _log.info(
                "reading the log: %d records from offset %d", end - self._store.applied, self._store.applied
            )
        return end

    def nudge(self) -> None:
        """Have the thread look for new records at once, and often for a while."""
        self._nudged_at = time.monotonic()
        self._nudged.set()

    def expect(self) -> None:
        """Have the thread wait for the next records, which are about to come."""
        self._nudged.set()

    def expect_up_to(self, offset: int) -> None:
        """Do the same, unless the thread is about to apply the records up to ``offset``."""
        if offset > self._at_hand:
            self._nudged.set()

    def _is_at_end(self) -> bool:
        """Return true if another node writes and no new records are known."""
        if self._staleness is None or not self.started or self.lazy or self._stopping.is_set():
            return False
        return self._store.applied >= self._log.end()

    def _pause_s(self) -> float:
        """Return for how long no request is likely to wait for new records."""
        if time.monotonic() - self._nudged_at < _NUDGED_LATELY_S:
            return _ANSWER_S
        return _COLLECT_FOR_FEED_S if self._feed_is_read() else _COLLECT_S

    def _look(self) -> None:
        """Query the log periodically, and record when the store was at its end."""
        now = time.monotonic()
        if self._staleness is None:
            return
        if now - self._asked_at < self._staleness.look_every_s and not self.last_error:
            return
        self._asked_at = now
        asked = self._staleness.moment()
        end = self._log.query_end(ASK_S)
        self.on_reply(None)
        if self._store.applied >= end:
            self._mark_at_end(self._staleness, asked)

    def _mark_at_end(self, staleness: Staleness, asked: Moment) -> None:
        """Record that the store is at the log's end; on an idle log only this write reveals a full disk."""
        with self._stepping:
            try:
                staleness.at_end(asked)
            except (DamagedStore, StoreClosed):
                raise
            except StoreError as error:
                self._store_failed(error)
                raise
            self._store_written()

    def _store_failed(self, error: StoreError) -> None:
        before, self._store_error = self._store_error, str(error)
        if self._store_error != before:
            _log.error("%s; retrying", error)
        if not before:
            self._stuck()

    def _store_written(self) -> None:
        if self._store_error:
            self._store_error = ""
            _log.info("the store can be written again")

    def on_reply(self, error: LogError | None) -> None:
        """Record the result of a query to the log; ``error`` is ``None`` if the log answered."""
        if isinstance(error, ForeignLog) and not self.foreign:
            self._lost(str(error))
        before, self._log_error = self._log_error, "" if error is None else str(error)
        self.foreign = self._log_error if isinstance(error, ForeignLog) else ""
        if error is None:
            self._log_missing_since, self._missing_is_error = None, False
        elif not before:
            self._log_missing_since = time.monotonic()
        if error is None:
            self._store.set_mismatch(None)
        elif isinstance(error, ForeignLog):
            self._store.set_mismatch(error.mismatch)
        if error is not None:
            self._report_missing(error, first=not before)
        elif before:
            _log.info("the log is available again")

    def _report_missing(self, error: LogError, *, first: bool) -> None:
        """Log the first failure, and as an error what lasts: a busy broker may leave one query unanswered."""
        assert self._log_missing_since is not None
        lasts = time.monotonic() - self._log_missing_since >= _ERROR_AFTER_S
        is_error = lasts or not isinstance(error, Unreachable)
        if first or (is_error and not self._missing_is_error):
            _log.log(logging.ERROR if is_error else logging.WARNING, "%s; retrying", error)
        self._missing_is_error = is_error

    def _start(self, records: int, seconds: float) -> None:
        if records > 0:
            _log.info("the log has been read: %d records in %.1f s", records, seconds)
        self._store.complete()
        self.started = True
        self._caught_up()

    def _log_progress(self) -> None:
        if time.monotonic() - self._logged_at < _PROGRESS_EVERY_S:
            return
        self._logged_at = time.monotonic()
        progress = self._follower.progress()
        eta = "unknown" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
        _log.info(
            "reading the log: %d of %d (%.0f records/s), remaining: %s",
            progress.applied, progress.end, progress.records_per_s, eta,
        )  # fmt: skip

    def count_quarantined(self) -> int:
        """Return the number of quarantined records; log each when it is first seen."""
        found, fresh = 0, []
        with self._store.view() as view:
            applied = view.applied()
            for _, value in scan(view, layout.QUARANTINE):
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
        self._nudged.set()
