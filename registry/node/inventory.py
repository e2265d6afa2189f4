"""Numbers of subjects and versions in the store, counted in small steps."""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

from registry.domain.rows import layout, version_row
from registry.store.lmdb import Store

AT_ONCE_ROWS_MAX = 20_000
LIVE, DELETED = "live", "soft_deleted"


class Stock(NamedTuple):
    """The numbers of one round through the store."""

    # Versions by type and state.
    versions: Counter[tuple[str, str]]
    # Subjects by state: live with any live version, else soft-deleted.
    subjects: Counter[str]

    def in_state(self, state: str) -> int:
        """Return the number of versions in a state."""
        return sum(count for (_, found), count in self.versions.items() if found == state)

    def of_type(self, kind: str) -> int:
        """Return the number of versions of a type."""
        return sum(count for (found, _), count in self.versions.items() if found == kind)


class Inventory:
    """Counts versions; thread-safe. A small store is counted when asked, a large one in rounds of steps."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._done: Stock | None = None
        self._done_at = -1  # the applied offset at which the last round began
        self._begin()

    def _begin(self) -> None:
        self._at, self._subject, self._live = layout.VERSION, b"", False
        self._round, self._round_at = Stock(Counter(), Counter()), self._store.applied

    def stock(self) -> Stock:
        """Return the numbers; those of a large store are of the last round."""
        if self._done is None or self._store.stat().rows <= AT_ONCE_ROWS_MAX:
            for _ in range(2):  # The first round may have begun before the newest rows were there.
                while self._done_at != self._store.applied and not self.count(AT_ONCE_ROWS_MAX):
                    pass
        assert self._done is not None
        return self._done

    def count(self, rows_max: int) -> bool:
        """Count up to ``rows_max`` more versions; return true after the last one of a round."""
        with self._counting, self._store.view() as view:
            for _ in range(rows_max):
                row = view.seek(self._at)
                if row is None or not row[0].startswith(layout.VERSION):
                    self._end_subject()
                    self._done, self._done_at = self._round, self._round_at
                    self._begin()
                    return True
                self._add(*row)
                self._at = row[0] + b"\0"
            return False

    def _add(self, key: bytes, value: bytes) -> None:
        if key[:-4] != self._subject:
            self._end_subject()
            self._subject, self._live = key[:-4], False
        live = not version_row.is_deleted(value)
        self._live = self._live or live
        kind = version_row.type_of(value).decode().strip('"')
        self._round.versions[kind, LIVE if live else DELETED] += 1

    def _end_subject(self) -> None:
        if self._subject:
            self._round.subjects[LIVE if self._live else DELETED] += 1
            self._subject = b""
