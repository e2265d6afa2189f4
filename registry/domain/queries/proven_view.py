"""The rows of a store whose log has turned out to be another one, as far as that log holds them too."""

from __future__ import annotations

from collections.abc import Callable

from registry.domain.errors import NOT_OF_THE_LOG
from registry.domain.log_format.lineage import Mismatch
from registry.domain.rows.layout import VERSION
from registry.domain.rows.version_row import offset_of
from registry.domain.rows.view import Block, History, View

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
        """Raise 503: the history tells ids of records that the log may lack."""
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
