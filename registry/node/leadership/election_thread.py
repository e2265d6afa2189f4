"""Taking part in the election, in a thread with an event loop of its own, so that heartbeats never starve."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, runtime_checkable

from election.contract import Election, Event, Identity, Won
from registry.observe.pulse import Pulse

_ANSWER_S = 10.0
_LOOK_S = 0.25
# How long a node that cannot write for a reason of its own waits for that to pass before it resigns.
OWN_S = 1.0
REST_S = 3.0
"""How long another node has at least to be elected instead of one that cannot write."""
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@runtime_checkable
class Counter(Protocol):
    """An election that also counts ids."""

    async def advance(self, upto: int) -> int:
        """Let the counter be at least ``upto``; the value found before."""
        ...


class ElectionThread:
    """``make`` makes the election on the loop on which it will run; ``heard`` is called there with events.

    The election knows that a node lives, not that it reaches its log. So a node that was elected and has had
    ``trouble`` (why it cannot write; empty when it can) for ``patience_s`` resigns, and may be elected again
    when the trouble is over. One whose trouble is its ``own`` (a store that cannot be written), so that
    another node most likely can write, resigns after ``OWN_S`` if that is sooner. One that is ``reading``
    the log yet resigns at once: that may take long.
    """

    def __init__(
        self,
        make: Callable[[], Election],
        heard: Callable[[Event], None],
        *,
        trouble: Callable[[], str] = lambda: "",
        own: Callable[[], bool] = lambda: False,
        reading: Callable[[], bool] = lambda: False,
        patience_s: float = math.inf,
    ) -> None:
        self._make = make
        self._heard = heard
        self._trouble = trouble
        self._own = own
        self._reading = reading
        self._patience_s = patience_s
        self._won = False
        self.pulse = Pulse()
        """Of the event loop on which the election runs."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._election: Election | None = None
        self._leaving = False
        self._closing = False

    def run(self) -> None:
        """Take part until :meth:`close`. Raises what makes taking part impossible."""
        with asyncio.Runner() as runner:
            runner.run(self._take_part())

    async def _take_part(self) -> None:
        self._election = self._make()
        self._loop = asyncio.get_running_loop()
        self.pulse.start()
        if self._closing:
            return
        try:
            while not await self._hear(self._election):
                pass
        finally:
            await self._election.close()

    async def _hear(self, election: Election) -> bool:
        """Hear events until there are no more, or until this node, having resigned, may be elected again."""
        hearing = asyncio.ensure_future(self._listen(election))
        watching = asyncio.ensure_future(self._watch(election))
        try:
            await asyncio.wait((hearing, watching), return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                hearing.result()
                return True
            watching.result()
            return False
        finally:
            hearing.cancel()
            watching.cancel()

    async def _watch(self, election: Election) -> None:
        """Resign when this node is elected and cannot write for long; return when it can again."""
        loop = asyncio.get_running_loop()
        since: float | None = None
        while since is None or loop.time() - since < self._patience():
            await asyncio.sleep(_LOOK_S)
            if self._leaving or not (self._won and self._reason()):
                since = None
            elif since is None:
                since = loop.time()
        level, rest_s = (logging.INFO, 0.0) if self._reading() else (logging.WARNING, REST_S)
        _log.log(level, "this node leaves writing to others, as it cannot write: %s", self._reason())
        await election.resign()
        await asyncio.sleep(rest_s)
        while self._leaving or self._reason():  # noqa: ASYNC110 (other threads tell nobody of it)
            await asyncio.sleep(_LOOK_S)

    def _reason(self) -> str:
        return "the log is not read up to its end yet" if self._reading() else self._trouble()

    def _patience(self) -> float:
        if self._reading():
            return min(_LOOK_S, self._patience_s)
        return min(OWN_S, self._patience_s) if self._own() else self._patience_s

    async def _listen(self, election: Election) -> None:
        async for event in election.events():
            self._won = isinstance(event, Won)
            self._heard(event)

    def confirm(self) -> bool:
        """Ask the authority whether this node is still elected; blocks."""
        confirmed = self._ask(lambda election: election.confirm())
        try:
            return confirmed is not None and confirmed.result(_ANSWER_S)
        except Exception as error:
            _log.warning("the election was not confirmed: %r", error)
            return False

    async def evict(self, identity: Identity) -> bool:
        """Make the authority forget a primary that is dead; whether it did."""
        evicted = self._ask(lambda election: election.evict(identity))
        return evicted is not None and await asyncio.wrap_future(evicted)

    def advance(self, upto: int) -> concurrent.futures.Future[int] | None:
        """Move the election's counter of ids up to at least ``upto``; the value found before.

        ``None`` where there is none: only ZooKeeper has one.
        """
        counter: object = self._election
        return self._ask(lambda _: counter.advance(upto)) if isinstance(counter, Counter) else None

    def resign(self, timeout_s: float) -> None:
        """Give up being primary for good; blocks, for at most ``timeout_s``."""
        self._leaving = True
        self._wait_for(self._ask(lambda election: election.resign()), timeout_s)

    def close(self, timeout_s: float) -> None:
        """Leave; blocks, for at most ``timeout_s``."""
        self._leaving = self._closing = True
        self._wait_for(self._ask(lambda election: election.close()), timeout_s)

    def _wait_for(self, asked: concurrent.futures.Future[None] | None, timeout_s: float) -> None:
        if asked is None:
            return
        try:
            asked.result(timeout_s)
        except Exception as error:
            _log.warning("leaving the election: %r", error)

    def _ask(
        self, call: Callable[[Election], Coroutine[Any, Any, _T]]
    ) -> concurrent.futures.Future[_T] | None:
        loop, election = self._loop, self._election
        if loop is None or election is None or not loop.is_running():
            return None
        return asyncio.run_coroutine_threadsafe(call(election), loop)
