"""The bound on answers that clients have not read, for all connections of a process together."""

from __future__ import annotations

import contextlib
import fcntl
import struct
import termios
from asyncio import WriteTransport
from typing import NamedTuple, Protocol


class Behind(Protocol):
    """A connection whose client does not read as fast as it is written to."""

    def unread_bytes(self) -> int:
        """Return the bytes that this process keeps for the client."""
        ...

    def outstanding(self) -> int:
        """Return the bytes that were written and that the client's host has not acknowledged."""
        ...

    def abort(self) -> None:
        """Break the connection and free what it holds."""
        ...


class _Share(NamedTuple):
    size: int
    outstanding: int


class Unread:
    """All connections whose clients are behind, those that have waited longest without reading first.

    Over ``bytes_max`` the first of them are dropped. One answer counts for half of the bound at most, so that
    a single large one cannot displace all others.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._behind: dict[Behind, _Share] = {}
        self.size = 0

    def hold(self, connection: Behind) -> None:
        """Count what ``connection`` keeps, as of now; it has just read, or is behind from now on."""
        self.release(connection)
        size = min(connection.unread_bytes(), self._bytes_max // 2)
        self._behind[connection] = _Share(size, connection.outstanding())
        self.size += size
        while self.size > self._bytes_max and len(self._behind) > 1:
            slowest = next(iter(self._behind))
            self.release(slowest)
            slowest.abort()

    def release(self, connection: Behind) -> None:
        """Forget a connection that has caught up or is closed."""
        share = self._behind.pop(connection, None)
        if share is not None:
            self.size -= share.size

    def look(self) -> None:
        """Put those that have read since the last look behind the others. Cheap until there is much."""
        if self.size < self._bytes_max // 4:
            return
        for connection, share in list(self._behind.items()):
            if connection in self._behind and connection.outstanding() < share.outstanding:
                self.hold(connection)


def outstanding(transport: WriteTransport) -> int:
    """Return the bytes written to ``transport`` and not acknowledged, on Linux those in the kernel too.

    The kernel takes more in large lumps, so that its queue is what shows a slow client's progress.
    """
    queued = 0
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = transport.get_extra_info("socket").fileno()
        queued = struct.unpack("i", fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4)))[0]
    return transport.get_write_buffer_size() + queued
