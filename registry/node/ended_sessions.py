"""Signing out of the console on all nodes of a cluster.

Each host has the sessions that were ended on it. Its node reports them to the other nodes, also to those that
it hears of later, for as long as they count; so a cookie that was signed out anywhere is soon refused on all.
It looks for new ones whenever it hears of other nodes, every few seconds, and never without them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, Protocol

import msgspec

from registry.domain.errors import UNAVAILABLE, RegistryError
from registry.security.authentication.sessions import ENDED_MAX, WHOLE_S, EndedSessions

# After this time a node that did not answer is asked again.
AGAIN_S: Final = 5.0
_ID_BYTES: Final = 16
# The times of files advance in steps, shorter than this.
_STEP_S: Final = 1.0
# Ids, and until when each counts, in seconds since 1970.
_Ends = dict[bytes, float]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Ends).decode
_log = logging.getLogger(__name__)


class Heard(Protocol):
    """Another node that was heard of lately."""

    @property
    def node(self) -> str:
        """Its id."""
        ...


# Asks these nodes; returns what each has answered, ``None``: nothing.
Ask = Callable[[bytes, Collection[str]], Awaitable[dict[str, bytes | None]]]


class SharedEnds:
    """Reports the sessions that were ended here to other nodes, and takes theirs; used on the event loop."""

    def __init__(self, ended: EndedSessions, clock: Callable[[], float] = time.time) -> None:
        """``clock``: in seconds since 1970."""
        self._ended = ended
        self._clock = clock
        self._state = 0
        # Ended on this host; the other nodes report theirs themselves.
        self._own: _Ends = {}
        self._taken: _Ends = {}
        # The ids that each node knows from this one, and when those that did not answer are asked again.
        self._sent: dict[str, set[bytes]] = {}
        self._again: dict[str, float] = {}

    async def take(self, body: bytes) -> bytes:
        """Take the sessions that were ended on another node. Raises ``msgspec.DecodeError``, 503."""
        now = self._clock()
        new = {
            session: min(until, now + WHOLE_S)
            for session, until in _decode(body).items()
            if len(session) == _ID_BYTES and until > now and session not in self._taken
        }
        if len(self._taken) + len(new) > ENDED_MAX:
            raise UNAVAILABLE("Too many sessions were ended lately")
        self._taken |= new  # first, because what is not here counts as ended on this host
        try:
            await asyncio.to_thread(self._add, new)
        except OSError as error:
            self._forget(new)
            raise UNAVAILABLE(f"The sessions cannot be written: {error.strerror or error}") from error
        except RegistryError:
            self._forget(new)
            raise
        return b""

    def _forget(self, ends: _Ends) -> None:
        """Have ends that were not added taken when they come again."""
        self._taken = {session: until for session, until in self._taken.items() if session not in ends}

    async def share(
        self, others: Callable[[], Iterable[Heard]], news: Callable[[], Awaitable[None]], ask: Ask
    ) -> None:
        """Report to the ``others``, by ``ask``, what was ended here and they lack, until cancelled.

        ``news`` returns when others were heard of again.
        """
        while True:
            await news()
            try:
                self._look()
                if self._own:
                    await self._report({each.node for each in others()}, ask)
            except OSError as error:
                _log.warning("cannot read the ended sessions of the console: %s", error)

    def _add(self, ends: _Ends) -> None:
        for session, until in ends.items():
            self._ended.add(session, until)

    def _look(self) -> None:
        """Find what was ended here since the last look, and forget what would have expired."""
        state, now = self._ended.state(), self._clock()
        if state != self._state:
            # What is added within one step of the time changes no state: another look finds that.
            self._state = state if now - state / 1e9 > _STEP_S else 0
            self._own = {
                session: until
                for session, until in self._ended.current().items()
                if session not in self._taken
            }
        self._own = {session: until for session, until in self._own.items() if until > now}
        self._taken = {session: until for session, until in self._taken.items() if until > now}

    async def _report(self, nodes: Collection[str], ask: Ask) -> None:
        self._sent = {node: known & self._own.keys() for node, known in self._sent.items() if node in nodes}
        now = asyncio.get_running_loop().time()
        lacking = {
            node
            for node in nodes
            if self._again.get(node, 0.0) <= now and not self._own.keys() <= self._sent.get(node, set())
        }
        if not lacking:
            return
        report = dict(self._own)
        for node, answer in (await ask(_encode(report), lacking)).items():
            if answer is None:
                self._again[node] = now + AGAIN_S
            else:
                self._again.pop(node, None)
                self._sent.setdefault(node, set()).update(report)
