"""Forwarding, written again in a few lines, for histories over the model of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Command,
    Done,
    IdempotencyKey,
    NotPrimary,
    Outcome,
    Refused,
    Unknown,
    refusal,
)
from registry.domain.errors import TOO_MANY_WRITES
from registry.domain.pending_command import CommandRequest, PendingCommand
from registry.forwarding.command_forwarder import Doubt, Reply
from registry.node.leadership.role import Stage

from .forwarding import REQUEST_S
from .world import World

if TYPE_CHECKING:
    from .cluster import Cluster, Node, Running

_RETRY_S = 0.25
_HOP_S = 0.001


class ForwardingModel:
    """Clients that ask one node after another, and nodes that ask the primary."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster

    def submit(self, command: Command) -> Outcome:
        """Return a client's outcome from nodes that forward and retry; it may have asked any of them."""
        deadline = self._world.now + REQUEST_S
        name, since = self._world.chance.randbytes(IDEMPOTENCY_KEY_BYTES), 0
        doubt = Doubt(False)
        while self._world.now < deadline:
            entry = self._world.chance.choice(self._cluster.nodes)
            if not doubt.any:
                since = max(since, entry.store.applied)
            request = CommandRequest(command, REQUEST_S, idempotency_key=IdempotencyKey(name, since))
            outcome = self._through(entry, PendingCommand(request, deadline)) or NotPrimary()
            told = doubt.weigh(command, Reply(outcome, repeats=True))
            if told is not None:
                return told
            self._world.sleep(_RETRY_S)
        return doubt.unknown or Refused(50004, "nobody writes")

    def _through(self, entry: Node, pending: PendingCommand) -> Outcome | None:
        """Return the outcome of one node; ``None``: it took nothing."""
        self._world.sleep(_HOP_S * self._world.chance.random())
        life = entry.running
        if life is None or entry.link.cut or life.process.frozen:
            return None
        target = self._primary_of(life)
        if target is None or target.running is None:
            return None
        if target is not entry:
            self._world.sleep(_HOP_S * self._world.chance.random())
            if target.link.cut:
                return None
        outcome = self._decided(target, pending)
        if outcome is None or not isinstance(outcome, Done):
            return outcome
        # The node that the client talks to has the effect before it answers.
        held = self._world.until(
            lambda: life.process.dead or life.store.applied >= outcome.offset,
            pending.deadline - self._world.now,
        )
        return outcome if held and not life.process.dead else Unknown("the node was lost", repeats=True)

    def _primary_of(self, life: Running) -> Node | None:
        wanted = life.process.name if life.role.stage is Stage.PRIMARY else None
        if wanted is None and life.role.other is not None:
            wanted = life.role.other.node
        return next((node for node in self._cluster.nodes if node.name == wanted), None)

    def _decided(self, target: Node, pending: PendingCommand) -> Outcome | None:
        life, deadline = target.running, pending.deadline
        if life is None or not life.started:
            return None
        answers: list[Outcome] = []
        if life.process.frozen:
            # The connection accepts what is sent, and the frozen node finds it when it is thawed.
            self._world.until(
                lambda: not life.process.frozen or life.process.dead, deadline - self._world.now
            )
            if life.process.dead or life.process.frozen:
                return Unknown("no answer", repeats=True)
        attempt = pending.attempt()
        attempt.reply = answers.append
        life.write_soon(attempt)
        self._world.until(lambda: answers or life.process.dead, deadline - self._world.now)
        if answers == [refusal(TOO_MANY_WRITES())]:
            return NotPrimary()
        if not answers or target.link.cut:
            return Unknown("no answer", repeats=True)
        return answers[0]
