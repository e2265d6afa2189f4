"""A proxy in front of a broker that loses an append, its answer, or all fetches, at a chosen moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from deploy.local.proxy import Proxy

PRODUCE, FETCH = 0, 1


class _Loss(NamedTuple):
    """The fate of the next append."""

    # True: it never reaches the broker; otherwise it does, and only its answer is lost.
    before: bool
    # Called when the broker has answered, before the client learns that its connection is gone.
    then: Callable[[], object]


class LosingProxy(Proxy):
    """Passes Kafka's requests and answers on, one by one; it can lose some appends."""

    def __init__(self, target: str, port: int) -> None:
        super().__init__(target, port=port)
        self._losses: list[_Loss] = []
        # True if fetches are not answered any more.
        self.loses_fetches = False

    def lose_append(self, then: Callable[[], object] = bool) -> None:
        """Lose the next append on its way to the broker."""
        self._losses.append(_Loss(before=True, then=then))

    def lose_answer(self, then: Callable[[], object] = bool) -> None:
        """Lose the answer to the next append, which is executed."""
        self._losses.append(_Loss(before=False, then=then))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers = self._open[task] = [writer]
        try:
            back_reader, back_writer = await asyncio.open_connection(*self._target)
            writers.append(back_writer)
            while await self._exchange(reader, writer, back_reader, back_writer):
                pass
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.transport.abort()
            del self._open[task]

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back_reader: asyncio.StreamReader,
        back_writer: asyncio.StreamWriter,
    ) -> bool:
        request = await _frame(reader)
        await self._flows.wait()
        kind = int.from_bytes(request[4:6], "big")
        loss = self._losses.pop(0) if kind == PRODUCE and self._losses else None
        if loss is None or not loss.before:
            back_writer.write(request)
            answer = await _frame(back_reader)
            await self._flows.wait()
        if kind == FETCH and self.loses_fetches:
            return False
        if loss is not None:
            await asyncio.to_thread(loss.then)
            return False
        writer.write(answer)
        await writer.drain()
        return True


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))
