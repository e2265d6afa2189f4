"""Confirmation that the broker that reports the log's end is still the partition leader.

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

from .connection import NoAnswer
from .requests import Broker, Cluster, PartitionMetadata

# How long to wait for the first brokers before the others are asked, too.
HEDGE_S = 0.05

# Asks one broker for its metadata. Raises NoAnswer.
Describe = Callable[[Broker], Awaitable[Cluster]]


class NewerEpoch(Exception):
    """A newer partition leader was elected; ``cluster`` names it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("another broker is the partition leader now")
        self.cluster = cluster


def needed(replicas: int, min_in_sync: int) -> int:
    """Return how many brokers besides the leader must name its epoch."""
    return max(replicas // 2, replicas - min_in_sync) if replicas > 1 else 0


async def confirm(
    metadata: PartitionMetadata, min_in_sync: int, describe: Describe, priority: Callable[[Broker], float]
) -> None:
    """Return when enough brokers name the epoch of ``metadata``.

    ``min_in_sync``: the topic's ``min.insync.replicas``. Brokers with a lower ``priority`` are asked first.
    Raises :class:`NewerEpoch`, and :class:`.connection.NoAnswer` if too few brokers confirm it.
    """
    enough = needed(metadata.replicas, min_in_sync)
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
            for task in done:
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
    return others >= needed(metadata.replicas, min_in_sync) or (
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
