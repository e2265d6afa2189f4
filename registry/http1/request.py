"""A request as it was sent."""

from __future__ import annotations

from typing import NamedTuple

Header = tuple[bytes, bytes]


class Request(NamedTuple):
    """A complete request."""

    method: bytes
    target: bytes
    """Path and query, percent-encoded as sent; an absolute target has lost its scheme and authority."""
    headers: list[Header]
    """In order, names in lower case."""
    body: bytes
    version: str
    """``1.1`` or ``1.0``."""
    keep_alive: bool
    """Whether the client wants to go on with this connection."""

    @property
    def path(self) -> bytes:
        """The target up to its query."""
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        """What stands after the question mark."""
        return self.target.partition(b"?")[2]


def relative(target: bytes) -> bytes:
    """A target without scheme and authority (an absolute one is meant for proxies, but must be served)."""
    scheme, found, rest = target.partition(b"://")
    if not found or b"/" in scheme or b"?" in scheme:
        return target
    slash = rest.find(b"/")
    query = rest.find(b"?")
    if slash >= 0 and (query < 0 or slash < query):
        return rest[slash:]
    return b"/" + (rest[query:] if query >= 0 else b"")
