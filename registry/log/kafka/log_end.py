"""Queries for the log's start and end, confirmed against a leader that was deposed without knowing it.

A broker that is cut off from Kafka's controllers does not learn of a newer leader, and keeps reporting the
end that it knew. So every query for the end is confirmed: other brokers with replicas name the leader epoch
that they know, and enough of them must name the epoch in which the leader answered. They are asked after the
query came in; no earlier answer is reused.

How many are enough. Of n replicas, m = ``min.insync.replicas`` must have a record before it is acknowledged.
Each of those m knew of the epoch in which it stored the record, and a broker that knows of an epoch names it
or a newer one. So if n - m + 1 brokers name the older epoch, at most m - 1 know of a newer one, and nothing
was acknowledged in it yet. The leader is one of the n - m + 1; n - m others are asked: one of three replicas
with m = 2, three of five with m = 2, two of five with m = 3, all if m = 1 or m is unknown. Never fewer than
half of the others, because m may have been lowered since it was read.

If too few can be reached, the in-sync replicas that the leader itself names now are enough, provided they are
m or more: only one of them can be elected, and it would know. (With fewer, controllers may also elect a
replica that was in sync before: KIP-966.) So dead brokers stop mattering as soon as the controllers have
removed them from the in-sync set. The remaining risk there is a leader that was cut off just after the
controllers added a replica to the in-sync set, before it learned of that.

Brokers name epochs from metadata that controllers send to all brokers. With KRaft a broker knows an epoch
from there before it leads or follows in it. With ZooKeeper a separate request makes it leader or follower,
which may arrive first; so there the replica itself is asked, too (:mod:`.log_end`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from registry.log.contract import Unreachable

from . import release, requests
from .connection import BACKOFF_MIN_S, TRY_S, Backoff, NoAnswer, Purpose
from .log_identity import CONFIRM_S, END
from .partition import Partition
from .requests import Broker, Cluster, Code, PartitionMetadata, code_name

# How long to wait for the first brokers before the others are asked, too.
HEDGE_S = 0.05

# Asks one broker for its metadata. Raises NoAnswer.
Describe = Callable[[Broker], Awaitable[Cluster]]


class NewerEpoch(Exception):
    """A newer partition leader was elected; ``cluster`` names it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("another broker is the partition leader now")
        self.cluster = cluster


