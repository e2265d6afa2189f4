"""The words of names and docs, as a search knows them: folded, and split where people see a border.

``customerEmail``, ``customer_email`` and ``CUSTOMER.EMAIL`` are the words ``customer`` and ``email``. A name
of several words is also one word, ``customeremail``. A word is found by its beginning.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

# Characters of a word that are kept, and of a text that are read.
WORD_MAX: Final = 32
TEXT_MAX: Final = 2_000
# Words of a query.
QUERY_MAX: Final = 8
_RUN: Final = re.compile(r"[^\W_]+")
_BORDER: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def fold(text: str) -> str:
    """Return a word without the differences that a search ignores."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.casefold()[:WORD_MAX]


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, and all of them as one."""
    parts = [part for run in _RUN.findall(name[:TEXT_MAX]) for part in _BORDER.split(run)]
    words = tuple(map(fold, parts))
    return (*words, fold("".join(parts))) if len(words) > 1 else words


def text_words(text: str) -> Iterator[str]:
    """Yield the words of a text for people, without single characters."""
    for run in _RUN.findall(text[:TEXT_MAX]):
        if run.isascii() and run.islower():  # as most are
            if len(run) > 1:
                yield run[:WORD_MAX]
            continue
        for part in _BORDER.split(run):
            if len(part) > 1 or not part.isascii():
                yield fold(part)


def query_words(query: str) -> tuple[str, ...]:
    """Return the words that must all be found, at most :data:`QUERY_MAX`."""
    parts = (part for run in _RUN.findall(query[:TEXT_MAX]) for part in _BORDER.split(run))
    return tuple(dict.fromkeys(map(fold, parts)))[:QUERY_MAX]


def begins(word: str, wanted: str) -> bool:
    """Return true if a word is found by a ``wanted`` one: a single character must be all of it."""
    return word == wanted or (len(wanted) > 1 and word.startswith(wanted))


def matches(text: str, wanted: Sequence[str]) -> bool:
    """Return true if any of the words is found in a text or a name."""
    return bool(ranges(text, wanted))


def ranges(text: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Return the parts of a text, as begins and ends, in which words are found; they do not overlap."""
    found: list[tuple[int, int]] = []
    for run in _RUN.finditer(text[:TEXT_MAX]):
        borders = [0, *(each.start() for each in _BORDER.finditer(run[0])), len(run[0])]
        for begin, end in pairwise(borders):
            word = fold(run[0][begin:end])
            lengths = [min(len(each), end - begin) for each in wanted if begins(word, each)]
            if lengths:
                found.append((run.start() + begin, run.start() + begin + max(lengths)))
    return found or _whole_ranges(text[:TEXT_MAX], wanted)


def _whole_ranges(text: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Return the whole name if its words as one are found."""
    whole = fold("".join(_RUN.findall(text)))
    return [(0, len(text))] if any(len(each) > 1 and whole.startswith(each) for each in wanted) else []
