"""Views: read-only access to rows, and walks over them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Protocol

from .blocks import Block
from .layout import after

# A put (key, value) or, with ``None``, a delete of one row.
Change = tuple[bytes, bytes | None]


class View(Protocol):
    """Read-only access to the rows at one moment."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        ...

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        ...

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        ...

    def revision(self) -> Hashable | None:
        """Return a value that changes if a version is put below its subject's top or gets other content.

        While it stays the same, a subject whose version N is unchanged has the same versions below N as
        before.
        ``None``: unknown.
        """
        ...

    def block(self, key: bytes) -> Block | None:
        """Return the block of version rows that holds ``key``; ``None`` if versions are not counted."""
        ...


def scan(view: View, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, ascending, from ``start`` on."""
    row = view.seek(prefix if start is None else start)
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek(row[0] + b"\0")


def scan_back(view: View, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, descending."""
    row = view.seek_back(after(prefix))
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek_back(row[0])
