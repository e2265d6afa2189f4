"""Building the search index from all rows.

A build reads the rows in their order, and writes words with their subjects to files, each of them sorted.
Then it merges the files and appends the words to the index, so each of its pages is written once. Written as
they come, words would touch most pages again for every thousand subjects. A build that was interrupted
continues.
"""

from __future__ import annotations

import heapq
import logging
import shutil
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace
from xxhash import xxh3_64_digest

from registry.domain.history.entries import principal_at
from registry.domain.lookup.matching import NUMBER_BYTES, number_of
from registry.domain.lookup.search import keys_of
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View

from .index import SUBJECTS, WORDS, SearchIndex
from .view import (
    COUNTING,
    LISTING,
    MERGING,
    NUMBERS,
    DamagedIndex,
    IndexedVersion,
    Progress,
    SearchIndexError,
    pack,
)

# How long a view of the rows is open: a long one keeps freed pages from being used again.
_VIEW_S: Final = 0.25
# Words with their subjects that are held in memory, some 40 MiB, and written at once.
PAIRS_MAX: Final = 400_000
# Names of the files, before a number; an item's sizes of key and value; how much of a file is read at once.
_ENTRIES, _WORDS = "entries-", "words-"
_ITEM = struct.Struct(">HI")
_BUFFER: Final = 1 << 16
_Merged = tuple[bytes, list[bytes]]
_log = logging.getLogger(__name__)

Rows = Callable[[], AbstractContextManager[View]]


class StepLimits(NamedTuple):
    """The limits of one step."""

    # Seconds of this thread's CPU time with one view of the rows.
    view_s: float
    # Words with their subjects.
    pairs: int


LONG: Final = StepLimits(_VIEW_S, PAIRS_MAX)


def describe(rows: View, subject: Subject) -> tuple[Registered, IndexedVersion] | None:
    """Return what of a subject is indexed; ``None`` if it has no version."""
    latest = versions.latest(rows, subject)
    if latest is None:
        return None
    principal = principal_at(rows, subject, latest.row.offset)
    return latest, IndexedVersion(latest.version, content_of(latest.row), principal, subject)


def content_of(row: VersionRow) -> bytes:
    """Return a hash of all that words are read from."""
    return xxh3_64_digest(b"".join((row.kind, row.schema, row.metadata)))


def words_of(found: Registered, principal: str) -> frozenset[bytes]:
    """Return the keys of a version; none if reading it fails, which must not keep others from being found."""
    try:
        return frozenset(keys_of(found, principal))
    except Exception:
        _log.exception(
            "version %d of %r is missing from the search index", found.version, found.subject.qualified
        )
        return frozenset()


