"""The thread of the node that fills the index of words: from the rows at first, then from the log.

Writes pay nothing for it: it reads the records that the store has applied once more, a batch at a time, and
indexes the subjects that they name as the rows have them now. At first, after a start with other rows, or if
it has fallen far behind, it sweeps: all rows, then all that it holds, in slices that others can interrupt.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from registry.domain.history.entries import OFFSET_BYTES, slice_of
from registry.domain.lookup.matching import number_of
from registry.domain.lookup.search import keys_of
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View
from registry.log.contract import Fetched, LogError
from registry.store.layout import StoreError

from .index import Entry, IndexView, Progress, SearchIndex, SearchIndexError, Update

# A slice: so many seconds of work, or so many subjects; each ends in a commit.
SLICE_S: Final = 0.05
SUBJECTS_MAX: Final = 500
RECORDS_MAX, BYTES_MAX = 1000, 1 << 20
# Records that it follows; of more, a sweep of the rows costs less.
BEHIND_MAX: Final = 200_000
# While others write, it waits so long for a pause.
BUSY_MAX_S: Final = 2.0
_PAUSE_S, _POLL_S, _RETRY_S, _REPORT_S = 0.005, 0.5, 10.0, 10.0
# Subjects that are read before other threads of the process go first: two milliseconds.
_TURN: Final = 8
_STALE_MIN: Final = 1_000
_DISK_BYTES_MIN: Final = 256 << 20
# Sweeps go on below this key when all rows are done.
_GONE: Final = b"n"
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
    ) -> None:
        """``started``: true once the rows are those of the log, and may be read."""
        self._log, self._store, self._index = log, store, index
        self._started, self._clock = started, clock
        self._stopping = threading.Event()
        self._swept = 0
        self._announced = 0.0
        self._lack = ""

    def run(self) -> None:
        """Fill the index until :meth:`stop`, then close it."""
        applied, since = -1, self._clock()
        while not self._stopping.wait(_POLL_S):
            busy = self._store.applied != applied
            applied = self._store.applied
            if self._started() and (not busy or self._clock() - since > BUSY_MAX_S):
                self._fill()
                since = self._clock()
        self._index.close()

    def _fill(self) -> None:
        """Fill until nothing is left, with a pause after each slice that is as long."""
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
            if not self._stopping.is_set():
                _log.warning("the index of the search is not complete: %s", error)
                self._stopping.wait(_RETRY_S)
        except Exception:
            # An error with the index must not end a node that serves the rows.
            if not self._stopping.is_set():
                _log.exception("unexpected error while the index of the search is filled")
                self._stopping.wait(_RETRY_S)

    def _lacks_room(self) -> bool:
        """Return true if the disk is nearly full; log once if it is."""
        before = self._lack
        try:
            free = shutil.disk_usage(self._store.path).free
        except OSError:
            return False
        self._lack = "the disk is nearly full" if free < _DISK_BYTES_MIN else ""
        if self._lack and not before:
            _log.warning("the index of the search is not filled, because %s", self._lack)
        return bool(self._lack)

    def step(self) -> bool:
        """Do one slice; return true if there is nothing to do now.

        Raises :class:`.index.SearchIndexError`, :class:`LogError` and :class:`StoreError`.
        """
        with self._index.view() as view:
            assert view is not None
            now, count = view.progress(), view.count()
        applied = self._store.applied
        behind = applied - now.offset
        if now.store != self._store.path.name or behind < 0 or (now.is_built and behind > BEHIND_MAX):
            self._begin(applied)
        elif now.stale > max(_STALE_MIN, count // 2):
            self._index.clear()
            self._begin(applied)
        elif not now.is_built:
            self._sweep(now)
        elif behind:
            self._follow(now, applied)
        else:
            return True
        return False

    def _begin(self, applied: int) -> None:
        _log.info("the index of the search is being built")
        self._swept, self._announced = 0, self._clock()
        self._index.change((), Progress(self._store.path.name, applied, layout.VERSION))

    def _sweep(self, now: Progress) -> None:
        """Index the next subjects of the rows; after the last, look for indexed ones that are gone."""
        until, count = time.thread_time() + SLICE_S, 0
        of_rows = now.sweep.startswith(layout.VERSION)
        with self._store.view() as rows, self._index.view() as words:
            assert words is not None
            places = _of_rows(rows, now.sweep) if of_rows else _of_index(words, now.sweep)
            changes, reached = _Changes(rows, words, now.stale), _GONE if of_rows else b""
            for following, subject in places:
                changes.add(subject)
                count += 1
                if count == SUBJECTS_MAX or time.thread_time() > until:
                    reached = following
                    break
        self._index.change(changes.updates, Progress(now.store, now.offset, reached, changes.stale))
        self._swept += count if of_rows else 0
        self._announce(done=not reached)

    def _announce(self, *, done: bool) -> None:
        if done:
            _log.info("the index of the search is complete: %d subjects", self._swept)
        elif self._clock() - self._announced >= _REPORT_S:
            self._announced = self._clock()
            _log.info("the index of the search is being built: %d subjects so far", self._swept)

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
        self._index.change(changes.updates, Progress(now.store, reached, b"", changes.stale))

    def stop(self) -> None:
        """Make :meth:`run` return after its current slice."""
        self._stopping.set()


def _of_rows(rows: View, key: bytes) -> Iterator[tuple[bytes, Subject]]:
    """Yield the subjects of version rows from ``key`` on, each with the key at which to continue."""
    row = rows.seek(key)
    while row is not None and row[0].startswith(layout.VERSION):
        following = layout.after(row[0][:-4])
        yield following, versions.subject_at(*row)
        row = rows.seek(following)


def _of_index(words: IndexView, key: bytes) -> Iterator[tuple[bytes, Subject]]:
    """Yield the subjects of the index from ``key`` on, likewise."""
    for number, entry in words.numbers(key.removeprefix(_GONE)):
        yield _GONE + number + b"\0", entry.subject


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
        number, latest = number_of(subject), versions.latest(self._rows, subject)
        known = self._words.entry(number)
        now = None if latest is None else Entry(latest.version, latest.row.md5[:8], subject)
        if known != now:
            old = frozenset[bytes]() if known is None else self._former_keys(known)
            new = frozenset[bytes]() if latest is None else _keys(latest)
            self.updates.append(Update(number, now, new, old))
            if len(self.updates) % _TURN == 0:
                time.sleep(0)

    def _former_keys(self, known: Entry) -> frozenset[bytes]:
        former = versions.get(self._rows, known.subject, known.version)
        if former is None or former.md5[:8] != known.content:
            self.stale += 1
            return frozenset()
        return _keys(Registered(known.subject, known.version, former))


def _keys(found: Registered) -> frozenset[bytes]:
    """Return the keys of a version; none if reading it fails, which must not keep others from being found."""
    try:
        return frozenset(keys_of(found))
    except Exception:
        _log.exception("version %d of %r is not searched", found.version, found.subject.qualified)
        return frozenset()
