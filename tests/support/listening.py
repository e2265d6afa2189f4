"""Clients of the change feed: many in one thread, which resume after each break as browsers do."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Sequence
from typing import Self

_RETRY_S = 0.05
_CONNECT_S = 5.0


class Listener(asyncio.Protocol):
    """One client, which connects to one of ``ports`` after each break."""

    def __init__(
        self, ports: Sequence[int], query: str = "", *, after: int = -1, headers: str = "", reads: bool = True
    ) -> None:
        """``reads``: false for a client that reads nothing after the head."""
        self._ports = ports
        self._query = query
        self._headers = headers
        self._reads = reads
        self._buffer = b""
        self._head = b""
        self._over: asyncio.Future[None]
        self._transport: asyncio.Transport
        # The position from which it resumes; the offsets of all events, and when each was received.
        self.last_id = after
        self.offsets: list[int] = []
        self.received_at: dict[int, float] = {}
        # The status of the last answer; 0 if there was none. How often a connection has ended.
        self.status = 0
        self.breaks = 0

    async def run(self) -> None:
        """Listen until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._buffer = self._head = b""
            self._over = loop.create_future()
            try:
                async with asyncio.timeout(_CONNECT_S):
                    await self._connect(loop)
                try:
                    await asyncio.shield(self._over)
                finally:
                    self._transport.abort()
                    await self._over
                self.breaks += 1
            except (OSError, TimeoutError):
                pass
            await until_next_try()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        client = socket.socket()
        try:
            client.setblocking(False)
            if not self._reads:  # otherwise the kernel would take megabytes
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(client, ("127.0.0.1", random.choice(self._ports)))
            await loop.create_connection(lambda: self, sock=client)
        except BaseException:
            client.close()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Without chunks, so that the test need not parse them.
        transport.write(
            f"GET /changes{self._query} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
            f"Last-Event-ID: {self.last_id}\r\n{self._headers}\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._head:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self._head, self._buffer = head, rest
            self.status = int(head.split(b" ", 2)[1])
            if not self._reads:
                self._transport.pause_reading()
        if self.status == 200:
            *blocks, self._buffer = self._buffer.split(b"\n\n")
            now = time.monotonic()
            for block in blocks:
                self._on_block(block, now)

    def _on_block(self, block: bytes, now: float) -> None:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if not line.startswith(b":"))
        if b"id" in fields:
            self.last_id = int(fields[b"id"])
        if b"data" in fields:
            self.offsets.append(self.last_id)
            self.received_at[self.last_id] = now

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def read(self) -> None:
        """Begin to read, if it does not."""
        self._reads = True
        self._transport.resume_reading()


async def until_next_try() -> None:
    """Wait as long as clients do, though less."""
    await asyncio.sleep(_RETRY_S * random.uniform(0.5, 1.5))


class Listeners:
    """Listeners on an event loop of their own."""

    def __init__(self, *listeners: Listener) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="listeners", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self.all = list(listeners)

    def __enter__(self) -> Self:
        self._thread.start()
        for each in self.all:
            self._loop.call_soon_threadsafe(self._begin, each)
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _begin(self, listener: Listener) -> None:
        self._tasks.append(self._loop.create_task(listener.run()))

    def call(self, listener: Listener) -> None:
        """Let a listener begin to read."""
        self._loop.call_soon_threadsafe(listener.read)
