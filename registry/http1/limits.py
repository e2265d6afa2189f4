"""What one server takes from its clients at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for connections and requests; beyond them a client is refused or dropped."""

    header_bytes_max: int = 64 * 1024
    """Request line and headers of one request: 431."""
    body_bytes_max: int = 5 * 1024 * 1024
    """One request's body: 413.

    What frames it (chunk sizes, extensions and trailers) may take ``header_bytes_max`` and a quarter of the
    body's own bytes.
    """
    bodies_bytes_max: int = 80 * 1024 * 1024
    """Bodies from their first slice until their requests are answered, of all connections together.

    Further ones are not read from their sockets until there is room.
    """
    room_timeout_s: float = 120.0
    """For a body to wait for that room: 503."""
    connections_max: int = 10_000
    """Open connections: one more gets 503."""
    header_timeout_s: float = 15.0
    """From a request's first byte, or from the connection's start, to the end of its headers: 408."""
    unread_bytes_max: int = 256 * 1024 * 1024
    """Answers that clients have not read, of all connections together: beyond it those that have waited
    longest without reading are dropped. What lies below a connection's high-water mark is not counted."""
    body_timeout_s: float = 30.0
    """For a body to arrive after its headers (408), and for an answer to be read.

    A client that sent or read ``rate_bytes_min`` a second in that time gets as much time again. A client
    whose body takes the room that others wait for must have sent half of it.
    """
    rate_bytes_min: int = 1024
    """Least rate of a slow client, in bytes a second over ``body_timeout_s``."""
    idle_timeout_s: float = 75.0
    """Between an answer and the next request's first byte; then the connection is closed."""
    linger_timeout_s: float = 2.0
    """How long what a refused client still sends is thrown away, so that it can read the refusal."""
