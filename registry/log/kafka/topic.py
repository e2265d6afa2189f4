"""The topic: created if it is missing, and checked for the settings that a log needs.

Confluent 8.x: one partition; ``cleanup.policy`` exactly ``compact``, otherwise the start fails; replication
factor 3, or the number of brokers if that is less. The retention of tombstones and the compaction lag are
this project's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aiokafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest

from registry.log.contract import LogError, Unreachable

from .connection import TRY_S, Backoff, NoAnswer
from .partition import Partition
from .record_batches import BATCH_HEADER_BYTES
from .requests import Cluster, Code, code_name

DAY_MS = 86_400_000
TOMBSTONES_MS = 7 * DAY_MS
LAG_MS = DAY_MS
_REPLICAS_WANTED = 3
_TOPIC_RESOURCE = 2

_MIN_IN_SYNC, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"

# Kafka's own defaults.
_DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": str(DAY_MS),
    "min.compaction.lag.ms": "0",
    "max.message.bytes": "1048588",
    _MIN_IN_SYNC: "1",
    _UNCLEAN: "false",
}


class TopicMissing(LogError):
    """The topic does not exist, and the caller did not ask to create it."""


class TopicOptions(NamedTuple):
    """The user's choices for the topic."""

    replication_factor: int = _REPLICAS_WANTED
    # Accept a topic whose records Kafka deletes by age or size.
    allow_delete_policy: bool = False
    # Create a missing topic.
    create: bool = True
    # Refuse to open a topic that may lose records; else it is only not written to.
    strict: bool = True


class TopicFault(NamedTuple):
    """A setting of the topic that is not as it should be, and what to do about it."""

    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.text}. {self.advice}" if self.advice else self.text


class TopicState(NamedTuple):
    """The topic's settings, and what is wrong with them."""

    settings: Mapping[str, str]
    faults: list[TopicFault]
    # Why nothing may be written, and what to do about it: Kafka would delete it. Empty if it would not.
    unsafe: str = ""

    @property
    def warnings(self) -> list[str]:
        """The faults as sentences for the operator."""
        return [*([self.unsafe] if self.unsafe else []), *map(str, self.faults)]

    @property
    def tombstones_ms(self) -> int:
        """Time in ms for which tombstones stay after compaction has seen them."""
        return int(self.settings["delete.retention.ms"])

    @property
    def lag_ms(self) -> int:
        """Minimum time in ms for which a record stays after the next one of its key was appended."""
        return int(self.settings["min.compaction.lag.ms"])

    @property
    def batch_bytes_max(self) -> int:
        """The maximum size of the records of one batch."""
        return int(self.settings["max.message.bytes"]) - BATCH_HEADER_BYTES


async def open_topic(partition: Partition, options: TopicOptions, timeout_s: float) -> TopicState:
    """Find or create the topic, and let ``partition`` follow it. Raises :class:`.contract.LogError`."""
    deadline = partition.clock() + timeout_s
    cluster = await partition.retry_until(deadline, partition.refresh)
    backoff = Backoff()
    while cluster.partition is None or cluster.partition.broker is None:
        if cluster.code == Code.TOPIC_AUTHORIZATION_FAILED:
            partition.raise_denied(cluster.code, "Describe")
        if cluster.code == Code.INVALID_TOPIC:
            raise LogError(f"{partition.topic!r} is not a valid topic name")
        if partition.clock() >= deadline:
            raise Unreachable(f"topic {partition.topic} has no partition leader: {code_name(cluster.code)}")
        if cluster.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            if not options.create:
                raise TopicMissing(f"the topic {partition.topic} does not exist")
            await partition.retry_until(deadline, lambda: _create(partition, options))
        await backoff()
        cluster = await partition.retry_until(deadline, partition.refresh)
    partition.adopt(cluster)
    state = await partition.retry_until(deadline, lambda: check(partition, options))
    if state.unsafe and options.strict:
        raise LogError(state.unsafe)
    return state


