"""Counts who asks for schemas, in bounded memory, and hands the counts to the node now and then.

Most requests are such ones, so that counting one is a look-up of its headers and one of its target. What a
target names is found out when the counts are handed over, once for all requests with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from registry.api.asks import AGENT_CHARACTERS_MAX, ASKING, Ask, Asker, Asks, Thing, thing_asked, today
from registry.base.observe.metrics import AddressOf, RequestHead, Served, TargetCounts
from registry.domain.errors import OUTCOME_UNKNOWN, RegistryError
from registry.http1.messages import Header
from registry.security.client_address import client_network

# Kept until the counts are handed over: askers, and targets of all askers together.
ASKERS_MAX: Final = 500
TARGETS_MAX: Final = 5_000
_TARGET_BYTES_MAX = 512
_PRINCIPAL_CHARACTERS_MAX = 256
# Targets that are read at once when the counts are handed over.
_SLICE = 100
_AGENT = b"user-agent"
# Lists of headers that are remembered, and their bytes.
_KNOWN_MAX, _HEADERS_BYTES_MAX = 1024, 4096
# Requests by target.
_Counts = dict[bytes, int]
_log = logging.getLogger(__name__)


class AskCounter:
    """Counts the requests that ask for schemas."""

    def __init__(
        self, address_of: AddressOf = lambda address, _: address, day: Callable[[], int] = today
    ) -> None:
        self._address_of = address_of
        self._day = day
        self._methods = {method: _Requests(self, method) for method, _ in ASKING}
        # By method too.
        self._by_asker: dict[tuple[Asker, str], _Counts] = {}
        self._targets = 0
        # Requests that found no room.
        self._other = 0
        # Counts that the node has not taken yet.
        self._unsent: Asks | None = None
        # Of handing over: what is under way must not be sent a second time.
        self._turn = asyncio.Lock()

    def counts_for(self, method: str, route: str, status: int) -> TargetCounts | None:
        """Return what counts requests of a method, route and status; ``None`` if they do not ask."""
        return self._methods[method] if status < 400 and (method, route) in ASKING else None

    def find(self, asker: Asker, method: str) -> _Counts | None:
        """Return the counts of an asker; ``None`` if there are too many askers."""
        found = self._by_asker.get((asker, method))
        if found is None and len(self._by_asker) < ASKERS_MAX:
            found = self._by_asker[asker, method] = {}
        return found

    def asker(self, served: Served, headers: list[Header]) -> tuple[Asker, int]:
        """Return the sender of a request, and the bytes of its headers."""
        agent, size = b"", 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == _AGENT:
                agent = value
        address = "" if served.principal else client_network(self._address_of(served.client, headers))
        return Asker(_sendable(served.principal), address, _readable(agent), served.kind), size

    def add(self, counts: _Counts | None, target: bytes) -> None:
        """Count a request for a target, if there is room."""
        if counts is not None and target in counts:
            counts[target] += 1
        elif counts is None or self._targets >= TARGETS_MAX or len(target) > _TARGET_BYTES_MAX:
            self._other += 1
        else:
            counts[target] = 1
            self._targets += 1

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
            _log.debug("the node did not take the counts of who asks: %s", error)
            if error.code != OUTCOME_UNKNOWN.code:
                return
            self._other += unsent.other + sum(each.requests for each in unsent.asks)
        self._unsent = None

    async def _take(self) -> Asks | None:
        """Return all counts so far, and begin again; ``None`` if there are none."""
        by_asker, other, day = self._by_asker, self._other, self._day()
        if not by_asker and not other:
            return None
        self._by_asker, self._targets, self._other = {}, 0, 0
        for each in self._methods.values():
            each.forget()
        found: dict[tuple[Asker, Thing], int] = {}
        read = 0
        for (asker, method), counts in by_asker.items():
            for target, requests in counts.items():
                thing = thing_asked(method, target)
                if thing is None:
                    other += requests
                else:
                    found[asker, thing] = found.get((asker, thing), 0) + requests
                read += 1
                if read % _SLICE == 0:
                    await asyncio.sleep(0)
        return Asks(day, [Ask(*each, day, day, requests) for each, requests in found.items()], other)


class _Requests:
    """The requests of one method, which :class:`.Observed` counts by itself if their headers are known.

    A list of headers is of one connection, so it is always the same asker's; what changes that, such as a new
    file of users, is noticed when the counts have been handed over.
    """

    def __init__(self, counter: AskCounter, method: str) -> None:
        self.by_headers: dict[int, _Counts] = {}
        self._counter = counter
        self._method = method
        # The lists whose ids are known: no other list gets such an id meanwhile.
        self._lists: list[list[Header]] = []

    def add(self, served: Served, request: RequestHead) -> None:
        """Count a request, and remember its headers."""
        counter, headers = self._counter, request.headers
        counts = self.by_headers.get(id(headers))
        if counts is None:
            asker, size = counter.asker(served, headers)
            counts = counter.find(asker, self._method)
            if counts is not None and size <= _HEADERS_BYTES_MAX:
                if len(self._lists) >= _KNOWN_MAX:
                    self.forget()
                self.by_headers[id(headers)] = counts
                self._lists.append(headers)
        counter.add(counts, request.target)

    def forget(self) -> None:
        """Forget all headers."""
        self.by_headers.clear()
        self._lists.clear()


def _sendable(principal: str) -> str:
    """Return the beginning of a name, without halves of characters, which a token may have."""
    return principal[:_PRINCIPAL_CHARACTERS_MAX].encode("utf-8", "replace").decode()


def _readable(agent: bytes) -> str:
    """Return the beginning of a user agent, without characters that are not printable."""
    text = agent[: 4 * AGENT_CHARACTERS_MAX].decode("utf-8", "replace")[:AGENT_CHARACTERS_MAX]
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
