"""Views in memory: rows in a dict, and changes on top of another view."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import count, islice

from .layout import CLEAR, VERSION, after
from .version_row import changes_revision
from .view import Block, Change, History, View

_numbers = count()


class _SortedKeys:
    """The keys of a dict in order, sorted only on demand.

    A dict keeps the order of insertion, so new keys stand at its end, and sorting them in merges two runs.
    This requires that keys are only ever added to the dict.
    """

    def __init__(self, source: dict[bytes, bytes | None]) -> None:
        self._source = source
        self._keys: list[bytes] = []

    def get(self) -> list[bytes]:
        """Return the keys, ascending; valid until the dict changes."""
        source, keys = self._source, self._keys
        if len(keys) != len(source):
            keys.extend(islice(reversed(source), len(source) - len(keys)))
            keys.sort()
        return keys


class DictView:
    """Rows in memory: a small store for tests, or the rows of one owner."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._rows: dict[bytes, bytes | None] = dict(rows)
        self._keys = _SortedKeys(self._rows)
        self._dead = 0

    def revision(self) -> None:
        """Return nothing: rows in memory have no revision."""

    def block(self, key: bytes) -> None:
        """Return nothing: rows in memory are not counted."""

    def history(self) -> History | None:
        """Return nothing: rows in memory have no history."""
        return None

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        return self._rows.get(key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        keys = self._keys.get()
        for index in range(bisect_left(keys, key), len(keys)):
            value = self._rows[keys[index]]
            if value is not None:
                return keys[index], value
        return None

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        keys = self._keys.get()
        for index in range(bisect_left(keys, key) - 1, -1, -1):
            value = self._rows[keys[index]]
            if value is not None:
                return keys[index], value
        return None

    def commit(self, changes: Iterable[Change]) -> None:
        """Put and delete rows."""
        for key, value in changes:
            if value is None:
                if self._rows.get(key) is not None:
                    self._rows[key] = None
                    self._dead += 1
            else:
                if key in self._rows and self._rows[key] is None:
                    self._dead -= 1
                self._rows[key] = value
        if self._dead > 64 and self._dead * 2 > len(self._rows):
            self._remove_deleted()

    def _remove_deleted(self) -> None:
        # Deleted rows stay as None to keep the order of keys; once half of the rows are dead, they are
        # removed.
        self._rows = dict(self.rows())
        self._keys = _SortedKeys(self._rows)
        self._dead = 0

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all rows, ascending."""
        for key in self._keys.get():
            value = self._rows[key]
            if value is not None:
                yield key, value


class MovingView:
    """A view that reads from the view it was last given, for walks that outlive one view."""

    __slots__ = ("block", "get", "history", "seek", "seek_back")

    get: Callable[[bytes], bytes | None]
    seek: Callable[[bytes], tuple[bytes, bytes] | None]
    seek_back: Callable[[bytes], tuple[bytes, bytes] | None]
    block: Callable[[bytes], Block | None]
    history: Callable[[], History | None]

    def __init__(self) -> None:
        self.show(_NOTHING)

    def show(self, view: View) -> None:
        """Read from ``view`` from now on."""
        self.get, self.seek, self.seek_back = view.get, view.seek, view.seek_back
        self.block, self.history = view.block, view.history

    def revision(self) -> Hashable | None:
        """Return nothing: the next rows may come from another moment."""
        return None

    def hide(self) -> None:
        """Release the view; there are no rows until another one is shown."""
        self.show(_NOTHING)


_NOTHING = DictView()


class OverlayView:
    """Changes on top of a view, so that a batch sees its own earlier changes before they are committed.

    ``changes`` stays the caller's and may grow between reads, but only :meth:`clear` may take anything out.
    """

    def __init__(self, base: View, changes: dict[bytes, bytes | None] | None = None) -> None:
        self.base = base
        self.changes: dict[bytes, bytes | None] = {} if changes is None else changes
        self._keys = _SortedKeys(self.changes)
        self._disturbed = 0

    def commit(self, changes: Iterable[Change]) -> None:
        """Add changes on top of the view."""
        new = list(changes)
        if any(changes_revision(self, key, value, self.get(key)) for key, value in new if key[:1] == VERSION):
            self._disturbed = next(_numbers) + 1
        self.changes.update(new)

    def clear(self) -> None:
        """Remove all changes before the next batch."""
        self.changes.clear()
        self._keys = _SortedKeys(self.changes)
        self._disturbed = 0

    def revision(self) -> Hashable | None:
        """Return the revision of the view below, unless changes were committed here that alter it."""
        base = self.base.revision()
        return (base, self._disturbed) if base is not None and self._disturbed else base

    def block(self, key: bytes) -> Block | None:
        """Return the block of the view below, unless changes here affect its counts."""
        block = self.base.block(key)
        if (
            block is None
            or self._has_changed(CLEAR, after(CLEAR))
            or self._has_changed(block.begin, block.end)
        ):
            return None
        return block

    def history(self) -> History | None:
        """Return the history of the view below, without the changes here."""
        return self.base.history()

    def _has_changed(self, begin: bytes, end: bytes) -> bool:
        keys = self._keys.get()
        at = bisect_left(keys, begin)
        return at < len(keys) and keys[at] < end

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        if key in self.changes:
            return self.changes[key]
        return self.base.get(key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        keys, under = self._keys.get(), self.base.seek(key)
        for index in range(bisect_left(keys, key), len(keys)):
            above = keys[index]
            if under is not None and under[0] < above:
                return under
            if under is not None and under[0] == above:
                under = self.base.seek(above + b"\0")
            value = self.changes[above]
            if value is not None:
                return above, value
        return under

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        keys, under = self._keys.get(), self.base.seek_back(key)
        for index in range(bisect_left(keys, key) - 1, -1, -1):
            above = keys[index]
            if under is not None and under[0] > above:
                return under
            if under is not None and under[0] == above:
                under = self.base.seek_back(above)
            value = self.changes[above]
            if value is not None:
                return above, value
        return under


# Rows that are remembered, and the bytes of the largest one.
_KNOWN_MAX, _KNOWN_BYTES_MAX = 4_000, 1_024


class RememberingView(OverlayView):
    """An overlay that remembers rows of the view below, which must not change, once they were asked for.

    The commands of a batch ask for the same configs and modes, most of which are missing.
    """

    def __init__(self, base: View) -> None:
        super().__init__(base)
        self._known: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        if key in self.changes:
            return self.changes[key]
        known = self._known
        if key in known:
            return known[key]
        value = self.base.get(key)
        if len(known) < _KNOWN_MAX and (value is None or len(value) <= _KNOWN_BYTES_MAX):
            known[key] = value
        return value
