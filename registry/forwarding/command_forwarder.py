"""Where a command is decided: by the own writer while this node is primary, else by whoever is.

A command is tried until somebody has decided it or its time is over, at whoever is primary then. Each has a
idempotency key, the same in every try, by which a primary knows what it or another before it has done. So
what may
have been done is tried again, too. Where a primary was asked that keeps to no idempotency keys (an older one
of ours or Confluent's), that holds only for what does no harm twice.
"""

from __future__ import annotations

import asyncio
import os
import ssl

from election.contract import Identity
from registry.domain.admission import Room, size_of
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Done,
    Forgotten,
    IdempotencyKey,
    Later,
    NotPrimary,
    Outcome,
    Refused,
    Unknown,
    refused,
    repeatable,
)
from registry.domain.errors import FORWARD_FAILED, NO_PRIMARY, TOO_MANY_WRITES

from .confluent_client import PlainPrimary
from .messages import Wanted
from .node_port import Answer, Asked, Host, decided
from .primary_client import Line, Reply, Unsent
from .signing import Signing

RETIRE_S = 0.3
"""How long a former primary may take to answer what it has been sent."""
_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
_TRY_S = 0.05
"""With less time left, nothing is sent any more: its outcome would most likely be unknown."""
_IN_DOUBT = "The outcome of the write is unknown; it is safe to repeat it"
_NOT_THERE = "The primary cannot be reached; nothing was written"
_NOBODY = Reply(NotPrimary(), repeats=False)


