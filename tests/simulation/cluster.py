"""Nodes of the simulated cluster: the real role, write loop, claim, writer, follower and forwarding over a
simulated log, store, election and network. Waiting is modeled here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from election.contract import Identity
from registry.domain.commands import (
    Command,
    Done,
    Outcome,
    Refused,
)
from registry.domain.log_format.lineage import Lineage, Trace
from registry.domain.log_format.records import Record
from registry.domain.pending_command import PendingCommand, Submit
from registry.domain.queries.scope import Defaults
from registry.log.contract import ForeignLog, LogError, Unreachable
from registry.log.kafka.topic import TopicMissing
from registry.node.feed import NodeFeed
from registry.node.leadership.claim import claim_log
from registry.node.leadership.role import Role, RoleHolder, Stage
from registry.node.replication.dedup import DedupCache
from registry.node.replication.follower import Follower
from registry.node.replication.log_match import Known, LogMatcher
from registry.node.replication.read_barrier import ReadBarrier
from registry.node.replication.reconnecting_log import ReconnectingLog
from registry.node.write.loop import RENEW_S, LoneAppends, WriteLoop
from registry.node.write.writer import Writer, Writing
from registry.store.layout import StoreError

from .authority import Authority, Elector
from .brokers import CONNECTION_IDLE_S, Brokers
from .connections import Line
from .event_loop import SimulatedCondition, SimulatedLoopHost
from .forwarding import REQUEST_S, Entrance, NodePort, Requests
from .forwarding_model import ForwardingModel
from .kafka_log import SimulatedLog
from .listeners import Receiver, SimulatedSender
from .memory_store import MemoryStore, MemoryView
from .node_log import NodeLog
from .partition import Partition
from .readers import CONFIRM_S, Reader
from .sockets import Endpoint, Link, PeerNetwork
from .world import Process, World

if TYPE_CHECKING:
    from registry.store.lmdb import Store

FORGET_S = 60.0
_RETRY_S = 0.25
# As in registry/node/replication/loop.py.
_FOLLOW_AGAIN_S, _STUCK_S = 0.5, 10.0
_ASK_S = 2.0
_LONG_S = 1000.0
_WRITING = Writing(Defaults(), id_batch=3, queue_max=50, timeout_s=REQUEST_S / 2)


class Times(NamedTuple):
    """Seconds after which an idle primary renews its fence, and brokers forget producers and connections."""

    renew_s: float
    forget_s: float
    idle_s: float


# So that much happens in a short history; and those of production.
BRIEF = Times(15.0, FORGET_S, CONNECTION_IDLE_S)
LASTING = Times(RENEW_S, 86_400.0, 600.0)


class PausingRoleHolder(RoleHolder):
    """Waits on the simulation's clock."""

    def __init__(
        self, world: World, *, switched: Callable[[Role], None], changed: Callable[[], None]
    ) -> None:
        super().__init__(switched=switched, changed=changed)
        self._world = world

    def wait(self, seen: Role, timeout_s: float | None = None) -> Role:
        self._world.until(lambda: self.role != seen, _LONG_S if timeout_s is None else timeout_s)
        return self.role


