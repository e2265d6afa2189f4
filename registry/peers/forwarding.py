"""Where a command is decided: by the own writer while this node is primary, else by whoever is.

A command is tried until somebody has decided it or its time is over. What certainly was not done is tried
again, at whoever is primary then; of what may have been done, only what does no harm twice.
"""

from __future__ import annotations

import asyncio
import ssl

from election.contract import Identity
from registry.domain.commands import Done, NotPrimary, Outcome, Refused, Unknown, refused, repeatable
from registry.domain.errors import FORWARD_FAILED, NO_PRIMARY, TOO_MANY_WRITES

from .host import Answer, Asked, Host, decided
from .line import Line, Unsent
from .messages import Wanted
from .plain import PlainPrimary
from .signing import Signing

RETIRE_S = 0.3
"""How long a former primary may take to answer what it has been sent."""
_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
_TRY_S = 0.05
"""With less time left, nothing is sent any more: its outcome would most likely be unknown."""
_NOT_THERE = "The primary cannot be reached; nothing was written"


class Forwarding:
    """Made on the node's event loop and used there."""

    def __init__(self, host: Host, signing: Signing, tls: ssl.SSLContext | None, *, node: str) -> None:
        """``node``: the own id."""
        self._host = host
        self._signing = signing
        self._tls = tls
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._line: Line | PlainPrimary | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._stopped = False
        host.when_role_changes(self._role_changed)
        self._role_changed()

    def offer(self, asked: Asked, answer: Answer) -> None:
        """See :data:`.host.Offer`; the effect of a write is then visible in the own store.

        Refused with 50004 when no primary was found in time, or another node is it and the command was
        forwarded; with 50003 when the primary could not be reached.
        """
        if self._host.role != "primary":
            self._begin(asked, answer)
            return

        def told(outcome: Outcome) -> None:
            if isinstance(outcome, Done | Refused):
                answer(outcome)
            else:
                self._begin(asked, answer, outcome)

        if not self._host.submit(asked.command, told, asked.deadline - self._loop.time()):
            answer(refused(TOO_MANY_WRITES()))

    @property
    def under_way(self) -> int:
        """How many commands wait for another node, or for a primary."""
        return self._under_way

    async def stop(self) -> None:
        """Hang up; what is still under way is given up."""
        self._stopped = True
        if self._line is not None:
            await self._line.retire(0)
        for task in self._tasks:
            task.cancel()

    # --- following the primary

    def _role_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        wanted = None if self._host.role == "primary" or self._stopped else self._host.primary
        line = self._line
        if line is not None and line.identity == wanted:
            return
        if line is not None:
            self._keep(self._loop.create_task(line.retire(RETIRE_S)))
        self._line = None if wanted is None or wanted.node == self._node != "" else self._to(wanted)

    def _to(self, identity: Identity) -> Line | PlainPrimary:
        if not identity.peer:
            return PlainPrimary(identity, self._host)
        line = Line(identity, self._signing, self._tls, node=self._node, refused=self._host.evict)
        line.start()
        return line

    # --- one command

    def _begin(self, asked: Asked, answer: Answer, outcome: Outcome | None = None) -> None:
        self._keep(self._loop.create_task(self._see_through(asked, answer, outcome)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_through(self, asked: Asked, answer: Answer, outcome: Outcome | None) -> None:
        self._under_way += 1
        try:
            answer(await self._decided(asked, outcome))
        finally:
            self._under_way -= 1

    async def _decided(self, asked: Asked, outcome: Outcome | None) -> Outcome:
        """Try until it is decided; ``outcome`` is what a first try brought."""
        unknown: Unknown | None = None
        tries = 0
        while True:
            changed = self._changed
            if outcome is None:
                outcome = await self._try(asked)
            if isinstance(outcome, Done):
                return outcome
            if isinstance(outcome, Refused):
                # A refusal after a doubt says nothing about the try that was in doubt.
                return unknown or outcome
            if isinstance(outcome, Unknown):
                if not repeatable(asked.command):
                    return outcome
                unknown = outcome
            if asked.forwarded and self._other_is_primary():
                return unknown or refused(NO_PRIMARY())
            left = asked.deadline - self._loop.time()
            # Where nobody is known there is nobody to ask again before that changes.
            known = self._line is not None or self._host.role == "primary"
            pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)] if known else left
            tries += 1
            if left <= (pause + _TRY_S if known else 0):
                return unknown or self._in_vain()
            await _wait(changed, min(pause, left))
            outcome = None

    def _other_is_primary(self) -> bool:
        return self._host.role != "primary" and self._line is not None

    def _in_vain(self) -> Refused:
        trouble = "" if self._line is None else self._line.trouble
        return refused(FORWARD_FAILED(f"{_NOT_THERE} ({trouble})") if trouble else NO_PRIMARY())

    async def _try(self, asked: Asked) -> Outcome:
        if self._host.role == "primary":
            return await self._own(asked)
        line = self._line
        if line is None or asked.forwarded:
            return NotPrimary()
        wanted = Wanted(asked.command, asked.deadline - self._loop.time(), asked.request_id)
        try:
            outcome = await line.ask(wanted, asked.deadline)
        except Unsent:
            return NotPrimary()
        if isinstance(outcome, Done):
            # It is done, whether or not this node hears of it in time; reads here do not answer without.
            await self._host.reach_async(outcome.offset, asked.deadline - self._loop.time())
        return outcome

    async def _own(self, asked: Asked) -> Outcome:
        def offer(asked: Asked, answer: Answer) -> None:
            if not self._host.submit(asked.command, answer, asked.deadline - self._loop.time()):
                answer(refused(TOO_MANY_WRITES()))

        return await decided(offer, asked)


async def _wait(changed: asyncio.Event, pause: float) -> None:
    try:
        async with asyncio.timeout(pause):
            await changed.wait()
    except TimeoutError:
        return
