"""One simulated history: a cluster under load, random faults, then calm, and the laws to check."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256

from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.log.kafka.record_batches import NO_PRODUCER

from .clients import Client, check_ids
from .cluster import BRIEF, LASTING, Cluster
from .listeners import Listener, Receiver, check_listener, check_receiver, create_webhook, told
from .other_writers import OtherWriter, registered_in, texts_of, version_in
from .partition import Batch
from .subjects import Ids
from .trouble import CALM_S, Trouble, lulls
from .world import Note, Process, World

CLIENTS = 3
# The shares of histories without losses in which somebody listens to the feed, and with a webhook.
_LISTENERS, _WEBHOOKS = 0.3, 0.1
# The share of histories in which another program writes to the log.
_OTHERS = 0.25


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
    # Simulated seconds, and those in which nobody asked for anything.
    seconds: float
    quiet: float
    # Of all batches, with their senders and moments: equal histories have equal digests.
    digest: str


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
    quiet = [] if model or spared else lulls(world)
    cluster = Cluster(world, 3, model=model, times=LASTING if quiet else BRIEF)
    ids = Ids(lambda schema_id: len(texts_of(schema_id, cluster.partition.records)) > 1)
    clients = [Client(world, cluster, f"c{number}", ids) for number in range(CLIENTS)]
    outside = Process("outside")
    trouble = Trouble(world, cluster, clients, ids, losses=not spared, lulls=quiet)
    listener = None if spared or trouble.loss is not None else _listen(world, cluster, outside)
    if cluster.brokers is not None and not spared and world.likely(_OTHERS):
        other = OtherWriter(world, cluster.brokers, trouble.await_append)
        world.spawn(outside, lambda: other.run(lambda: trouble.over, lambda: cluster.night))
    for client in clients:
        world.spawn(outside, client.run)
    world.spawn(Process("trouble"), trouble.run)
    assert world.run(lambda: trouble.over, trouble.seconds_max), "the storm did not end"
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
        sum(quiet),
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
    """After the storm the cluster must heal by itself, or once an operator has seen foreign logs.

    A node that is still opening its log refuses the write after a while, and one that heals meanwhile may.
    """
    last = list[bool]()

    def heals() -> bool:
        return any(each.foreign or each.opening for each in cluster.nodes)

    def write() -> None:
        while True:
            healing = heals()
            if (done := clients[0].succeeds()) or not (healing or heals()):
                break
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
    texts = registered_in(cluster.partition.records)
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