def confirmations_needed(replicas: int, min_in_sync: int) -> int:
    """Return how many brokers besides the leader must name its epoch."""
    return max(replicas // 2, replicas - min_in_sync) if replicas > 1 else 0


async def confirm(
    metadata: PartitionMetadata, min_in_sync: int, describe: Describe, priority: Callable[[Broker], float]
) -> None:
    """Return when enough brokers name the epoch of ``metadata``.

    ``min_in_sync``: the topic's ``min.insync.replicas``. Brokers with a lower ``priority`` are asked first.
    Raises :class:`NewerEpoch`, and :class:`.connection.NoAnswer` if too few brokers confirm it.
    """
    enough = confirmations_needed(metadata.replicas, min_in_sync)
    if not enough:
        return
    order = sorted(metadata.others, key=priority)
    asking = _ask_all(describe, order[:enough])
    rest = [*order[enough:], *([metadata.broker] if metadata.broker else [])]
    agreed: set[int] = set()
    # According to the leader; empty until it has answered.
    in_sync: frozenset[int] = frozenset()
    stalled = False
    try:
        while not _is_proven(metadata, agreed, in_sync, min_in_sync):
            if rest and (stalled or len(agreed) + len(asking) < enough):
                asking |= _ask_all(describe, rest)
                rest = []
            if not asking:
                raise NoAnswer("too few brokers confirm the partition leader", sent=False)
            done, _ = await asyncio.wait(
                asking, timeout=HEDGE_S if rest else None, return_when=asyncio.FIRST_COMPLETED
            )
            stalled = not done
            for task in [each for each in asking if each in done]:  # in the order of asking
                broker = asking.pop(task)
                if (found := _confirmation(task, metadata)) is not None:
                    agreed.add(broker)
                    in_sync = found.in_sync if metadata.broker and broker == metadata.broker.id else in_sync
    finally:
        for task in asking:
            task.cancel()


def _is_proven(
    metadata: PartitionMetadata, agreed: set[int], in_sync: frozenset[int], min_in_sync: int
) -> bool:
    """Return True if enough brokers besides the leader ``agreed``, or all in-sync replicas did."""
    others = len(agreed) - (metadata.broker is not None and metadata.broker.id in agreed)
    return others >= confirmations_needed(metadata.replicas, min_in_sync) or (
        len(in_sync) >= min_in_sync and in_sync <= agreed
    )


def _ask_all(describe: Describe, brokers: Iterable[Broker]) -> dict[asyncio.Task[Cluster], int]:
    return {asyncio.ensure_future(describe(each)): each.id for each in brokers}


def _confirmation(task: asyncio.Task[Cluster], metadata: PartitionMetadata) -> PartitionMetadata | None:
    """Return the broker's metadata if it names the same epoch. Raises :class:`NewerEpoch`."""
    error = task.exception()
    if isinstance(error, NoAnswer):
        return None
    cluster = task.result()
    found = cluster.partition
    if found is None or found.topic_id != metadata.topic_id:
        return None
    if found.epoch > metadata.epoch:
        raise NewerEpoch(cluster)
    return found if found.epoch == metadata.epoch else None


async def query_end(partition: Partition, timeout_s: float) -> int:
    """Return the log's end as of now.

    Raises :class:`.contract.Unreachable`, also while the log is suspected to be truncated.
    """
    deadline = partition.clock() + timeout_s
    while True:
        known = partition.end
        end = await query_offset(partition, requests.LATEST, max(0.001, deadline - partition.clock()))
        if end >= known:
            partition.mismatches.clear(END)
            partition.advance_end(end)
            return end
        try:
            partition.suspect(
                END, f"the topic {partition.topic} was truncated: it ended at {known} and now ends at {end}"
            )
        except NoAnswer as error:
            if partition.clock() >= deadline:
                raise Unreachable(str(error)) from error
        await asyncio.sleep(CONFIRM_S / 5)


async def query_offset(partition: Partition, at: int, timeout_s: float) -> int:
    """Return the log's end (:data:`.requests.LATEST`) or start (:data:`.requests.EARLIEST`).

    Any other ``at`` is a time in ms since the epoch: return the offset of the first record that is not older,
    or -1.
    Retries until the time is up. Raises :class:`registry.log.contract.Unreachable`.
    """
    deadline = partition.clock() + timeout_s
    backoff = Backoff()
    while True:
        left = deadline - partition.clock()
        try:
            code, offset = await _query_once(partition, at, max(0.001, min(left, TRY_S)))
            if code == Code.NONE:
                return offset
            problem = code_name(code)
            if code == Code.TOPIC_AUTHORIZATION_FAILED:
                partition.raise_denied(code, "Describe")
        except NoAnswer as error:
            problem = str(error)
        if partition.clock() + 2 * BACKOFF_MIN_S >= deadline:
            raise Unreachable(f"cannot query Kafka for the end of topic {partition.topic}: {problem}")
        await backoff()
        await partition.recover()


async def _query_once(partition: Partition, at: int, timeout_s: float) -> tuple[int, int]:
    """Return the error code and the offset. The end counts only if other brokers confirm the leader."""
    metadata = partition.metadata
    request = requests.ListOffsets(partition.topic, at, metadata.epoch if metadata else -1)
    sending = partition.send(request, Purpose.QUERY, timeout_s, reading_bounds=True)
    if at != requests.LATEST or metadata is None or metadata.replicas < 2:
        return requests.listed_offset(await sending)
    answer, _ = await asyncio.gather(sending, _confirm_leader(partition, metadata, timeout_s))
    return requests.listed_offset(answer)


async def _confirm_leader(partition: Partition, metadata: PartitionMetadata, timeout_s: float) -> None:
    """Return when enough brokers say that no newer leader was elected."""

    async def describe(broker: Broker) -> Cluster:
        with partition.watching(broker):
            request = requests.Metadata(partition.topic)
            answer = await partition.send_to(broker.host, broker.port, request, timeout_s)
            if not release.with_kraft(partition.versions_of(broker)):
                await _check_replica(partition, broker, metadata, timeout_s)
        return requests.cluster(answer)

    try:
        async with asyncio.timeout(timeout_s):
            await confirm(metadata, partition.min_in_sync, describe, partition.failed_at)
    except NewerEpoch as newer:
        partition.update(newer.cluster)
        raise NoAnswer(str(newer), sent=False) from None
    except TimeoutError as error:
        raise NoAnswer("too few brokers confirm the partition leader", sent=False) from error


async def _check_replica(
    partition: Partition, broker: Broker, metadata: PartitionMetadata, timeout_s: float
) -> None:
    """Check that the broker's own replica leads or follows in the epoch of ``metadata``.

    With ZooKeeper a replica may be in a newer epoch before its broker names that epoch in metadata
    . Brokers compare the epoch of ListOffsets before they check if they lead, so
    NOT_LEADING confirms the epoch. Raises :class:`.connection.NoAnswer` if it does not.
    """
    request = requests.ListOffsets(partition.topic, requests.LATEST, metadata.epoch)
    code, _ = requests.listed_offset(await partition.send_to(broker.host, broker.port, request, timeout_s))
    if code not in {Code.NONE, Code.NOT_LEADING}:
        raise NoAnswer(
            f"the replica on {broker.host}:{broker.port} is not in this leader epoch: {code_name(code)}",
            sent=False,
        )
