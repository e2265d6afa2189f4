"""Finding the subjects in which all words of a query are found, in a search index.

Each word has the numbers of its subjects in ascending order, so several words are joined by leaping from one
to the next. A number is a hash of the subject's name: the same on all nodes, it says nothing of other names.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from registry.domain.model import Subject
from registry.domain.schemas.words import is_whole

from .search import beginnings

NUMBER_BYTES: Final = 6
FIRST: Final = bytes(NUMBER_BYTES)
# Keys that one word of a query may begin, in each kind.
KEYS_MAX: Final = 1_000
# Looks into the index between two pauses: a millisecond or two.
LOOKS: Final = 500


def number_of(subject: Subject) -> bytes:
    """Return the number of a subject."""
    name = subject.qualified.encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=NUMBER_BYTES).digest()


class IndexState(NamedTuple):
    """The progress of a search index."""

    # It holds what the log says before this offset.
    offset: int
    # False while it is being built, or the rows changed more than it can follow.
    complete: bool
    # The part of it that is built, from 0 to 1.
    built: float = 1.0

    def least(self, other: IndexState) -> IndexState:
        """Return what holds of both."""
        return IndexState(
            min(self.offset, other.offset), self.complete and other.complete, min(self.built, other.built)
        )


class WordRows(Protocol):
    """A search index at one moment."""

    def state(self) -> IndexState:
        """Return how far the index has come."""

    def keys(self, begin: bytes, most: int) -> list[bytes]:
        """Return the first ``most`` keys that begin so."""

    def seek(self, key: bytes, number: bytes) -> bytes | None:
        """Return the first number of a key, from ``number`` on."""

    def subject(self, number: bytes) -> Subject | None:
        """Return the subject of a number; ``None``: it is no longer there."""


class _Word:
    """The numbers of all keys that a word of a query begins."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys
        self._next: list[tuple[bytes, bytes]] | None = None
        # Looks into the index so far.
        self.looks = 0

    def first(self, rows: WordRows, number: bytes) -> bytes | None:
        """Return the first number from ``number`` on, which never decreases from call to call."""
        if self._next is None:
            found = ((rows.seek(key, number), key) for key in self._keys)
            self._next = [(each, key) for each, key in found if each is not None]
            heapq.heapify(self._next)
            self.looks += len(self._keys)
        waiting = self._next
        while waiting and waiting[0][0] < number:
            key = waiting[0][1]
            following = rows.seek(key, number)
            self.looks += 1
            if following is None:
                heapq.heappop(waiting)
            else:
                heapq.heapreplace(waiting, (following, key))
        return waiting[0][0] if waiting else None


class Matching:
    """The numbers of subjects in which all ``words`` are found, ascending from ``number`` on.

    The index may change meanwhile.
    """

    def __init__(self, words: Sequence[str], kinds: Sequence[str], number: bytes | None = FIRST) -> None:
        self._wanted = words
        self._kinds = kinds
        self._number = number
        self._words: list[_Word] = []
        # True if a word begins more keys than are examined.
        self.cut = False

    @property
    def looks(self) -> int:
        """The number of looks into the index: what a search costs, whatever it finds."""
        return sum(each.looks for each in self._words)

    def following(self, rows: WordRows) -> Iterator[bytes | None]:
        """Yield the next numbers, as long as ``rows`` may be read; a later call continues.

        ``None`` comes after every :data:`LOOKS` looks, so that its consumer can pause.
        """
        while len(self._words) < len(self._wanted):
            self._words.append(_Word(self._keys(rows, self._wanted[len(self._words)])))
            yield None
        pause = self.looks + LOOKS
        number, agreed, at = self._number, 0, 0
        while number is not None:
            found = self._words[at % len(self._words)].first(rows, number)
            if found is None:
                self._number = None
                return
            agreed = agreed + 1 if found == number else 1
            number, at = found, at + 1
            if agreed == len(self._words):
                self._number = number = after(found)
                agreed = 0
                yield found
            elif self.looks > pause:
                self._number, pause = number, self.looks + LOOKS
                yield None

    def _keys(self, rows: WordRows, word: str) -> list[bytes]:
        found: list[bytes] = []
        for kind in self._kinds:
            keys: list[bytes] = []
            for begin in beginnings(kind, word):
                if is_whole(word):
                    keys += [each for each in rows.keys(begin, 1) if each == begin]
                else:
                    keys += rows.keys(begin, KEYS_MAX + 1 - len(keys))
            self.cut = self.cut or len(keys) > KEYS_MAX
            found += keys[:KEYS_MAX]
        return found


def after(number: bytes) -> bytes | None:
    """Return the next number; ``None``: there is none."""
    following = int.from_bytes(number, "big") + 1
    return None if following >> (8 * NUMBER_BYTES) else following.to_bytes(NUMBER_BYTES, "big")
