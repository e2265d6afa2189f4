"""HTTP requests."""

from __future__ import annotations

from typing import NamedTuple

Header = tuple[bytes, bytes]


class Request(NamedTuple):
    """A complete request."""

    method: bytes
    target: bytes  # path and query, percent-encoded as sent; see :func:`relative`
    headers: list[Header]  # in order, names in lower case
    body: bytes
    version: str  # ``1.1`` or ``1.0``
    keep_alive: bool  # the client wants to reuse the connection

    @property
    def path(self) -> bytes:
        """The target up to its query."""
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        """The target after the question mark."""
        return self.target.partition(b"?")[2]


def relative(target: bytes) -> bytes:
    """Strip scheme and authority from a target; absolute ones are meant for proxies, but must be served."""
    scheme, found, rest = target.partition(b"://")
    if not found or b"/" in scheme or b"?" in scheme:
        return target
    slash = rest.find(b"/")
    query = rest.find(b"?")
    if slash >= 0 and (query < 0 or slash < query):
        return rest[slash:]
    return b"/" + (rest[query:] if query >= 0 else b"")
