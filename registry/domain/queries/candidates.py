"""A view that shows, of the subjects, only those that may pass a filter, so that lists skip all others.

Lists walk it in each of their orders, as any other view. It may show more than what passes, so each subject
is checked: after some steps a seek ends where it is, because nothing can interrupt it.

An *owner* is a subject as in keys (:func:`.layout.owner_of`), which begin alike in the tables of versions,
configs and modes. A level or mode in force is a subject's own, or that of its context. So where a context has
another one, only the rows of subjects with their own are examined; elsewhere all subjects may pass.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from registry.domain.rows import layout
from registry.domain.rows.view import History, View

from . import scope
from .scope import Defaults

# Of one seek: candidates, and rows that are examined for each.
CANDIDATES_MAX: Final = 8
ROWS_MAX: Final = 32
_NUMBER_BYTES: Final = 4
_LAST: Final = b"\xff"


class Candidates(Protocol):
    """The owners that may pass a filter."""

    def following(self, owner: bytes) -> bytes:
        """Return ``owner`` if it may pass, else a key at or before the next one that may."""

    def preceding(self, owner: bytes) -> bytes:
        """Return a key after ``owner`` if it may pass, else one after the last one that may."""

    def restricts(self, context: str) -> bool:
        """Return true unless all subjects of a context may pass."""


class InForce:
    """The owners with their own row of a table that has a wanted value, and all of contexts that have it."""

    def __init__(
        self, view: View, table: bytes, has: Callable[[bytes], bool], inherits: Callable[[str], bool]
    ) -> None:
        """``has``: true for values of rows; ``inherits``: true for contexts whose subjects inherit it."""
        self._view = view
        self._table = table
        self._has = has
        self._inherits = inherits
        self._known: dict[bytes, bool] = {}  # by packed context: if all of its subjects may pass

    def following(self, owner: bytes) -> bytes:
        """Return ``owner`` if it may pass, else a key at or before the next one that may."""
        context = _context_of(owner)
        if self._admits_all(context):
            return owner
        for _ in range(ROWS_MAX):
            row = self._view.seek(self._table + owner)
            if row is None or not row[0].startswith(self._table + context):
                return layout.after(context)
            found = row[0][1:]
            if self._has(row[1]):
                return found
            owner = layout.after(found)
        return owner

    def preceding(self, owner: bytes) -> bytes:
        """Return a key after ``owner`` if it may pass, else one after the last one that may."""
        context, end = _context_of(owner), layout.after(owner)
        if self._admits_all(context):
            return end
        for _ in range(ROWS_MAX):
            row = self._view.seek_back(self._table + end)
            if row is None or not row[0].startswith(self._table + context):
                return context
            if self._has(row[1]):
                return layout.after(row[0][1:])
            end = row[0][1:]
        return end

    def restricts(self, context: str) -> bool:
        """Return true unless all subjects of a context may pass."""
        return not self._admits_all(layout.part(context))

    def _admits_all(self, packed: bytes) -> bool:
        found = self._known.get(packed)
        if found is None:
            context = layout.unpart(packed[:-1])
            found = self._known[packed] = context is None or self._inherits(context)
        return found


def with_level(view: View, level: str, defaults: Defaults) -> InForce:
    """Return the candidates for a compatibility level in force."""

    def has(value: bytes) -> bool:
        return scope.level_in(value, defaults) == level

    return InForce(
        view, layout.CONFIG, has, lambda context: scope.inherited_level(view, context, defaults) == level
    )


def with_mode(view: View, mode: str) -> InForce:
    """Return the candidates for a mode in force."""

    def has(value: bytes) -> bool:
        return layout.mode_of(value) == mode

    return InForce(view, layout.MODE, has, lambda context: scope.inherited_mode(view, context) == mode)


class Owners:
    """A set of owners that were found in another way."""

    def __init__(self, owners: Sequence[bytes]) -> None:
        """``owners``: in any order."""
        self._sorted = sorted(owners)
        self._all = frozenset(owners)

    def __contains__(self, owner: bytes) -> bool:
        """Return true if this is one of them."""
        return owner in self._all

    def following(self, owner: bytes) -> bytes:
        """Return ``owner`` if it may pass, else a key at or before the next one that may."""
        at = bisect_left(self._sorted, owner)
        return self._sorted[at] if at < len(self._sorted) else _LAST

    def preceding(self, owner: bytes) -> bytes:
        """Return a key after ``owner`` if it may pass, else one after the last one that may."""
        at = bisect_right(self._sorted, owner)
        return layout.after(self._sorted[at - 1]) if at else b""

    def restricts(self, context: str) -> bool:
        """Return true unless all subjects of a context may pass."""
        return True


def _context_of(owner: bytes) -> bytes:
    return owner[: owner.index(b"\0") + 1]


class CandidatesView:
    """The rows of ``base``, of the versions only those of subjects that all ``filters`` may admit."""

    def __init__(self, base: View, filters: Sequence[Candidates]) -> None:
        self._base = base
        self._filters = filters

    def restricts(self, context: str) -> bool:
        """Return true unless all subjects of a context are shown."""
        return any(each.restricts(context) for each in self._filters)

    def revision(self) -> None:
        """Return nothing: not all rows are shown."""

    def block(self, key: bytes) -> None:
        """Return nothing: a block counts what is not shown, too."""

    def history(self) -> History | None:
        """Return the history of the base."""
        return self._base.history()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        return self._base.get(key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row that is shown whose key is ``key`` or greater."""
        row = self._base.seek(key)
        for _ in range(CANDIDATES_MAX):
            if row is None or row[0][:1] != layout.VERSION:
                break
            owner = row[0][1:-_NUMBER_BYTES]
            begin = max(each.following(owner) for each in self._filters)
            if begin <= owner:
                break
            row = self._base.seek(layout.VERSION + begin)
        return row

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row that is shown whose key is less than ``key``."""
        row = self._base.seek_back(key)
        for _ in range(CANDIDATES_MAX):
            if row is None or row[0][:1] != layout.VERSION:
                break
            owner = row[0][1:-_NUMBER_BYTES]
            end = min(each.preceding(owner) for each in self._filters)
            if end > owner:
                break
            row = self._base.seek_back(layout.VERSION + end)
        return row
