"""The sending half of a connection: what its client has not read yet, and waiting for it."""

from __future__ import annotations

import asyncio

from .reading import RequestReader
from .unread import Unread, outstanding

# Answers up to here wait in the transport without being counted as unread.
_HIGH_WATER_BYTES = 32 * 1024


class Output:
    """Writes to one client, and counts what is kept for it in ``unread`` while it does not keep up."""

    def __init__(self, transport: asyncio.Transport, unread: Unread, reader: RequestReader) -> None:
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._transport = transport
        self._unread = unread
        self._reader = reader
        self._writable: asyncio.Future[None] | None = None
        self._mark = 0  # of the outstanding bytes, when progress was measured last
        self._held_bytes = 0  # of the answer's body that is being sent
        self.closed = False
        self.write = transport.write

    @property
    def behind(self) -> bool:
        """True while the client does not read as fast as it is written to."""
        return self._writable is not None

    def pause(self) -> None:
        """Note that the transport keeps more than it should."""
        self._writable = asyncio.get_running_loop().create_future()
        self._mark = self.outstanding()
        self._unread.hold(self)

    def resume(self) -> None:
        """Note that the client has read."""
        self._wake()
        self._writable = None
        self.keep(self._held_bytes)

    def close(self) -> None:
        """Note that the client has gone."""
        self.closed = True
        self._unread.release(self)
        self._wake()

    def _wake(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    async def drained(self) -> None:
        """Wait until the client has read enough; at once when it is gone."""
        if self._writable is not None and not self.closed:
            await self._writable

    def keep(self, size: int) -> None:
        """Count ``size`` bytes of an answer that is being sent, until told otherwise, as unread."""
        self._held_bytes = size
        if self.closed:
            return
        if size or self._writable is not None:
            self._unread.hold(self)
        else:
            self._unread.release(self)

    def unread_bytes(self) -> int:
        """Return what this process keeps for the client: of its answer, and of what it sent ahead."""
        return self._transport.get_write_buffer_size() + self._held_bytes + self._reader.ahead_bytes

    def outstanding(self) -> int:
        """Return the bytes that were written and that the client's host has not acknowledged."""
        return outstanding(self._transport)

    def read_since(self) -> int:
        """Return how many bytes the client has read since this was asked, or since it fell behind."""
        before, self._mark = self._mark, self.outstanding()
        return before - self._mark

    def abort(self) -> None:
        """Break the connection: an answer cannot be completed, or the client used up its time."""
        self._transport.abort()
