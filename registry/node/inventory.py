"""Numbers of subjects and versions in the store, and of ids used, counted in small steps."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from heapq import nlargest
from typing import NamedTuple

from registry.domain.log_format.records import FREE_RANGE_MARK
from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.queries.id_space import id_space, id_usage
from registry.domain.rows import layout, version_row
from registry.domain.rows.view import View
from registry.store.lmdb import Store

SMALL_ROWS_MAX = 20_000
# So many rows take about a millisecond.
STEP_ROWS = 200
LIVE, DELETED = "live", "soft_deleted"
# Number of contexts, besides the default one, whose use of ids is reported: those that have used most.
FULLEST = 9


class Stock(NamedTuple):
    """The numbers of one round through the store."""

    # Versions by type and state.
    versions: Counter[tuple[str, str]]
    # Subjects by state: live with any live version, else soft-deleted.
    subjects: Counter[str]
    # The shares of ids used, by context.
    ids_used: dict[str, float]

    def in_state(self, state: str) -> int:
        """Return the number of versions in a state."""
        return sum(count for (_, found), count in self.versions.items() if found == state)

    def of_type(self, kind: str) -> int:
        """Return the number of versions of a type."""
        return sum(count for (found, _), count in self.versions.items() if found == kind)


class Inventory:
    """Counts versions in rounds of steps; thread-safe. A small store is counted when asked, too."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counting = threading.Lock()
        self._done: Stock | None = None
        # The applied offsets at which the last round and this one began.
        self._done_at = self._round_at = -1
        self._begin()

    def _begin(self) -> None:
        self._at, self._subject, self._live = layout.RESERVATION, b"", False
        # Versions by type, as in their rows, and state.
        self._versions: Counter[tuple[bytes, bool]] = Counter()
        self._subjects: Counter[str] = Counter()
        self._fullest: list[tuple[float, str]] = []

    @property
    def is_between_rounds(self) -> bool:
        """True between two rounds."""
        return self._at == layout.RESERVATION

    @property
    def stock(self) -> Stock | None:
        """The numbers of the last round; ``None`` before its end."""
        return self._done

    async def recount(self) -> None:
        """Count a small store as it is now, in steps between which the event loop serves others."""
        for _ in range(2):  # The first round may have begun before the newest rows were there.
            while self._is_behind() and not self.count(STEP_ROWS):  # noqa: ASYNC110 (it waits for nothing)
                await asyncio.sleep(0)

    def _is_behind(self) -> bool:
        return self._done_at != self._store.applied and self._store.stat().rows <= SMALL_ROWS_MAX

    def count(self, rows_max: int) -> bool:
        """Count up to ``rows_max`` more versions; return true after the last one of a round.

        A new round is not begun, and ended at once, if nothing has been applied since the last one began.
        """
        with self._counting:
            if self.is_between_rounds:
                if self._done_at == self._store.applied:
                    return True
                self._round_at = self._store.applied
            with self._store.view() as view:
                for _ in range(rows_max):
                    row = view.seek(self._at)
                    table = layout.VERSION if row is None else row[0][:1]
                    if row is None or table > layout.VERSION:
                        self._end(view)
                        return True
                    if table == layout.VERSION:
                        self._add(*row)
                    elif table == layout.RESERVATION:
                        self._add_context(view, row[0])
                    passed = table in (layout.VERSION, layout.RESERVATION)
                    self._at = row[0] + b"\0" if passed else layout.VERSION
            return False

    def _add_context(self, view: View, key: bytes) -> None:
        name = layout.unpart(key[1:-1]) or (view.get(layout.CONTEXT + key[1:]) or b"").decode()
        if FREE_RANGE_MARK not in name and name not in ("", DEFAULT_CONTEXT):
            self._fullest = nlargest(FULLEST, [*self._fullest, (_share_used(view, name), name)])

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

    def _end(self, view: View) -> None:
        self._end_subject()
        used = {DEFAULT_CONTEXT: _share_used(view, DEFAULT_CONTEXT)}
        used |= {context: share for share, context in self._fullest}
        versions: Counter[tuple[str, str]] = Counter()
        for (kind, deleted), count in self._versions.items():
            versions[kind.decode().strip('"'), DELETED if deleted else LIVE] = count
        self._done, self._done_at = Stock(versions, self._subjects, used), self._round_at
        self._begin()


def _share_used(view: View, context: str) -> float:
    return id_usage(view, context, id_space(view, context)).used
