"""Rows in memory that count their reads."""

from __future__ import annotations

from registry.domain.rows.memory_views import DictView


class CountingView(DictView):
    """A view whose ``reads`` grows with each row that is read."""

    reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return super().get(key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        self.reads += 1
        return super().seek(key)

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        self.reads += 1
        return super().seek_back(key)
