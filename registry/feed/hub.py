"""The listeners of one process: each event is printed once for those who see the same, and sent to all.

One task pulls the events from the node (:mod:`.tail`) and writes them to the connections. Listeners that are
not at its position (they resumed, or read too slowly) take turns with a few workers. Nothing waits in memory
for a slow listener but what is in its connection's buffer: it gets the next events when it has read those.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Hashable, Sequence
from functools import partial
from typing import Any

from registry.domain.errors import BAD_REQUEST, UNAVAILABLE, RegistryError
from registry.security.gate import Gate

from .contract import Bounds, FeedSource, Quota, Stream
from .delivery import CatchingUp, LiveListeners, beginning, heartbeat, in_slices
from .listener import EventFilter, Listener, ListenerState, Senders, Subscription
from .ring import RingEntry
from .tail import Tail

HEARTBEAT_S = 15.0
# Pages that one request without a stream may examine.
_POLL_PAGES_MAX = 16
# Clients connect again after about so long, not all at once.
_RETRY_MS = (500, 2_500)


class Hub:
    """Serves the events of ``source`` to listeners within ``bounds``."""

    def __init__(self, source: FeedSource, gate: Gate, bounds: Bounds) -> None:
        self._source = source
        self._gate = gate
        self._quota = Quota(bounds)
        self._tail = Tail(source, self)
        self._listeners: set[Listener] = set()
        self._live = LiveListeners(on_behind=partial(self._leave, state=ListenerState.BEHIND))
        self._senders = Senders(
            gate, suspend=partial(self._leave, state=ListenerState.UNVERIFIED), resume=self._resume
        )
        self._catching_up = CatchingUp(self._tail, self._live, self._senders)
        self._tasks: set[asyncio.Task[None]] = set()
        self._beating = False
        self._stopping = False
        # Listeners whose connections broke because they read too slowly.
        self.dropped = 0

    @property
    def listeners(self) -> int:
        """The number of open streams, and of requests that wait."""
        return self._quota.total

    async def locate(self, subscription: Subscription, after: int | None) -> int:
        """Return the position after an offset, or the present one.

        Raises 400 for an offset that the log does not have yet, 410 for one that it has no more, 429 for a
        client that listens too often, 503.
        """
        self._check(subscription)
        if after is None:
            return self._source.applied()
        position = after + 1
        if position > self._source.applied():
            confirmed = await self._source.confirm()
            applied = self._source.applied()
            if position > applied and confirmed:
                raise BAD_REQUEST(f"after is beyond the end of the log: its last offset is {applied - 1}")
            if position > applied:
                raise UNAVAILABLE("This server has not reached that offset yet; try again")
        await self._tail.check(position)
        return position

    def _check(self, subscription: Subscription) -> None:
        """Raise 429 or 503 if a client may not listen."""
        if self._stopping:
            raise UNAVAILABLE("This server is stopping")
        refusal = self._quota.refusal(subscription.client)
        if refusal is not None:
            raise refusal

    def attach(self, stream: Stream, subscription: Subscription, position: int) -> None:
        """Send events from ``position`` on, until the connection closes or the credentials are refused."""
        stream.write(stream.frame(beginning(position, random.randint(*_RETRY_MS))))  # noqa: S311 (no secret)
        try:
            self._check(subscription)
        except RegistryError:
            stream.end()  # it gets the error when it resumes
            return
        sender = self._senders.get(subscription.credentials, subscription.admission.access)
        listener = Listener(stream, subscription.wanted, sender, position)
        self._listeners.add(listener)
        self._quota.take(subscription.client)
        stream.on_close = partial(self._close_when_gone, listener, subscription.client)
        stream.on_drained = partial(self._send_when_drained, listener)
        self._start()
        if not self._beating:
            self._beating = True
            self._begin(self._beat())
        self._catching_up.add(listener)

    async def poll(
        self, subscription: Subscription, position: int, *, limit: int, wait_s: float
    ) -> tuple[list[bytes], int]:
        """Return at most ``limit`` events from ``position`` on, and the position after them.

        Without events at the present end, waits for the next ones. May return none earlier: the client asks
        again from the new position. Raises as :meth:`locate`.
        """
        self._check(subscription)
        wanted, credentials, admission = subscription
        event_filter = EventFilter(wanted, admission.access)
        deadline = time.monotonic() + wait_s
        self._quota.take(subscription.client)
        try:
            if wait_s > 0:
                self._start()
            for _ in range(_POLL_PAGES_MAX):
                news = self._tail.news
                found, following = await self._tail.after(position)
                shown = [each for each in found if event_filter.shows(each)]
                if len(shown) > limit:
                    return [each.data for each in shown[:limit]], shown[limit - 1].event.offset + 1
                if shown:
                    return [each.data for each in shown], following
                if following > position:
                    position = following
                    continue
                if not await self._until(news, deadline):
                    break
                known = self._gate.cached_admission(credentials)
                if known is None or known.access is not admission.access:
                    break  # the next request finds out what the client may see now
            return [], position
        finally:
            self._quota.give_back(subscription.client)

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
        self._catching_up.stop()
        for task in self._tasks:
            task.cancel()
        self.on_break()
        self._tail.wake()

    def _start(self) -> None:
        if not self._tail.pulling:
            self._tail.begin()
            self._begin(self._tail.run())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _beat(self) -> None:
        """Send the listeners their position, so that those who see little do not resume far back."""
        try:
            while self._listeners:
                await asyncio.sleep(HEARTBEAT_S)
                async for listener in in_slices(self._listeners):
                    if not listener.stream.behind:
                        listener.stream.write(listener.stream.frame(heartbeat(listener.position)))
        finally:
            self._beating = False

    # --- called by the tail

    def is_present(self) -> bool:
        """Return true if somebody listens."""
        return self.listeners > 0

    def before_events(self) -> None:
        """Look up what senders may see now, and try again to advance those who were ahead of the feed."""
        self._senders.check_all()
        self._catching_up.try_ahead()

    async def on_events(self, found: Sequence[RingEntry], begin: int, end: int) -> None:
        """Send new events to all who were sent everything before."""
        await self._live.send(found, begin, end)

    def on_gap(self) -> None:
        """Let all listeners find out what they lack."""
        for listener in self._live:
            self._leave(listener, ListenerState.CATCHING_UP)
            self._catching_up.add(listener)

    def on_break(self) -> None:
        """End all streams: clients resume, or find out why they cannot."""
        self._catching_up.clear()
        for listener in tuple(self._listeners):
            listener.stream.end()

    # --- called by streams and senders

    def _resume(self, listener: Listener) -> None:
        self._catching_up.add(listener)

    def _send_when_drained(self, listener: Listener) -> None:
        if listener.state is ListenerState.BEHIND:
            self._catching_up.add(listener)

    def _leave(self, listener: Listener, state: ListenerState) -> None:
        """Take a listener out of where it waits."""
        if listener.state is ListenerState.LIVE:
            self._live.leave(listener)
        self._catching_up.leave(listener)
        listener.state = state

    def _close_when_gone(self, listener: Listener, client: Hashable) -> None:
        self.dropped += listener.state is ListenerState.BEHIND or listener.stream.behind
        self._leave(listener, ListenerState.CLOSED)
        self._listeners.discard(listener)
        self._senders.forget(listener)
        self._quota.give_back(client)
