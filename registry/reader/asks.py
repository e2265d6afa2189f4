"""Counts who asks for schemas, in bounded memory, and hands the counts to the node now and then.

Every such request passes here, so it takes one look-up of the asker and one of the target. What a target
names is found out when the counts are handed over, once for all requests with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from registry.api.asks import AGENT_CHARACTERS_MAX, ASKING, Ask, Asker, Asks, Thing, thing_asked, today
from registry.base.observe.metrics import AddressOf, Look, RequestHead, Served
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
# Before the targets of POSTs; targets begin with a slash.
_POSTED = b"POST "
# Lists of headers that are remembered, and their bytes.
_KNOWN_MAX, _HEADERS_BYTES_MAX = 1024, 4096
# Requests by target.
_Counts = dict[bytes, int]
_log = logging.getLogger(__name__)


class AskCounter:
    """Counts the answers that :meth:`look_for` says are to be counted."""

    def __init__(
        self, address_of: AddressOf = lambda address, _: address, day: Callable[[], int] = today
    ) -> None:
        self._address_of = address_of
        self._day = day
        # By the ids of lists of headers: the list, the principal that sent it, and the counts of the asker. A
        # list is of one connection, so most requests of a client have the same.
        self._known: dict[int, tuple[list[Header], str, _Counts]] = {}
        self._by_asker: dict[Asker, _Counts] = {}
        # What an asker counts in for which there is no room; always empty.
        self._no_room: _Counts = {}
        self._targets = 0
        # Requests that found no room.
        self._other = 0
        # Counts that the node has not taken yet.
        self._unsent: Asks | None = None

    def look_for(self, method: str, route: str, status: int) -> Look | None:
        """Return what counts answers of a method, route and status; ``None`` if they are not counted."""
        return self._count if status < 400 and (method, route) in ASKING else None

    def _count(self, served: Served, request: RequestHead) -> None:
        known = self._known.get(id(request.headers))
        if known is None or known[1] != served.principal:
            counts = self._counts_of(served.client, served.principal, request.headers)
        else:
            counts = known[2]
        target = request.target if request.method == b"GET" else _POSTED + request.target
        try:
            counts[target] += 1
        except KeyError:
            self._add(counts, target)

    def _counts_of(self, host: str, principal: str, headers: list[Header]) -> _Counts:
        """Return the counts of the sender of a request; of one asker too many :attr:`_no_room`."""
        agent, size = b"", 0
        for name, value in headers:
            size += len(name) + len(value)
            if name == _AGENT:
                agent = value
        address = "" if principal else client_network(self._address_of(host, headers))
        asker = Asker(principal[:_PRINCIPAL_CHARACTERS_MAX], address, _readable(agent))
        found = self._by_asker.get(asker)
        if found is None and len(self._by_asker) >= ASKERS_MAX:
            return self._no_room
        if found is None:
            found = self._by_asker[asker] = {}
        if size <= _HEADERS_BYTES_MAX:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[id(headers)] = headers, principal, found
        return found

    def _add(self, counts: _Counts, target: bytes) -> None:
        full = counts is self._no_room or self._targets >= TARGETS_MAX
        if full or len(target) > _TARGET_BYTES_MAX:
            self._other += 1
        else:
            counts[target] = 1
            self._targets += 1

    async def hand_over(self, send: Callable[[Asks], Awaitable[None]]) -> None:
        """Send what was counted since the last time, if anything was.

        What ``send`` refuses is sent again the next time. If it does not say what became of the counts, they
        are not sent twice, but count as requests without an asker.
        """
        unsent = self._unsent = self._unsent or await self._take()
        if unsent is None:
            return
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
        self._known.clear()
        found: dict[tuple[Asker, Thing], int] = {}
        read = 0
        for asker, counts in by_asker.items():
            for target, requests in counts.items():
                method = "GET" if target.startswith(b"/") else "POST"
                thing = thing_asked(method, target.removeprefix(_POSTED))
                if thing is not None:
                    found[asker, thing] = found.get((asker, thing), 0) + requests
                read += 1
                if read % _SLICE == 0:
                    await asyncio.sleep(0)
        return Asks(day, [Ask(*each, day, day, requests) for each, requests in found.items()], other)


def _readable(agent: bytes) -> str:
    """Return the beginning of a user agent, without characters that are not printable."""
    text = agent[: 4 * AGENT_CHARACTERS_MAX].decode("utf-8", "replace")[:AGENT_CHARACTERS_MAX]
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
