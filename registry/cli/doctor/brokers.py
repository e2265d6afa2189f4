"""Examination of Kafka and ZooKeeper as the nodes use them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

from registry.base.config.settings import Settings
from registry.cli.doctor import Finding, error, fine, unknown, warning
from registry.log.contract import LogError
from registry.log.kafka import permissions, producer_id, topic
from registry.log.kafka.broker_connection import login_with
from registry.log.kafka.connection import Connections, NoAnswer, Purpose, retry_until
from registry.log.kafka.messages import open_messages
from registry.log.kafka.partition import Partition
from registry.log.kafka.permissions import Operation
from registry.log.kafka.requests import Cluster, Code, PartitionMetadata, code_name
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions

_TIMEOUT_S = 10.0
# A difference that requests and clocks without any fault may have.
_SKEW_S = 30.0
_FENCE_LEAST_SESSIONS = 4
_ACLS = "grant it as in deploy/README.md, What Kafka must allow"
T = TypeVar("T")
_ADDRESSES = "check the addresses in the setting kafka, and the network"


async def examine_kafka(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found; nothing is written or created."""
    try:
        connections = Connections(login_with(Security(**settings.security)))
    except LogError as problem:
        yield error("kafka", str(problem))
        return
    try:
        partition = Partition(connections, settings.kafka, settings.topic)
        try:
            cluster = await partition.refresh(_TIMEOUT_S)
        except NoAnswer as problem:
            yield error("kafka", f"Kafka does not answer: {problem}", _ADDRESSES)
            return
        except LogError as problem:
            yield error("kafka", str(problem))
            return
        async for each in _examine(settings, connections, partition, cluster):
            yield each
    finally:
        await connections.close()


async def _examine(
    settings: Settings, connections: Connections, partition: Partition, cluster: Cluster
) -> AsyncIterator[Finding]:
    parts = (
        _brokers(connections, cluster),
        _topic(settings, partition, cluster),
        _fence(settings, partition, cluster),
        _rights(settings, partition, cluster),
        _catalogue(settings, connections),
        _clock(settings, cluster),
    )
    for part in parts:
        try:
            async for each in part:
                yield each
        except (LogError, NoAnswer) as problem:
            yield unknown("kafka", f"a part could not be examined: {problem}", "run this again")


async def _brokers(connections: Connections, cluster: Cluster) -> AsyncIterator[Finding]:
    """Connect to each broker by the address that it advertises: nodes must reach them all."""
    failed = False
    for broker in cluster.brokers:
        try:
            await connections.open(broker.host, broker.port, Purpose.QUERY)
        except (NoAnswer, LogError) as problem:
            failed = True
            yield error(
                "kafka",
                f"broker {broker.id} cannot be reached at the address that it advertises: {problem}",
                "start it, or correct its advertised.listeners",
            )
    if cluster.controller is None:
        yield error("kafka", "the Kafka cluster has no controller now", "check the brokers' logs")
    elif not failed:
        yield fine("kafka", f"{len(cluster.brokers)} brokers answer")


async def _topic(settings: Settings, partition: Partition, cluster: Cluster) -> AsyncIterator[Finding]:
    name = f"topic {settings.topic}"
    if cluster.code == Code.TOPIC_AUTHORIZATION_FAILED:
        yield error(name, f"this client may not describe it ({code_name(cluster.code)})", _ACLS)
        return
    if cluster.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        replicas = max(1, min(settings.replication_factor, len(cluster.brokers)))
        refusal = await permissions.refusal_to_create(partition, replicas)
        if refusal:
            yield error(name, f"it does not exist, and cannot be created: {refusal}", _ACLS)
        else:
            yield fine(name, "it does not exist yet; a node creates it")
        return
    if cluster.partition is None:
        yield error(name, f"it cannot be used: {code_name(cluster.code)}")
        return
    partition.adopt(cluster)
    try:
        state = await topic.check(partition, _options(settings))
    except LogError as problem:
        yield error(name, str(problem))
        return
    if state.unsafe:
        yield error(name, state.unsafe)
        return
    for fault in state.faults:
        yield warning(name, fault.text, fault.advice)
    for each in _replicas(settings, cluster.partition, partition.min_in_sync, state.settings.items()):
        yield each
    if not state.faults:
        yield fine(name, "one partition, compacted, with the retention and replicas that a log needs")


def _options(settings: Settings) -> TopicOptions:
    return TopicOptions(settings.replication_factor, settings.allow_delete_policy, create=False)


def _replicas(
    settings: Settings, metadata: PartitionMetadata, least: int, topic_settings: Iterable[tuple[str, str]]
) -> Iterator[Finding]:
    name, in_sync = f"topic {settings.topic}", len(metadata.in_sync)
    if metadata.broker is None:
        yield error(name, "it has no partition leader now", "start the brokers with its replicas")
    if least > metadata.replicas:
        yield error(
            name,
            f"min.insync.replicas={least} is more than its {metadata.replicas} replicas: every write fails",
            f"set min.insync.replicas to {max(1, metadata.replicas - 1)}, or add replicas",
        )
    elif in_sync < least:
        yield error(
            name,
            f"{in_sync} replicas are in sync, but min.insync.replicas={least}: every write fails now",
            "start the brokers that have its other replicas",
        )
    elif in_sync < metadata.replicas:
        yield warning(
            name, f"{in_sync} of {metadata.replicas} replicas are in sync", "check the brokers that lag"
        )


