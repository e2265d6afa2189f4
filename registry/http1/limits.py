"""What one server takes from its clients at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for connections and requests; beyond them a client is refused or dropped."""

    header_bytes_max: int = 64 * 1024
    """Request line and headers of one request: 431."""
    body_bytes_max: int = 5 * 1024 * 1024
    """One request's body: 413."""
    bodies_bytes_max: int = 256 * 1024 * 1024
    """Bodies that have not arrived completely, of all connections together: 503."""
    connections_max: int = 10_000
    """Open connections: one more gets 503."""
    header_timeout_s: float = 15.0
    """From a request's first byte, or from the connection's start, to the end of its headers: 408."""
    body_timeout_s: float = 30.0
    """From the end of the headers to the end of the body: 408.

    Also how long a client may leave an answer unread.
    """
    idle_timeout_s: float = 75.0
    """Between an answer and the next request's first byte; then the connection is closed."""
    linger_timeout_s: float = 2.0
    """How long what a refused client still sends is thrown away, so that it can read the refusal."""
