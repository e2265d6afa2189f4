"""A view of some owners' rows, which asks for those of others when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from registry.domain.rows import layout
from registry.domain.rows.memory_views import DictView

from .moment import CONTEXTS
from .replay import TABLES

Row = tuple[bytes, bytes]


class Unloaded(Exception):
    """Raised by a read of rows that are not there yet; ``owner``: the one whose rows are needed."""

    def __init__(self, owner: bytes) -> None:
        super().__init__(owner)
        self.owner = owner


class OwnersView:
    """The rows of some owners at one moment, in the tables of :mod:`.replay`; others cannot be read.

    A seek begins with a whole owner, except over contexts, and ends with the owner's rows in its table.
    """

    def __init__(self, rows: Mapping[bytes, Iterable[Row]]) -> None:
        self._owners = frozenset(rows)
        self._rows = DictView(row for each in rows.values() for row in each)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        self._require(_owner(key))
        return self._rows.get(key)

    def seek(self, key: bytes) -> Row | None:
        """Return the first row of the same owner and table whose key is ``key`` or greater."""
        owner = CONTEXTS if key[:1] == layout.CONTEXT else _owner(key)
        self._require(owner)
        return _within(key[:1] + owner, self._rows.seek(key))

    def seek_back(self, key: bytes) -> Row | None:
        """Return the last row of the same owner and table whose key is less than ``key``."""
        # What follows all keys of an owner ends with another byte than the owner itself.
        ends = key.count(b"\0") == 1 and key.endswith(b"\x01")
        owner = key[1:-1] + b"\0" if ends else _owner(key)
        self._require(owner)
        return _within(key[:1] + owner, self._rows.seek_back(key))

    def _require(self, owner: bytes) -> None:
        if owner not in self._owners:
            raise Unloaded(owner)

    def revision(self) -> None:
        """Return nothing: these rows have no revision."""

    def block(self, key: bytes) -> None:
        """Return nothing: these rows are not counted."""

    def history(self) -> None:
        """Return nothing: these rows come without their history."""


def _owner(key: bytes) -> bytes:
    """Return the owner that a key names."""
    table, context_end = key[:1], key.find(b"\0") + 1
    if table == layout.CONTEXT and context_end == len(key):
        return key[1:] + b"\0"
    if table not in TABLES or not context_end:
        raise ValueError(f"a view of the past has no rows at {key!r}")
    name_end = key.find(b"\0", context_end) + 1
    # Walks of versions begin before the zero byte that ends the name.
    return key[1:name_end] if name_end else key[1:] + b"\0"


def _within(prefix: bytes, row: Row | None) -> Row | None:
    return row if row is not None and row[0].startswith(prefix) else None
