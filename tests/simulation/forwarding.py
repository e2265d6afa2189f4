"""The way of commands into a simulated node: the product's router, forwarding and peer endpoint.

The parts of the node that they ask are put together here, as ``registry/node/node.py`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from election.contract import Identity
from registry.domain.admission import Room
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Command,
    IdempotencyKey,
    Outcome,
    Refused,
    Unknown,
    refusal,
)
from registry.domain.errors import FORWARD_FAILED
from registry.domain.log_format.records import AppendedBatch
from registry.domain.pending_command import CommandRequest, PendingCommand
from registry.forwarding.authentication import RefusedHosts, Signings
from registry.forwarding.command_forwarder import Forwarding
from registry.forwarding.reports import Reports
from registry.forwarding.server import PeerServer
from registry.host import stop_budget
from registry.log.contract import ForeignLog
from registry.node.command_router import CommandRouter
from registry.node.leadership.role import Stage
from registry.node.replication.reconnecting_log import ReconnectingLog

from .event_loop import let_pass
from .world import World

if TYPE_CHECKING:
    import socket

    from registry.node import node as production

    from .cluster import Cluster, Node, Running

_SECRET = "of all simulated nodes"
_EVICT_S = 0.002
_BODY_BYTES_MAX = 1 << 20
REQUEST_S = 12.0
_RETRY_S = 0.25
# How long a reader waits for a node that is down, and how much sooner than it the node must answer.
_NODE_S, _MARGIN_S = 3.0, 0.5
_COUNT_MAX, _BYTES_MAX = 50, 1 << 24


class NodePort:
    """One life of a node, as its router and its peers use it."""

    is_started = True
    # True: the writer honors idempotency keys.
    repeats = True

    def __init__(self, life: Running, identity: Identity) -> None:
        self._life = life
        self._identity = identity
        self._on_role: list[Callable[[], None]] = []
        self._role_pending = False

    @property
    def role(self) -> str:
        return self._life.role.name

    @property
    def primary(self) -> Identity | None:
        role = self._life.role
        return self._identity if role.stage is Stage.PRIMARY else role.other

    @property
    def following(self) -> NodePort:
        return self

    @property
    def foreign(self) -> str:
        """Why the log is not the one of the store; empty if it is."""
        error = self._life.error
        return str(error) if isinstance(error, ForeignLog) else ""

    def submit(self, pending: PendingCommand) -> None:
        self._life.write(pending)

    def applied(self) -> int:
        return self._life.store.applied

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        return await self._life.read_barrier.reach(offset, timeout_s, own=True)

    @property
    def log_identity(self) -> str:
        return self._life.log.identity

    def last_append(self, end: int) -> AppendedBatch | None:
        log = self._life.log
        return log.last_append(end) if isinstance(log, ReconnectingLog) else None

    def take_append(self, log: str, batch: AppendedBatch) -> None:
        own = self._life.log
        if isinstance(own, ReconnectingLog) and log == own.identity:
            own.offer(batch)

    def expect_records(self) -> None:
        pass  # It follows all the time.

    async def confirm(self, timeout_s: float) -> bool:
        return await self._life.read_barrier.confirm(timeout_s)

    async def evict(self, identity: Identity) -> bool:
        await let_pass(_EVICT_S)
        return self._life.evict(identity)

    def when_started(self, call: Callable[[], None]) -> None:
        call()

    def when_role_changes(self, call: Callable[[], None]) -> None:
        self._on_role.append(call)

    def role_changed(self) -> None:
        """Report that the role may have changed; several changes in a row are reported as one."""
        if self._on_role and not self._role_pending:
            self._role_pending = True
            self._life.loop.call_soon(self._run_role)

    def _run_role(self) -> None:
        self._role_pending = False
        for call in self._on_role:
            call()


class Entrance:
    """Takes the commands of clients and of other nodes; created and used on the node's event loop."""

    def __init__(self, port: NodePort, identity: Identity) -> None:
        signings = Signings([_SECRET])
        self._address = identity.peer
        self._server = PeerServer(
            port, signings, None, Reports(identity.node), RefusedHosts(),
            node=identity.node, url=identity.url, body_bytes_max=_BODY_BYTES_MAX,
        )  # fmt: skip
        forwarding = Forwarding(port, signings, None, node=identity.node, room=Room(_COUNT_MAX, _BYTES_MAX))
        self._router = CommandRouter(cast("production.Node", port), forwarding)

    async def open(self) -> None:
        """Serve the other nodes."""
        await self._server.start(cast("socket.socket", self._address))

    def submit(self, pending: PendingCommand) -> None:
        """Take a command of a client."""
        self._router.submit(pending)

    async def stop(self) -> None:
        """Answer what was asked, as a node that stops."""
        await let_pass(stop_budget.GIVE_UP_S)
        await self._router.give_up()
        await self._server.stop(stop_budget.PEERS_S)


class Requests:
    """Clients' requests to any node. Its reader, modeled here, sends a command again if the node was lost."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster

    def submit(self, command: Command) -> Outcome:
        """Return the outcome of a request."""
        world, deadline = self._world, self._world.now + REQUEST_S
        entry = world.chance.choice(self._cluster.nodes)
        while entry.link.cut or entry.running is None or entry.running.process.frozen:
            world.sleep(_RETRY_S)
            if world.now > deadline:
                return refusal(FORWARD_FAILED("No node answers"))
            entry = world.chance.choice(self._cluster.nodes)
        outcome = self.ask(entry, command, deadline)
        return Unknown("the answer was lost") if entry.link.cut else outcome

    def ask(self, node: Node, command: Command, deadline: float) -> Outcome:
        """Return the outcome of a request to the reader of one node."""
        key = IdempotencyKey(self._world.chance.randbytes(IDEMPOTENCY_KEY_BYTES), node.store.applied)
        lost: Unknown | None = None
        while True:
            wait_s = min(_NODE_S, deadline - self._world.now)
            if not self._world.until(lambda: node.running is not None and node.running.started, wait_s):
                return lost or refusal(FORWARD_FAILED("Cannot reach the node; nothing was written"))
            assert node.running is not None
            outcome = self._asked(node.running, command, key, deadline, in_doubt=lost is not None)
            if outcome is not None:
                is_doubtful = isinstance(outcome, Refused) and str(outcome.code).startswith("5")
                return lost if lost is not None and is_doubtful else outcome
            lost = Unknown("The node failed before it answered")

    def _asked(
        self, life: Running, command: Command, key: IdempotencyKey, deadline: float, *, in_doubt: bool
    ) -> Outcome | None:
        """Return the answer of one life of a node; ``None`` if it ended before."""
        answers: list[Outcome] = []
        left_s = deadline - self._world.now
        request = CommandRequest(command, left_s - min(_MARGIN_S, left_s / 10), idempotency_key=key)
        until = self._world.now + request.remaining_s
        life.submit(PendingCommand(request, until, answers.append, in_doubt=in_doubt))
        self._world.until(lambda: answers or life.process.dead, left_s)
        if answers:
            return answers[0]
        return None if life.process.dead else Unknown("The node did not answer in time")
