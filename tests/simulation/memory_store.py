"""A store in memory with the calls of :class:`registry.store.lmdb.Store` that following and writing need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from registry.domain.history.entries import Slice
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.rows import digest
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import Change


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

    def __init__(self, witness: dict[int, int]) -> None:
        """``witness``: offsets and digests of all stores so far; a different digest is detected at once."""
        self._rows = MemoryView((), 0)
        self._witness = witness
        self.digest = digest.EMPTY
        self.lineage = NOTHING

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
        assert applied >= self.applied, f"the applied offset went back from {self.applied} to {applied}"
        changes: dict[bytes, bytes | None] = dict([*new, *changed])
        for key, value in changes.items():
            self.digest = digest.digest_after_change(self.digest, key, self._rows.get(key), value)
        if self._rows.blocks:
            self._rows = MemoryView(self._rows.rows(), applied)
        self._rows.commit(changes.items())
        self._rows.moment = applied
        self.lineage = lineage
        known = self._witness.setdefault(applied, self.digest)
        assert known == self.digest, f"two stores differ at offset {applied}"
