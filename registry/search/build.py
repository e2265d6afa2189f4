"""Building the index of words from all rows, and the process for it: ``python -m registry.search.build``.

First the subjects are listed. Then their words are added in the order of their numbers, so that each word's
numbers come in ascending order: LMDB appends them to pages that it fills, which takes a fraction of the time
and half of the pages of numbers that come in any order. A build that was interrupted continues.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from xxhash import xxh3_64_digest

from registry.base.processes.child_process import Parent, started_by_parent
from registry.domain.history.entries import principal_at
from registry.domain.lookup.matching import number_of
from registry.domain.lookup.search import keys_of
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.store.layout import StoreError, read_current
from registry.store.reader import StoreReader

from .index import LISTING, NUMBERS, Entry, Progress, SearchIndex, SearchIndexError, Update

# Of 19: less CPU than any process that serves.
NICENESS: Final = 15
# A disk with less free space counts as full.
DISK_BYTES_MIN: Final = 256 << 20
# How long a view of the rows is open: a long one keeps freed pages from being used again.
_VIEW_S: Final = 0.25
_LISTED_MAX: Final = 20_000
# Words with their subjects that are written at once: the more, the fewer pages are written twice.
_PAIRS_MAX: Final = 1_500_000
_REPORT_S: Final = 1.0
_NO_CONTENT: Final = bytes(8)
_log = logging.getLogger(__name__)

Rows = Callable[[], AbstractContextManager[View]]


class Step(NamedTuple):
    """The limits of one step."""

    # Seconds of this thread's CPU time with one view of the rows.
    view_s: float
    subjects: int
    # Words with their subjects.
    pairs: int


LONG: Final = Step(_VIEW_S, _LISTED_MAX, _PAIRS_MAX)


def describe(rows: View, subject: Subject) -> tuple[Registered, Entry] | None:
    """Return what of a subject is indexed; ``None`` if it has no version."""
    latest = versions.latest(rows, subject)
    if latest is None:
        return None
    principal = principal_at(rows, subject, latest.row.offset)
    return latest, Entry(latest.version, content_of(latest.row), principal, subject)


def content_of(row: VersionRow) -> bytes:
    """Return a hash of all that words are read from."""
    return xxh3_64_digest(b"".join((row.kind, row.schema, row.metadata)))


def words_of(found: Registered, principal: str) -> frozenset[bytes]:
    """Return the keys of a version; none if reading it fails, which must not keep others from being found."""
    try:
        return frozenset(keys_of(found, principal))
    except Exception:
        _log.exception("version %d of %r is not searched", found.version, found.subject.qualified)
        return frozenset()


class Builder:
    """Builds ``index`` from ``rows``, step by step."""

    def __init__(self, index: SearchIndex, rows: Rows) -> None:
        self._index, self._rows = index, rows

    def step(self, limits: Step = LONG) -> Progress:
        """Do one step of a build that has begun; return the progress.

        Raises :class:`.index.SearchIndexError` and :class:`StoreError`.
        """
        with self._index.view() as words:
            assert words is not None
            now = words.progress()
        return self._list(now, limits) if now.sweep.startswith(LISTING) else self._add_words(now, limits)

    def _list(self, now: Progress, limits: Step) -> Progress:
        until, reached = time.thread_time() + limits.view_s, NUMBERS
        listed: list[tuple[bytes, Entry]] = []
        with self._rows() as rows:
            for following, subject in _subjects(rows, now.sweep):
                listed.append((number_of(subject), Entry(0, _NO_CONTENT, "", subject)))
                if len(listed) == limits.subjects or time.thread_time() > until:
                    reached = following
                    break
        found = Progress(now.rows, now.offset, reached, now.stale, now.subjects + len(listed))
        self._index.list_subjects(listed, found)
        return found

    def _add_words(self, now: Progress, limits: Step) -> Progress:
        words: dict[bytes, list[bytes]] = defaultdict(list)
        updates: list[Update] = []
        pairs, reached, more = 0, now.sweep, True
        while more and pairs < limits.pairs and len(updates) < limits.subjects:
            until = time.thread_time() + limits.view_s
            more = False
            with self._rows() as rows, self._index.view() as index:
                assert index is not None
                for number, entry in index.numbers(reached.removeprefix(NUMBERS)):
                    found = describe(rows, entry.subject)
                    updates.append(Update(number, found and found[1], frozenset(), frozenset()))
                    keys = words_of(found[0], found[1].principal) if found else ()
                    for key in keys:
                        words[key].append(number)
                    pairs += len(keys)
                    reached, more = NUMBERS + number + b"\0", True
                    if time.thread_time() > until or len(updates) >= limits.subjects:
                        break
                else:
                    more = False
        done = now.done + len(updates)
        after = Progress(now.rows, now.offset, reached if more else b"", now.stale, now.subjects, done)
        self._index.append(words, updates, after)
        return after


def _subjects(rows: View, key: bytes) -> Iterator[tuple[bytes, Subject]]:
    """Yield the subjects of version rows from ``key`` on, each with the key at which to continue."""
    row = rows.seek(key)
    while row is not None and row[0].startswith(layout.VERSION):
        following = layout.after(row[0][:-4])
        yield following, versions.subject_at(*row)
        row = rows.seek(following)


class BuildRequest(NamedTuple):
    """A build of the index that a node has begun."""

    # The name of the environment of the rows.
    store: str


def main() -> int:
    """Continue a build, and report to the parent; return the exit code."""
    parent = started_by_parent("search")
    with suppress(OSError):  # sandboxes may refuse
        os.nice(NICENESS)
    try:
        _build(parent, parent.request)
    except (SearchIndexError, StoreError, MemoryError) as error:
        parent.report(error=str(error) or "there is not enough memory")
        return 1
    return 0


def _build(parent: Parent, wanted: BuildRequest) -> None:
    settings = parent.settings
    folder = settings.data / "store"
    current = read_current(folder)
    if current is None or current.name != wanted.store:
        raise StoreError(f"the store in {folder} was replaced")
    store = StoreReader(folder, settings.store_map_bytes)
    index = SearchIndex(settings.data / "search", settings.store_map_bytes, writable=True)
    index.open()
    builder, reported = Builder(index, store.view), 0.0
    progress = Progress()
    while not progress.is_built:
        if lacks_room(settings.data):
            raise SearchIndexError("the disk is nearly full")
        progress = builder.step()
        if progress.is_built or time.monotonic() - reported >= _REPORT_S:
            reported = time.monotonic()
            parent.report(done=progress.done, subjects=progress.subjects)
    index.close()


def lacks_room(folder: Path) -> bool:
    """Return true if the disk is nearly full."""
    try:
        return shutil.disk_usage(folder).free < DISK_BYTES_MIN
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
