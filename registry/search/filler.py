"""The thread of the node that keeps the index of words: it has it built from the rows, then follows the log.

Writes pay nothing for it: it reads the records that the store has applied once more, a batch at a time, and
indexes the subjects that they name as the rows have them now. At first, after a start with other rows, or if
it has fallen far behind, the index is built again: a small one here, a large one in a process of its own with
little priority, because each step here keeps the event loop of this process waiting.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import orjson
from msgspec.structs import replace

from registry.base.config.settings import Settings
from registry.base.processes.child_process import kill_group, start_module
from registry.domain.history.entries import OFFSET_BYTES, slice_of
from registry.domain.lookup.matching import number_of
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View
from registry.log.contract import Fetched, LogError, Unreachable
from registry.store.layout import StoreError

from .build import Builder, BuildRequest, Step, content_of, describe, lacks_room, words_of
from .index import LISTING, Entry, IndexView, Progress, SearchIndex, SearchIndexError, Update

# Subjects that are indexed in this process; a process of its own takes half a second of CPU time to start.
HERE_MAX: Final = 2_000
# A step here: 50 ms.
SHORT: Final = Step(0.05, 50_000)
RECORDS_MAX, BYTES_MAX = 1000, 1 << 20
# Records that it follows; of more, and of more than half of the subjects, a build costs less.
BEHIND_MAX: Final = 50_000
# While others write, it waits so long for a pause.
BUSY_MAX_S: Final = 2.0
_PAUSE_S, _POLL_S, _REPORT_S = 0.005, 0.5, 10.0
# After a failure; doubled after each further one.
_RETRY_S, _RETRY_MAX_S = 10.0, 600.0
# After a build, the next one because the log lacks records comes no sooner.
_LOST_S: Final = 600.0
_SLOTS_S: Final = 60.0
_LISTEN_S: Final = 0.1
_END_S: Final = 2.0
# Subjects that are read before other threads of the process go first: two milliseconds.
_TURN: Final = 8
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
        self._rebuilt_at = -_LOST_S
        self._failures = 0
        # What is known of the index without opening it, and why it is not filled; any thread reads these.
        self.progress = Progress()
        self.problem = ""

    def run(self) -> None:
        """Fill the index until :meth:`stop`, then close it."""
        applied, since = -1, self._clock()
        while not self._stopping.wait(_POLL_S):
            busy = self._store.applied != applied
            applied = self._store.applied
            if self._started() and (not busy or self._clock() - since > BUSY_MAX_S):
                self._fill()
                since = self._clock()
            if self._clock() - self._slots_at > _SLOTS_S:
                self._slots_at = self._clock()
                self._index.release_slots()
        self._index.close()

    def _fill(self) -> None:
        """Fill until nothing is left, with a pause after each step that is as long."""
        try:
            # On a full disk, the first write to the map of a new lock file ends the process (SIGBUS).
            if not self._index.is_open and not self._lacks_room():
                self._index.open()
            while self._index.is_open and not self._stopping.is_set():
                began, before = self._clock(), self._store.applied
                if self._lacks_room() or self.step():
                    return
                took = self._clock() - began
                # Others that write have four times as much of the processor.
                self._stopping.wait(_PAUSE_S + took * (1 if self._store.applied == before else 4))
        except (SearchIndexError, LogError, StoreError) as error:
            self._fail(str(error))
        except Exception as error:
            # An error with the index must not end a node that serves the rows.
            if not self._stopping.is_set():
                _log.exception("unexpected error while the index of the search is filled")
            self._fail(repr(error))

    def _fail(self, problem: str) -> None:
        if not self._stopping.is_set():
            self._report(problem)
            self._stopping.wait(min(_RETRY_S * 2**self._failures, _RETRY_MAX_S))
            self._failures += 1

    def _report(self, problem: str) -> None:
        """Remember why the index is not filled; log it if it is another reason than before."""
        if problem and problem != self.problem:
            _log.warning("the index of the search is not complete: %s", problem)
        self.problem = problem
        self._failures = self._failures if problem else 0

    def _lacks_room(self) -> bool:
        lacks = lacks_room(self._store.path)
        if lacks:
            self._report("the disk is nearly full")
        return lacks

    def step(self) -> bool:
        """Do one step; return true if there is nothing to do now.

        Raises :class:`.index.SearchIndexError`, :class:`LogError` and :class:`StoreError`.
        """
        with self._index.view() as view:
            assert view is not None
            self.progress = now = view.progress()
            count = view.count()
        applied = self._store.applied
        behind = applied - now.offset
        is_too_old = behind > max(BEHIND_MAX, count // 2) or now.stale > max(_STALE_MIN, count // 100)
        if now.rows != self._rows_name() or behind < 0 or (now.is_built and is_too_old):
            self._begin(applied)
        elif not now.is_built:
            self._build(now)
        elif behind:
            self._follow_or_rebuild(now, applied)
        else:
            self._report("")
            return True
        return False

    def _rows_name(self) -> str:
        return f"{self._store.path.name} {self._log.identity}"

    def _begin(self, applied: int) -> None:
        _log.info("the index of the search is being built")
        self._announced = self._clock()
        self._index.reset()
        self.progress = Progress(self._rows_name(), applied)
        self._index.change((), self.progress)

    def _build(self, now: Progress) -> None:
        if self._settings is None or now.subjects <= HERE_MAX:
            self.progress = self._builder.step(SHORT)
        else:
            self._build_elsewhere(self._settings)
        self._announce()

    def _build_elsewhere(self, settings: Settings) -> None:
        """Have a process build the index, which this one has not open meanwhile."""
        self._index.close()
        store = self._store.path
        try:
            process, line = start_module("registry.search.build", settings, request=BuildRequest(store.name))
        except OSError as error:
            raise SearchIndexError(f"no process can be started to build it: {error}") from error
        try:
            failure = self._await(process, line, store)
        finally:
            kill_group(process, _END_S)
            line.close()
        if self._stopping.is_set():
            return
        self._index.open()
        if failure:
            raise SearchIndexError(failure)
        with self._index.view() as view:
            assert view is not None
            self.progress = view.progress()

    def _await(self, process: subprocess.Popen[bytes], line: socket.socket, store: Path) -> str:
        """Return why a build has failed; empty if it has not, or is not needed any more."""
        line.settimeout(_LISTEN_S)
        pending, failure = b"", ""
        while not self._stopping.is_set() and self._store.path == store:
            try:
                data = line.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for each in map(orjson.loads, lines):
                failure = each.get("error", failure)
                self._hear(each)
        else:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        code = process.returncode
        if failure or code == 0:
            return failure
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return f"the process that builds it ended ({how})"

    def _hear(self, report: dict[str, Any]) -> None:
        """Take over what a process has reported of its progress."""
        now = self.progress
        done, subjects = report.get("done", now.done), report.get("subjects", now.subjects)
        self.progress = replace(now, sweep=LISTING, subjects=subjects, done=done)
        self._announce()

    def _announce(self) -> None:
        now = self.progress
        if now.is_built:
            _log.info("the index of the search is complete: %d subjects", now.done)
        elif self._clock() - self._announced >= _REPORT_S:
            self._announced = self._clock()
            _log.info("the index of the search is being built: %d of %d subjects", now.done, now.subjects)

    def _follow_or_rebuild(self, now: Progress, applied: int) -> None:
        try:
            self._follow(now, applied)
        except Unreachable:
            raise
        except LogError:
            # It may have lost these records; the rows have what they said.
            if self._clock() - self._rebuilt_at < _LOST_S:
                raise
            self._rebuilt_at = self._clock()
            self._begin(applied)

    def _follow(self, now: Progress, applied: int) -> None:
        """Index the subjects that the next records name."""
        fetched = self._log.read_again(now.offset, RECORDS_MAX, BYTES_MAX)
        reached = min(fetched.next, applied)
        if reached <= now.offset:
            raise LogError(f"the log does not return its records from {now.offset} on")
        records = [each for each in fetched.records if each.offset < reached]
        owners = {key[:-OFFSET_BYTES] for key, _ in slice_of(now.offset, records, reached).entries}
        with self._store.view() as rows, self._index.view() as words:
            assert words is not None
            changes = _Changes(rows, words, now.stale)
            for subject in _subjects_of(rows, owners):
                changes.add(subject)
        self.progress = replace(now, offset=reached, stale=changes.stale)
        self._index.change(changes.updates, self.progress)

    def stop(self) -> None:
        """Make :meth:`run` return after its current step."""
        self._stopping.set()


def _subjects_of(rows: View, owners: Iterable[bytes]) -> Iterator[Subject]:
    """Yield the subjects among packed owners, those with versions even if their keys are cut."""
    for owner in sorted(owners):
        context, _, name = owner[:-1].partition(b"\0")
        if not name:
            continue
        texts = layout.unpart(context), layout.unpart(name)
        if texts[0] is not None and texts[1] is not None:
            yield Subject(*texts)  # type: ignore[arg-type]
            continue
        row = rows.seek(layout.VERSION + owner)
        if row is not None and row[0].startswith(layout.VERSION + owner):
            yield versions.subject_at(*row)


class _Changes:
    """The changes of an index, from one moment of it and of the rows."""

    def __init__(self, rows: View, words: IndexView, stale: int) -> None:
        self._rows, self._words = rows, words
        self.updates: list[Update] = []
        # As in :class:`.index.Progress`.
        self.stale = stale

    def add(self, subject: Subject) -> None:
        """Add what changes for a subject; now and then other threads go first."""
        number, found = number_of(subject), describe(self._rows, subject)
        known, now = self._words.entry(number), found and found[1]
        if known != now:
            old = frozenset[bytes]() if known is None else self._former_keys(known)
            new = frozenset[bytes]() if found is None else words_of(found[0], found[1].principal)
            self.updates.append(Update(number, now, new, old))
            if len(self.updates) % _TURN == 0:
                time.sleep(0)

    def _former_keys(self, known: Entry) -> frozenset[bytes]:
        former = versions.get(self._rows, known.subject, known.version)
        if former is None or content_of(former) != known.content:
            self.stale += 1
            return frozenset()
        return words_of(Registered(known.subject, known.version, former), known.principal)
