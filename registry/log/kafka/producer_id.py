"""Producer ids: the next epoch from the transaction coordinator, and how long brokers remember it.

A broker remembers the newest epoch of a producer for ``producer.id.expiration.ms`` (a day by default; before
Kafka 3.4 for ``transactional.id.expiration.ms``, a week) after its last record, and then accepts any epoch.
Three rules keep a former primary from writing after that:

- The primary appends a record at least every ``expiration / RENEWALS``, so its epoch is not forgotten.
- No node sends anything under a claim that was not used for ``expiration / 2``. So a former primary that was
  frozen holds itself back even if no primary is left to renew the fence. That also covers claims of another
  producer id: ``transactional.id.expiration.ms`` decides only if the next claim has a new one. The former
  producer is then fenced by a record in its own name (``Log.fence``), which is not renewed.
- Where the expiration is too short for renewals and failovers, no node claims the log.

The remaining risk: a former primary is frozen between checking its claim and sending, for longer than the
expiration, with no primary during all that time.

The setting is per broker, and any replica may become the leader, so the minimum among the replicas counts. It
can change while the brokers run, so it is read before each claim and with each check of the topic.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from registry.log.contract import Claim

from .connection import NoAnswer
from .partition import Partition
from .requests import Broker, Code, code_name

_TRANSACTION_TIMEOUT_MS = 60_000
_TRANSACTION_COORDINATOR = 1
PRODUCER, TRANSACTIONAL = "producer.id.expiration.ms", "transactional.id.expiration.ms"
RENEWALS = 4
LEAST_S = 60.0
# Kafka's default, for brokers that do not report the setting.
DEFAULT_S = 86_400.0
# A broker that is down must not hold up a claim; the others answer at once.
_ASK_S = 1.0
_BROKER_RESOURCE = 4


async def init_producer(partition: Partition, transactional_id: str) -> Claim:
    """Request the next epoch of ``transactional_id``, in a single attempt.

    Raises :class:`.connection.NoAnswer`, and :class:`.contract.LogError` for a missing permission.
    """

    def coordinator(answer: Any) -> tuple[int, str, int]:
        return answer.error_code, answer.host, answer.port

    code, host, port = await partition.send_to_any(
        FindCoordinatorRequest(transactional_id, _TRANSACTION_COORDINATOR), coordinator
    )
    _check(partition, transactional_id, code)
    answer = await partition.send_to(
        host, port, InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
    )
    _check(partition, transactional_id, answer.error_code)
    return Claim(answer.producer_id, answer.producer_epoch)


def _check(partition: Partition, transactional_id: str, code: int) -> None:
    if code in {Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        partition.raise_denied(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Write", transactional_id)
    # 14, 15, 16 and 51 are transient: a coordinator that starts, moves, or ends an earlier transaction.
    if code != Code.NONE:
        raise NoAnswer(
            f"InitProducerId for transactional id {transactional_id}: {code_name(code)}", sent=False
        )


class Expiration(NamedTuple):
    """A broker's setting."""

    seconds: float = DEFAULT_S
    # The setting's name and value as text; empty if it could not be read.
    setting: str = ""
    # Why it could not be read; empty if it could.
    unread: str = ""


async def read(partition: Partition) -> Expiration:
    """Return the shortest expiration among the brokers that have a replica.

    Brokers that do not answer are ignored. Raises :class:`.connection.NoAnswer` if none answers.
    """
    if partition.metadata is None or partition.metadata.broker is None:
        # A new topic has no leader for a moment. Who opens the log asks nothing else that would find one.
        await partition.recover()
    metadata = partition.metadata
    if metadata is None or metadata.broker is None:
        raise NoAnswer(f"topic {partition.topic} has no partition leader now", sent=False)
    brokers = [metadata.broker, *metadata.others]
    answers = await asyncio.gather(*(_ask(partition, each) for each in brokers), return_exceptions=True)
    found = [each for each in answers if isinstance(each, Expiration)]
    for each in answers:
        if isinstance(each, BaseException) and not (isinstance(each, NoAnswer) and found):
            raise each
    return min((each for each in found if not each.unread), key=lambda each: each.seconds, default=found[0])


async def _ask(partition: Partition, broker: Broker) -> Expiration:
    request = DescribeConfigsRequest([(_BROKER_RESOURCE, str(broker.id), [PRODUCER, TRANSACTIONAL])])
    answer = await partition.send_to(broker.host, broker.port, request, _ASK_S)
    code, message, _, _, entries = answer.resources[0]
    if code == Code.CLUSTER_AUTHORIZATION_FAILED:
        return Expiration(unread="this client needs DescribeConfigs on cluster")
    if code != Code.NONE:
        return Expiration(unread=f"{code_name(code)} {message or ''}".strip())
    values = {name: value for name, value, *_ in entries}
    for name in (PRODUCER, TRANSACTIONAL):
        if (value := values.get(name)) is not None:
            return Expiration(int(value) / 1000, f"{name}={value}")
    return Expiration(unread="the broker does not report it")


def unsafe(found: Expiration, least_s: float) -> str:
    """Return why no node may claim the log with this setting; empty if any may."""
    if found.seconds >= least_s:
        return ""
    return (
        f"no node may become primary: the brokers have {found.setting}, after which they accept a former "
        f"primary's writes again; set it to {round(least_s * 1000)} or more"
    )


def describe_assumption(found: Expiration) -> str:
    """Return what replaces the setting that Kafka 3.4 introduced; empty if the brokers have it."""
    if found.unread:
        return f"{PRODUCER} cannot be read and is taken to be a day"
    if found.setting.startswith(PRODUCER):
        return ""
    return f"no {PRODUCER} (Kafka 3.4), so {found.setting} says how long former primaries stay fenced"


def warning(found: Expiration) -> str:
    """Return a warning for the operator of the brokers; empty if there is none."""
    if not found.unread:
        return ""
    return (
        f"the brokers' {PRODUCER} (before Kafka 3.4: {TRANSACTIONAL}) cannot be read ({found.unread}) and is "
        "taken to be a day; if it is shorter, set it to a day, or allow this client to read it"
    )
