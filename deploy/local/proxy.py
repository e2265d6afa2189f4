"""A TCP proxy that stands for a network: it can be cut and healed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Self

from .process import free_port

CHUNK = 65_536


class Proxy:
    """Forwards connections to ``target`` (``HOST:PORT``), in a thread of its own.

    :meth:`cut` acts as a network that loses everything: connections stay open, new ones are accepted but
    get no reply, and what was sent arrives after :meth:`heal`. :meth:`mute` does so only to the
    target's replies.
    :meth:`refuse` acts as a host whose process is gone: connections break, new ones are refused.
    """

    def __init__(self, target: str, *, port: int | None = None) -> None:
        host, _, target_port = target.rpartition(":")
        self._target = host, int(target_port)
        self.port = port or free_port()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None
        self._doing = threading.Lock()
        self._flows = asyncio.Event()
        self._answers = asyncio.Event()
        for each in (self._flows, self._answers):
            each.set()
        self._open: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        # Called for each connection; returns what sees the bytes that are sent to the target.
        self.observe: Callable[[], Callable[[bytes], None]] = lambda: lambda _: None

    @property
    def address(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def start(self) -> Self:
        """Listen, unless it does already."""
        if self._thread is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
            self._thread.start()
            self._do(self._listen())
        return self

    def cut(self) -> None:
        """Let nothing through, in either direction."""
        self._do(self._set(self._flows, on=False))

    def mute(self) -> None:
        """Let through what is sent to the target, but nothing that it replies."""
        self._do(self._set(self._answers, on=False))

    def refuse(self) -> None:
        """Break all connections and refuse new ones."""
        self._do(self._refuse())

    def heal(self) -> None:
        """Let everything through again."""
        self._do(self._listen())
        for each in (self._flows, self._answers):
            self._do(self._set(each, on=True))

    def close(self) -> None:
        """Break all connections and end."""
        if self._thread is not None and self._loop is not None:
            self._do(self._refuse())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _do(self, what: Coroutine[None, None, None]) -> None:
        assert self._loop is not None, "the proxy was not started"
        with self._doing:
            asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _set(self, flow: asyncio.Event, *, on: bool) -> None:
        if on:
            flow.set()
        else:
            flow.clear()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        # A connection that was just accepted has a task, but is not among the open ones yet.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others & self._open.keys():
                task.cancel()
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers = self._open[task] = [writer]
        try:
            await self._flows.wait()
            back_reader, back_writer = await asyncio.open_connection(*self._target)
            writers.append(back_writer)
            await asyncio.gather(
                self._pass(reader, back_writer, self.observe(), self._flows),
                self._pass(back_reader, writer, lambda _: None, self._flows, self._answers),
            )
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.transport.abort()
            del self._open[task]

    async def _pass(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        see: Callable[[bytes], None],
        *flows: asyncio.Event,
    ) -> None:
        while chunk := await source.read(CHUNK):
            see(chunk)
            for each in flows:
                await each.wait()
            sink.write(chunk)
            await sink.drain()
        for each in flows:
            await each.wait()
        with contextlib.suppress(OSError):
            sink.write_eof()
