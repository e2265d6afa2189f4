"""The thread of the node that keeps the search index: it has it built from the rows, then follows the log.

Whatever this thread computes keeps the event loop of its process waiting. So large builds, and all work while
others write, are done by a process of little priority: this thread reads the records that the store has
applied once more, a second's at a time, and only names the subjects in them. It does small changes itself
when nobody writes. At first, after a start with other rows, or far behind, the index is built again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from registry.base.config.settings import Settings
from registry.domain.rows.view import View
from registry.log.contract import Fetched, LogError, Unreachable
from registry.store.layout import StoreError, lacks_room

from .build import Builder, StepLimits
from .changes import follow, owners_of
from .index import SearchIndex
from .process import IndexProcess
from .view import LISTING, DamagedIndex, Progress, SearchIndexError

# Subjects that are indexed in this process; a process of its own takes half a second of CPU time to start.
HERE_MAX: Final = 2_000
# A step here: 20 ms.
SHORT: Final = StepLimits(0.02, 50_000)
RECORDS_MAX, BYTES_MAX = 1000, 1 << 20
# Records that it follows; of more, and of more than half of the subjects, a build costs less.
BEHIND_MAX: Final = 50_000
# While others write, it waits so long for a pause; then another process does the work.
BUSY_MAX_S: Final = 5.0
_PAUSE_S, _POLL_S, _REPORT_S = 0.005, 0.5, 10.0
# After a failure; doubled after each further one.
_RETRY_S, _RETRY_MAX_S = 10.0, 600.0
# After a build because the index is damaged, or the log lacks records, the next one comes no sooner.
_AGAIN_S: Final = 600.0
_SLOTS_S: Final = 60.0
# While another process works, records of one second go together; after so long without any, it ends.
_BATCH_S, _IDLE_S = 1.0, 10.0
_STALE_MIN: Final = 10
_log = logging.getLogger(__name__)


class RowStore(Protocol):
    """The rows of this host."""

    @property
    def path(self) -> Path:
        """The folder of the rows; another one has other rows."""

    @property
    def applied(self) -> int:
        """The rows hold what the log says before this offset."""

    def view(self) -> AbstractContextManager[View]:
        """Open a view of the rows."""


class OldRecords(Protocol):
    """The log as it is read once more."""

    @property
    def identity(self) -> str:
        """The name of this very log."""

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return records as :meth:`registry.log.contract.Log.read_again` does."""


