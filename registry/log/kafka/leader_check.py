"""Check that the broker that says where the log ends still leads its partition.

A broker that is cut off from Kafka's controllers does not learn that another one leads by now, and goes on
naming the end that it knew. So each question is also put to others: brokers that hold replicas say in
which epoch the partition is led. Enough of them must name the epoch in which the first one answers, and
each is asked after the question has come in: there is no span of time for which an earlier answer is
believed.

How many are enough. Of n replicas, m = ``min.insync.replicas`` must have a record before it is
acknowledged. Each of those m knew of the epoch in which it took the record, and a broker that knows of an
epoch names it or a newer one. So if n - m + 1 brokers name the older epoch, at most m - 1 know of a newer
one, and nothing was acknowledged in it yet. The leader is one of the n - m + 1; n - m others are asked:
one of three replicas with m = 2, three of five with m = 2, two of five with m = 3, all where m = 1 or m is
not known. Never fewer than half of the others, because m may have been lowered since it was read.

Where too few can be reached, those in sync are enough, as the leader itself names them now, if they are m
or more: only one of them can come to lead, and it would know. (With fewer, controllers may also choose one
that was in sync before: KIP-966.) So dead brokers are done without as soon as the controllers have agreed
to that. What remains there is a leader that was cut off just after the controllers took another one in
sync, before it heard of that.

Brokers name epochs from what controllers have told all brokers. With KRaft a broker knows of an epoch
there before it leads or follows in it. With ZooKeeper it is told to lead or follow by a message of its
own, which may come first; so there the replica is asked, too (:meth:`.partition.Partition` does that for
``Ask``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from .connection import NoAnswer
from .requests import Broker, Cluster, Place

HEDGE_S = 0.05
"""How long those who answered well before are waited for, until the others are asked too."""

Ask = Callable[[Broker], Awaitable[Cluster]]
"""What a broker says of the cluster. Raises :class:`.connection.NoAnswer`."""


class NewerEpoch(Exception):
    """Another broker leads the partition by now: ``cluster`` says which."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("another broker leads the partition by now")
        self.cluster = cluster


def needed(replicas: int, min_in_sync: int) -> int:
    """Return how many brokers besides the leader must name its epoch."""
    return max(replicas // 2, replicas - min_in_sync) if replicas > 1 else 0


async def confirm(place: Place, min_in_sync: int, ask: Ask, reliable: Callable[[Broker], float]) -> None:
    """Return when enough brokers name the epoch of ``place``.

    ``min_in_sync``: the topic's ``min.insync.replicas``. ``reliable`` sorts brokers, those first that are
    asked first. Raises :class:`NewerEpoch`, and :class:`.connection.NoAnswer` when too few do.
    """
    enough = needed(place.replicas, min_in_sync)
    if not enough:
        return
    order = sorted(place.others, key=reliable)
    asking = _all(ask, order[:enough])
    rest = [*order[enough:], *([place.broker] if place.broker else [])]
    agreed: set[int] = set()
    # As the leader names them; empty until it has answered.
    in_sync: frozenset[int] = frozenset()
    stalled = False
    try:
        while not _proven(place, agreed, in_sync, min_in_sync):
            if rest and (stalled or len(agreed) + len(asking) < enough):
                asking |= _all(ask, rest)
                rest = []
            if not asking:
                raise NoAnswer("too few brokers say which of them has the partition", sent=False)
            done, _ = await asyncio.wait(
                asking, timeout=HEDGE_S if rest else None, return_when=asyncio.FIRST_COMPLETED
            )
            stalled = not done
            for task in done:
                broker = asking.pop(task)
                if (found := _named(task, place)) is not None:
                    agreed.add(broker)
                    in_sync = found.in_sync if place.broker and broker == place.broker.id else in_sync
    finally:
        for task in asking:
            task.cancel()


def _proven(place: Place, agreed: set[int], in_sync: frozenset[int], min_in_sync: int) -> bool:
    """Return True if those who ``agreed`` are enough, the leader not counted, or all that are in sync."""
    others = len(agreed) - (place.broker is not None and place.broker.id in agreed)
    return others >= needed(place.replicas, min_in_sync) or (
        len(in_sync) >= min_in_sync and in_sync <= agreed
    )


def _all(ask: Ask, brokers: Iterable[Broker]) -> dict[asyncio.Task[Cluster], int]:
    return {asyncio.ensure_future(ask(each)): each.id for each in brokers}


def _named(task: asyncio.Task[Cluster], place: Place) -> Place | None:
    """Return what the broker says of the partition if it names its epoch. Raises :class:`NewerEpoch`."""
    error = task.exception()
    if isinstance(error, NoAnswer):
        return None
    cluster = task.result()
    found = cluster.place
    if found is None or found.topic_id != place.topic_id:
        return None
    if found.epoch > place.epoch:
        raise NewerEpoch(cluster)
    return found if found.epoch == place.epoch else None
