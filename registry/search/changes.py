"""The changes of a search index that follow from records of the log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from registry.domain.fold.fast_path import CONTEXT, plain_key
from registry.domain.fold.fold import owner_of
from registry.domain.log_format.records import NoopKey, Record, UnreadableKey, decode_key
from registry.domain.lookup.matching import number_of
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View

from .build import PAIRS_MAX, Rows, content_of, describe, words_of
from .index import SearchIndex
from .view import IndexedVersion, IndexView, Progress, Update

# Subjects that are read before other threads of the process go first: two milliseconds.
_TURN: Final = 8


def owners_of(records: Sequence[Record]) -> set[bytes]:
    """Return the packed subjects that records name."""
    found: set[bytes] = set()
    for record in records:
        plain = plain_key(record.key or b"")
        if plain is not None:
            found.add(CONTEXT + plain.name + b"\0")
            continue
        try:
            key = decode_key(record.key)
        except UnreadableKey:
            continue
        if not isinstance(key, NoopKey):
            found.add(owner_of(key))
    return found


def follow(index: SearchIndex, open_rows: Rows, owners: Iterable[bytes], offset: int) -> Progress:
    """Index packed subjects as the rows have them; return the progress: all before ``offset`` is there.

    Raises :class:`.view.SearchIndexError` and :class:`registry.store.layout.StoreError`.
    """
    with open_rows() as rows, index.view() as words:
        assert words is not None
        now = words.progress()
        changes = _Changes(rows, words, now.stale)
        for subject in _subjects_of(rows, owners):
            changes.add(subject)
            if changes.pairs > PAIRS_MAX:
                # A record of a few bytes may delete a subject of many words. If the process is killed now,
                # the same records come again.
                index.change(changes.take(), replace(now, stale=changes.stale))
    after = replace(now, offset=offset, stale=changes.stale)
    index.change(changes.take(), after)
    return after


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
        self._updates: list[Update] = []
        # Words of these, new and old.
        self.pairs = 0
        # As in :class:`.view.Progress`.
        self.stale = stale

    def add(self, subject: Subject) -> None:
        """Add what changes for a subject; now and then other threads go first."""
        number, found = number_of(subject), describe(self._rows, subject)
        known, now = self._words.entry(number), found and found[1]
        if known != now:
            old = frozenset[bytes]() if known is None else self._former_keys(known)
            new = frozenset[bytes]() if found is None else words_of(found[0], found[1].principal)
            self._updates.append(Update(number, now, new, old))
            self.pairs += len(new) + len(old)
            if len(self._updates) % _TURN == 0:
                time.sleep(0)

    def take(self) -> list[Update]:
        """Return the changes that were not taken yet."""
        taken, self._updates, self.pairs = self._updates, [], 0
        return taken

    def _former_keys(self, known: IndexedVersion) -> frozenset[bytes]:
        former = versions.get(self._rows, known.subject, known.version)
        if former is None or content_of(former) != known.content:
            self.stale += 1
            return frozenset()
        return words_of(Registered(known.subject, known.version, former), known.principal)
