"""Finding the subjects in which all words of a query are found, in an index of words.

Each word has the numbers of its subjects in ascending order, so several words are joined by leaping from one
to the next. A number is a hash of the subject's name: the same on all nodes, it says nothing of other names.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from registry.domain.model import Subject

from .search import KINDS

NUMBER_BYTES: Final = 6
FIRST: Final = bytes(NUMBER_BYTES)
# Keys that one word of a query may begin, in each kind.
KEYS_MAX: Final = 1_000


def number_of(subject: Subject) -> bytes:
    """Return the number of a subject."""
    name = subject.qualified.encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=NUMBER_BYTES).digest()


class IndexState(NamedTuple):
    """The progress of an index of words."""

    # It holds what the log says before this offset.
    offset: int
    # False while it is being built, or the rows changed more than it can follow.
    complete: bool


class WordRows(Protocol):
    """An index of words at one moment."""

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

    def first(self, rows: WordRows, number: bytes) -> bytes | None:
        """Return the first number from ``number`` on, which never decreases from call to call."""
        if self._next is None:
            found = ((rows.seek(key, number), key) for key in self._keys)
            self._next = [(each, key) for each, key in found if each is not None]
            heapq.heapify(self._next)
        waiting = self._next
        while waiting and waiting[0][0] < number:
            key = waiting[0][1]
            following = rows.seek(key, number)
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
        self._words: list[_Word] | None = None
        # True if a word begins more keys than are examined.
        self.cut = False

    def following(self, rows: WordRows) -> Iterator[bytes]:
        """Yield the next numbers, as long as ``rows`` may be read; a later call continues."""
        if self._words is None:
            self._words = [_Word(self._keys(rows, each)) for each in self._wanted]
        while (number := self._first_common(rows, self._words)) is not None:
            self._number = after(number)
            yield number

    def _keys(self, rows: WordRows, word: str) -> list[bytes]:
        found: list[bytes] = []
        for kind in self._kinds:
            begin = KINDS[kind] + word.encode()
            if len(word) == 1:
                found += [each for each in rows.keys(begin, 1) if each == begin]
                continue
            keys = rows.keys(begin, KEYS_MAX + 1)
            self.cut = self.cut or len(keys) > KEYS_MAX
            found += keys[:KEYS_MAX]
        return found

    def _first_common(self, rows: WordRows, words: Sequence[_Word]) -> bytes | None:
        """Return the first number from here on that all words have."""
        number, agreed, at = self._number, 0, 0
        while number is not None and agreed < len(words):
            found = words[at % len(words)].first(rows, number)
            agreed = agreed + 1 if found == number else 1
            number = found
            at += 1
        return number


def after(number: bytes) -> bytes | None:
    """Return the next number; ``None``: there is none."""
    following = int.from_bytes(number, "big") + 1
    return None if following >> (8 * NUMBER_BYTES) else following.to_bytes(NUMBER_BYTES, "big")