async def _fence(settings: Settings, partition: Partition, cluster: Cluster) -> AsyncIterator[Finding]:
    if settings.fencing != "on":
        yield warning(
            "fence",
            "fencing = off: a former primary that wakes up late can still write",
            "allow the transactional id, and set fencing = on",
        )
        return
    if cluster.partition is None or cluster.partition.broker is None:
        return
    found = await producer_id.read(partition)
    least_s = max(producer_id.LEAST_S, _FENCE_LEAST_SESSIONS * settings.session_timeout_s)
    if text := producer_id.unsafe(found, least_s):
        yield error("fence", text)
    elif text := producer_id.warning(found):
        yield warning("fence", text)
    else:
        yield fine("fence", f"the brokers have {found.setting}")


async def _rights(settings: Settings, partition: Partition, cluster: Cluster) -> AsyncIterator[Finding]:
    found, missing, unsaid = await permissions.read_permissions(partition), [], []
    on_topic = f"topic {settings.topic}"
    if cluster.partition is not None:
        for operation in (Operation.READ, Operation.WRITE):
            if found.topic is None:
                unsaid.append(on_topic)
            elif operation not in found.topic:
                missing.append((operation, on_topic))
    if settings.election == "kafka":
        group = await _retry(lambda: permissions.permitted_for_group(partition, settings.group))
        if group is None:
            unsaid.append(f"group {settings.group}")
        elif Operation.READ not in group:
            missing.append((Operation.READ, f"group {settings.group}"))
    if settings.fencing == "on":
        wanted = settings.transactional_id
        if not await _retry(lambda: permissions.may_describe_transactions(partition, wanted)):
            missing.append((Operation.WRITE, f"transactional id {wanted}"))
    for operation, resource in missing:
        yield error("permissions", f"this client needs {operation.name.capitalize()} on {resource}", _ACLS)
    for resource in dict.fromkeys(unsaid):
        yield unknown("permissions", f"the brokers do not say what this client may do with {resource}")
    if not missing and not unsaid:
        yield fine("permissions", "nothing that nodes need is denied; the transactional id is not tested")


async def _retry(attempt: Callable[[], Awaitable[T]]) -> T:
    return await retry_until(time.monotonic() + _TIMEOUT_S, attempt)


async def _catalogue(settings: Settings, connections: Connections) -> AsyncIterator[Finding]:
    name = f"{settings.topic}_snapshots"
    partition = Partition(connections, settings.kafka, name)
    cluster = await partition.refresh(_TIMEOUT_S)
    if cluster.code == Code.TOPIC_AUTHORIZATION_FAILED:
        yield warning(f"topic {name}", "this client may not describe it, so there are no snapshots", _ACLS)
    elif cluster.partition is not None:
        partition.adopt(cluster)
        try:
            unsafe = (await topic.check(partition, _options(settings))).unsafe
        except LogError as problem:
            unsafe = str(problem)
        if unsafe:
            yield warning(f"topic {name}", f"there are no snapshots: {unsafe}")


async def _clock(settings: Settings, cluster: Cluster) -> AsyncIterator[Finding]:
    """Compare the clock with the newest record's time: brokers do not report their own."""
    if cluster.partition is None or cluster.partition.partitions != 1:
        return
    security = Security(**settings.security)
    async with open_messages(security, settings.kafka, settings.topic, 0, timeout_s=_TIMEOUT_S) as messages:
        start, end = await messages.bounds()
        async for message in messages.read(max(start, end - 1), end):
            ahead_s = message.timestamp_ms / 1000 - time.time()
            if ahead_s > _SKEW_S:
                yield warning(
                    "clock",
                    f"the newest record, at offset {message.offset}, is from {ahead_s:.0f} s in the future: "
                    "the clock of this host is slow, or that of the primary was fast",
                    "synchronize the clocks of all hosts (NTP)",
                )
            else:
                yield fine("clock", "the newest record is not from the future")


_ZOOKEEPER_TIMEOUT_S = 5.0


async def examine_zookeeper(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found; nothing is created."""
    from election.zookeeper.connection import Connection, Tls, ZooKeeperError, unreachable  # noqa: PLC0415 (imports kazoo only if needed)  # noqa: PLC0415 - as above

    files = settings.zookeeper_tls_ca, settings.zookeeper_tls_certificate, settings.zookeeper_tls_key
    tls = Tls(*files) if settings.zookeeper_tls else None
    changed = asyncio.Event()
    connection = Connection(
        settings.zookeeper_hosts, settings.zookeeper_chroot, settings.session_timeout_s,
        settings.zookeeper_auth, changed.set, tls,
    )  # fmt: skip
    connection.start()
    try:
        async with asyncio.timeout(_ZOOKEEPER_TIMEOUT_S):
            while not connection.is_connected:
                await changed.wait()
                changed.clear()
        root = "" if settings.zookeeper_chroot.strip("/") else "/"
        exists = await connection.get(root) is not None
        if exists:
            await connection.children(root)
        yield fine("zookeeper", f"it answers{'' if exists else '; the nodes create the path that is named'}")
    except TimeoutError:
        yield error(
            "zookeeper", await unreachable(settings.zookeeper_hosts, tls), "check the setting zookeeper"
        )
    except ZooKeeperError as problem:
        yield error("zookeeper", str(problem))
    finally:
        await connection.close()
