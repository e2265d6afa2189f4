"""A store in memory with the calls of :class:`registry.store.lmdb.Store` that following and writing need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from registry.domain.history.entries import Slice
from registry.domain.log_format.lineage import NOTHING, Lineage, Mismatch
from registry.domain.rows import digest
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import Change
from registry.store.layout import StoreError


class MemoryView(DictView):
    """The rows, for a ``with`` block; they stay unchanged while it lasts."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]], applied: int) -> None:
        super().__init__(rows)
        self.moment = applied
        self.blocks = 0

    def applied(self) -> int:
        return self.moment

    def __enter__(self) -> Self:
        self.blocks += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.blocks -= 1


class MemoryStore:
    """A store that outlives the process that uses it; commits are atomic."""

    def __init__(self, witness: dict[int, int], counts: Callable[[int, Lineage], bool]) -> None:
        """``witness``: offsets and digests of all stores so far; a different digest is detected at once.

        ``counts`` returns true if all stores at this offset, with such a lineage, have the same rows.
        """
        self._counts = counts
        self._rows = MemoryView((), 0)
        self._witness = witness
        self.digest = digest.EMPTY
        self.lineage = NOTHING
        # The identity of the log that it is built from; empty before the first one.
        self.log = ""
        # Why its rows may not be the log's.
        self.mismatch: Mismatch | None = None
        # True if nothing can be written.
        self.full = False
        # Called in each commit with its moment, "before" and "after" it took effect.
        self.at_commit: Callable[[str], None] | None = None

    @property
    def applied(self) -> int:
        return self._rows.moment

    def view(self) -> MemoryView:
        return self._rows

    def commit_folded(
        self,
        new: Sequence[tuple[bytes, bytes]],
        changed: Sequence[Change],
        applied: int,
        lineage: Lineage = NOTHING,
        history: Slice | None = None,
    ) -> None:
        if self.full:
            raise StoreError("no space is left")
        self._reach("before")
        assert applied >= self.applied, f"the applied offset went back from {self.applied} to {applied}"
        changes: dict[bytes, bytes | None] = dict([*new, *changed])
        for key, value in changes.items():
            self.digest = digest.digest_after_change(self.digest, key, self._rows.get(key), value)
        if self._rows.blocks:
            self._rows = MemoryView(self._rows.rows(), applied)
        self._rows.commit(changes.items())
        self._rows.moment = applied
        self.lineage = lineage
        if self._counts(applied, lineage):
            known = self._witness.setdefault(applied, self.digest)
            assert known == self.digest, f"two stores differ at offset {applied}"
        self._reach("after")

    def _reach(self, moment: str) -> None:
        if self.at_commit is not None:
            self.at_commit(moment)
