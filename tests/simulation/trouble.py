"""The faults of a simulated history, and the hours in which nobody asks for anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .authority import SESSION_S
from .brokers import Brokers
from .clients import Client
from .cluster import FORGET_S, Cluster, Node
from .other_writers import version_in
from .subjects import Ids
from .world import Process, World

STORM_S = 20.0
# After faults, everything is as it should be within this time.
CALM_S = 120.0
NIGHT_S = 1.5 * FORGET_S
# The share of histories with an idle night.
_NIGHTS = 0.15
# The share of histories in which the log loses records, and for how long a deleted topic is missing.
_LOSSES = 0.2
_MISSING_S = 4.0
# The share of histories with lulls, the lengths of one in hours, and the mean time between two faults in it.
_LULLS = 0.03
_LULL_H = (2, 2, 2, 6, 30)
_FAULT_EVERY_S = 2400.0
# In a lull brokers keep polls for longer than asked, up to so much, but answer them before they are given up.
_LATE_POLLS_S = 2.5
# How far a clock may be ahead: a day back, somewhat off, and more than brokers accept.
_CLOCKS_MS = (-86_400_000, -3000, 3000, 7_200_000)


class Trouble:
    """Injects the faults of networks, machines and operators."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        clients: list[Client],
        ids: Ids,
        *,
        losses: bool,
        lulls: Sequence[float] = (),
    ) -> None:
        """``losses``: whether the log may lose records. ``lulls``: seconds, each before another storm."""
        self._world = world
        self._cluster = cluster
        self._clients = clients
        self._ids = ids
        self._lulls = lulls
        self.over = False
        self._actions: list[Callable[[Node], None]] = [
            self._crash, self._crash, self._freeze, self._freeze, self._cut, self._usurp, self._noise,
            self._stop, self._isolate, self._another_producer, self._lag, self._usurp_amid_noise,
        ]  # fmt: skip
        if cluster.brokers is not None:
            self._actions += [
                self._elect, self._depose, self._restart, self._lack, self._move, self._compact,
                self._set_clock, self._fill_disk, self._crash_at_commit, self._set_aside,
                self._shake, self._shake,
            ]  # fmt: skip
        # How the log loses records in this history, if it does.
        self.loss: Callable[[], None] | None = None
        if cluster.brokers is not None and losses and world.likely(_LOSSES):
            self.loss = world.chance.choice((self._cut_log, self._recreate_topic))
        # Histories with few kinds of faults get further into what those lead to.
        share = world.chance.choice((0.3, 0.6, 1.0))
        self._actions = [each for each in self._actions if world.likely(share)] or [self._crash]

    @property
    def seconds_max(self) -> float:
        """No run takes longer."""
        return (STORM_S * 3 + CALM_S) * (1 + len(self._lulls)) + 2 * NIGHT_S + sum(self._lulls)

    def run(self) -> None:
        """Inject faults until the storm is over, then heal everything."""
        night_at = self._world.chance.random() * STORM_S if self._world.likely(_NIGHTS) else STORM_S
        if self.loss is not None:
            self._later(STORM_S / 2, self.loss)
            self._world.spawn(Process("operator"), self._operate)
        self._storm(night_at)
        for seconds in self._lulls:
            self._heal()
            self._lull(seconds)
            self._storm(STORM_S)
        self._heal()
        self.over = True

    def _storm(self, night_at: float) -> None:
        began = self._world.now
        ends_at = began + STORM_S
        while self._world.now < ends_at:
            if self._world.now - began > night_at:
                self._night()
                night_at = STORM_S + NIGHT_S
                ends_at = began + night_at
            self._world.sleep(self._world.chance.expovariate(0.6))
            self._do()

    def _do(self) -> None:
        """Inject one fault."""
        nodes = self._cluster.nodes
        primary = [node for node in nodes if node.name == self._cluster.authority.elected]
        node = self._world.chance.choice(primary if primary and self._world.likely(0.6) else nodes)
        action = self._world.chance.choice(self._actions)
        if self._world.likely(0.5):
            self._amid_an_append(node)
        action(node)

    def _lull(self, seconds: float) -> None:
        """Let nobody ask for anything. Without faults the primary stays; else one happens now and then."""
        self._cluster.night = True
        self._world.sleep(CALM_S)
        self._brokers.late_polls_s = _LATE_POLLS_S
        ends_at, claims = self._world.now + seconds, self._cluster.partition.claims
        if self._world.likely(0.5):
            self._world.sleep(seconds)
            kept = self._cluster.partition.claims == claims
            assert kept or self.loss is not None, "a primary was replaced without a fault"
        while (left_s := ends_at - self._world.now) > 0:
            self._world.sleep(min(left_s, self._world.chance.expovariate(1 / _FAULT_EVERY_S)))
            self._do()
        self._brokers.late_polls_s = 0.0
        self._cluster.night = False

    def _heal(self) -> None:
        """End all faults."""
        for node in self._cluster.nodes:
            line = node.line
            line.cut = line.lagging = line.deaf = node.link.cut = False
            line.bad = node.link.bad = 0.0
            node.clock_ahead_ms, node.store.full, node.store.at_commit = 0, False, None
            if node.running is not None and node.running.stopping:
                self._cluster.kill(node)
            if node.running is None:
                self._cluster.start(node)
            else:
                node.running.process.frozen = False
        if self._cluster.receiver is not None:
            self._cluster.receiver.bad = 0.0
        self._rejoin()

    def _later(self, mean_s: float, what: Callable[[], None]) -> None:
        delay_s = self._world.chance.expovariate(1 / mean_s)

        def then() -> None:
            self._world.sleep(delay_s)
            if not self.over:
                what()

        self._world.spawn(Process("later"), then)

    def _set_for(self, mean_s: float, part: object, **given: float) -> None:
        """Set attributes of a part that are false or 0 in good times, for a while."""
        for name, value in given.items():
            assert hasattr(part, name)
            setattr(part, name, value)

        def heal() -> None:
            for name, value in given.items():
                setattr(part, name, type(value)())

        self._later(mean_s, heal)

    def _cut_log(self) -> None:
        """Let the log lose some of its newest batches."""
        batches = self._cluster.partition.batches[-self._world.chance.randint(1, 20) :]
        if batches:
            self._brokers.cut(batches[0].base)
            self._forget()

    def _recreate_topic(self) -> None:
        self._brokers.delete()
        self._forget()
        self._world.sleep(self._world.chance.random() * _MISSING_S)
        self._brokers.create()

    def _forget(self) -> None:
        self._cluster.on_loss()
        versions = filter(None, map(version_in, self._cluster.partition.records))
        self._ids.keep({(each["id"], each["schema"]) for each in versions})
        for client in self._clients:
            client.forget()

    def _operate(self) -> None:
        """Give each node that reports that the log is not its store's an empty store, as an operator may."""
        while True:
            self._world.sleep(self._world.chance.expovariate(0.2))
            for node in self._cluster.nodes:
                if node.foreign:
                    self._cluster.kill(node)
                    self._cluster.set_aside(node)
                    self._cluster.start(node)

    def _amid_an_append(self, node: Node) -> None:
        """Return while the node appends, or after a while if it does not."""
        self._world.until(lambda: node.line.appending, 1.0)

    def await_append(self) -> None:
        """Return while any node appends, or after a while if none does."""
        self._world.until(lambda: any(node.line.appending for node in self._cluster.nodes), 1.0)

    def _crash(self, node: Node) -> None:
        self._cluster.kill(node)

        def again() -> None:
            if node.running is None:
                self._cluster.start(node)

        self._later(2.0, again)

    def _stop(self, node: Node) -> None:
        if node.running is None or node.running.process.frozen:
            return
        life = node.running
        life.stopping = True
        self._world.spawn(life.process, life.stop)
        self._later(1.0, lambda: self._crash(node))

    def _freeze(self, node: Node) -> None:
        if node.running is not None:
            self._set_for(8.0, node.running.process, frozen=True)

    def _cut(self, node: Node) -> None:
        self._set_for(5.0, node.line, cut=True)

    def _isolate(self, node: Node) -> None:
        self._set_for(3.0, node.link, cut=True)

    def _noise(self, node: Node) -> None:
        self._set_for(4.0, node.line, bad=self._world.chance.random() * 0.5)

    def _shake(self, node: Node) -> None:
        """Break or delay some connections of the node to the others."""
        self._set_for(4.0, node.link, bad=self._world.chance.random() * 0.3)

    def _lag(self, node: Node) -> None:
        self._set_for(4.0, node.line, lagging=True, deaf=self._world.likely(0.7))
        if self._world.likely(0.7):
            self._usurp(node)

    def _usurp_amid_noise(self, node: Node) -> None:
        self._noise(node)
        self._later(0.5, lambda: self._usurp(node))

    def _usurp(self, node: Node) -> None:
        self._cluster.authority.usurp()

    def _night(self) -> None:
        """Stay idle for so long that brokers forget producers, while the primary may be frozen."""
        primary = [node for node in self._cluster.nodes if node.name == self._cluster.authority.elected]
        for node in primary:
            self._amid_an_append(node)
            if node.running is not None and self._world.likely(0.8):
                node.running.process.frozen = True
        self._world.sleep(SESSION_S * 2)
        self._cluster.night = True
        self._world.sleep(NIGHT_S)
        self._cluster.night = False
        for node in primary:
            if node.running is not None:
                node.running.process.frozen = False

    def _elect(self, node: Node) -> None:
        self._brokers.elect()

    def _depose(self, node: Node) -> None:
        self._brokers.elect(unnoticed=True)
        self._later(3.0, self._rejoin)

    def _restart(self, node: Node) -> None:
        self._brokers.restart()
        self._later(2.0, self._rejoin)

    def _lack(self, node: Node) -> None:
        self._brokers.lacking_until = self._world.now + self._world.chance.expovariate(1.0)

    def _move(self, node: Node) -> None:
        self._brokers.moving_until = self._world.now + self._world.chance.expovariate(1.0)

    @property
    def _brokers(self) -> Brokers:
        assert self._cluster.brokers is not None
        return self._cluster.brokers

    def _rejoin(self) -> None:
        if self._cluster.brokers is not None:
            self._cluster.brokers.rejoin()

    def _compact(self, node: Node) -> None:
        self._brokers.compact()

    def _set_aside(self, node: Node) -> None:
        self._compact(node)
        self._crash(node)
        self._cluster.set_aside(node)

    def _set_clock(self, node: Node) -> None:
        self._set_for(5.0, node, clock_ahead_ms=self._world.chance.choice(_CLOCKS_MS))

    def _fill_disk(self, node: Node) -> None:
        self._set_for(3.0, node.store, full=True)

    def _crash_at_commit(self, node: Node) -> None:
        """Kill the node in its next commit, before or after that took effect."""
        when = self._world.chance.choice(("before", "after"))

        def at_commit(moment: str) -> None:
            if moment == when:
                node.store.at_commit = None
                self._crash(node)

        node.store.at_commit = at_commit

    def _another_producer(self, node: Node) -> None:
        self._cluster.partition.init(another_producer=True)


def lulls(world: World) -> list[float]:
    """Draw the lulls of a history, in seconds; most have none."""
    if not world.likely(_LULLS):
        return []
    return [world.chance.choice(_LULL_H) * 3600.0 for _ in range(world.chance.randint(1, 2))]
