"""Indexes of a store: what it derives from its rows and records in the transaction of each commit.

Each is an :class:`Index`; :meth:`.lmdb.Store.commit_folded` asks them one after another. Here are those of
the rows as a whole (their digest with the position in the log, the log's lineage, and the revision) and the
history. The counts (:mod:`.counts`, :mod:`.id_counts`) are where they are read.

Which parts of the log the history holds stands in the table ``meta``. Both change in one transaction, with
the rows if they come next; so after a kill the history lacks nothing of what it says that it holds.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Protocol

import lmdb

from registry.domain.history.entries import Slice
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.rows.digest import MODULUS, row_hash, total
from registry.domain.rows.view import Change, Span, is_foreign, join_span, pack, unpack

from .layout import (
    META_HISTORY,
    META_LINEAGE,
    META_REVISION,
    META_STATE,
    DamagedStore,
    State,
    Touched,
    applied_of,
)

# Called once the transaction of a commit has ended: remembers what was written.
Adopt = Callable[[], None]


class Commit:
    """A commit under way: what changes, and the transaction, in which the rows have changed already."""

    __slots__ = (
        "_blocks", "applied", "changed", "clears", "counted", "disturbed", "history", "lineage", "meta",
        "new", "replaced", "rows", "txn", "versions",
    )  # fmt: skip

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        rows: lmdb.Cursor[bytes],
        meta: Any,
        new: Sequence[tuple[bytes, bytes]],
        changed: Sequence[Change],
        applied: int,
        lineage: Lineage,
        history: Slice | None,
    ) -> None:
        self.txn = txn
        # A cursor over the rows, and the table of meta rows.
        self.rows = rows
        self.meta = meta
        # As in Store.commit_folded.
        self.new = new
        self.changed = changed
        self.applied = applied
        self.lineage = lineage
        self.history = history
        # Of changed rows: those that existed before, with their former values.
        self.replaced: list[tuple[bytes, bytes]] = []
        # Changed versions and keys of clears; neither is complete if there are new rows.
        self.versions: list[Touched] = []
        self.clears: list[bytes] = []
        # True if rows may have changed that lists cache. New rows come by the thousand; where they go is not
        # checked.
        self.disturbed = bool(new)
        # False if the counts of versions do not hold any more.
        self.counted = True
        self._blocks: lmdb.Cursor[bytes] | None = None

    @property
    def blocks(self) -> lmdb.Cursor[bytes]:
        """A cursor over the meta rows."""
        if self._blocks is None:
            self._blocks = self.txn.cursor(self.meta)
        return self._blocks


class Index(Protocol):
    """Something that a store derives from its rows or their log."""

    def on_commit(self, commit: Commit) -> Adopt | None:
        """Write what follows from a commit in its transaction; return what remembers it, if anything does."""


class Digest:
    """The position of the rows in the log and their digest, which a scrub compares with the rows."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._scrubbed = b""  # the scrub has seen the rows below this key
        self._scrub_sum = 0  # of their hashes

    def on_commit(self, commit: Commit) -> Adopt:
        """Add the hashes of rows that came and subtract those of rows that went."""
        new, changed, scrubbed = commit.new, commit.changed, self._scrubbed
        delta = total(new) + total(changed)
        seen = total(_before(scrubbed, new)) + total(_before(scrubbed, changed)) if scrubbed else 0
        for key, old in commit.replaced:
            gone = row_hash(key, old)
            delta -= gone
            if key < scrubbed:
                seen -= gone
        state = State(commit.applied, (self.state.digest + delta) % MODULUS)
        commit.txn.put(META_STATE, state.pack(), db=commit.meta)

        def adopt() -> None:
            self.state = state
            self._scrub_sum += seen

        return adopt

    def scrub(self, rows: lmdb.Cursor[bytes], rows_max: int) -> bool:
        """Add the hashes of the next rows; return true at the end of a round, if it found no difference.

        Raises :class:`.layout.DamagedStore` if the rows do not match the digest.
        """
        found, last = self._scrub_sum, None
        for key, value in islice(rows if rows.set_range(self._scrubbed) else (), rows_max):
            found += row_hash(key, value)
            last = key
        if last is not None:
            self._scrubbed, self._scrub_sum = last + b"\0", found
            return False
        self._scrubbed, self._scrub_sum = b"", 0
        if found % MODULUS != self.state.digest:
            raise DamagedStore("its rows do not match the stored digest")
        return True


