"""Whether the broker that is asked where the log ends is still the one that leads its partition.

A broker that is cut off from Kafka's controllers does not learn that another one leads by now, and goes on
naming the end that it knew. So each question is also put to others: brokers that hold replicas say in which
epoch the partition is led. Enough of them must name the epoch in which the first one answers, and each is
asked after the question has come in: there is no span of time for which an earlier answer is believed.

Why that is enough. A record that was acknowledged in a newer epoch stood on ``min.insync.replicas`` brokers,
each of which knew of that epoch before it took the record, and a broker that knows of it names it. With m of
them among n replicas, and half of the others (n // 2, rounded down) naming the older one besides the first,
n // 2 + 1 do not know of the newer epoch; as that and m are more than n, nothing was acknowledged in it yet.
So it holds for the usual 3 replicas and m = 2. With m = 1 Kafka itself promises less, and so does this: then
one broker alone may have acknowledged what the others have not heard of.

Where too few can be reached, those in sync are asked, as the leader itself names them now: only one of them
can come to lead. A broker that is left alone by dead ones is so believed as soon as the controllers have
agreed to that. A partition with one replica asks nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from .connection import NoAnswer
from .wire import Broker, Cluster, Place

HEDGE_S = 0.05
"""How long those who answered well before are waited for, until the others are asked too."""

Ask = Callable[[Broker], Awaitable[Cluster]]
"""What a broker says of the cluster. Raises :class:`.connection.NoAnswer`."""


class NewerEpoch(Exception):
    """Another broker leads the partition by now: ``cluster`` says which."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("another broker leads the partition by now")
        self.cluster = cluster


async def confirm(place: Place, ask: Ask, reliable: Callable[[Broker], float]) -> None:
    """Return when enough brokers name the epoch of ``place``.

    ``reliable`` sorts brokers, those first that are asked first. Raises :class:`NewerEpoch`, and
    :class:`.connection.NoAnswer` when too few do.
    """
    needed = place.replicas // 2
    if not needed:
        return
    order = sorted(place.others, key=reliable)
    agreed = await _agreeing(place, ask, order, needed)
    if len(agreed) >= needed:
        return
    if place.broker is not None:
        now = (await ask(place.broker)).place
        if now is not None and now.epoch == place.epoch and now.in_sync <= {*agreed, place.broker.id}:
            return
    raise NoAnswer("too few brokers say which of them has the partition", sent=False)


async def _agreeing(place: Place, ask: Ask, order: Sequence[Broker], needed: int) -> set[int]:
    """The ids of those who name the epoch, as soon as there are as many as needed, or all have spoken."""
    rest = list(order[needed:])
    asking = _all(ask, order[:needed])
    agreed: set[int] = set()
    try:
        while asking and len(agreed) < needed:
            done, _ = await asyncio.wait(
                asking, timeout=HEDGE_S if rest else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if _names(task, place):
                    agreed.add(asking[task])
                del asking[task]
            if not done or len(agreed) + len(asking) < needed:
                asking |= _all(ask, rest)
                rest = []
    finally:
        for task in asking:
            task.cancel()
    return agreed


def _all(ask: Ask, brokers: Iterable[Broker]) -> dict[asyncio.Task[Cluster], int]:
    return {asyncio.ensure_future(ask(each)): each.id for each in brokers}


def _names(task: asyncio.Task[Cluster], place: Place) -> bool:
    """Whether the broker that was asked names the epoch. Raises :class:`NewerEpoch`."""
    error = task.exception()
    if isinstance(error, NoAnswer):
        return False
    cluster = task.result()
    found = cluster.place
    if found is None or found.topic_id != place.topic_id:
        return False
    if found.epoch > place.epoch:
        raise NewerEpoch(cluster)
    return found.epoch == place.epoch
