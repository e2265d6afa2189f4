"""The election thread, with an event loop of its own so that heartbeats are never delayed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, runtime_checkable

from election.contract import Election, Event, Identity, Won
from registry.base.observe.metrics import Pulse

_ANSWER_S = 10.0
_LOOK_S = 0.25
# Seconds that a node that cannot write for a reason of its own waits for that to pass before it resigns.
OWN_FAULT_RESIGN_S = 1.0
# Minimum seconds for another node to be elected instead of one that cannot write.
REELECTION_PAUSE_S = 3.0
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@runtime_checkable
class Counter(Protocol):
    """An election that also counts ids."""

    async def advance(self, upto: int) -> int:
        """Raise the counter to at least ``upto``; return its value before."""
        ...

    async def lower(self, since: int, to: int) -> bool:
        """Lower the counter to ``to`` if it is still ``since``; return True if so."""
        ...


class ElectionThread:
    """Takes part in the election, on its own event loop.

    ``make`` creates the election on the loop on which it will run; ``on_event`` is called there with events.

    The election detects that a node is alive, not that it can reach its log. An elected node that has had a
    ``last_error`` (the reason why it cannot write; empty if it can) for ``timeout_s`` therefore resigns, and
    may be elected again when it can write. If the error is the node's ``own`` (a store that cannot be
    written), another node can most likely write, so the node resigns after
    ``OWN_FAULT_RESIGN_S`` if that is sooner. A node that is still ``reading`` the log resigns at once,
    because reading may take long.
    """

    def __init__(
        self,
        make: Callable[[], Election],
        on_event: Callable[[Event], None],
        *,
        last_error: Callable[[], str] = lambda: "",
        own: Callable[[], bool] = lambda: False,
        reading: Callable[[], bool] = lambda: False,
        timeout_s: float = math.inf,
    ) -> None:
        self._make = make
        self._on_event = on_event
        self._last_error = last_error
        self._own = own
        self._reading = reading
        self._timeout_s = timeout_s
        self._won = False
        # The pulse of the event loop on which the election runs.
        self.pulse = Pulse()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._election: Election | None = None
        self._leaving = False
        self._closing = False

    def run(self) -> None:
        """Take part in the election until :meth:`close`. Raises the errors that make this impossible."""
        with asyncio.Runner() as runner:
            runner.run(self._take_part())

    async def _take_part(self) -> None:
        self._election = self._make()
        self._loop = asyncio.get_running_loop()
        self.pulse.start()
        if self._closing:
            return
        try:
            while not await self._handle(self._election):
                pass
        finally:
            await self._election.close()

    async def _handle(self, election: Election) -> bool:
        """Handle events until they end, or until this node has resigned and may be elected again.

        Return true if the events have ended.
        """
        listening = asyncio.ensure_future(self._listen(election))
        watching = asyncio.ensure_future(self._watch(election))
        try:
            await asyncio.wait((listening, watching), return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
                return True
            watching.result()
            return False
        finally:
            listening.cancel()
            watching.cancel()

    async def _watch(self, election: Election) -> None:
        """Resign if this node is elected and cannot write for too long; return when it can write again."""
        loop = asyncio.get_running_loop()
        since: float | None = None
        while since is None or loop.time() - since < self._resign_after_s():
            await asyncio.sleep(_LOOK_S)
            if self._leaving or not (self._won and self._reason()):
                since = None
            elif since is None:
                since = loop.time()
        level, rest_s = (logging.INFO, 0.0) if self._reading() else (logging.WARNING, REELECTION_PAUSE_S)
        _log.log(level, "this node resigns, because it cannot write: %s", self._reason())
        await election.resign()
        await asyncio.sleep(rest_s)
        while self._leaving or self._reason():  # noqa: ASYNC110 (other threads do not signal it)
            await asyncio.sleep(_LOOK_S)

    def _reason(self) -> str:
        return "the log has not been read to its end yet" if self._reading() else self._last_error()

    def _resign_after_s(self) -> float:
        if self._reading():
            return min(_LOOK_S, self._timeout_s)
        return min(OWN_FAULT_RESIGN_S, self._timeout_s) if self._own() else self._timeout_s

    async def _listen(self, election: Election) -> None:
        async for event in election.events():
            self._won = isinstance(event, Won)
            self._on_event(event)

    def confirm(self) -> bool:
        """Ask the authority to confirm that this node is still elected; blocks."""
        confirmed = self._ask(lambda election: election.confirm())
        try:
            return confirmed is not None and confirmed.result(_ANSWER_S)
        except Exception as error:
            _log.warning("cannot confirm that this node is elected: %r", error)
            return False

    async def evict(self, identity: Identity) -> bool:
        """Make the authority remove a dead primary; return true if it did."""
        evicted = self._ask(lambda election: election.evict(identity))
        return evicted is not None and await asyncio.wrap_future(evicted)

    def advance(self, upto: int) -> concurrent.futures.Future[int] | None:
        """Raise the election's counter of ids to at least ``upto``; return its value before.

        ``None`` if the election has no counter: only ZooKeeper has one.
        """
        counter: object = self._election
        return self._ask(lambda _: counter.advance(upto)) if isinstance(counter, Counter) else None

    def lower(self, since: int, to: int) -> concurrent.futures.Future[bool] | None:
        """Lower the election's counter of ids to ``to`` if it is still ``since``; ``None`` as above."""
        counter: object = self._election
        return self._ask(lambda _: counter.lower(since, to)) if isinstance(counter, Counter) else None

    def resign(self, timeout_s: float) -> None:
        """Resign permanently; blocks for at most ``timeout_s`` seconds."""
        self._leaving = True
        self._wait_for(self._ask(lambda election: election.resign()), timeout_s)

    def close(self, timeout_s: float) -> None:
        """Leave the election; blocks for at most ``timeout_s`` seconds."""
        self._leaving = self._closing = True
        self._wait_for(self._ask(lambda election: election.close()), timeout_s)

    def _wait_for(self, asked: concurrent.futures.Future[None] | None, timeout_s: float) -> None:
        if asked is None:
            return
        try:
            asked.result(timeout_s)
        except Exception as error:
            _log.warning("error while leaving the election: %r", error)

    def _ask(
        self, call: Callable[[Election], Coroutine[Any, Any, _T]]
    ) -> concurrent.futures.Future[_T] | None:
        loop, election = self._loop, self._election
        if loop is None or election is None or not loop.is_running():
            return None
        return asyncio.run_coroutine_threadsafe(call(election), loop)
