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
        # The applied offsets at which the last round and this one began.
        self._done_at = self._round_at = -1
        self._begin()

    def _begin(self) -> None:
        self._at, self._subject, self._live = layout.VERSION, b"", False
        # Versions by type, as in their rows, and state.
        self._versions: Counter[tuple[bytes, bool]] = Counter()
        self._subjects: Counter[str] = Counter()

    @property
    def ended(self) -> bool:
        """True between two rounds."""
        return self._at == layout.VERSION

    def stock(self) -> Stock | None:
        """Return the numbers; those of a large store are of the last round, ``None`` before its end."""
        if self._store.stat().rows <= AT_ONCE_ROWS_MAX:
            for _ in range(2):  # The first round may have begun before the newest rows were there.
                while self._done_at != self._store.applied and not self.count(AT_ONCE_ROWS_MAX):
                    pass
        return self._done

    def count(self, rows_max: int) -> bool:
        """Count up to ``rows_max`` more versions; return true after the last one of a round.

        A new round is not begun, and ended at once, if nothing has been applied since the last one began.
        """
        with self._counting:
            if self.ended:
                if self._done_at == self._store.applied:
                    return True
                self._round_at = self._store.applied
            with self._store.view() as view:
                for _ in range(rows_max):
                    row = view.seek(self._at)
                    if row is None or not row[0].startswith(layout.VERSION):
                        self._end()
                        return True
                    self._add(*row)
                    self._at = row[0] + b"\0"
            return False

    def _add(self, key: bytes, value: bytes) -> None:
        if key[:-4] != self._subject:
            self._end_subject()
            self._subject, self._live = key[:-4], False
        deleted = version_row.is_deleted(value)
        self._live = self._live or not deleted
        self._versions[version_row.type_of(value), deleted] += 1

    def _end_subject(self) -> None:
        if self._subject:
            self._subjects[LIVE if self._live else DELETED] += 1

    def _end(self) -> None:
        self._end_subject()
        versions: Counter[tuple[str, str]] = Counter()
        for (kind, deleted), count in self._versions.items():
            versions[kind.decode().strip('"'), DELETED if deleted else LIVE] = count
        self._done, self._done_at = Stock(versions, self._subjects), self._round_at
        self._begin()
