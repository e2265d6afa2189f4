"""The rows of the search index: its progress, and its words and subjects as they are at one moment."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import lmdb
import msgspec

from registry.domain.lookup.matching import IndexState
from registry.domain.model import Subject
from registry.domain.rows.layout import VERSION

_PROGRESS: Final = b"progress"
_SUBJECT = struct.Struct(">I8sH")
# Which step of a build is next; the position follows: a key of rows, twice; a number; a word.
COUNTING: Final = b"C"
LISTING: Final = VERSION
NUMBERS: Final = b"n"
MERGING: Final = b"m"


class SearchIndexError(Exception):
    """The index cannot be read or written; the text says why."""


class DamagedIndex(SearchIndexError):
    """The index must be built again."""


# The part of a build's time that reading takes.
_READ_PART: Final = 0.9


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of an index."""

    # The rows that it follows; empty: none yet.
    rows: str = ""
    # It holds what the log says before this offset, once it is built.
    offset: int = 0
    # The next step of the build, and what is done of it; empty: it is built.
    sweep: bytes = COUNTING
    # Subjects of which words may be left that are not theirs any more.
    stale: int = 0
    # Subjects that were counted, and of these the ones whose words were read.
    subjects: int = 0
    done: int = 0
    # Files of what was read.
    runs: int = 0

    @property
    def is_built(self) -> bool:
        """True once the words of all subjects are there."""
        return not self.sweep

    @property
    def part_built(self) -> float:
        """The part that is done, from 0 to 1."""
        if self.sweep.startswith((COUNTING, LISTING)):
            return _READ_PART * min(1.0, self.done / max(1, self.subjects))
        return 1.0 if self.is_built else _READ_PART


class IndexedVersion(NamedTuple):
    """The version of a subject that was indexed."""

    version: int
    # A hash of what the words are from, but for the next two.
    content: bytes
    principal: str
    subject: Subject


class Update(NamedTuple):
    """A change of one subject."""

    number: bytes
    # ``None``: it is gone.
    now: IndexedVersion | None
    new: frozenset[bytes]
    old: frozenset[bytes]


class IndexView:
    """The index at one moment: a :class:`registry.domain.lookup.matching.WordRows`."""

    def __init__(self, txn: lmdb.Transaction[bytes], words: Any, subjects: Any, meta: Any) -> None:
        self._txn, self._subjects, self._meta = txn, subjects, meta
        self._words: lmdb.Cursor[bytes] = txn.cursor(words)

    def progress(self) -> Progress:
        """Return how far the index has come."""
        return progress_in(self._txn, self._meta)

    def state(self) -> IndexState:
        """Return the same as searches need it."""
        found = self.progress()
        return IndexState(found.offset, found.is_built, found.part_built)

    def keys(self, begin: bytes, most: int) -> list[bytes]:
        """Return the first ``most`` keys that begin so."""
        cursor, found = self._words, list[bytes]()
        there = cursor.set_range(begin)
        while there and len(found) < most and (key := cursor.key()).startswith(begin):
            found.append(key)
            there = cursor.next_nodup()
        return found

    def seek(self, key: bytes, number: bytes) -> bytes | None:
        """Return the first number of a key, from ``number`` on."""
        return self._words.value() if self._words.set_range_dup(key, number) else None

    def subject(self, number: bytes) -> Subject | None:
        """Return the subject of a number."""
        found = self.entry(number)
        return None if found is None else found.subject

    def entry(self, number: bytes) -> IndexedVersion | None:
        """Return the version of a subject that was indexed."""
        value = self._txn.get(number, db=self._subjects)
        return None if value is None else _unpack(value)

    def numbers(self, begin: bytes) -> Iterator[tuple[bytes, IndexedVersion]]:
        """Yield the subjects from a number on."""
        with self._txn.cursor(self._subjects) as cursor:
            for number, value in cursor if cursor.set_range(begin) else ():
                yield number, _unpack(value)

    def count(self) -> int:
        """Return the number of subjects."""
        entries: int = self._txn.stat(self._subjects)["entries"]
        return entries


def progress_in(txn: lmdb.Transaction[bytes], meta: Any) -> Progress:
    """Return the progress that is written in the table ``meta``. Raises :class:`DamagedIndex`."""
    found = txn.get(_PROGRESS, db=meta)
    try:
        return Progress() if found is None else msgspec.msgpack.decode(found, type=Progress)
    except msgspec.DecodeError as error:
        raise DamagedIndex(f"the progress of the index cannot be read: {error}") from error


def write_progress(txn: lmdb.Transaction[bytes], meta: Any, progress: Progress) -> None:
    """Write the progress into the table ``meta``."""
    txn.put(_PROGRESS, msgspec.msgpack.encode(progress), db=meta)


def _unpack(value: bytes) -> IndexedVersion:
    try:
        version, content, size = _SUBJECT.unpack_from(value)
        end = _SUBJECT.size + size
        principal, name = (
            each.decode("utf-8", "surrogatepass") for each in (value[_SUBJECT.size : end], value[end:])
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise DamagedIndex(f"an entry of the index cannot be read: {error}") from error
    return IndexedVersion(version, content, principal, Subject.parse(name))


def pack(entry: IndexedVersion) -> bytes:
    """Return the value of an entry."""
    principal = entry.principal.encode("utf-8", "surrogatepass")
    name = entry.subject.qualified.encode("utf-8", "surrogatepass")
    return _SUBJECT.pack(entry.version, entry.content, len(principal)) + principal + name
