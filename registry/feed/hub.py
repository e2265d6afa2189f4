"""The listeners of one process: each event is printed once for those who see the same, and sent to all.

One task pulls the events from the node (:mod:`.tail`) and writes them to the connections. Listeners that are
not at its position (they resumed, or read too slowly) take turns with a few workers. Nothing waits in memory
for a slow listener but what is in its connection's buffer: it gets the next events when it has read those.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from registry.domain.errors import BAD_REQUEST, EVENTS_DELETED, UNAVAILABLE, RegistryError
from registry.security.gate import Gate

from .contract import Source, Stream
from .listener import Listener, Sight, State, Subscription
from .live import SLICE, LiveListeners
from .printing import beginning, printed
from .ring import Entry
from .senders import Senders
from .tail import Tail

_WORKERS = 4
# Pages that one request without a stream may examine.
_POLL_PAGES_MAX = 16
# Clients connect again after about so long, not all at once.
_RETRY_MS = (500, 2_500)


class Hub:
    """Serves the events of ``source`` to at most ``listeners_max`` listeners."""

    def __init__(self, source: Source, gate: Gate, *, listeners_max: int) -> None:
        self._source = source
        self._gate = gate
        self._listeners_max = listeners_max
        self._tail = Tail(source, self)
        self._listeners: set[Listener] = set()
        self._live = LiveListeners(on_behind=partial(self._leave, state=State.BEHIND))
        self._senders = Senders(
            gate, suspend=partial(self._leave, state=State.UNVERIFIED), resume=self._enqueue
        )
        self._ahead: set[Listener] = set()
        self._queue: deque[Listener] = deque()  # bounded by the number of listeners
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        self._stopping = False
        # Requests that wait for events.
        self._polls = 0
        # Listeners whose connections broke because they read too slowly.
        self.dropped = 0

    @property
    def listeners(self) -> int:
        """The number of open streams, and of requests that wait."""
        return len(self._listeners) + self._polls

    async def locate(self, after: int | None) -> int:
        """Return the position after an offset, or the present one.

        Raises 400 for an offset that the log does not have yet, 410 for one that it has no more, 503.
        """
        if self._stopping:
            raise UNAVAILABLE("This server is stopping")
        if self.listeners >= self._listeners_max:
            raise UNAVAILABLE("Too many clients listen to changes here")
        if after is None:
            return self._source.applied()
        position = after + 1
        if position > self._source.applied():
            confirmed = await self._source.confirm()
            applied = self._source.applied()
            if position > applied and confirmed:
                raise BAD_REQUEST(f"after lies beyond the end of the log: its last offset is {applied - 1}")
            if position > applied:
                raise UNAVAILABLE("This server has not reached that offset yet; try again")
        await self._tail.check(position)
        return position

    def attach(self, stream: Stream, subscription: Subscription, position: int) -> None:
        """Send events from ``position`` on, until the connection closes or the credentials are refused."""
        wanted, credentials, admission = subscription
        sender = self._senders.get(credentials, admission.access)
        listener = Listener(stream, wanted, sender, position)
        self._listeners.add(listener)
        stream.on_close = partial(self._closed, listener)
        stream.on_drained = partial(self._drained, listener)
        stream.write(stream.framed(beginning(position, random.randint(*_RETRY_MS))))  # noqa: S311 (no secret)
        if self._stopping or len(self._listeners) > self._listeners_max:
            stream.end()
            return
        self._start()
        self._enqueue(listener)

    async def poll(
        self, subscription: Subscription, position: int, *, limit: int, wait_s: float
    ) -> tuple[list[bytes], int]:
        """Return at most ``limit`` events from ``position`` on, and the position after them.

        Without events at the present end, waits for the next ones. May return none earlier: the client asks
        again from the new position.
        """
        wanted, credentials, admission = subscription
        sight = Sight(wanted, admission.access)
        deadline = time.monotonic() + wait_s
        self._polls += 1
        try:
            if wait_s > 0:
                self._start()
            for _ in range(_POLL_PAGES_MAX):
                news = self._tail.news
                found, following = await self._tail.after(position)
                shown = [each for each in found if sight.shows(each)]
                if len(shown) > limit:
                    return [each.data for each in shown[:limit]], shown[limit - 1].event.offset + 1
                if shown:
                    return [each.data for each in shown], following
                if following > position:
                    position = following
                    continue
                if not await self._until(news, deadline):
                    break
                known = self._gate.known(credentials)
                if known is None or known.access is not admission.access:
                    break  # the next request finds out what the client may see now
            return [], position
        finally:
            self._polls -= 1

    async def _until(self, news: asyncio.Event, deadline: float) -> bool:
        """Wait for the next events; return false when it is time to answer without any."""
        left = deadline - time.monotonic()
        if left <= 0 or self._stopping or not self._tail.pulling:
            return False
        try:
            async with asyncio.timeout(left):
                await news.wait()
        except TimeoutError:
            return False
        return not self._stopping

    def stop(self) -> None:
        """End all streams and requests that wait: clients resume elsewhere."""
        self._stopping = True
        self._senders.stop()
        for task in self._tasks:
            task.cancel()
        for listener in tuple(self._listeners):
            listener.stream.end()
        self._tail.wake()

    def _start(self) -> None:
        if not self._tail.pulling:
            self._tail.begin()
            self._begin(self._tail.run())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- called by the tail

    def is_present(self) -> bool:
        """Return true if somebody listens."""
        return self.listeners > 0

    def before_events(self) -> None:
        """Look up what senders may see now, and try again to advance those who were ahead of the feed."""
        self._senders.check_all()
        ahead, self._ahead = self._ahead, set()
        for listener in ahead:
            self._enqueue(listener)

    async def on_events(self, found: Sequence[Entry], begin: int, end: int) -> None:
        """Send new events to all who were sent everything before."""
        await self._live.send(found, begin, end)

    async def on_heartbeat(self) -> None:
        """Tell the listeners where they are."""
        await self._live.beat()

    def on_gap(self) -> None:
        """Let all listeners find out what they lack."""
        for listener in self._live:
            self._leave(listener, State.CATCHING_UP)
            self._enqueue(listener)

    # --- catching up

    def _enqueue(self, listener: Listener) -> None:
        """Send the listener what it lacks, in turn with others."""
        listener.state = State.CATCHING_UP
        self._queue.append(listener)
        if self._working < _WORKERS:
            self._working += 1
            self._begin(self._work())

    async def _work(self) -> None:
        served = 0
        try:
            while self._queue:
                listener = self._queue.popleft()
                if listener.state is State.CATCHING_UP:
                    await self._advance(listener)
                served += 1
                if served % SLICE == 0:
                    await asyncio.sleep(0)
        finally:
            self._working -= 1

    async def _advance(self, listener: Listener) -> None:
        """Send a listener the next page of what it lacks."""
        begin = listener.position
        try:
            found, end = await self._tail.after(begin)
        except RegistryError as error:
            if error.code == EVENTS_DELETED.code:
                listener.stream.end()  # it gets the error when it resumes
            elif listener.state is State.CATCHING_UP:
                self._wait_ahead(listener)
            return
        if listener.state is not State.CATCHING_UP or listener.position != begin:
            return  # it has closed, or another worker was faster
        if not self._senders.check(listener.sender):
            return
        sight = listener.sight
        text = b"".join(printed(each) for each in found if sight.shows(each))
        if text:
            listener.stream.write(listener.stream.framed(text))
        listener.position = end
        if self._tail.pulling and end == self._tail.end:
            self._live.join(listener)
        elif end == begin:
            self._wait_ahead(listener)
        elif listener.stream.behind:
            listener.state = State.BEHIND
        else:
            self._queue.append(listener)

    def _wait_ahead(self, listener: Listener) -> None:
        listener.state = State.AHEAD
        self._ahead.add(listener)

    def _drained(self, listener: Listener) -> None:
        if listener.state is State.BEHIND:
            self._enqueue(listener)

    # --- leaving

    def _leave(self, listener: Listener, state: State) -> None:
        """Take a listener out of where it waits."""
        if listener.state is State.LIVE:
            self._live.leave(listener)
        self._ahead.discard(listener)
        listener.state = state

    def _closed(self, listener: Listener) -> None:
        self.dropped += listener.state is State.BEHIND or listener.stream.behind
        self._leave(listener, State.CLOSED)
        self._listeners.discard(listener)
        self._senders.left(listener)