class IndexFiller:
    """Fills ``index`` from the rows of ``store`` and from ``log``."""

    def __init__(
        self,
        log: OldRecords,
        store: RowStore,
        index: SearchIndex,
        *,
        started: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        settings: Settings | None = None,
    ) -> None:
        """``started``: true once the rows are those of the log, and may be read.

        ``settings``: for the processes that build large indexes; without them this thread does that, too.
        """
        self._log, self._store, self._index = log, store, index
        self._started, self._clock, self._settings = started, clock, settings
        self._builder = Builder(index, store.view)
        self._stopping = threading.Event()
        self._announced = self._slots_at = 0.0
        self._rebuilt_at = -_AGAIN_S
        self._retry_s = _RETRY_S
        # The rows with which nothing was left to do; set once there may be others.
        self._filled: tuple[str, int] | None = None
        self._news = threading.Event()
        # What is known of the index without opening it, and why it is not filled; any thread reads these.
        self.progress = Progress()
        self.problem = ""

    def run(self) -> None:
        """Fill the index until :meth:`stop`, then close it."""
        applied, since, is_examined = -1, self._clock(), False
        while not self._stopping.wait(_POLL_S):
            if self._started() and not is_examined:
                is_examined = True
                self._attempt(self._discard_foreign)
            if self._filled == self._source():
                self._news.wait(_SLOTS_S)
                self._news.clear()
                since = self._clock()
            is_busy = self._store.applied != applied
            applied = self._store.applied
            if self._started() and (not is_busy or self._clock() - since > BUSY_MAX_S):
                self._attempt(partial(self._fill, elsewhere=is_busy))
                applied, since = self._store.applied, self._clock()
            if self._clock() - self._slots_at > _SLOTS_S:
                self._slots_at = self._clock()
                self._index.release_slots()
        self._index.close()

    def _discard_foreign(self) -> None:
        """Begin again at once if the index is of other rows, so that no answer takes it for complete."""
        if self._open():
            with self._index.view() as view:
                assert view is not None
                rows = view.progress().rows
            if rows != self._rows_name():
                self._begin(self._store.applied)

    def _open(self) -> bool:
        """Open the index if there is room; return true if it is open."""
        # On a full disk, the first write to the map of a new lock file ends the process (SIGBUS).
        if not self._index.is_open and not self._lacks_room():
            self._index.open()
        return self._index.is_open

    def _fill(self, *, elsewhere: bool) -> None:
        """Fill until nothing is left, or somebody writes; with a pause after each step that is as long."""
        while not self._stopping.is_set() and self._open():
            began, before = self._clock(), self._store.applied
            source = self._source()
            if self._lacks_room():
                return
            if self.step(elsewhere=elsewhere):
                self._filled = source
                return
            if self._store.applied != before and not elsewhere and self._settings:
                return
            self._stopping.wait(_PAUSE_S + self._clock() - began)

    def _attempt(self, work: Callable[[], None]) -> None:
        """Do ``work``; report an error and wait after it."""
        try:
            work()
        except (SearchIndexError, LogError, StoreError) as error:
            self._fail(str(error))
        except Exception as error:
            # An error with the index must not end a node that serves the rows.
            if not self._stopping.is_set():
                _log.exception("unexpected error while the search index is filled")
            self._fail(repr(error))

    def _fail(self, problem: str) -> None:
        if not self._stopping.is_set():
            self._report(problem)
            self._stopping.wait(self._retry_s)
            self._retry_s = min(2 * self._retry_s, _RETRY_MAX_S)

    def _report(self, problem: str) -> None:
        """Remember why the index is not filled; log it if it is another reason than before."""
        if problem and problem != self.problem:
            _log.warning("the search index is incomplete: %s", problem)
        self.problem = problem
        self._retry_s = self._retry_s if problem else _RETRY_S

    def _lacks_room(self) -> bool:
        lacks = lacks_room(self._store.path)
        if lacks:
            self._report("the disk is nearly full")
        return lacks

    def step(self, *, elsewhere: bool = False) -> bool:
        """Do one step; return true if there is nothing to do now. ``elsewhere``: by another process.

        Raises :class:`.view.SearchIndexError`, :class:`LogError` and :class:`StoreError`.
        """
        try:
            return self._step(elsewhere=elsewhere)
        except Unreachable:
            raise
        except (DamagedIndex, LogError) as error:
            # The rows have what the index has lost, and what the log says no more.
            if self._clock() - self._rebuilt_at < _AGAIN_S:
                raise
            self._rebuilt_at = self._clock()
            self._report(str(error))
            self._begin(self._store.applied)
            return False

    def _step(self, *, elsewhere: bool) -> bool:
        if self._index.is_condemned:
            raise DamagedIndex("a reader has found it damaged")
        with self._index.view() as view:
            assert view is not None
            self.progress = now = view.progress()
            count = view.count()
        applied = self._store.applied
        behind = applied - now.offset
        is_too_old = behind > max(BEHIND_MAX, count // 2) or now.stale > max(_STALE_MIN, count // 100)
        if now.rows != self._rows_name() or behind < 0 or (now.is_built and is_too_old):
            self._begin(applied)
        elif now.is_built and not behind:
            self._index.trust()
            self._report("")
            return True
        else:
            self._work(now, applied, elsewhere=elsewhere)
        return False

    def _work(self, now: Progress, applied: int, *, elsewhere: bool) -> None:
        if self._settings and (elsewhere or (not now.is_built and now.subjects > HERE_MAX)):
            self._work_elsewhere(self._settings)
        elif now.is_built:
            reached, owners = self._next_owners(now.offset, applied)
            self.progress = follow(self._index, self._store.view, owners, reached)
        else:
            self.progress = self._builder.step(SHORT)
            self._announce()

    def _source(self) -> tuple[str, int]:
        return self._rows_name(), self._store.applied

    def _rows_name(self) -> str:
        return f"{self._store.path.name} {self._log.identity}"

    def _begin(self, applied: int) -> None:
        _log.info("the search index is being built")
        self._announced = self._clock()
        self._index.reset()
        self.progress = Progress(self._rows_name(), applied)
        self._index.change((), self.progress)

    def _work_elsewhere(self, settings: Settings) -> None:
        """Have a process build the index and follow the log, until nobody has written for a while.

        Meanwhile, this process has closed the index.
        """
        self._index.close()
        try:
            with IndexProcess(settings, self._store.path.name, self._clock) as process:
                self._lead(process)
        except SearchIndexError as error:
            self._report(str(error))  # on a disk that does not answer, opening the index may not end
            raise
        finally:
            if not self._stopping.is_set():
                self._index.open()

    def _lead(self, process: IndexProcess) -> None:
        """Send a process what has changed, until it is not needed any more."""
        rows, is_waiting, sent = self._rows_name(), True, self._clock()
        while not self._stopping.is_set() and self._rows_name() == rows:
            for each in process.reports():
                is_waiting = self._take_report(each) and is_waiting
            if is_waiting:
                continue
            behind, waited = self._store.applied - self.progress.offset, self._clock() - sent
            if behind >= RECORDS_MAX or (behind and waited >= _BATCH_S):
                reached, owners = self._next_owners(self.progress.offset, self._store.applied)
                process.send(owners, reached)
                is_waiting, sent = True, self._clock()
            elif not behind and waited >= _IDLE_S:
                return

    def _take_report(self, report: dict[str, Any]) -> bool:
        """Take over what a process has reported of its progress; return true if it is still at work."""
        now, offset = self.progress, report.get("offset")
        if offset is not None:
            self.progress = replace(now, offset=offset, stale=report["stale"], sweep=b"")
            self._report("")
        elif "done" in report:
            self.progress = replace(now, sweep=LISTING, subjects=report["subjects"], done=report["done"])
        if not now.is_built:
            self._announce()
        return offset is None

    def _announce(self) -> None:
        now = self.progress
        if now.is_built:
            _log.info("the search index is complete: %d subjects", now.done)
        elif self._clock() - self._announced >= _REPORT_S:
            self._announced = self._clock()
            _log.info("the search index is being built: %d of %d subjects", now.done, now.subjects)

    def _next_owners(self, offset: int, applied: int) -> tuple[int, set[bytes]]:
        """Return the packed subjects of the next records, and the offset after these."""
        fetched = self._log.read_again(offset, RECORDS_MAX, BYTES_MAX)
        reached = min(fetched.next, applied)
        if reached <= offset:
            raise LogError(f"the log does not return its records from {offset} on")
        return reached, owners_of([each for each in fetched.records if each.offset < reached])

    def notify(self) -> None:
        """Say that the store has advanced; callable from any thread."""
        if not self._news.is_set():
            self._news.set()

    def stop(self) -> None:
        """Make :meth:`run` return after its current step."""
        self._stopping.set()
        self._news.set()
