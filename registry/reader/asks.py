"""Counts who asks for schemas, in bounded memory, and hands the counts to the node now and then.

Most requests are such ones, so a request only puts its target into a list, which is counted when it is full.
What a target names is found out when the counts are handed over, once for all requests with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from registry.api.asks import AGENT_CHARACTERS_MAX, ASKING, Ask, Asker, Asks, Thing, thing_asked, today
from registry.base.observe.metrics import AddressOf, Headers, RequestHead, Served, TargetCounts
from registry.domain.errors import OUTCOME_UNKNOWN, RegistryError
from registry.http1.messages import SHARED_TARGET_BYTES_MAX
from registry.security.client_address import client_network

# Kept until the counts are handed over: askers, and targets of all askers together.
ASKERS_MAX: Final = 500
TARGETS_MAX: Final = 5_000
# Targets of all askers together that wait to be counted.
WAITING_MAX: Final = 8_192
_PRINCIPAL_CHARACTERS_MAX = 256
# Targets that are read at once when the counts are handed over.
_SLICE = 100
_AGENT = b"user-agent"
# Lists of headers that are remembered, and their bytes.
_KNOWN_MAX, _HEADERS_BYTES_MAX = 1024, 4096
_log = logging.getLogger(__name__)


class _Targets(list[bytes]):
    """The targets of one asker that wait to be counted, and the counts of all before."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[bytes]()


class AskCounter:
    """Counts the requests that ask for schemas.

    Headers are of one connection, so they are always the same asker's; what changes that, such as a new file
    of users, is noticed when the counts have been handed over.
    """

    def __init__(
        self, address_of: AddressOf = lambda address, _: address, day: Callable[[], int] = today
    ) -> None:
        self._address_of = address_of
        self._day = day
        self.room = WAITING_MAX
        self._by_asker: dict[Asker, _Targets] = {}
        # Targets that are counted.
        self._size = 0
        # Requests that found no room.
        self._other = 0
        # Headers that lead to the targets of an asker.
        self._known: list[Headers] = []
        # Counts that the node has not taken yet.
        self._unsent: Asks | None = None
        # Of handing over: what is under way must not be sent a second time.
        self._turn = asyncio.Lock()

    def counts_for(self, method: str, route: str, status: int) -> TargetCounts | None:
        """Return what counts requests of a method, route and status; ``None`` if they do not ask."""
        return self if status < 400 and (method, route) in ASKING else None

    def add(self, served: Served, request: RequestHead) -> None:
        """Count a request, and remember its headers."""
        headers = request.headers
        asker, size = self._asker(served, headers)
        targets = self._by_asker[asker] if asker in self._by_asker else self._add_asker(asker)
        if targets is None or len(request.target) > SHARED_TARGET_BYTES_MAX:
            self._other += 1
            return
        if size <= _HEADERS_BYTES_MAX:
            if len(self._known) >= _KNOWN_MAX:
                self._forget()
            headers.targets = targets
            self._known.append(headers)
        targets.append(request.target)
        if len(targets) >= self.room:
            self.count(targets)

    def _add_asker(self, asker: Asker) -> _Targets | None:
        """Return the targets of another asker; ``None`` if there are too many."""
        if len(self._by_asker) >= ASKERS_MAX:
            return None
        self._count_all()
        targets = self._by_asker[asker] = _Targets()
        self.room = max(1, WAITING_MAX // len(self._by_asker))
        return targets

    def count(self, targets: list[bytes]) -> None:
        """Count the targets that wait, as far as there is room."""
        assert isinstance(targets, _Targets)
        counts, before = targets.counts, len(targets.counts)
        counts.update(targets)
        targets.clear()
        self._size += len(counts) - before
        while self._size > TARGETS_MAX:
            self._other += counts.popitem()[1]
            self._size -= 1

    def _count_all(self) -> None:
        for each in self._by_asker.values():
            self.count(each)

    def _forget(self) -> None:
        """Forget all headers."""
        for each in self._known:
            del each.targets
        self._known.clear()

    def _asker(self, served: Served, headers: Headers) -> tuple[Asker, int]:
        """Return the sender of a request, and the bytes of its headers."""
        agent, size = b"", 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == _AGENT:
                agent = value
        address = "" if served.principal else client_network(self._address_of(served.client, headers))
        return Asker(_sendable(served.principal), address, _readable(agent), served.kind), size

    async def hand_over(self, send: Callable[[Asks], Awaitable[None]]) -> None:
        """Send what was counted since the last time, if anything was.

        What ``send`` refuses is sent again the next time. If it does not say what became of the counts, they
        are not sent twice, but count as requests without an asker.
        """
        async with self._turn:
            unsent = self._unsent = self._unsent or await self._take()
            if unsent is not None:
                await self._send(unsent, send)

    async def _send(self, unsent: Asks, send: Callable[[Asks], Awaitable[None]]) -> None:
        try:
            await send(unsent)
        except RegistryError as error:
            _log.debug("the node did not accept the counts of who asks: %s", error)
            if error.code != OUTCOME_UNKNOWN.code:
                return
            self._other += unsent.other + sum(each.requests for each in unsent.asks)
        self._unsent = None

    async def _take(self) -> Asks | None:
        """Return all counts so far, and begin again; ``None`` if there are none."""
        self._count_all()
        self._forget()
        by_asker, other, day = self._by_asker, self._other, self._day()
        if not by_asker and not other:
            return None
        self._by_asker, self._size, self._other, self.room = {}, 0, 0, WAITING_MAX
        found: dict[tuple[Asker, Thing], int] = {}
        read = 0
        for asker, targets in by_asker.items():
            for target, requests in targets.counts.items():
                thing = thing_asked(target)
                if thing is None:
                    other += requests
                else:
                    found[asker, thing] = found.get((asker, thing), 0) + requests
                read += 1
                if read % _SLICE == 0:
                    await asyncio.sleep(0)
        return Asks(day, [Ask(*each, day, day, requests) for each, requests in found.items()], other)


def _sendable(principal: str) -> str:
    """Return the beginning of a name, without halves of characters, which a token may have."""
    return principal[:_PRINCIPAL_CHARACTERS_MAX].encode("utf-8", "replace").decode()


def _readable(agent: bytes) -> str:
    """Return the beginning of a user agent, without characters that are not printable."""
    text = agent[: 4 * AGENT_CHARACTERS_MAX].decode("utf-8", "replace")[:AGENT_CHARACTERS_MAX]
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
