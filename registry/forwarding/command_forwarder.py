"""Forwarding of commands: to the local writer while this node is primary, else to the primary.

A command is sent to the node that is then primary, again and again, until one has decided it or its deadline
has passed. It carries the same idempotency key in every attempt, by which a primary detects that it or an
earlier primary has executed it. So even a command that may have been executed is retried. If it was sent to a
primary without idempotency keys (an older node or Confluent's), that holds for idempotent commands only.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from election.contract import Identity
from registry.domain.admission import Room
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Condition,
    Deferred,
    Done,
    Forgotten,
    IdempotencyKey,
    NotPrimary,
    Outcome,
    Refused,
    Submitted,
    Unknown,
    refusal,
    repeatable,
)
from registry.domain.errors import FORWARD_FAILED, NO_PRIMARY, TOO_MANY_WRITES, outcome_unknown
from registry.domain.pending_command import PendingCommand
from registry.host.stop_budget import FORWARDING_S
from registry.host.tracing.contract import NO_TRACING, Tracing

from .authentication import Signings
from .confluent_client import ConfluentClient
from .node_port import NodePort, outcome_of
from .peer_client import Peer
from .primary_client import PrimaryClient

if TYPE_CHECKING:
    from registry.security.tls.contexts import PeerTls

# Seconds that a former primary may take to answer commands that were sent to it.
RETIRE_S = 0.3
# Seconds in which commands in progress are answered if only the connection to the primary is replaced.
RECONNECT_S = 10.0
_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
# With less time remaining nothing is sent, because the outcome would most likely be unknown.
_TRY_S = 0.05
_IN_DOUBT = outcome_unknown("No primary has confirmed the write")
_NOT_THERE = "Cannot reach the primary; nothing was written"
_STOPPING = "The node is stopping; nothing was written"


class Forwarding:
    """Decides or forwards commands; created and used on the node's event loop."""

    def __init__(
        self,
        node_port: NodePort,
        signings: Signings,
        tls: PeerTls | None,
        *,
        node: str,
        room: Room,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        """``node``: this node's id; ``room`` limits the commands that wait for a primary."""
        self._node_port = node_port
        self._signings = signings
        self._tls = tls
        self._node = node
        self._tracing = tracing
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._client: PrimaryClient | ConfluentClient | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._room = room
        self._stopped = False
        node_port.when_role_changes(self._role_changed)
        self._role_changed()

    def submit(self, pending: PendingCommand) -> None:
        """Have a command decided; the local store holds its effect before the reply.

        It is refused with 50004 if no primary was found in time, or if another node is primary and the
        command was forwarded; with 50003 if the primary could not be reached. The reply is never
        :class:`NotPrimary`.
        """
        if pending.request.idempotency_key is None:
            self._set_key(pending, os.urandom(IDEMPOTENCY_KEY_BYTES), self._node_port.applied())
        if self._node_port.role != "primary" or pending.in_doubt:
            if self._room.fits(pending.size):
                self._begin(pending)
            elif pending.in_doubt:
                pending.reply(Unknown(_IN_DOUBT, repeats=True))
            else:
                pending.reply(refusal(TOO_MANY_WRITES()))
            return
        attempt, repeats = pending.attempt(), self._node_port.repeats

        def on_reply(outcome: Outcome) -> None:
            if isinstance(outcome, Done | Refused):
                pending.reply(outcome)
            else:
                self._begin(pending, Reply(outcome, repeats))

        attempt.reply = on_reply
        self._node_port.submit(attempt)

    @property
    def under_way(self) -> int:
        """Return how many commands wait for another node or for a primary."""
        return self._under_way

    @property
    def primary(self) -> Peer | None:
        """The primary while this node is connected to it."""
        return self._client.peer if isinstance(self._client, PrimaryClient) else None

    @property
    def last_error(self) -> str:
        """Return why the primary cannot be reached; empty if it can, or if none is known."""
        return "" if self._client is None else self._client.last_error

    def reconnect(self) -> None:
        """Replace the connection to the primary by one with the present credentials.

        What was sent over the former one is still answered there.
        """
        client = self._client
        if isinstance(client, PrimaryClient):
            self._client = self._to(client.identity)
            self._keep(self._loop.create_task(client.retire(RECONNECT_S)))

    async def stop(self) -> None:
        """Close the connection and answer the commands in progress: 50003 if one certainly was not executed.

        Those that the local writer has are left to it.
        """
        self._stopped = True
        client, self._client = self._client, None
        if client is not None:
            await client.retire(0)
        self._changed.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FORWARDING_S)
        for task in self._tasks:
            task.cancel()

    # --- following the primary

    def _role_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        wanted = None if self._node_port.role == "primary" or self._stopped else self._node_port.primary
        client = self._client
        if client is not None and client.identity == wanted:
            return
        if client is not None:
            self._keep(self._loop.create_task(client.retire(RETIRE_S)))
        self._client = None if wanted is None or wanted.node == self._node != "" else self._to(wanted)

    def _to(self, identity: Identity) -> PrimaryClient | ConfluentClient:
        if not identity.peer:
            return ConfluentClient(identity, self._node_port)
        client = PrimaryClient(
            identity, self._signings, self._tls, node=self._node, node_port=self._node_port
        )
        client.start()
        return client

    # --- executing one command

    def _begin(self, pending: PendingCommand, first: Reply | None = None) -> None:
        self._room.add(pending.size)
        self._keep(self._loop.create_task(self._run_to_completion(pending, first)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_to_completion(self, pending: PendingCommand, first: Reply | None) -> None:
        self._under_way += 1
        try:
            pending.reply(await self._decide(pending, first))
        finally:
            self._under_way -= 1
            self._room.remove(pending.size)

    async def _decide(self, pending: PendingCommand, reply: Reply | None) -> Outcome:
        """Retry until the command is decided; ``reply`` is that of a first attempt, if there was one."""
        doubt = Doubt(pending.in_doubt)
        tries = 0
        while True:
            changed = self._changed
            if reply is None:
                self._renew_key(pending, doubt)
                reply = await self._try(pending, doubt)
            outcome = doubt.weigh(pending.command, reply, pending.request.condition)
            if outcome is not None:
                return outcome
            if self._stopped:
                return doubt.unknown or refusal(FORWARD_FAILED(_STOPPING))
            if pending.forwarded and self._other_is_primary():
                return doubt.unknown or refusal(NO_PRIMARY())
            left = pending.deadline - self._loop.time()
            # While no primary is known, wait until one is.
            known = self._client is not None or self._node_port.role == "primary"
            pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)] if known else left
            tries += 1
            if left <= (pause + _TRY_S if known else 0):
                return doubt.unknown or self._unreached_error()
            await _wait(changed, min(pause, left))
            reply = None

    def _renew_key(self, pending: PendingCommand, doubt: Doubt) -> None:
        """Let the key begin at the newest known end of the log, if the command certainly was not executed.

        So no primary gets a key that is older than its cache.
        """
        key = pending.request.idempotency_key
        if key is not None and not doubt.any:
            end = 0 if self._client is None else self._client.end
            self._set_key(pending, key.id, max(key.since, self._node_port.applied(), end))

    @staticmethod
    def _set_key(pending: PendingCommand, id: bytes, since: int) -> None:
        pending.request = replace(pending.request, idempotency_key=IdempotencyKey(id, since))

    def _other_is_primary(self) -> bool:
        return self._node_port.role != "primary" and self._client is not None

    def _unreached_error(self) -> Refused:
        error = self.last_error
        return refusal(FORWARD_FAILED(f"{_NOT_THERE} ({error})") if error else NO_PRIMARY())

    async def _try(self, pending: PendingCommand, doubt: Doubt) -> Reply:
        if self._node_port.role == "primary":
            repeats = self._node_port.repeats
            if doubt.any and not (repeats or pending.repeatable):
                return Reply(doubt.unknown or Unknown(_IN_DOUBT), repeats)
            return Reply(await outcome_of(self._node_port.submit, pending.attempt()), repeats)
        client = self._client
        if client is None or pending.forwarded:
            return Reply(NotPrimary(), repeats=False)
        attempt = pending.attempt(deferrable=True, in_doubt=doubt.any)
        identity = client.identity
        outcome = await self._tracing.trace_sending(client.ask, identity.peer or identity.url)(attempt)
        if isinstance(outcome, Done):
            # It is done even if this node does not apply the record in time; reads here wait for it
            # themselves.
            await self._node_port.reach_async(outcome.offset, pending.deadline - self._loop.time())
        return Reply(outcome, attempt.repeats)