class Forwarding:
    """Made on the node's event loop and used there."""

    def __init__(
        self,
        host: Host,
        signing: Signing,
        tls: ssl.SSLContext | None,
        *,
        node: str,
        room: Room,
    ) -> None:
        """``node``: the own id; ``room``: for commands that wait for another node, or for a primary."""
        self._host = host
        self._signing = signing
        self._tls = tls
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._line: Line | PlainPrimary | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._room = room
        self._stopped = False
        host.when_role_changes(self._role_changed)
        self._role_changed()

    def offer(self, asked: Asked, answer: Answer) -> None:
        """See :data:`.node_port.Offer`; the effect of a write is then visible in the own store.

        Refused with 50004 when no primary was found in time, or another node is it and the command was
        forwarded; with 50003 when the primary could not be reached.
        """
        if asked.idempotency_key is None:
            asked = asked._replace(
                idempotency_key=IdempotencyKey(os.urandom(IDEMPOTENCY_KEY_BYTES), self._host.applied())
            )
        if self._host.role != "primary" or asked.doubt:
            if self._room.fits(size_of(asked.command)):
                self._begin(asked, answer)
            else:
                answer(Unknown(_IN_DOUBT, repeats=True) if asked.doubt else refused(TOO_MANY_WRITES()))
            return
        repeats = self._host.repeats

        def told(outcome: Outcome) -> None:
            if isinstance(outcome, Done | Refused):
                answer(outcome)
            else:
                self._begin(asked, answer, Reply(outcome, repeats))

        if not self._submit(asked, told):
            answer(refused(TOO_MANY_WRITES()))

    def _submit(self, asked: Asked, answer: Answer) -> bool:
        left = asked.deadline - self._loop.time()
        return self._host.submit(asked.command, answer, left, asked.idempotency_key)

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

    def _begin(self, asked: Asked, answer: Answer, reply: Reply | None = None) -> None:
        self._room.add(size_of(asked.command))
        self._keep(self._loop.create_task(self._see_through(asked, answer, reply)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_through(self, asked: Asked, answer: Answer, reply: Reply | None) -> None:
        self._under_way += 1
        try:
            answer(await self._decided(asked, reply))
        finally:
            self._under_way -= 1
            self._room.remove(size_of(asked.command))

    async def _decided(self, asked: Asked, reply: Reply | None) -> Outcome:
        """Try until it is decided; ``reply`` is what a first try brought."""
        doubt = Doubt(asked.doubt)
        tries = 0
        while True:
            changed = self._changed
            if reply is None:
                asked = self._anew(asked, doubt)
                reply = await self._try(asked, doubt)
            told = doubt.weigh(asked, reply)
            if told is not None:
                return told
            if asked.forwarded and self._other_is_primary():
                return doubt.unknown or refused(NO_PRIMARY())
            left = asked.deadline - self._loop.time()
            # Where nobody is known there is nobody to ask again before that changes.
            known = self._line is not None or self._host.role == "primary"
            pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)] if known else left
            tries += 1
            if left <= (pause + _TRY_S if known else 0):
                return doubt.unknown or self._in_vain()
            await _wait(changed, min(pause, left))
            reply = None

    def _anew(self, asked: Asked, doubt: Doubt) -> Asked:
        """With a newer idempotency key of the same id, while it certainly was not done."""
        if doubt.any or asked.idempotency_key is None:
            return asked
        heard = 0 if self._line is None else self._line.end
        since = max(asked.idempotency_key.since, self._host.applied(), heard)
        return asked._replace(idempotency_key=IdempotencyKey(asked.idempotency_key.id, since))

    def _other_is_primary(self) -> bool:
        return self._host.role != "primary" and self._line is not None

    def _in_vain(self) -> Refused:
        trouble = "" if self._line is None else self._line.trouble
        return refused(FORWARD_FAILED(f"{_NOT_THERE} ({trouble})") if trouble else NO_PRIMARY())

    async def _try(self, asked: Asked, doubt: Doubt) -> Reply:
        if self._host.role == "primary":
            repeats = self._host.repeats
            if doubt.any and not (repeats or repeatable(asked.command)):
                return Reply(doubt.unknown or Unknown(_IN_DOUBT), repeats)
            return Reply(await self._own(asked), repeats)
        line = self._line
        if line is None or asked.forwarded:
            return _NOBODY
        left = asked.deadline - self._loop.time()
        wanted = Wanted(asked.command, left, asked.request_id, asked.idempotency_key)
        try:
            reply = await line.ask(wanted, asked.deadline, doubt=doubt.any)
        except Unsent:
            return _NOBODY
        if isinstance(reply.outcome, Done):
            # It is done, whether or not this node hears of it in time; reads here do not answer without.
            await self._host.reach_async(reply.outcome.offset, asked.deadline - self._loop.time())
        return reply

    async def _own(self, asked: Asked) -> Outcome:
        def offer(asked: Asked, answer: Answer) -> None:
            if not self._submit(asked, answer):
                answer(refused(TOO_MANY_WRITES()))

        return await decided(offer, asked)


class Doubt:
    """Whether a command may have been done by the tries so far, and what its next outcome then means."""

    def __init__(self, before: bool) -> None:
        """``before``: it was sent before, to primaries that keep to idempotency keys."""
        self.unknown: Unknown | None = Unknown(_IN_DOUBT, repeats=True) if before else None
        """What to answer when nobody says what came of it."""
        self._blind = False

    @property
    def any(self) -> bool:
        """Whether there is a doubt."""
        return self.unknown is not None

    def weigh(self, asked: Asked, reply: Reply) -> Outcome | None:
        """Return what to answer; ``None``: try again."""
        outcome = reply.outcome
        match outcome:
            case Done():
                return outcome
            case Refused(code):
                # Who keeps to idempotency keys has looked whether it was done, unless it could not decide at
                # all.
                looked = reply.repeats and not self._blind and not str(code).startswith("5")
                return outcome if looked else self.unknown or outcome
            case Unknown():
                self.unknown = outcome
                self._blind = self._blind or not outcome.repeats
                return outcome if self._blind and not repeatable(asked.command) else None
            case Forgotten():
                return self.unknown
            case NotPrimary() | Later():
                return None


async def _wait(changed: asyncio.Event, pause: float) -> None:
    try:
        async with asyncio.timeout(pause):
            await changed.wait()
    except TimeoutError:
        return