class Running:
    """One life of a node, from a start to a kill. Its store and its name outlive it."""

    def __init__(self, world: World, cluster: Cluster, node: Node) -> None:
        self._world = world
        self.process = Process(node.name)
        self.store = node.store
        self._cluster = cluster
        self._node = node
        self._identity = node.identity
        self._port = NodePort(self, node.identity)
        self.role_holder = PausingRoleHolder(world, switched=self._switched, changed=self._port.role_changed)
        # True once there is a log, or a store that is served without it.
        self.started = False
        # True if it has been told to stop.
        self.stopping = False
        # Why the log cannot be followed; ``None`` if it can.
        self.error: LogError | None = None
        # Commands that it, or its writer, has been given and has not answered.
        self.unanswered: list[PendingCommand] = []
        world.spawn(self.process, self._start)

    def _start(self) -> None:
        world, cluster, node = self._world, self._cluster, self._node
        self.log = self._opened()
        self._loop_host = SimulatedLoopHost(world, self.process)
        self.loop = self._loop_host.loop
        self.loop.sockets = Endpoint(cluster.peers, self.process, node.link, self.loop)
        self.read_barrier = self._loop_host.run(self._open_barrier(), None)
        self.memory = DedupCache(self.store.applied, count_max=cluster.remembers)
        self.feed = NodeFeed(self.log, self.store.applied, soon=self.loop.call_soon)
        self._sender: SimulatedSender | None = None
        self.follower = Follower(
            self.log,
            self.store,
            far_behind=None,
            clock=lambda: world.now,
            barrier=lambda barrier: self.role_holder.apply_barrier(barrier.offset),
            memory=self.memory,
            on_applied=self._applied,
        )
        self.writer = Writer(
            self.log,
            self.store,
            _WRITING,
            follow=self.follow,
            deliver=self._deliver,
            now=node.wall_ms,
            clock=lambda: world.now,
            memory=self.memory,
            condition=self._condition,
        )
        self._elector = Elector(
            world,
            cluster.authority,
            node.identity,
            self.role_holder.on_event,
            self._is_deaf,
        )
        started = threading.Event()
        started.set()
        self.write_loop = WriteLoop(
            self.writer,
            self.role_holder,
            started=started,
            confirm=self._elector.confirm,
            claim=self._claim,
            fencing=lambda: self.log.fencing,
            renew_s=cluster.times.renew_s,
        )
        self._submit = self._loop_host.run(self._open_submit(), None)
        if cluster.brokers is not None:
            self._entrance = self._loop_host.run(self._open_entrance(), None)
        runs = (self._follow_for_ever, self.write_loop.run, self._elector.run, self.read_barrier.run)
        for run in runs:
            world.spawn(self.process, run)
        if cluster.receiver is not None:
            self._sender = SimulatedSender(world, self, cluster.lives, cluster.receiver)
            self.spawn_on_loop(self._sender.deliver)
        self.started = True
        if node.reader is not None:
            node.reader.on_state(self.log.identity, None)

    def _applied(self, records: Sequence[Record] | None, applied: int) -> None:
        self.read_barrier.notify_advanced()
        self.feed.add_records(records, applied)
        if self._sender is not None:
            self._sender.applied(records)

    def spawn_on_loop(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine on the node's event loop."""
        self.loop.call_soon(lambda: self.loop.create_task(call()))

    def _condition(self) -> threading.Condition:
        return cast("threading.Condition", SimulatedCondition(self._world))

    async def _open_submit(self) -> Submit:
        """Return what takes commands, on the event loop, as registry/node/node.py does."""
        if not isinstance(self.log, ReconnectingLog):
            return self.writer.submit
        return LoneAppends(
            self.writer, self.write_loop, self.log, is_busy=lambda: self.store.full,
            guarded=lambda _, run: run(), soon=self.loop.call_soon, clock=lambda: self._world.now,
        ).submit  # fmt: skip

    async def _open_entrance(self) -> Entrance:
        entrance = Entrance(self._port, self._identity)
        await entrance.open()
        return entrance

    def submit(self, pending: PendingCommand) -> None:
        """Have a client's command executed, by this node or by the primary."""
        self._owe(pending)
        self.loop.call_soon(self._entrance.submit, pending)

    def write(self, pending: PendingCommand) -> None:
        """Have a command decided by the writer; called on the event loop."""
        self._owe(pending)
        key, reply, cluster = pending.request.idempotency_key, pending.reply, self._cluster
        again = key is not None and key.id in cluster.keys

        def answered(outcome: Outcome) -> None:
            cluster.settled += again and isinstance(outcome, Done | Refused)
            reply(outcome)

        if key is not None:
            cluster.keys.add(key.id)
        pending.reply = answered
        self._submit(pending)

    def write_soon(self, pending: PendingCommand) -> None:
        """Have a command decided by the writer."""
        self.loop.call_soon(self.write, pending)

    def _owe(self, pending: PendingCommand) -> None:
        reply = pending.reply
        self.unanswered.append(pending)

        def answered(outcome: Outcome) -> None:
            self.unanswered.remove(pending)
            reply(outcome)

        pending.reply = answered

    def evict(self, identity: Identity) -> bool:
        """Remove a primary from the election whose port is closed; return true if that was done."""
        return not self._is_deaf() and self._cluster.authority.evict(identity)

    def _is_deaf(self) -> bool:
        return self._node.line.cut or self._node.line.deaf

    async def _open_barrier(self) -> ReadBarrier:
        return ReadBarrier(
            self.log,
            cast("Store", self.store),
            ask_s=_ASK_S,
            nudge=lambda: None,
            expect=lambda _: None,
            on_reply=lambda _: None,
            stuck=lambda: self.store.full,
            condition=self._condition,
        )

    def begin_confirm(self, offset: int, reply: Callable[[bool], None]) -> None:
        """Call ``reply`` with true once the store has reached ``offset``; -1: the log's end as of now."""
        barrier = self.read_barrier

        async def confirm() -> None:
            fresh = barrier.confirm(CONFIRM_S) if offset < 0 else barrier.reach(offset, CONFIRM_S)
            reply(await fresh)

        self.spawn_on_loop(confirm)

    def _opened(self) -> NodeLog | ReconnectingLog:
        """Return the log, as registry/node/startup/open_kafka.py opens it: a store is served without it."""
        world, store = self._world, self.store
        if self._cluster.brokers is None:
            return NodeLog(world, self._cluster.partition, self.process, self._node.line)
        matches = LogMatcher(self._known, margin_ms=0, now=self._node.wall_ms)
        log, error = None, None
        while log is None and error is None:
            try:
                found = self._open_log()
                store.log = store.log or found.identity
                matches(found)
                log = found
            except LogError as why:
                if store.log:
                    error = why
                else:
                    world.sleep(_RETRY_S)
        return ReconnectingLog(
            self._open_log,
            matches,
            identity=store.log,
            applied=store.applied,
            log=log,
            error=error,
            run_in_thread=lambda search: world.spawn(self.process, search),
            condition=self._condition,
        )

    def _known(self) -> Known:
        store = self.store
        return Known(store.log, store.applied, self._node.wall_ms(), store.lineage, store.view)

    def _open_log(self) -> SimulatedLog:
        brokers = self._cluster.brokers
        assert brokers is not None
        try:
            return SimulatedLog(self._world, brokers, self.process, self._node.line, self._node.wall_ms)
        except TopicMissing as error:
            raise ForeignLog(str(error)) from error

    @property
    def role(self) -> Role:
        return self.role_holder.role

    @property
    def clashes(self) -> int:
        """The number of commands that its writer has decided again, see :attr:`Cluster.clashes`."""
        return self.writer.stat().clashes if self.started else 0

    def _found(self, error: LogError | None) -> None:
        """Remember why the log cannot be followed, and let the reader know whose rows it serves."""
        self.error = error
        foreign = error if isinstance(error, ForeignLog) else None
        mismatch = None if foreign is None else foreign.mismatch
        if mismatch != self.store.mismatch and self._node.reader is not None:
            self.store.mismatch = mismatch
            self._node.reader.on_state("" if foreign else self.store.log, mismatch)

    def follow(self, offset: int) -> None:
        """Return when the store holds the log up to ``offset``."""
        at, moved_at = -1, 0.0
        while (applied := self.store.applied) < offset:
            if applied > at:
                at, moved_at = applied, self._world.now
            elif self._world.now - moved_at > _STUCK_S:
                raise Unreachable(f"the log does not return its records from {applied} on")
            if not self.follower.step():
                self.log.wait(self.store.applied, 1.0)

    def confirm(self) -> bool:
        """Return true if the store is as new as the log was at the call."""
        read = self._world.turns
        self._world.note("read", self.process.name, read)
        try:
            end = self.log.query_end(_ASK_S)
            self.follow(end)
        except (LogError, StoreError):
            return False
        self._world.note("answer", self.process.name, (read, end))
        return True

    def stop(self) -> None:
        """Resign, then answer what was asked; the caller kills it later."""
        self.role_holder.leave()
        if self.started:
            self._elector.resign()
        if self.started and self._cluster.brokers is not None:
            self._loop_host.run(self._entrance.stop(), None)

    def _claim(self) -> int:
        epoch = claim_log(
            self.log, self.store, node=self._identity.node, url=self._identity.url,
            follow=self.follow, watching=self.follower.watching,
        )  # fmt: skip
        self.memory.look_back(self.log)
        return epoch

    def _deliver(self, replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
        for pending, outcome in replies:
            if isinstance(outcome, Done):
                self._world.note("acknowledge", self.process.name, outcome.offset)
            pending.reply(outcome)

    def _switched(self, role: Role) -> None:
        self._world.note("lead" if role.stage is Stage.PRIMARY else "stop", self.process.name)
        if role.stage is Stage.PRIMARY:
            self.writer.open(role.epoch)
        else:
            self.writer.shut()
        if self._sender is not None:
            self._sender.wake()

    def _follow_for_ever(self) -> None:
        while True:
            try:
                if self.error is not None:
                    self.log.query_end(_ASK_S)
                    self._found(None)
                if not self.follower.step():
                    self.log.wait(self.store.applied, 1.0)
            except LogError as error:
                self._found(error)
                self._world.sleep(_FOLLOW_AGAIN_S)
            except StoreError:
                self._world.sleep(_FOLLOW_AGAIN_S)
            self._world.pause()


class Node:
    """The state of a node that survives its lives."""

    def __init__(self, world: World, number: int, new_store: Callable[[], MemoryStore]) -> None:
        self._world = world
        self.name = f"n{number}"
        self.identity = Identity(
            "http", self.name, 8081, eligible=True, peer=f"{self.name}:1", node=self.name
        )
        self._new_store = new_store
        self.store = new_store()
        # To the brokers, and to the other nodes and the clients.
        self.line, self.link = Line(), Link()
        self.running: Running | None = None
        self.clock_ahead_ms = 0
        self.reader: Reader | None = None

    @property
    def foreign(self) -> bool:
        """True if it reports that the log is not the one of its store."""
        return self.running is not None and isinstance(self.running.error, ForeignLog)

    @property
    def opening(self) -> bool:
        """True while it opens its log, for instance because an answer of a broker was lost."""
        return self.running is not None and not self.running.started

    def replace_store(self) -> None:
        """Begin with an empty store."""
        self.store = self._new_store()

    def wall_ms(self) -> int:
        """Return what its host's clock shows."""
        return self._world.wall_ms() + self.clock_ahead_ms


class Cluster:
    """Some nodes, one partition, one election."""

    def __init__(self, world: World, size: int, *, model: bool = False, times: Times = BRIEF) -> None:
        """``model``: the nodes' logs are the model of the log, not the one of production."""
        self._world = world
        self.times = times
        # The digests of all stores by offset.
        self._witness: dict[int, int] = {}
        # The receiver of a webhook, and the number of lives of all nodes.
        self.receiver: Receiver | None = None
        self.lives = 0
        # How often the log has lost records.
        self.losses = 0
        # How many commands writers of earlier lives have decided again because of other programs' records.
        self._clashes = 0
        self.partition = Partition(
            lambda: world.now,
            world.wall_ms,
            forget_s=times.forget_s,
            epochs_max=world.chance.choice((3, 6, 1000)),
            note=world.note,
        )
        self.brokers = None if model else Brokers(world, self.partition, times.forget_s, times.idle_s)
        self.authority = Authority(world)
        self.peers = PeerNetwork(world)
        # The number of commands that each node remembers.
        self.remembers = world.chance.choice((2, 1000, 1000))
        # The idempotency keys that writers have got, and how often one came again and was answered.
        self.keys: set[bytes] = set()
        self.settled = 0
        # True if no client sends requests.
        self.night = False
        self._requests = ForwardingModel(world, self) if model else Requests(world, self)
        self.nodes = [Node(world, number, self._new_store) for number in range(size)]
        world.applied = lambda: {node.name: node.store.applied for node in self.nodes}
        for node in self.nodes:
            self.peers.links[node.identity.peer] = node.link
            self._start_reader(node)
            self.start(node)

    def _new_store(self) -> MemoryStore:
        return MemoryStore(self._witness, self._is_of_the_log)

    def _is_of_the_log(self, applied: int, lineage: Lineage) -> bool:
        """Return true if a store with this lineage holds the log's records, and all that count."""
        if self.brokers is not None and applied < self.brokers.compacted_upto:
            return False
        records = self.partition.records
        return not self.losses or (
            applied <= len(records) and all(Trace.of(records[each.offset]) == each for each in lineage.traces)
        )

    def on_loss(self) -> None:
        """Take into account that the log has lost the records from its present end on."""
        self.losses += 1
        for offset in [each for each in self._witness if each > self.partition.end]:
            del self._witness[offset]

    def _start_reader(self, node: Node) -> None:
        if self.brokers is not None:
            node.reader = Reader(self._world, self.brokers, node)

    def set_aside(self, node: Node) -> None:
        """Give a killed node an empty store, as a release with another format of rows does."""
        if node.reader is not None:
            node.reader.end()
        node.replace_store()
        self._start_reader(node)

    def start(self, node: Node) -> None:
        """Start a new process for the node."""
        self.lives += 1
        node.running = Running(self._world, self, node)

    def kill(self, node: Node) -> None:
        """Kill the node's process, as ``kill -9`` does."""
        if node.running is not None:
            running, node.running = node.running, None
            self._clashes += running.clashes
            self._world.note("stop", node.name)
            self._world.kill(running.process)

    @property
    def clashes(self) -> int:
        """The number of commands that were decided again because of other programs' records."""
        return self._clashes + sum(each.running.clashes for each in self.nodes if each.running is not None)

    def submit(self, command: Command) -> Outcome:
        """Return the outcome of a client's request, which it may have sent to any node."""
        return self._requests.submit(command)

    @contextmanager
    def read(self) -> Iterator[MemoryView | None]:
        """Return the rows of a node, confirmed against the log's end; ``None`` if that failed."""
        store = self._fresh(self._world.chance.choice(self.nodes))
        if store is None:
            yield None
        else:
            with store.view() as view:
                yield view

    def _fresh(self, node: Node) -> MemoryStore | None:
        """Return a node's store once it is as new as the log: by its reader, its barrier, or a query."""
        store, life, reader = node.store, node.running, node.reader
        confirmed: list[bool] = []
        if reader is not None and self._world.likely(0.5):
            reader.confirm(confirmed.append)
        elif life is None or life.process.frozen or not life.started:
            return None
        elif self._world.likely(0.5):
            life.begin_confirm(-1, confirmed.append)
        else:
            self._world.spawn(life.process, lambda: confirmed.append(life.confirm()))
        self._world.until(lambda: confirmed, REQUEST_S)
        return store if confirmed and confirmed[0] else None