class Reply(NamedTuple):
    """An outcome, and whether the node that sent it executes a resent command only once."""

    outcome: Outcome
    # True if that node executes a command only once, however often it is sent with its idempotency key.
    repeats: bool


class Doubt:
    """Tracks if earlier attempts may have executed a command, and interprets later outcomes by that."""

    def __init__(self, before: bool) -> None:
        """``before``: the command was sent earlier, to primaries that honor idempotency keys."""
        # The answer if no primary knows the outcome.
        self.unknown: Unknown | None = Unknown(_IN_DOUBT, repeats=True) if before else None
        self._blind = False

    @property
    def any(self) -> bool:
        """True if an earlier attempt may have executed the command."""
        return self.unknown is not None

    def weigh(self, command: Submitted, reply: Reply, condition: Condition | None = None) -> Outcome | None:
        """Return the outcome to reply with; ``None``: retry."""
        outcome = reply.outcome
        match outcome:
            case Done():
                return outcome
            case Refused(code):
                # A primary that honors idempotency keys has checked earlier attempts, unless it failed.
                looked = reply.repeats and not self._blind and not str(code).startswith("5")
                return outcome if looked else self.unknown or outcome
            case Unknown():
                self.unknown = outcome
                self._blind = self._blind or not outcome.repeats
                return outcome if self._blind and not repeatable(command, condition) else None
            case Forgotten():
                return self.unknown
            case NotPrimary() | Deferred():
                return None


async def _wait(changed: asyncio.Event, pause: float) -> None:
    try:
        async with asyncio.timeout(pause):
            await changed.wait()
    except TimeoutError:
        return
