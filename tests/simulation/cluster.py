"""Nodes of the simulated cluster: the real role, claim, writer and follower over a log, a store and an election
of the simulation. What is modelled here is only what production does in threads and sockets between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from election.contract import Event, Identity
from registry.domain.commands import Command, Done, NotPrimary, Outcome, Refused, Unknown, repeatable
from registry.domain.scope import Defaults
from registry.log.contract import Fenced, LogError, OutcomeUnknown, Unreachable
from registry.node.claiming import Barrier, Claimant, claim_log
from registry.node.follower import Follower
from registry.node.role import Role, Stage, Task
from registry.node.waiting import Answer
from registry.node.writer import Writer, Writing

from .authority import Authority, Elector
from .memory_store import MemoryStore, MemoryView
from .node_log import Line, NodeLog
from .partition import Partition
from .world import Process, World

REQUEST_S = 12.0
RENEW_S = 15.0
FORGET_S = 60.0
_RETRY_S = 0.05
_HOP_S = 0.001
_ASK_S = 2.0
_WRITING = Writing(Defaults(), id_batch=3, queue_max=50, patience_s=REQUEST_S / 2)


class Running:
    """One life of a node, from a start to a kill. Its store and its name outlive it."""

    def __init__(self, world: World, cluster: Cluster, node: Node) -> None:
        self._world = world
        self.process = Process(node.name)
        self.role = Role()
        self.store = node.store
        self.log = NodeLog(world, cluster.partition, self.process, node.line)
        self.follower = Follower(
            self.log, self.store, far_behind=None, clock=lambda: world.now, barrier=self._saw
        )
        self.writer = Writer(
            self.log,
            self.store,
            _WRITING,
            follow=self.follow,
            deliver=_deliver,
            now=world.wall_ms,
            clock=lambda: world.now,
        )
        self._claimant = Claimant(node.name, node.identity.url)
        self._elector = Elector(world, cluster.authority, node.identity, self._heard, lambda: node.line.cut)
        for run in (self._follow_for_ever, self._write_for_ever, self._elector.run):
            world.spawn(self.process, run)

    def follow(self, offset: int) -> None:
        """Return when the store holds the log up to ``offset``."""
        while self.store.applied < offset:
            if not self.follower.step():
                self.log.wait(self.store.applied, 1.0)

    def confirm(self) -> bool:
        """Whether the store is as new as the log was at the call."""
        try:
            self.follow(self.log.ask_end(_ASK_S))
        except LogError:
            return False
        return True

    def stop(self) -> None:
        """Resign, and end when what waits has been told."""
        self._become(self.role.left())
        self._elector.resign()

    def _become(self, role: Role) -> None:
        was, self.role = self.role, role
        if was.stage is Stage.PRIMARY and role.stage is not Stage.PRIMARY:
            self.writer.shut()

    def _heard(self, event: Event) -> None:
        self._become(self.role.heard(event))

    def _saw(self, barrier: Barrier) -> None:
        self._become(self.role.applied(barrier.offset))

    def _follow_for_ever(self) -> None:
        while True:
            if not self.follower.step():
                self.log.wait(self.store.applied, 1.0)
            self._world.pause()

    def _write_for_ever(self) -> None:
        while True:
            if self.role.task is Task.CLAIM:
                self._claim()
            elif self.role.task is Task.WRITE:
                self._write()
            else:
                self._world.until(lambda: self.role.task is not Task.NOTHING, 1.0)

    def _claim(self) -> None:
        if not self._elector.confirm():
            self._world.sleep(_RETRY_S)
            return
        self._become(self.role.claiming())
        try:
            epoch = claim_log(
                self.log, self.store, self._claimant, follow=self.follow, watching=self.follower.watching
            )
        except LogError as error:
            self._become(self.role.deposed(str(error)))
            self._world.sleep(_RETRY_S)
            return
        self._become(self.role.claimed(epoch))
        if self.role.stage is Stage.PRIMARY:
            self.writer.open(epoch)

    def _write(self) -> None:
        self._world.until(lambda: self.writer.stat().waiting or self.role.task is not Task.WRITE, 1.0)
        try:
            if self.role.task is Task.WRITE and self.writer.idle_s() > RENEW_S:
                self.writer.renew()
            self.writer.step()
        except (Fenced, OutcomeUnknown) as error:
            self._become(self.role.deposed(str(error)))
        except Unreachable:
            self._world.sleep(_RETRY_S)


class Node:
    """What stays of a node over its lives."""

    def __init__(self, number: int, witness: dict[int, int]) -> None:
        self.name = f"n{number}"
        self.identity = Identity("http", self.name, 8081, eligible=True, peer=f"{self.name}:1", node=self.name)
        self.store = MemoryStore(witness)
        self.line = Line()
        self.running: Running | None = None
        self.cut_off = False
        """Whether the other nodes and the clients cannot reach it."""


class Cluster:
    """Some nodes, one partition, one election."""

    def __init__(self, world: World, size: int) -> None:
        self._world = world
        witness: dict[int, int] = {}
        self.partition = Partition(
            lambda: world.now, world.wall_ms, forget_s=FORGET_S, epochs_max=world.chance.choice((3, 6, 1000))
        )
        self.authority = Authority(world)
        self.night = False
        """Nobody asks for anything."""
        self.nodes = [Node(number, witness) for number in range(size)]
        for node in self.nodes:
            self.start(node)

    def start(self, node: Node) -> None:
        """A new process for the node."""
        node.running = Running(self._world, self, node)

    def kill(self, node: Node) -> None:
        """``kill -9``."""
        if node.running is not None:
            running, node.running = node.running, None
            self._world.kill(running.process)

    def submit(self, command: Command) -> Outcome:
        """What a client gets who asks any node, and asks again where that is safe."""
        deadline = self._world.now + REQUEST_S
        doubt = False
        while self._world.now < deadline:
            entry = self._world.chance.choice(self.nodes)
            outcome = self._through(entry, command, deadline)
            if outcome is None or isinstance(outcome, Unknown):
                doubt = doubt or outcome is not None
                if doubt and not repeatable(command):
                    break
            elif not isinstance(outcome, NotPrimary) and not (
                doubt and isinstance(outcome, Refused) and outcome.code >= 50000
            ):
                return outcome
            self._world.sleep(_RETRY_S)
        return Unknown("nobody knows") if doubt else Refused(50004, "nobody writes")

    def _through(self, entry: Node, command: Command, deadline: float) -> Outcome | None:
        """What one node answers; ``None``: it took nothing."""
        self._world.sleep(_HOP_S * self._world.chance.random())
        life = entry.running
        if life is None or entry.cut_off or life.process.frozen:
            return None
        target = self._primary_of(life)
        if target is None or target.running is None:
            return None
        if target is not entry:
            self._world.sleep(_HOP_S * self._world.chance.random())
            if target.cut_off:
                return None
        outcome = self._asked(target, command, deadline)
        if outcome is None or not isinstance(outcome, Done):
            return outcome
        # The node that the client talks to has the effect before it answers.
        held = self._world.until(
            lambda: life.process.dead or life.store.applied >= outcome.offset, deadline - self._world.now
        )
        return outcome if held and not life.process.dead else Unknown("the node was lost")

    def _primary_of(self, life: Running) -> Node | None:
        wanted = life.process.name if life.role.stage is Stage.PRIMARY else None
        if wanted is None and life.role.other is not None:
            wanted = life.role.other.node
        return next((node for node in self.nodes if node.name == wanted), None)

    def _asked(self, target: Node, command: Command, deadline: float) -> Outcome | None:
        life = target.running
        if life is None:
            return None
        answers: list[Outcome] = []
        if life.process.frozen:
            # The line takes what is sent, and the frozen node finds it when it is thawed.
            self._world.until(lambda: not life.process.frozen or life.process.dead, deadline - self._world.now)
            if life.process.dead or life.process.frozen:
                return Unknown("no answer")
        if not life.writer.offer(command, answers.append):
            return NotPrimary()
        self._world.until(lambda: answers or life.process.dead, deadline - self._world.now)
        if not answers or target.cut_off:
            return Unknown("no answer")
        return answers[0]

    @contextmanager
    def read(self) -> Iterator[MemoryView | None]:
        """Rows of some node, confirmed against the log's end; ``None`` when it could not be had."""
        store = self._fresh(self._world.chance.choice(self.nodes))
        if store is None:
            yield None
        else:
            with store.view() as view:
                yield view

    def _fresh(self, node: Node) -> MemoryStore | None:
        life = node.running
        if life is None or life.process.frozen:
            return None
        confirmed: list[bool] = []
        self._world.spawn(life.process, lambda: confirmed.append(life.confirm()))
        self._world.until(lambda: confirmed or life.process.dead, REQUEST_S)
        return node.store if confirmed and confirmed[0] else None


def _deliver(answers: list[tuple[Answer, Outcome]]) -> None:
    for answer, outcome in answers:
        answer(outcome)