class Builder:
    """Builds ``index`` from ``rows``, step by step."""

    def __init__(self, index: SearchIndex, rows: Rows) -> None:
        self._index, self._rows = index, rows
        # What is merged of files, from a sweep on.
        self._merged: Iterator[_Merged] | None = None
        self._merged_to = b""

    def step(self, limits: StepLimits = LONG) -> Progress:
        """Do one step of a build that has begun; return the progress.

        Raises :class:`.view.SearchIndexError` and :class:`StoreError`.
        """
        with self._index.view() as words:
            assert words is not None
            now = words.progress()
        try:
            return _STEPS[now.sweep[:1]](self, now, limits)
        except (FileNotFoundError, EOFError, struct.error) as error:
            raise DamagedIndex(f"files of the build in {self._index.files} are damaged: {error}") from error
        except OSError as error:
            raise SearchIndexError(f"the index in {self._index.path} cannot be built: {error}") from error

    def _count(self, now: Progress, limits: StepLimits) -> Progress:
        """Count the next subjects, to show how far the build is."""
        until, reached, count = time.thread_time() + limits.view_s, LISTING, 0
        with self._rows() as rows:
            for following, _ in _subject_rows(rows, now.sweep[1:]):
                count += 1
                if time.thread_time() > until:
                    reached = COUNTING + following
                    break
        return self._index.append((), SUBJECTS, replace(now, sweep=reached, subjects=now.subjects + count))

    def _read(self, now: Progress, limits: StepLimits) -> Progress:
        """Read the words of the next subjects, and write them to files."""
        words: dict[bytes, list[bytes]] = defaultdict(list)
        entries: list[tuple[bytes, bytes]] = []
        pairs, count, reached = 0, 0, now.sweep
        while reached.startswith(LISTING) and pairs < limits.pairs:
            until, begun = time.thread_time() + limits.view_s, reached
            reached = NUMBERS
            with self._rows() as rows:
                for following, row in _subject_rows(rows, begun):
                    count += 1
                    found = describe(rows, versions.subject_at(*row))
                    if found is not None:
                        number = number_of(found[1].subject)
                        entries.append((number, pack(found[1])))
                        keys = words_of(found[0], found[1].principal)
                        for key in keys:
                            words[key].append(number)
                        pairs += len(keys)
                    if pairs >= limits.pairs or time.thread_time() > until:
                        reached = following
                        break
            if limits is not LONG:
                break
        runs, files = now.runs + 1, self._index.files
        files.mkdir(exist_ok=True)
        _write_run(files / f"{_ENTRIES}{runs}", sorted(entries))
        _write_run(
            files / f"{_WORDS}{runs}",
            ((word, b"".join(sorted(words[word]))) for word in sorted(words)),
        )
        return self._index.append((), SUBJECTS, replace(now, sweep=reached, done=now.done + count, runs=runs))

    def _append_subjects(self, now: Progress, limits: StepLimits) -> Progress:
        found, more = self._next_merged(_ENTRIES, now, limits.pairs)
        following = NUMBERS + found[-1][0] if more else MERGING
        # Of two subjects with one number, the last one is found.
        subjects = [(number, values[-1]) for number, values in found]
        return self._index.append(subjects, SUBJECTS, replace(now, sweep=following))

    def _append_words(self, now: Progress, limits: StepLimits) -> Progress:
        found, more = self._next_merged(_WORDS, now, limits.pairs)
        following = MERGING + found[-1][0] if more else b""
        pairs = ((word, number) for word, values in found for number in _numbers(values))
        after = self._index.append(pairs, WORDS, replace(now, sweep=following))
        if after.is_built:
            shutil.rmtree(self._index.files, ignore_errors=True)
        return after

    def _next_merged(self, kind: str, now: Progress, pairs: int) -> tuple[list[_Merged], bool]:
        """Return the next keys of all files of a kind, and if there may be more of them."""
        if self._merged is None or self._merged_to != now.sweep:
            paths = [self._index.files / f"{kind}{run}" for run in range(1, now.runs + 1)]
            self._merged = _merge(paths, now.sweep[1:])
        found: list[_Merged] = []
        for key, values in self._merged:
            found.append((key, values))
            pairs -= sum(map(len, values)) // NUMBER_BYTES
            if pairs <= 0:
                self._merged_to = now.sweep[:1] + key
                return found, True
        self._merged = None
        return found, False


_STEPS: Final = {
    COUNTING: Builder._count,  # noqa: SLF001
    LISTING: Builder._read,  # noqa: SLF001
    NUMBERS: Builder._append_subjects,  # noqa: SLF001
    MERGING: Builder._append_words,  # noqa: SLF001
}


def _subject_rows(rows: View, key: bytes) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    """Yield a row of each subject from ``key`` on, each with the key at which to continue."""
    row = rows.seek(max(key, layout.VERSION))
    while row is not None and row[0].startswith(layout.VERSION):
        following = layout.after(row[0][:-4])
        yield following, row
        row = rows.seek(following)


def _write_run(path: Path, items: Iterable[tuple[bytes, bytes]]) -> None:
    with path.open("wb", buffering=1 << 20) as file:
        for key, value in items:
            file.write(_ITEM.pack(len(key), len(value)) + key + value)


def _read_run(path: Path, after: bytes) -> Iterator[tuple[bytes, bytes]]:
    with path.open("rb", buffering=_BUFFER) as file:
        while head := file.read(_ITEM.size):
            key_size, size = _ITEM.unpack(head)
            item = file.read(key_size + size)
            if len(item) < key_size + size:
                raise EOFError(f"{path.name} ends early")
            if item[:key_size] > after:
                yield item[:key_size], item[key_size:]


def _merge(paths: Sequence[Path], after: bytes) -> Iterator[_Merged]:
    """Yield the keys of all files in order, those above ``after``, each with its values in the files."""
    last, values = b"", list[bytes]()
    for key, value in heapq.merge(*(_read_run(path, after) for path in paths), key=itemgetter(0)):
        if key != last and values:
            yield last, values
            values = []
        last = key
        values.append(value)
    if values:
        yield last, values


def _numbers(values: Sequence[bytes]) -> Iterable[bytes]:
    """Return the numbers of a word in order."""
    joined = b"".join(values)
    numbers = [joined[at : at + NUMBER_BYTES] for at in range(0, len(joined), NUMBER_BYTES)]
    if len(values) > 1:
        numbers.sort()  # a merge, because the values are sorted
        return dict.fromkeys(numbers)  # two subjects may have one number
    return numbers