class LineageIndex:
    """The lineage of the log that was applied; a commit that does not know it leaves it as it was."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage

    def on_commit(self, commit: Commit) -> Adopt | None:
        """Replace the lineage by that of the commit."""
        lineage = commit.lineage
        if lineage == NOTHING:
            return None
        commit.txn.put(META_LINEAGE, lineage.pack(), db=commit.meta)

        def adopt() -> None:
            self.lineage = lineage

        return adopt


class Revision:
    """A value that changes when rows change that lists cache."""

    def on_commit(self, commit: Commit) -> None:
        """Change the value if rows were disturbed."""
        if commit.disturbed:
            commit.txn.put(META_REVISION, new_revision(), db=commit.meta)


def new_revision() -> bytes:
    """Return a value that no store had before."""
    return os.urandom(8)


def _before(end: bytes, rows: Sequence[Change]) -> Sequence[Change]:
    """Return the rows, given in ascending order, whose keys are less than ``end``."""
    return rows[: bisect_left(rows, (end,))] if end else ()


class StoreHistory:
    """The history of a read transaction, see :class:`registry.domain.rows.view.History`."""

    __slots__ = ("_cursor", "_meta", "_txn")

    def __init__(self, txn: lmdb.Transaction[bytes], table: Any, meta: Any) -> None:
        self._txn, self._meta = txn, meta
        self._cursor: lmdb.Cursor[bytes] = txn.cursor(table)

    def spans(self) -> tuple[Span, ...]:
        """Return the parts of the log that the history holds."""
        return spans_in(self._txn, self._meta)

    def applied(self) -> int:
        """Return the applied offset of the rows at the same moment."""
        return applied_of(self._txn.get(META_STATE, db=self._meta) or b"")

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first entry whose key is ``key`` or greater."""
        return self._cursor.item() if self._cursor.set_range(key) else None

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last entry whose key is less than ``key``."""
        cursor = self._cursor
        found = cursor.prev() if cursor.set_range(key) else cursor.last()
        return cursor.item() if found else None


class HistoryIndex:
    """The history that commits extend, see :mod:`.indexes`; ``table`` holds its entries."""

    def __init__(self, txn: lmdb.Transaction[bytes], table: Any, meta: Any) -> None:
        self._table = table
        self._meta = meta
        self.spans = spans_in(txn, meta)

    def on_commit(self, commit: Commit) -> Adopt | None:
        """Add the part of the log that was applied, if it is to be kept."""
        return None if commit.history is None else self.add(commit.txn, commit.history)

    def add(self, txn: lmdb.Transaction[bytes], new: Slice) -> Adopt:
        """Add a part of the log, of which the history holds nothing yet."""
        spans = join_span(self.spans, new.span)
        with txn.cursor(self._table) as cursor:
            cursor.putmulti(sorted(new.entries))
        txn.put(META_HISTORY, pack(spans), db=self._meta)

        def adopt() -> None:
            self.spans = spans

        return adopt

    def clear(self, txn: lmdb.Transaction[bytes]) -> Adopt:
        """Empty the history; its pages can then be used by rows."""
        clear(txn, self._table, self._meta)

        def adopt() -> None:
            self.spans = ()

        return adopt


def prepare(txn: lmdb.Transaction[bytes], table: Any, meta: Any) -> None:
    """Empty a history that another release has written in a format of its own."""
    if is_foreign(txn.get(META_HISTORY, db=meta) or b""):
        clear(txn, table, meta)


def clear(txn: lmdb.Transaction[bytes], table: Any, meta: Any) -> None:
    """Empty the history; its pages can then be used by rows."""
    txn.drop(table, delete=False)
    txn.delete(META_HISTORY, db=meta)


def spans_in(txn: lmdb.Transaction[bytes], meta: Any) -> tuple[Span, ...]:
    """Return the parts of the log that the history holds."""
    return unpack(txn.get(META_HISTORY, db=meta) or b"")
