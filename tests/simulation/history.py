"""One simulated history: a cluster under load, random faults, then calm, and the laws to check."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256

from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.log.kafka.record_batches import NO_PRODUCER

from .authority import SESSION_S
from .brokers import Brokers
from .clients import Client, check_ids
from .cluster import FORGET_S, Cluster, Node
from .listeners import Listener, Receiver, check_listener, check_receiver, create_webhook, told
from .other_writers import OtherWriter, texts_of, version_in
from .partition import Batch
from .subjects import Ids
from .world import Note, Process, World

CLIENTS = 3
STORM_S = 20.0
NIGHT_S = 1.5 * FORGET_S
# The share of histories with an idle night.
_NIGHTS = 0.15
CALM_S = 120.0
# The share of histories in which the log loses records, and for how long a deleted topic is missing.
_LOSSES = 0.2
_MISSING_S = 4.0
# The shares of the others in which somebody listens to the feed, and in which there is a webhook.
_LISTENERS, _WEBHOOKS = 0.3, 0.1
# The share of histories in which another program writes to the log.
_OTHERS = 0.25
# How far a clock may be ahead: a day back, somewhat off, and more than brokers accept.
_CLOCKS_MS = (-86_400_000, -3000, 3000, 7_200_000)


@dataclass
class Told:
    """The content of a history, for a summary and to see that faults happened."""

    turns: int
    acknowledged: int
    claims: int
    records: int
    unknown: int
    # Commands in doubt that were sent again and answered.
    settled: int
    # How often the log lost records; what the listener heard, and what the webhook was sent.
    losses: int
    heard: int
    posted: int
    # Batches of another program, and commands that were decided again because of them.
    others: int
    clashes: int
    # Simulated seconds.
    seconds: float
    # Of all batches, with their senders and moments: equal histories have equal digests.
    digest: str


class Trouble:
    """Injects the faults of networks, machines and operators."""

    def __init__(
        self, world: World, cluster: Cluster, clients: list[Client], ids: Ids, *, losses: bool
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._clients = clients
        self._ids = ids
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

    def run(self) -> None:
        """Inject faults until the storm is over, then heal everything."""
        night_at = self._world.chance.random() * STORM_S if self._world.likely(_NIGHTS) else STORM_S
        ends_at = STORM_S
        if self.loss is not None:
            self._later(STORM_S / 2, self.loss)
            self._world.spawn(Process("operator"), self._operate)
        while self._world.now < ends_at:
            if self._world.now > night_at:
                self._night()
                night_at = ends_at = STORM_S + NIGHT_S
            self._world.sleep(self._world.chance.expovariate(0.6))
            nodes = self._cluster.nodes
            primary = [node for node in nodes if node.name == self._cluster.authority.elected]
            node = self._world.chance.choice(primary if primary and self._world.likely(0.6) else nodes)
            action = self._world.chance.choice(self._actions)
            if self._world.likely(0.5):
                self._amid_an_append(node)
            action(node)
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
        self.over = True

    def _later(self, mean_s: float, what: Callable[[], None]) -> None:
        delay_s = self._world.chance.expovariate(1 / mean_s)

        def then() -> None:
            self._world.sleep(delay_s)
            if not self.over:
                what()

        self._world.spawn(Process("later"), then)

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
        self._ids.keep(set(_registered(self._cluster)))
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
        if node.running is None:
            return
        process = node.running.process
        process.frozen = True

        def thaw() -> None:
            process.frozen = False

        self._later(8.0, thaw)

    def _cut(self, node: Node) -> None:
        node.line.cut = True

        def heal() -> None:
            node.line.cut = False

        self._later(5.0, heal)

    def _isolate(self, node: Node) -> None:
        node.link.cut = True

        def heal() -> None:
            node.link.cut = False

        self._later(3.0, heal)

    def _noise(self, node: Node) -> None:
        node.line.bad = self._world.chance.random() * 0.5

        def heal() -> None:
            node.line.bad = 0.0

        self._later(4.0, heal)

    def _shake(self, node: Node) -> None:
        """Break or delay some connections of the node to the others."""
        node.link.bad = self._world.chance.random() * 0.3

        def heal() -> None:
            node.link.bad = 0.0

        self._later(4.0, heal)

    def _lag(self, node: Node) -> None:
        line = node.line
        line.lagging, line.deaf = True, self._world.likely(0.7)

        def heal() -> None:
            line.lagging = line.deaf = False

        self._later(4.0, heal)
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
        node.clock_ahead_ms = self._world.chance.choice(_CLOCKS_MS)

        def heal() -> None:
            node.clock_ahead_ms = 0

        self._later(5.0, heal)

    def _fill_disk(self, node: Node) -> None:
        node.store.full = True

        def heal() -> None:
            node.store.full = False

        self._later(3.0, heal)

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


def run(seed: int, *, model: bool = False) -> Told:
    """Run the history of a seed and check it; ``AssertionError`` describes a violation.

    ``model``: over the model of the log, instead of the log that runs in production.
    """
    random.seed(seed)  # for the jitter of retries
    with closing(World(seed)) as world:
        return _history(world, model=model, spared=False)


def traced(seed: int) -> list[Note]:
    """Run a history in which the log loses nothing and nobody else writes; return what happened, in order."""
    random.seed(seed)
    with closing(World(seed)) as world:
        _history(world, model=False, spared=True)
        return world.trace


def _history(world: World, *, model: bool, spared: bool) -> Told:
    cluster = Cluster(world, 3, model=model)
    ids = Ids(lambda schema_id: len(texts_of(schema_id, cluster.partition.records)) > 1)
    clients = [Client(world, cluster, f"c{number}", ids) for number in range(CLIENTS)]
    outside = Process("outside")
    trouble = Trouble(world, cluster, clients, ids, losses=not spared)
    listener = None if spared or trouble.loss is not None else _listen(world, cluster, outside)
    if cluster.brokers is not None and not spared and world.likely(_OTHERS):
        other = OtherWriter(world, cluster.brokers, trouble.await_append)
        world.spawn(outside, lambda: other.run(lambda: trouble.over))
    for client in clients:
        world.spawn(outside, client.run)
    world.spawn(Process("trouble"), trouble.run)
    assert world.run(lambda: trouble.over, STORM_S * 3 + 2 * NIGHT_S), "the storm did not end"
    for client in clients:
        client.stopped = True
    assert world.run(lambda: all(client.idle for client in clients), CALM_S), "a client was never answered"
    _writes_again(world, cluster, clients)
    _are_told(world, cluster, listener)
    assert world.run(lambda: _level(cluster), CALM_S), "the nodes do not come to the log's end"
    assert world.run(lambda: _owes_nothing(cluster), CALM_S), "a command was never answered"
    check(cluster, clients)
    return Told(
        world.turns,
        sum(client.acknowledged for client in clients),
        cluster.partition.claims,
        cluster.partition.end,
        sum(len(client.abandoned) for client in clients),
        cluster.settled,
        cluster.losses,
        0 if listener is None else len(listener.offsets),
        0 if cluster.receiver is None else len(cluster.receiver.got),
        sum(each.producer == NO_PRODUCER.producer for each in cluster.partition.batches),
        cluster.clashes,
        world.now,
        _digest(world, cluster),
    )


def _listen(world: World, cluster: Cluster, outside: Process) -> Listener | None:
    """Let somebody listen to the feed in some histories, and register a webhook in some."""
    if cluster.brokers is None:
        return None
    if world.likely(_WEBHOOKS):
        cluster.receiver = Receiver(world)
        world.spawn(outside, lambda: create_webhook(cluster))
    if not world.likely(_LISTENERS):
        return None
    listener = Listener(world, cluster)
    world.spawn(outside, listener.run)
    return listener


def _are_told(world: World, cluster: Cluster, listener: Listener | None) -> None:
    """All events reach the listener and the receiver of the webhook."""
    brokers, receiver = cluster.brokers, cluster.receiver
    if brokers is not None and listener is not None:
        heard = world.run(lambda: told(listener.offsets, brokers), CALM_S)
        check_listener(listener, brokers)
        assert heard, "the feed ends too early"
    if brokers is not None and receiver is not None:
        heard = world.run(lambda: told((offset for _, offset in receiver.got), brokers), CALM_S)
        check_receiver(receiver, brokers)
        assert heard, "the webhook is not told"


def _digest(world: World, cluster: Cluster) -> str:
    partition = cluster.partition
    return sha256(repr((world.turns, world.now, partition.batches, partition.records)).encode()).hexdigest()


def _writes_again(world: World, cluster: Cluster, clients: list[Client]) -> None:
    """After the storm the cluster must heal by itself, or once an operator has seen foreign logs."""
    last: list[bool] = []

    def write() -> None:
        while not (done := clients[0].succeeds()) and any(node.foreign for node in cluster.nodes):
            world.sleep(1.0)
        last.append(done)

    world.spawn(Process("last"), write)
    assert world.run(lambda: last, CALM_S), "the last write was not answered"
    assert last[0], "the cluster does not write any more"


def _level(cluster: Cluster) -> bool:
    return all(node.store.applied == cluster.partition.end and not node.foreign for node in cluster.nodes)


def _owes_nothing(cluster: Cluster) -> bool:
    return not any(node.running is not None and node.running.unanswered for node in cluster.nodes)


def check(cluster: Cluster, clients: list[Client]) -> None:
    """Check the laws of log and stores at the end."""
    _claims_do_not_mix(cluster)
    _nothing_twice(cluster)
    _ids_grow(cluster)
    texts = _registered(cluster)
    for client in clients:
        for text in client.failed:
            assert text not in texts, f"{text} was reported not done, and is in the log"
        for subject in client.subjects:
            for node in cluster.nodes:
                found = versions.versions(node.store.view(), Subject.parse(subject.name))
                seen = {each.version: each.row.schema_id for each in found}
                assert seen == subject.live(), f"{node.name} shows {seen} of {subject.name}: {subject.live()}"
                check_ids(node.store.view(), subject, cluster.partition.records)
    assert len({node.store.digest for node in cluster.nodes}) == 1


def _claims_do_not_mix(cluster: Cluster) -> None:
    """Once another claim has written, an earlier one must not; barriers and no-ops decide nothing."""
    writing, written = 0, set()
    for batch in _ours(cluster):
        records = cluster.partition.records[batch.base : batch.base + batch.count]
        if batch.claim != writing and not all(b'"NOOP"' in (record.key or b"") for record in records):
            assert batch.claim not in written, f"{batch} after claim {writing} wrote"
            writing = batch.claim
            written.add(writing)


def _nothing_twice(cluster: Cluster) -> None:
    """Two equal batches, one after the other, are one append that was executed twice."""
    before: list[tuple[bytes | None, bytes | None]] = []
    for batch in _ours(cluster):
        records = cluster.partition.records[batch.base : batch.base + batch.count]
        batched = [(record.key, record.value) for record in records]
        if not all(b'"NOOP"' in (key or b"") for key, _ in batched):
            assert batched != before, f"{batch} stands there twice"
            before = batched


def _ours(cluster: Cluster) -> list[Batch]:
    """Return the batches of all nodes."""
    return [each for each in cluster.partition.batches if each.producer != NO_PRODUCER.producer]


def _registered(cluster: Cluster) -> dict[str, int]:
    """Return the texts in the log and their ids."""
    found = (version_in(each) for each in cluster.partition.records)
    return {each["schema"]: each["id"] for each in found if each is not None}


def _ids_grow(cluster: Cluster) -> None:
    """Nodes give new ids in order, and none to two schemas. Clients check those that others took as well."""
    highest, bound = 0, dict[int, tuple[bool, str]]()
    for batch in cluster.partition.batches:
        ours = batch.producer != NO_PRODUCER.producer
        for record in cluster.partition.records[batch.base : batch.base + batch.count]:
            version = version_in(record)
            if version is None:
                continue
            schema_id, text = version["id"], version["schema"]
            if ours and schema_id not in bound:
                assert schema_id > highest, f"id {schema_id} at {record.offset} is new and below {highest}"
                highest = schema_id
            by_us, known = bound.setdefault(schema_id, (ours, text))
            assert known == text or not (ours and by_us), f"id {schema_id} has two schemas"
