"""The sending half of a connection: bounded answers, and those that stay open.

No task waits for such an answer, so thousands of them cost little more than their connections. Flow control
is the writer's: it writes nothing while the client is ``behind``. A client that reads too slowly meanwhile is
dropped as with any other answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios
from collections.abc import Callable
from typing import NamedTuple, Protocol

from .reading import RequestReader

# Answers up to here wait in the transport without being counted as unread.
_HIGH_WATER_BYTES = 32 * 1024


class Behind(Protocol):
    """A connection whose client reads more slowly than it is written to."""

    def unread_bytes(self) -> int:
        """Return the bytes that this process buffers for the client."""
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
    """Bounds unread answers: all connections whose clients are behind, longest without progress first.

    Above ``bytes_max`` the first of them are dropped. One answer counts for at most half of the bound, so
    that a single large answer cannot displace all others.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._behind: dict[Behind, _Share] = {}
        self.size = 0

    def hold(self, connection: Behind) -> None:
        """Count what ``connection`` buffers now; its client has just made progress or fallen behind."""
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
        """Move connections with progress since the last call to the end; a no-op while little is held."""
        if self.size < self._bytes_max // 4:
            return
        for connection, share in list(self._behind.items()):
            if connection in self._behind and connection.outstanding() < share.outstanding:
                self.hold(connection)


def outstanding(transport: asyncio.WriteTransport) -> int:
    """Return the bytes written to ``transport`` and not acknowledged, on Linux including the kernel's queue.

    The kernel takes data from the transport in large chunks, so its queue shows a slow client's progress.
    """
    queued = 0
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = transport.get_extra_info("socket").fileno()
        queued = struct.unpack("i", fcntl.ioctl(number, termios.TIOCOUTQ, bytes(4)))[0]
    return transport.get_write_buffer_size() + queued


class Output:
    """Writes to one client, and counts what is buffered for it in ``unread`` while it is behind."""

    def __init__(self, transport: asyncio.Transport, unread: Unread, reader: RequestReader) -> None:
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._transport = transport
        self._unread = unread
        self._reader = reader
        self._writable: asyncio.Future[None] | None = None
        # True while the client reads more slowly than it is written to.
        self.behind = False
        self._mark = 0  # outstanding bytes when progress was last measured
        self._held_bytes = 0  # body bytes of the answer in progress
        self.closed = False
        self.write = transport.write

    def pause(self) -> None:
        """Note that the transport's buffer is above its high-water mark."""
        self._writable = asyncio.get_running_loop().create_future()
        self.behind = True
        self._mark = self.outstanding()
        self._unread.hold(self)

    def resume(self) -> None:
        """Note that the transport's buffer has drained."""
        self._wake()
        self._writable = None
        self.behind = False
        self.keep(self._held_bytes)

    def close(self) -> None:
        """Note that the connection is closed."""
        self.closed = True
        self._unread.release(self)
        self._wake()

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def drain(self) -> None:
        """Wait until the transport's buffer has drained; return at once if the connection is closed."""
        if self._writable is not None and not self.closed:
            await self._writable

    def keep(self, size: int) -> None:
        """Count ``size`` bytes of the answer in progress as unread, until the next call."""
        self._held_bytes = size
        if self.closed:
            return
        if size or self._writable is not None:
            self._unread.hold(self)
        else:
            self._unread.release(self)

    def unread_bytes(self) -> int:
        """Return the bytes buffered for the client: of its answer, and of the data that it sent ahead."""
        return self._transport.get_write_buffer_size() + self._held_bytes + self._reader.ahead_bytes

    def outstanding(self) -> int:
        """Return the bytes that were written and that the client's host has not acknowledged."""
        return outstanding(self._transport)

    def read_since(self) -> int:
        """Return the bytes that the client has read since the last call, or since it fell behind."""
        before, self._mark = self._mark, self.outstanding()
        return before - self._mark

    def abort(self) -> None:
        """Drop the connection: an answer cannot be completed, or the client was too slow."""
        self._transport.abort()


def _nothing() -> None:
    """Do nothing."""


class HeldAnswer:
    """An open answer; ``ended`` is called when it is complete."""

    def __init__(self, output: Output, *, chunked: bool, ended: Callable[[], None]) -> None:
        self._output = output
        self._ended = ended
        self._open = True
        # Answers of the same framing share framed bytes.
        self.framing = chunked
        # Called when the client has read enough to be written to again; and when the connection has closed.
        self.on_drained: Callable[[], None] = _nothing
        self.on_close: Callable[[], None] = _nothing

    @property
    def behind(self) -> bool:
        """True while the client reads more slowly than it is written to."""
        return self._output.behind

    def frame(self, data: bytes) -> bytes:
        """Return data as it is written: as a chunk if the body is chunked."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.framing else data

    def write(self, framed: bytes) -> None:
        """Write framed data, unless the connection is closed."""
        if self._open:
            self._output.write(framed)

    def end(self) -> None:
        """Complete the answer and close the connection."""
        if not self._open:
            return
        self._open = False
        if self.framing:
            self._output.write(b"0\r\n\r\n")
        self._ended()
        self.on_close()

    def close(self) -> None:
        """Note that the connection has closed."""
        self._open = False
        self.on_close()
