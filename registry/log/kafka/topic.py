"""The topic: made when it is missing, and held to what a log needs of it.

Confluent 8.x: one partition; ``cleanup.policy`` exactly ``compact``, otherwise the start fails; replication 3
or as many brokers as there are. Retention of tombstones and the compaction lag are ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aiokafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest

from registry.log.contract import LogError, Unreachable

from .connection import NoAnswer
from .init_producer import until
from .partition import TRY_S, Partition, Pause
from .record_batches import BATCH_HEADER_BYTES
from .requests import Cluster, Code, code_name

DAY_MS = 86_400_000
TOMBSTONES_MS = 7 * DAY_MS
LAG_MS = DAY_MS
_REPLICAS_WANTED = 3
_TOPIC_RESOURCE = 2

_MIN_IN_SYNC = "min.insync.replicas"

# What Kafka itself has where nothing is set.
_DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": str(DAY_MS),
    "min.compaction.lag.ms": "0",
    "max.message.bytes": "1048588",
    _MIN_IN_SYNC: "1",
}


class NoTopic(LogError):
    """There is no such topic, and none was to be made."""


class Wanted(NamedTuple):
    """What the user wants of the topic."""

    replication_factor: int = _REPLICAS_WANTED
    allow_delete_policy: bool = False
    """Take a topic whose records Kafka deletes by age or size."""
    make: bool = True
    """Make a missing one."""


class Found(NamedTuple):
    """The topic as it is."""

    settings: Mapping[str, str]
    warnings: list[str]

    @property
    def tombstones_ms(self) -> int:
        """For how long tombstones stay after compaction has seen them."""
        return int(self.settings["delete.retention.ms"])

    @property
    def lag_ms(self) -> int:
        """For how long a record stays after the next one of its key was appended."""
        return int(self.settings["min.compaction.lag.ms"])

    @property
    def batch_bytes_max(self) -> int:
        """The most that the records of one batch may take."""
        return int(self.settings["max.message.bytes"]) - BATCH_HEADER_BYTES


async def open_topic(partition: Partition, wanted: Wanted, timeout_s: float) -> Found:
    """Find or make the topic, and let ``partition`` follow it. Raises :class:`.contract.LogError`."""
    deadline = time.monotonic() + timeout_s
    cluster = await until(deadline, partition.refresh)
    pause = Pause()
    while cluster.place is None or cluster.place.broker is None:
        if cluster.code == Code.TOPIC_AUTHORIZATION_FAILED:
            partition.denied(cluster.code, "Describe")
        if cluster.code == Code.INVALID_TOPIC:
            raise LogError(f"{partition.topic!r} cannot be the name of a topic")
        if time.monotonic() >= deadline:
            raise Unreachable(f"topic {partition.topic} has no broker: {code_name(cluster.code)}")
        if cluster.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            if not wanted.make:
                raise NoTopic(f"the topic {partition.topic} does not exist")
            await until(deadline, lambda: _make(partition, wanted))
        await pause()
        cluster = await until(deadline, partition.refresh)
    partition.adopt(cluster)
    return await until(deadline, lambda: check(partition, wanted))


async def _make(partition: Partition, wanted: Wanted) -> None:
    cluster = await partition.refresh()
    replicas = max(1, min(wanted.replication_factor, len(cluster.brokers)))
    settings = {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(TOMBSTONES_MS),
        "min.compaction.lag.ms": str(LAG_MS),
    }
    request = CreateTopicsRequest(
        [(partition.topic, 1, replicas, [], list(settings.items()))], round(TRY_S * 1000), False
    )
    if cluster.controller is None:
        raise NoAnswer("the cluster has no controller at present", sent=False)
    answer = await partition.ask_at(cluster.controller.host, cluster.controller.port, request, 2 * TRY_S)
    _, code, message = answer.topic_errors[0]
    if code in {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        partition.denied(Code.TOPIC_AUTHORIZATION_FAILED, "Create")
    if code in {Code.INVALID_TOPIC, Code.POLICY_VIOLATION, Code.INVALID_REPLICATION_FACTOR}:
        raise LogError(f"the topic {partition.topic} cannot be made: {message or code_name(code)}")
    if code not in {Code.NONE, Code.TOPIC_ALREADY_EXISTS}:
        raise NoAnswer(f"making topic {partition.topic}: {code_name(code)} {message or ''}", sent=True)


async def check(partition: Partition, wanted: Wanted) -> Found:
    """The topic's settings. Raises :class:`.contract.LogError` for what cannot be taken."""
    cluster = await partition.refresh()
    if cluster.place is None:
        raise NoAnswer(f"topic {partition.topic}: {code_name(cluster.code)}", sent=False)
    if cluster.place.partitions != 1:
        raise LogError(
            f"the topic {partition.topic} has {cluster.place.partitions} partitions, but a log has exactly "
            "one: records of several have no common order. Kafka takes no partitions away: name another "
            "topic in the setting topic; one that is missing is made"
        )
    request = DescribeConfigsRequest([(_TOPIC_RESOURCE, partition.topic, None)])
    code, message, given = await partition.ask_anybody(request, _described)
    if code not in {Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        raise NoAnswer(f"the settings of topic {partition.topic}: {code_name(code)} {message}", sent=False)
    settings = _DEFAULTS | given
    partition.min_in_sync = int(settings[_MIN_IN_SYNC])
    if code != Code.NONE:
        unchecked = (
            f"the settings of topic {partition.topic} are not checked: this client needs DescribeConfigs"
        )
        return Found(settings, [unchecked])
    _check_policy(partition, wanted, settings["cleanup.policy"])
    return Found(settings, list(_wishes(partition, cluster, settings)))


async def learn_min_in_sync(partition: Partition) -> None:
    """Let ``partition`` know how many replicas must have a record. Raises :class:`.connection.NoAnswer`."""
    request = DescribeConfigsRequest([(_TOPIC_RESOURCE, partition.topic, [_MIN_IN_SYNC])])
    _, _, given = await partition.ask_anybody(request, _described)
    partition.min_in_sync = int(given.get(_MIN_IN_SYNC, _DEFAULTS[_MIN_IN_SYNC]))


def _described(answer: Any) -> tuple[int, str, dict[str, str]]:
    code, message, _, _, entries = answer.resources[0]
    return code, message or "", {name: value for name, value, *_ in entries if value is not None}


def _check_policy(partition: Partition, wanted: Wanted, policy: str) -> None:
    policies = {word.strip() for word in policy.split(",") if word.strip()}
    if policies == {"compact"} or wanted.allow_delete_policy:
        return
    raise LogError(
        f"the topic {partition.topic} has cleanup.policy={policy}: Kafka would delete schemas in time. "
        f"Run {_change(partition, 'cleanup.policy', 'compact')}; or set allow_delete_policy if that is wanted"
    )


def _wishes(partition: Partition, cluster: Cluster, settings: Mapping[str, str]) -> Iterator[str]:
    for name, least, why in (
        ("delete.retention.ms", TOMBSTONES_MS, "a node that was away for longer folds the whole log anew"),
        ("min.compaction.lag.ms", LAG_MS, "a snapshot may find that what it needs was compacted"),
        ("max.message.bytes", int(_DEFAULTS["max.message.bytes"]), "large schemas are refused"),
    ):
        if int(settings[name]) < least:
            yield _wish(partition, name, settings[name], str(least), why)
    replicas = cluster.place.replicas if cluster.place else 0
    if replicas < _REPLICAS_WANTED:
        loss = "one broker" if replicas <= 1 else "two brokers"
        yield (
            f"the topic {partition.topic} has {replicas} of {_REPLICAS_WANTED} replicas: "
            f"with {loss} the log is lost. More are made by kafka-reassign-partitions.sh"
        )
    if len(cluster.brokers) > 1 and settings[_MIN_IN_SYNC] == "1":
        why = "what a single broker has acknowledged is lost with it"
        yield _wish(partition, _MIN_IN_SYNC, "1", "2", why)


def _wish(partition: Partition, name: str, value: str, wanted: str, why: str) -> str:
    change = _change(partition, name, wanted)
    return f"the topic {partition.topic} has {name}={value}, less than {wanted}: {why}. Run {change}"


def _change(partition: Partition, name: str, value: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {partition.servers} --alter --entity-type topics "
        f"--entity-name {partition.topic} --add-config {name}={value}"
    )
