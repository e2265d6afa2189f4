"""Queries for the log's start and end, confirmed against a leader that was deposed without knowing it."""

from __future__ import annotations

import asyncio
import time

from registry.log.contract import Unreachable

from . import leader_check, release, requests
from .connection import NoAnswer, Purpose
from .log_identity import CONFIRM_S, END
from .partition import Partition
from .requests import Broker, Cluster, Code, PartitionMetadata, code_name
from .retry import BACKOFF_MIN_S, TRY_S, Backoff


async def query_end(partition: Partition, timeout_s: float) -> int:
    """Return the log's end as of now.

    Raises :class:`.contract.Unreachable`, also while the log is suspected to be truncated.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        known = partition.end
        end = await query_offset(partition, requests.LATEST, max(0.001, deadline - time.monotonic()))
        if end >= known:
            partition.mismatches.clear(END)
            partition.advance_end(end)
            return end
        try:
            partition.suspect(
                END, f"the topic {partition.topic} was truncated: it ended at {known} and now ends at {end}"
            )
        except NoAnswer as error:
            if time.monotonic() >= deadline:
                raise Unreachable(str(error)) from error
        await asyncio.sleep(CONFIRM_S / 5)


async def query_offset(partition: Partition, at: int, timeout_s: float) -> int:
    """Return the log's end (:data:`.requests.LATEST`) or start (:data:`.requests.EARLIEST`).

    Any other ``at`` is a time in ms since the epoch: return the offset of the first record that is not older,
    or -1.
    Retries until the time is up. Raises :class:`registry.log.contract.Unreachable`.
    """
    deadline = time.monotonic() + timeout_s
    backoff = Backoff()
    while True:
        left = deadline - time.monotonic()
        try:
            code, offset = await _query_once(partition, at, max(0.001, min(left, TRY_S)))
            if code == Code.NONE:
                return offset
            problem = code_name(code)
            if code == Code.TOPIC_AUTHORIZATION_FAILED:
                partition.raise_denied(code, "Describe")
        except NoAnswer as error:
            problem = str(error)
        if time.monotonic() + 2 * BACKOFF_MIN_S >= deadline:
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
    """Return when enough brokers say that no newer leader was elected (:mod:`.leader_check`)."""

    async def describe(broker: Broker) -> Cluster:
        with partition.watching(broker):
            request = requests.Metadata(partition.topic)
            answer = await partition.send_to(broker.host, broker.port, request, timeout_s)
            if not release.with_kraft(partition.versions_of(broker)):
                await _check_replica(partition, broker, metadata, timeout_s)
        return requests.cluster(answer)

    try:
        async with asyncio.timeout(timeout_s):
            await leader_check.confirm(metadata, partition.min_in_sync, describe, partition.failed_at)
    except leader_check.NewerEpoch as newer:
        partition.update(newer.cluster)
        raise NoAnswer(str(newer), sent=False) from None
    except TimeoutError as error:
        raise NoAnswer("too few brokers confirm the partition leader", sent=False) from error


async def _check_replica(
    partition: Partition, broker: Broker, metadata: PartitionMetadata, timeout_s: float
) -> None:
    """Check that the broker's own replica leads or follows in the epoch of ``metadata``.

    With ZooKeeper a replica may be in a newer epoch before its broker names that epoch in metadata
    (:mod:`.leader_check`). Brokers compare the epoch of ListOffsets before they check if they lead, so
    NOT_LEADING confirms the epoch. Raises :class:`.connection.NoAnswer` if it does not.
    """
    request = requests.ListOffsets(partition.topic, requests.LATEST, metadata.epoch)
    code, _ = requests.listed_offset(await partition.send_to(broker.host, broker.port, request, timeout_s))
    if code not in {Code.NONE, Code.NOT_LEADING}:
        raise NoAnswer(
            f"the replica on {broker.host}:{broker.port} is not in this leader epoch: {code_name(code)}",
            sent=False,
        )