async def _create(partition: Partition, options: TopicOptions) -> None:
    cluster = await partition.refresh()
    replicas = max(1, min(options.replication_factor, len(cluster.brokers)))
    settings = {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(TOMBSTONES_MS),
        "min.compaction.lag.ms": str(LAG_MS),
    }
    request = CreateTopicsRequest(
        [(partition.topic, 1, replicas, [], list(settings.items()))], round(TRY_S * 1000), False
    )
    if cluster.controller is None:
        raise NoAnswer("the Kafka cluster has no controller now", sent=False)
    answer = await partition.send_to(cluster.controller.host, cluster.controller.port, request, 2 * TRY_S)
    _, code, message = answer.topic_errors[0]
    if code in {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        partition.raise_denied(Code.TOPIC_AUTHORIZATION_FAILED, "Create")
    # INVALID_REPLICATION_FACTOR is tried again: no more replicas are wanted than brokers are known, so some
    # of these are still starting.
    if code in {Code.INVALID_TOPIC, Code.POLICY_VIOLATION}:
        raise LogError(f"the topic {partition.topic} cannot be created: {message or code_name(code)}")
    if code not in {Code.NONE, Code.TOPIC_ALREADY_EXISTS}:
        raise NoAnswer(f"creating topic {partition.topic}: {code_name(code)} {message or ''}", sent=True)


async def check(partition: Partition, options: TopicOptions) -> TopicState:
    """Return the topic's settings. Raises :class:`.contract.LogError` for those that a log cannot use."""
    cluster = await partition.refresh()
    if cluster.partition is None:
        raise NoAnswer(f"topic {partition.topic}: {code_name(cluster.code)}", sent=False)
    if cluster.partition.partitions != 1:
        raise LogError(
            f"the topic {partition.topic} has {cluster.partition.partitions} partitions, but a log has "
            "exactly one: records in several partitions have no common order. Kafka cannot remove "
            "partitions: name "
            "another topic in the setting topic; a missing topic is created"
        )
    request = DescribeConfigsRequest([(_TOPIC_RESOURCE, partition.topic, None)])
    code, message, given = await partition.send_to_any(request, _describe)
    if code not in {Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        raise NoAnswer(f"the settings of topic {partition.topic}: {code_name(code)} {message}", sent=False)
    settings = _DEFAULTS | given
    partition.min_in_sync = int(settings[_MIN_IN_SYNC])
    if code != Code.NONE:
        unchecked = (
            f"the settings of topic {partition.topic} are not checked: this client needs DescribeConfigs"
        )
        return TopicState(settings, [TopicFault(unchecked, "")])
    unsafe = _unsafe_policy(partition, options, settings["cleanup.policy"])
    return TopicState(settings, list(_faults(partition, cluster, settings)), unsafe)


async def read_min_in_sync(partition: Partition) -> None:
    """Read the topic's ``min.insync.replicas`` into ``partition``. Raises :class:`.connection.NoAnswer`."""
    request = DescribeConfigsRequest([(_TOPIC_RESOURCE, partition.topic, [_MIN_IN_SYNC])])
    _, _, given = await partition.send_to_any(request, _describe)
    partition.min_in_sync = int(given.get(_MIN_IN_SYNC, _DEFAULTS[_MIN_IN_SYNC]))


def _describe(answer: Any) -> tuple[int, str, dict[str, str]]:
    code, message, _, _, entries = answer.resources[0]
    return code, message or "", {name: value for name, value, *_ in entries if value is not None}


def _unsafe_policy(partition: Partition, options: TopicOptions, policy: str) -> str:
    policies = {word.strip() for word in policy.split(",") if word.strip()}
    if policies == {"compact"} or options.allow_delete_policy:
        return ""
    return (
        f"the topic {partition.topic} has cleanup.policy={policy}: Kafka would delete schemas in time. "
        f"Run {_change(partition, 'cleanup.policy', 'compact')}; or set allow_delete_policy "
        "if that is intended"
    )


def _faults(partition: Partition, cluster: Cluster, settings: Mapping[str, str]) -> Iterator[TopicFault]:
    for name, minimum, why in (
        (
            "delete.retention.ms",
            TOMBSTONES_MS,
            "a node that was offline for longer reads the whole log again",
        ),
        ("min.compaction.lag.ms", LAG_MS, "compaction may remove records that a snapshot needs"),
        ("max.message.bytes", int(_DEFAULTS["max.message.bytes"]), "large schemas are refused"),
    ):
        if int(settings[name]) < minimum:
            yield _too_low(partition, name, settings[name], str(minimum), why)
    replicas = cluster.partition.replicas if cluster.partition else 0
    if replicas < _REPLICAS_WANTED:
        loss = "one broker" if replicas <= 1 else "two brokers"
        yield TopicFault(
            f"the topic {partition.topic} has {replicas} of {_REPLICAS_WANTED} replicas: "
            f"if {loss} fail{'s' if replicas <= 1 else ''}, the log is lost",
            "Add replicas with kafka-reassign-partitions.sh",
        )
    if settings[_UNCLEAN] == "true":
        why = "acknowledged records are lost with the next such election"
        change = _change(partition, _UNCLEAN, "false")
        yield TopicFault(f"the topic {partition.topic} has {_UNCLEAN}=true: {why}", f"Run {change}")
    if len(cluster.brokers) > 1 and settings[_MIN_IN_SYNC] == "1":
        why = "records that a single broker has acknowledged are lost with it"
        yield _too_low(partition, _MIN_IN_SYNC, "1", "2", why)


def _too_low(partition: Partition, name: str, value: str, minimum: str, why: str) -> TopicFault:
    change = _change(partition, name, minimum)
    text = f"the topic {partition.topic} has {name}={value}, less than {minimum}: {why}"
    return TopicFault(text, f"Run {change}")


def _change(partition: Partition, name: str, value: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {partition.servers} --alter --entity-type topics "
        f"--entity-name {partition.topic} --add-config {name}={value}"
    )
