"""The operations that Kafka permits this client, as the brokers say; nothing is tried out."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from aiokafka.protocol.admin import CreateTopicsRequest
from aiokafka.protocol.api import Request
from aiokafka.protocol.coordination import FindCoordinatorRequest

from . import requests
from .connection import NoAnswer
from .partition import Partition
from .requests import Code
from .structs import DescribeGroupsRequestV3

# The bit field of a broker that does not say.
_NOT_SAID = -(2**31)
_GROUP, _TRANSACTION = 0, 1
# A coordinator that starts or moves.
_TRANSIENT = {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}
_TIMEOUT_MS = 3000


class Operation(IntEnum):
    """Kafka's operations, by their bits."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10


class _DescribeGroup(Request[DescribeGroupsRequestV3]):  # type: ignore[misc]
    """Describes a group, with the operations that this client may do."""

    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct([self._group], True)


class Permitted(NamedTuple):
    """The operations on the resources of a registry; ``None`` where the brokers do not say."""

    topic: frozenset[Operation] | None
    cluster: frozenset[Operation] | None


async def read_permissions(partition: Partition) -> Permitted:
    """Return what this client may do with the topic and the cluster; raises as ``Partition``."""

    def read(answer: Any) -> Permitted:
        *_, topic, _ = answer.topics[0]
        return Permitted(operations_of(topic), operations_of(answer.authorized_operations))

    return await partition.send_to_any(requests.Metadata(partition.topic, operations=True), read)


async def permitted_for_group(partition: Partition, group: str) -> frozenset[Operation] | None:
    """Return what this client may do with a group.

    Raises as :class:`.partition.Partition`; a coordinator that starts or moves counts as no answer.
    """
    code, host, port = await _coordinator(partition, group, _GROUP)
    if code == Code.NONE:
        answer = await partition.send_to(host, port, _DescribeGroup(group))
        code, *_, operations = answer.groups[0]
        _check_coordinator(group, code)
        if code == Code.NONE:
            return operations_of(operations)
    return frozenset() if code == Code.GROUP_AUTHORIZATION_FAILED else None


async def may_describe_transactions(partition: Partition, transactional_id: str) -> bool:
    """Return false if this client may certainly not write with a transactional id.

    To try it would fence the primary, so a true says only that it may describe it.
    """
    code, _, _ = await _coordinator(partition, transactional_id, _TRANSACTION)
    return code != Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def refusal_to_create(partition: Partition, replicas: int) -> str:
    """Return why the topic cannot be created, by a request that only validates; empty if it can."""
    request = CreateTopicsRequest([(partition.topic, 1, replicas, [], [])], _TIMEOUT_MS, True)
    cluster = await partition.refresh()
    if cluster.controller is None:
        return "the Kafka cluster has no controller now"
    answer = await partition.send_to(cluster.controller.host, cluster.controller.port, request)
    _, code, message = answer.topic_errors[0]
    return "" if code in {Code.NONE, Code.TOPIC_ALREADY_EXISTS} else message or requests.code_name(code)


async def _coordinator(partition: Partition, name: str, kind: int) -> tuple[int, str, int]:
    def read(answer: Any) -> tuple[int, str, int]:
        return answer.error_code, answer.host, answer.port

    found = await partition.send_to_any(FindCoordinatorRequest(name, kind), read)
    _check_coordinator(name, found[0])
    return found


def _check_coordinator(name: str, code: int) -> None:
    if code in _TRANSIENT:
        raise NoAnswer(f"the coordinator of {name}: {requests.code_name(code)}", sent=False)


def operations_of(bits: int) -> frozenset[Operation] | None:
    """Return the operations in a bit field of Kafka's; ``None`` if the broker does not say."""
    if bits == _NOT_SAID:
        return None
    return frozenset(each for each in Operation if bits & 1 << each)
