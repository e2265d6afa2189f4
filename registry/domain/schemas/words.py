"""The words of names and docs, as a search knows them: folded, and split where people see a border.

``customerEmail``, ``customer_email`` and ``CUSTOMER.EMAIL`` are the words ``customer`` and ``email``. A name
of several words is also one word, ``customeremail``. A word is found by its beginning. Chinese and Japanese
have no borders: each pair of neighboring characters is a word, so that any part of a text is found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

# Characters of a word that are kept, and of a text that are read.
WORD_MAX: Final = 32
TEXT_MAX: Final = 2_000
_RUN: Final = re.compile(r"[^\W_]+")
_LOW, _HIGH = "a-zß-öø-ÿ", "A-ZÀ-ÖØ-Þ"
_BORDER: Final = re.compile(f"(?<=[0-9{_LOW}])(?=[{_HIGH}])|(?<=[{_HIGH}])(?=[{_HIGH}][{_LOW}])")
# Kana and Han.
_WIDE: Final = "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WIDE_RUN: Final = re.compile(f"([{_WIDE}]+)")
_WIDE_PAIRS: Final = re.compile(f"(?=([{_WIDE}]{{1,2}}))")


def fold(text: str) -> str:
    """Return a word without the differences that a search ignores."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return text.casefold()[:WORD_MAX]


def _compose(text: str) -> str:
    """Return a text without accents of their own, which would be borders."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _parts(run: str) -> Iterator[str]:
    """Yield the words of letters and digits in a row; of Chinese and Japanese, all that are in a row."""
    for part in _BORDER.split(run):
        if part.isascii():
            yield part
        else:
            yield from filter(None, _WIDE_RUN.split(part))


def _is_wide(text: str) -> bool:
    return text != "" and not text.isascii() and _WIDE_RUN.match(text) is not None


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, and all of them as one."""
    if name.isascii() and len(name) <= WORD_MAX:  # as most are
        runs = _RUN.findall(name)
        words: list[str] = []
        for run in runs:
            low = run.lower()
            # Without a capital letter there is no border.
            words += (run,) if low == run else _BORDER.sub(" ", run).lower().split()
        return (*words, "".join(words)) if len(words) > 1 else tuple(words)
    runs = runs_of([name[:TEXT_MAX]])
    words = [word for run in runs for word in _words_in(run)]
    return (*words, fold("".join(runs))) if len(words) > 1 else tuple(words)


def runs_of(texts: Iterable[str]) -> list[str]:
    """Return the letters and digits in a row of texts for people; :func:`run_words` has the words of each."""
    return _RUN.findall(_compose("\n".join(texts)))


@lru_cache(maxsize=50_000)
def run_words(run: str) -> tuple[str, ...]:
    """Return the words of letters and digits in a row, without single letters."""
    return tuple(word for word in _words_in(run) if len(word) > 1 or not word.isascii())


def _words_in(run: str) -> Iterable[str]:
    if run.isascii():  # as most are
        return [run.lower()[:WORD_MAX]] if run.islower() else [
            part.lower()[:WORD_MAX] for part in _BORDER.split(run)
        ]  # fmt: skip
    return _words_of_parts(run)


def _words_of_parts(run: str) -> Iterator[str]:
    for part in _parts(run):
        if _is_wide(part):
            yield from map(fold, _WIDE_PAIRS.findall(part))
        else:
            yield fold(part)


def query_words(query: str) -> tuple[str, ...]:
    """Return the words that must all be found."""
    found: list[str] = []
    for run in runs_of([query]):
        for part in _parts(run):
            if _is_wide(part) and len(part) > 2:
                # Pairs that cover it: the others are found with them, or nearly always.
                pairs = [part[at : at + 2] for at in range(0, len(part) - 1, 2)]
                found += map(fold, (*pairs, *((part[-2:],) if len(part) % 2 else ())))
            else:
                found.append(fold(part))
    return tuple(dict.fromkeys(found))


def begins(word: str, wanted: str) -> bool:
    """Return true if a word is found by a ``wanted`` one: a single letter must be all of it."""
    return word == wanted or (not is_whole(wanted) and word.startswith(wanted))


def is_whole(wanted: str) -> bool:
    """Return true if a word of a query is found only as it is, because too many begin with it."""
    return len(wanted) == 1 and not _is_wide(wanted)


def matches(text: str, wanted: Sequence[str]) -> bool:
    """Return true if any of the words is found in a text or a name."""
    return bool(ranges(text, wanted))


def ranges(text: str, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Return the parts of a text, as begins and ends, in which words are found; they do not overlap."""
    read = text[:TEXT_MAX]
    composed = _compose(read)
    found = sorted(_found_in(composed, wanted))
    if found and composed != read:
        return [(0, len(read))]  # its characters have other places
    merged: list[tuple[int, int]] = []
    for begin, end in found:
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged or _whole_ranges(composed, len(read), wanted)


def _found_in(text: str, wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    for run in _RUN.finditer(text):
        at = run.start()
        for part in _parts(run[0]):
            if _is_wide(part):
                yield from _found_in_wide(part, at, wanted)
            else:
                word = fold(part)
                lengths = [min(len(each), len(part)) for each in wanted if begins(word, each)]
                if lengths:
                    yield at, at + max(lengths)
            at += len(part)


def _found_in_wide(part: str, at: int, wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    for pair in _WIDE_PAIRS.finditer(part):
        word = fold(pair[1])
        lengths = [min(len(each), len(pair[1])) for each in wanted if begins(word, each)]
        if lengths:
            yield at + pair.start(), at + pair.start() + max(lengths)


def _whole_ranges(text: str, length: int, wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Return the whole name if its words as one are found."""
    whole = fold("".join(_RUN.findall(text)))
    return [(0, length)] if any(len(each) > 1 and whole.startswith(each) for each in wanted) else []
