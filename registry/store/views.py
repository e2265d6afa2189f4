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
from registry.domain.queries.sensitive_metadata import Cipher, PlainView
from registry.domain.rows.layout import ID, VERSION
from registry.domain.rows.version_row import offset_of
from registry.domain.rows.view import Block, History, View

from . import id_counts
from .indexes import StoreHistory
from .layout import (
    META_LINEAGE,
    META_MISMATCH,
    META_REVISION,
    META_STATE,
    State,
    applied_of,
    are_valid,
    block_at,
)

Row = tuple[bytes, bytes]

# So many rows in a row may be left out of a list; a walk over more of them is refused.
LEFT_OUT_MAX = 64


class ProvenView:
    """A view without the versions whose records the log may lack.

    An id means a schema within one log only, and every answer about a schema comes from its version's row:
    the rows of ids and guids only lead there. So a version whose record is not proven to be in the log is
    left out of lists, and refused where it is asked for by its key. If nothing is proven, all are refused.
    """

    __slots__ = ("_mismatch", "_view")

    def __init__(self, view: View, mismatch: Mismatch) -> None:
        self._view = view
        self._mismatch = mismatch

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``. Raises 503 for a version that is not proven."""
        value = self._view.get(key)
        if value is not None and not self._is_proven(key, value):
            raise NOT_OF_THE_LOG(self._mismatch.reason)
        return value

    def seek(self, key: bytes) -> Row | None:
        """Return the first proven row whose key is ``key`` or greater. Raises 503."""
        return self._first_proven(self._view.seek(key), lambda last: self._view.seek(last + b"\0"))

    def seek_back(self, key: bytes) -> Row | None:
        """Return the last proven row whose key is less than ``key``. Raises 503."""
        return self._first_proven(self._view.seek_back(key), self._view.seek_back)

    def revision(self) -> None:
        """Return nothing: not all rows are shown."""

    def block(self, key: bytes) -> Block | None:
        """Return nothing: blocks count all rows."""

    def history(self) -> History | None:
        """Raise 503: the history has ids of records that the log may lack."""
        raise NOT_OF_THE_LOG(self._mismatch.reason)

    def _first_proven(self, row: Row | None, following: Callable[[bytes], Row | None]) -> Row | None:
        left_out = 0
        while row is not None and not self._is_proven(*row):
            left_out += 1
            if not self._mismatch.common or left_out > LEFT_OUT_MAX:
                raise NOT_OF_THE_LOG(self._mismatch.reason)
            row = following(row[0])
        return row

    def _is_proven(self, key: bytes, value: bytes) -> bool:
        return not key.startswith(VERSION) or offset_of(value) < self._mismatch.common


class Standing(NamedTuple):
    """The relation of the rows of one moment to their log."""

    # The applied offset.
    applied: int = 0
    # The finding that the log is not the one from which they were folded.
    mismatch: Mismatch | None = None


# One entry: a moment and the standing at it. Saves most reads of the meta table.
Memo = list[tuple[int, Standing]]
NO_MEMO = (-1, Standing())
_GONE: Any = None  # what a view had while it lasted


class AppliedView(View, AbstractContextManager["AppliedView"], Protocol):
    """A store's rows at one applied offset, for a ``with`` block."""

    # A number that no other commit has, in this process; ``None`` if the rows are not shown as they are.
    moment: int | None

    def applied(self) -> int:
        """Return the applied offset of the rows in this view."""
        ...


class StoreView:
    """A read transaction as a :class:`registry.domain.rows.view.View`; ends with its ``with`` block.

    Must be short: while it lasts, none of the pages that it sees can be reused. One thread at a time uses it.
    """

    __slots__ = (
        *("_blocks", "_counted", "_cursor", "_history", "_memo", "_meta", "_rows", "_standing", "_txn"),
        *("get", "moment"),
    )

    get: Callable[[bytes], bytes | None]

    def __init__(
        self,
        txn: lmdb.Transaction[bytes],
        rows: Any,
        meta: Any,
        history: Any = None,
        moment: int | None = None,
        memo: Memo | None = None,
    ) -> None:
        """``txn``: a read transaction on the table ``rows``. ``memo``: of views with a ``moment``."""
        self._txn = txn
        self._rows = rows
        self._meta = meta
        self._history = history
        self.moment = moment
        self._memo = memo
        self._cursor: lmdb.Cursor[bytes] | None = None
        self._blocks: lmdb.Cursor[bytes] | None = None
        self._counted: bool | None = None
        self._standing: Standing | None = None
        # The transaction's own method, so that a read by id is a single call into LMDB.
        self.get = self._txn.get

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._txn.abort()
        # A variable that still holds the view must not keep the environment open.
        self._txn = self._cursor = self._blocks = self.get = _GONE

    def state(self) -> State:
        """Return the applied offset and digest of the rows in this view."""
        return State.unpack(self._txn.get(META_STATE, db=self._meta) or b"")

    def lineage(self) -> Lineage:
        """Return the lineage of the log that these rows fold. Raises :class:`ValueError`."""
        return Lineage.unpack(self._txn.get(META_LINEAGE, db=self._meta) or b"")

    def applied(self) -> int:
        """Return the applied offset of the rows in this view."""
        return (self._standing or self.standing()).applied

    def standing(self) -> Standing:
        """Return the relation of the rows in this view to their log."""
        memo, moment = self._memo, self.moment
        if memo is not None and memo[0][0] == moment:
            self._standing = standing = memo[0][1]
            return standing
        applied = applied_of(self._txn.get(META_STATE, db=self._meta) or b"")
        mismatch = Mismatch.unpack(self._txn.get(META_MISMATCH, db=self._meta))
        self._standing = standing = Standing(applied, mismatch)
        if memo is not None and moment is not None:
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
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = self._txn.cursor()
        return cursor.item() if cursor.set_range(key) else None

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = self._txn.cursor()
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


class _Over:
    """The part of a view over another one that ends with that one's ``with`` block."""

    __slots__ = ()
    _view: AppliedView
    moment: int | None = None

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


def client_view(view: AppliedView, mismatch: Mismatch | None, cipher: Cipher | None) -> AppliedView:
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
