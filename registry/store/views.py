"""Views: the rows of an LMDB environment at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self

import lmdb

from registry.domain.log_format.lineage import Lineage
from registry.domain.queries.sensitive_metadata import Cipher, PlainView
from registry.domain.rows.blocks import Block
from registry.domain.rows.view import View

from .counts import Counted, block_at
from .layout import META_COUNTED, META_LINEAGE, META_REVISION, META_STATE, State, applied_of

Memo = list[tuple[int, int]]
"""One entry: the number of a transaction, and the applied offset at it; spares most reads of the meta."""


class AppliedView(View, AbstractContextManager["AppliedView"], Protocol):
    """Rows of a store, for a ``with`` block, that know which offset they stand for."""

    def applied(self) -> int:
        """Return the applied offset of the very rows that this view sees."""
        ...


class StoreView:
    """A read transaction as a :class:`registry.domain.rows.view.View`; ends with its ``with`` block.

    Short by rule: while it lasts, no page that it sees is used again. It belongs to one thread.
    """

    __slots__ = ("_blocks", "_counted", "_cursor", "_memo", "_meta", "_rows", "_txn", "get")

    get: Callable[[bytes], bytes | None]

    def __init__(self, env: lmdb.Environment, rows: Any, meta: Any, memo: Memo | None = None) -> None:
        self._txn: lmdb.Transaction[bytes] = env.begin(rows)
        self._rows = rows
        self._meta = meta
        self._memo = memo
        self._cursor: lmdb.Cursor[bytes] | None = None
        self._blocks: lmdb.Cursor[bytes] | None = None
        self._counted: Counted | None = None
        # The transaction's own method: a by-id read is one call into LMDB.
        self.get = self._txn.get

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        # A name that still holds the view must not keep the environment, which may have to be opened again.
        del self._txn, self._cursor, self._blocks, self.get

    def state(self) -> State:
        """Applied offset and digest of the very rows that this view sees."""
        return State.unpack(self._txn.get(META_STATE, db=self._meta) or b"")

    def lineage(self) -> Lineage:
        """What is remembered of the log that these rows are the fold of. Raises :class:`ValueError`."""
        return Lineage.unpack(self._txn.get(META_LINEAGE, db=self._meta) or b"")

    def applied(self) -> int:
        """The applied offset of the very rows that this view sees."""
        memo, moment = self._memo, self._txn.id()
        if memo is not None and memo[0][0] == moment:
            return memo[0][1]
        applied = applied_of(self._txn.get(META_STATE, db=self._meta) or b"")
        if memo is not None:
            memo[0] = (moment, applied)
        return applied

    def revision(self) -> bytes | None:
        """See :class:`registry.domain.rows.view.View`."""
        return self._txn.get(META_REVISION, db=self._meta)

    def block(self, key: bytes) -> Block | None:
        """See :class:`registry.domain.rows.view.View`."""
        if self._counted is None:
            self._counted = Counted.unpack(self._txn.get(META_COUNTED, db=self._meta))
            if self._counted.complete(applied_of(self._txn.get(META_STATE, db=self._meta) or b"")):
                self._blocks = self._txn.cursor(self._meta)
        return None if self._blocks is None else block_at(self._blocks, key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The first row whose key is ``key`` or greater."""
        cursor = self._cursor or self._open_cursor()
        return cursor.item() if cursor.set_range(key) else None

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The last row whose key is less than ``key``."""
        cursor = self._cursor or self._open_cursor()
        found = cursor.prev() if cursor.set_range(key) else cursor.last()
        return cursor.item() if found else None

    def batches(self, rows_max: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """All rows in the order of their keys, in lists of so many."""
        with self._txn.cursor(self._rows) as cursor:
            rows = iter(cursor)
            while batch := list(islice(rows, rows_max)):
                yield batch

    def _open_cursor(self) -> lmdb.Cursor[bytes]:
        self._cursor = self._txn.cursor(self._rows)
        return self._cursor


class DecryptedView(PlainView):
    """A store's view whose rows show sensitive metadata in clear."""

    __slots__ = ("_store_view",)

    def __init__(self, view: StoreView, cipher: Cipher) -> None:
        super().__init__(view, cipher)
        self._store_view = view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store_view.__exit__(kind, error, trace)

    def applied(self) -> int:
        """See :meth:`StoreView.applied`."""
        return self._store_view.applied()


def decrypted(view: StoreView, cipher: Cipher | None) -> AppliedView:
    """Return the view as whoever has the keys sees it."""
    return view if cipher is None else DecryptedView(view, cipher)
