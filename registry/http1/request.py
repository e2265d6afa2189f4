"""HTTP requests and their clients, and the limits on them and on connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one server; a client that exceeds one gets the status named here, or is disconnected."""

    # Request line and headers of one request: 431.
    header_bytes_max: int = 64 * 1024
    # Body of one request: 413. Its framing (chunk sizes, extensions and trailers) may take
    # ``header_bytes_max`` and a quarter of the body's own bytes.
    body_bytes_max: int = 5 * 1024 * 1024
    # Bodies of all connections together, from their first slice until their requests are answered. Further
    # bodies stay unread in their sockets until there is room.
    bodies_bytes_max: int = 80 * 1024 * 1024
    # Time that a body may wait for that room: 503.
    room_timeout_s: float = 120.0
    # Open connections: 503.
    connections_max: int = 10_000
    # From a request's first byte, or from the connection's start, to the end of its headers: 408.
    header_timeout_s: float = 15.0
    # Unread answers of all connections together; above it, clients are dropped that have gone longest without
    # reading. Data below a connection's high-water mark is not counted.
    unread_bytes_max: int = 256 * 1024 * 1024
    # For a body to arrive after its headers (408), and for an answer to be read. A client that sent or read
    # ``rate_bytes_min`` a second in that time gets as much time again; but while other bodies wait for room,
    # an admitted body must be half complete by then.
    body_timeout_s: float = 30.0
    # Minimum rate of a slow client, in bytes a second over ``body_timeout_s``.
    rate_bytes_min: int = 1024
    # Between an answer and the next request's first byte; then the connection is closed.
    idle_timeout_s: float = 75.0
    # How long input from a refused client is discarded, so that the client can read the refusal.
    linger_timeout_s: float = 2.0


class Client(NamedTuple):
    """The client at the other end of a connection."""

    host: str = ""  # its address; empty if it has none
    port: int = 0
    certificate: str = ""  # the principal's name from its verified certificate


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
