"""Views: the rows of an LMDB environment at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import lmdb

from registry.domain.errors import NOT_OF_THE_LOG
from registry.domain.log_format.lineage import Lineage, Mismatch
from registry.domain.queries.proven_view import ProvenView
from registry.domain.queries.sensitive_metadata import Cipher, PlainView
from registry.domain.rows.layout import ID
from registry.domain.rows.view import Block, History, View

from . import id_counts
from .block_rows import are_valid, block_at
from .history import StoreHistory
from .layout import META_LINEAGE, META_MISMATCH, META_REVISION, META_STATE, State, applied_of


class Standing(NamedTuple):
    """The relation of the rows of one moment to their log."""

    # The applied offset.
    applied: int = 0
    # The finding that the log is not the one from which they were folded.
    mismatch: Mismatch | None = None


# One entry: a transaction's id and the standing in it. Saves most reads of the meta table.
Memo = list[tuple[int, Standing]]
NO_MEMO = (-1, Standing())


class AppliedView(View, AbstractContextManager["AppliedView"], Protocol):
    """A store's rows at one applied offset, for a ``with`` block."""

    def applied(self) -> int:
        """Return the applied offset of the rows in this view."""
        ...


class StoreView:
    """A read transaction as a :class:`registry.domain.rows.view.View`; ends with its ``with`` block.

    Must be short: while it lasts, none of the pages that it sees can be reused. It belongs to one thread.
    """

    __slots__ = ("_blocks", "_counted", "_cursor", "_history", "_memo", "_meta", "_rows", "_txn", "get")

    get: Callable[[bytes], bytes | None]

    def __init__(
        self, env: lmdb.Environment, rows: Any, meta: Any, memo: Memo | None = None, history: Any = None
    ) -> None:
        self._txn: lmdb.Transaction[bytes] = env.begin(rows)
        self._rows = rows
        self._meta = meta
        self._memo = memo
        self._history = history
        self._cursor: lmdb.Cursor[bytes] | None = None
        self._blocks: lmdb.Cursor[bytes] | None = None
        self._counted: bool | None = None
        # The transaction's own method, so that a read by id is a single call into LMDB.
        self.get = self._txn.get

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        # A variable that still holds the view must not keep the environment open.
        del self._txn, self._cursor, self._blocks, self.get

    def state(self) -> State:
        """Return the applied offset and digest of the rows in this view."""
        return State.unpack(self._txn.get(META_STATE, db=self._meta) or b"")

    def lineage(self) -> Lineage:
        """Return the lineage of the log that these rows fold. Raises :class:`ValueError`."""
        return Lineage.unpack(self._txn.get(META_LINEAGE, db=self._meta) or b"")

    def applied(self) -> int:
        """Return the applied offset of the rows in this view."""
        return self.standing().applied

    def standing(self) -> Standing:
        """Return the relation of the rows in this view to their log."""
        memo, moment = self._memo, self._txn.id()
        if memo is not None and memo[0][0] == moment:
            return memo[0][1]
        applied = applied_of(self._txn.get(META_STATE, db=self._meta) or b"")
        standing = Standing(applied, Mismatch.unpack(self._txn.get(META_MISMATCH, db=self._meta)))
        if memo is not None:
            memo[0] = (moment, standing)
        return standing

    def revision(self) -> bytes | None:
        """Return the revision of the rows, see :class:`registry.domain.rows.view.View`."""
        return self._txn.get(META_REVISION, db=self._meta)

    def block(self, key: bytes) -> Block | None:
        """Return the block that holds ``key``, see :class:`registry.domain.rows.view.View`."""
        if self._counted is None:
            self._counted = are_valid(self._txn, self._meta)
            if self._counted:
                self._blocks = self._txn.cursor(self._meta)
        if self._blocks is None:
            return None
        return id_counts.block_at(self._blocks, key) if key.startswith(ID) else block_at(self._blocks, key)

    def history(self) -> History | None:
        """Return the history of the same moment; ``None`` in a store that has none."""
        return None if self._history is None else StoreHistory(self._txn, self._history, self._meta)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        cursor = self._cursor or self._open_cursor()
        return cursor.item() if cursor.set_range(key) else None

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        cursor = self._cursor or self._open_cursor()
        found = cursor.prev() if cursor.set_range(key) else cursor.last()
        return cursor.item() if found else None

    def batches(self, rows_max: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield all rows in key order, in lists of at most ``rows_max``."""
        with self._txn.cursor(self._rows) as cursor:
            rows = iter(cursor)
            while batch := list(islice(rows, rows_max)):
                yield batch

    def keys(self, start: bytes) -> Iterator[bytes]:
        """Yield the keys of all rows from ``start`` on."""
        with self._txn.cursor(self._rows) as cursor:
            yield from cursor.iternext(keys=True, values=False) if cursor.set_range(start) else ()

    def _open_cursor(self) -> lmdb.Cursor[bytes]:
        self._cursor = self._txn.cursor(self._rows)
        return self._cursor


class _Over:
    """The part of a view over another one that ends with that one's ``with`` block."""

    __slots__ = ()
    _view: AppliedView

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._view.__exit__(kind, error, trace)

    def applied(self) -> int:
        """Return the applied offset of the rows in this view."""
        return self._view.applied()


class DecryptedView(_Over, PlainView):
    """A store's view with sensitive metadata decrypted."""

    __slots__ = ()
    _view: AppliedView


class ProvenRows(_Over, ProvenView):
    """A store's view without the versions whose records its log may lack."""

    __slots__ = ()
    _view: AppliedView


def decrypt(view: AppliedView, cipher: Cipher | None) -> AppliedView:
    """Return the view with sensitive metadata decrypted, if there is a cipher."""
    return view if cipher is None else DecryptedView(view, cipher)


def served(view: AppliedView, mismatch: Mismatch | None, cipher: Cipher | None) -> AppliedView:
    """Return the view as clients may see it: decrypted, and only as far as its log holds the rows.

    Raises 503, and ends the view, if nothing of it may be served.
    """
    if mismatch is None:
        return decrypt(view, cipher)
    if not mismatch.served:
        view.__exit__(None, None, None)
        raise NOT_OF_THE_LOG(mismatch.reason)
    # Where no record is in doubt, lists may skip blocks of rows as usual.
    shown = ProvenRows(view, mismatch) if mismatch.common < view.applied() else view
    return decrypt(shown, cipher)
