"""The history in a store's environment: a table of its own, outside of the rows and their digest.

Which parts of the log it holds stands in the table ``meta``. Both change in one transaction, with the rows if
they come next; so after a kill the history lacks nothing of what it says that it holds.
"""

from __future__ import annotations

from typing import Any

import lmdb

from registry.domain.history.entries import Slice
from registry.domain.rows.view import Span, is_foreign, joined, pack, unpack

from .indexes import Adopt, Commit
from .layout import META_HISTORY, META_STATE, applied_of


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
        spans = joined(self.spans, new.span)
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
