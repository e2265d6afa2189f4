"""Forwarding of commands: to the local writer while this node is primary, else to the primary.

A command is tried, each time at the node that is primary then, until one has decided it or its deadline has
passed. It carries the same idempotency key in every try, by which a primary finds what it or an earlier
primary has done. So a command that may have been done is tried again too. If a primary without idempotency
keys was asked (an older node or Confluent's), that holds for idempotent commands only.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import NamedTuple

from msgspec.structs import replace

from election.contract import Identity
from registry.domain.admission import Room
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Command,
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
from registry.domain.errors import FORWARD_FAILED, NO_PRIMARY, TOO_MANY_WRITES, outcome_unknown
from registry.domain.pending_command import PendingCommand

from .confluent_client import PlainPrimary
from .node_port import Host, outcome_of
from .primary_client import Line
from .signing import Signing

RETIRE_S = 0.3
"""How long a former primary may take to answer what it has been sent."""
_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
_TRY_S = 0.05
"""With less time left, nothing is sent any more: its outcome would most likely be unknown."""
_IN_DOUBT = outcome_unknown("No primary has confirmed the write")
_NOT_THERE = "The primary cannot be reached; nothing was written"


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

    def submit(self, pending: PendingCommand) -> None:
        """Have a command decided; the local store holds its effect before the reply.

        It is refused with 50004 if no primary was found in time, or if another node is primary and the
        command was forwarded; with 50003 if the primary could not be reached. The reply is never
        :class:`NotPrimary`.
        """
        if pending.request.idempotency_key is None:
            self._set_key(pending, os.urandom(IDEMPOTENCY_KEY_BYTES), self._host.applied())
        if self._host.role != "primary" or pending.in_doubt:
            if self._room.fits(pending.size):
                self._begin(pending)
            elif pending.in_doubt:
                pending.reply(Unknown(_IN_DOUBT, repeats=True))
            else:
                pending.reply(refused(TOO_MANY_WRITES()))
            return
        attempt, repeats = pending.attempt(), self._host.repeats

        def on_reply(outcome: Outcome) -> None:
            if isinstance(outcome, Done | Refused):
                pending.reply(outcome)
            else:
                self._begin(pending, Reply(outcome, repeats))

        attempt.reply = on_reply
        self._host.submit(attempt)

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

    def _begin(self, pending: PendingCommand, first: Reply | None = None) -> None:
        self._room.add(pending.size)
        self._keep(self._loop.create_task(self._see_through(pending, first)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_through(self, pending: PendingCommand, first: Reply | None) -> None:
        self._under_way += 1
        try:
            pending.reply(await self._decided(pending, first))
        finally:
            self._under_way -= 1
            self._room.remove(pending.size)

    async def _decided(self, pending: PendingCommand, reply: Reply | None) -> Outcome:
        """Try until it is decided; ``reply`` is that of a first try, if there was one."""
        doubt = Doubt(pending.in_doubt)
        tries = 0
        while True:
            changed = self._changed
            if reply is None:
                self._renew_key(pending, doubt)
                reply = await self._try(pending, doubt)
            outcome = doubt.weigh(pending.command, reply)
            if outcome is not None:
                return outcome
            if pending.forwarded and self._other_is_primary():
                return doubt.unknown or refused(NO_PRIMARY())
            left = pending.deadline - self._loop.time()
            # Where nobody is known there is nobody to ask again before that changes.
            known = self._line is not None or self._host.role == "primary"
            pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)] if known else left
            tries += 1
            if left <= (pause + _TRY_S if known else 0):
                return doubt.unknown or self._unreached()
            await _wait(changed, min(pause, left))
            reply = None

    def _renew_key(self, pending: PendingCommand, doubt: Doubt) -> None:
        """Let the key begin at the newest known end of the log, while the command surely was not done.

        So no primary is asked with a key that is older than its memory.
        """
        key = pending.request.idempotency_key
        if key is not None and not doubt.any:
            end = 0 if self._line is None else self._line.end
            self._set_key(pending, key.id, max(key.since, self._host.applied(), end))

    @staticmethod
    def _set_key(pending: PendingCommand, id: bytes, since: int) -> None:
        pending.request = replace(pending.request, idempotency_key=IdempotencyKey(id, since))

    def _other_is_primary(self) -> bool:
        return self._host.role != "primary" and self._line is not None

    def _unreached(self) -> Refused:
        trouble = "" if self._line is None else self._line.trouble
        return refused(FORWARD_FAILED(f"{_NOT_THERE} ({trouble})") if trouble else NO_PRIMARY())

    async def _try(self, pending: PendingCommand, doubt: Doubt) -> Reply:
        if self._host.role == "primary":
            repeats = self._host.repeats
            if doubt.any and not (repeats or repeatable(pending.command)):
                return Reply(doubt.unknown or Unknown(_IN_DOUBT), repeats)
            return Reply(await outcome_of(self._host.submit, pending.attempt()), repeats)
        line = self._line
        if line is None or pending.forwarded:
            return Reply(NotPrimary(), repeats=False)
        attempt = pending.attempt(may_defer=True, in_doubt=doubt.any)
        outcome = await line.ask(attempt)
        if isinstance(outcome, Done):
            # It is done even if this node does not see the record in time; reads here wait for it themselves.
            await self._host.reach_async(outcome.offset, pending.deadline - self._loop.time())
        return Reply(outcome, attempt.repeats)


class Reply(NamedTuple):
    """An outcome, and what the node that it came from does with a command that is sent again."""

    outcome: Outcome
    # True if that node does a command only once, however often it is sent with its idempotency key.
    repeats: bool


class Doubt:
    """The knowledge if a command may have been done by earlier tries, which its next outcome is read by."""

    def __init__(self, before: bool) -> None:
        """``before``: it was sent before, to primaries that keep to idempotency keys."""
        self.unknown: Unknown | None = Unknown(_IN_DOUBT, repeats=True) if before else None
        """What to answer when nobody says what came of it."""
        self._blind = False

    @property
    def any(self) -> bool:
        """Whether there is a doubt."""
        return self.unknown is not None

    def weigh(self, command: Command, reply: Reply) -> Outcome | None:
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
                return outcome if self._blind and not repeatable(command) else None
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
