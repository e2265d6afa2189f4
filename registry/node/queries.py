"""The node's handlers of queries: one for each row of :mod:`registry.api.node_queries`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from registry.api.backend import ClusterStatus, NodeQuery, NodeStatus
from registry.api.node_queries import (
    CLUSTER,
    DELETE_SNAPSHOT,
    EVENTS,
    METRICS,
    PAST,
    SNAPSHOTS,
    STATUS,
    EventsFrom,
    OwnersAt,
)
from registry.domain.errors import TOO_MANY_WRITES, RegistryError
from registry.domain.history.moment import OwnerRows
from registry.feed.contract import Page
from snapshots.catalogue.catalogue import Entry

from .node import Node

T = TypeVar("T")


class Answering(NamedTuple):
    """The parts of the node's process that answer queries."""

    node: Node
    status: Callable[[], NodeStatus]
    cluster: Callable[[], ClusterStatus]
    metrics: Callable[[], bytes]


# Returns the answer; raises :class:`RegistryError` for one that there is not.
Handler = Callable[[Answering, Any], Awaitable[Any]]


async def _status(parts: Answering, _: None) -> NodeStatus:
    return parts.status()


async def _cluster(parts: Answering, _: None) -> ClusterStatus:
    return parts.cluster()


async def _metrics(parts: Answering, _: None) -> bytes:
    return parts.metrics()


async def _past(parts: Answering, request: OwnersAt) -> OwnerRows:
    def ask(answer: Callable[[OwnerRows | RegistryError], None]) -> bool:
        parts.node.past.ask(request.moment, request.owners, answer, request.asker)
        return True

    return await _reply_to(ask)


async def _snapshots(parts: Answering, _: None) -> list[Entry]:
    return await _reply_to(parts.node.snapshots.list_entries)


async def _delete_snapshot(parts: Answering, id: str) -> list[Entry]:
    left: Entry | None = await _reply_to(lambda answer: parts.node.snapshots.delete(id, answer))
    return [] if left is None else [left]


async def _events(parts: Answering, request: EventsFrom) -> Page:
    return await parts.node.feed.events(request.position, request.wait_s)


async def _reply_to(ask: Callable[[Callable[[T | RegistryError], None]], bool]) -> T:
    """Return what a part answers on the event loop; ``ask`` returns false if it has too much to do."""
    reply: asyncio.Future[T | RegistryError] = asyncio.get_running_loop().create_future()
    if not ask(lambda answer: None if reply.done() else reply.set_result(answer)):
        raise TOO_MANY_WRITES()
    answer = await reply
    if isinstance(answer, RegistryError):
        raise answer
    return answer


_TABLE: tuple[tuple[NodeQuery[Any, Any], Handler], ...] = (
    (STATUS, _status), (CLUSTER, _cluster), (METRICS, _metrics), (PAST, _past), (SNAPSHOTS, _snapshots),
    (DELETE_SNAPSHOT, _delete_snapshot), (EVENTS, _events),
)  # fmt: skip
# By the numbers of the queries.
HANDLERS = {query.number: (query, handler) for query, handler in _TABLE}
