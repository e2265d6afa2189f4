"""Creating the topic: what is refused for good, and what is tried again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from registry.log.contract import LogError
from registry.log.kafka.connection import NoAnswer
from registry.log.kafka.partition import Partition
from registry.log.kafka.requests import Code
from registry.log.kafka.topic import TopicOptions, _create


def create(code: Code, message: str) -> None:
    """Create a topic on a cluster that answers with an error."""
    broker = SimpleNamespace(host="kafka", port=9092)

    async def refresh() -> SimpleNamespace:
        return SimpleNamespace(brokers=[broker], controller=broker)

    async def send_to(*_: object) -> SimpleNamespace:
        return SimpleNamespace(topic_errors=[("_schemas", code, message)])

    partition = SimpleNamespace(topic="_schemas", refresh=refresh, send_to=send_to)
    asyncio.run(_create(cast("Partition", partition), TopicOptions()))


def test_a_topic_is_asked_for_again_while_brokers_are_starting() -> None:
    with pytest.raises(NoAnswer, match="All brokers are currently fenced"):
        create(Code.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")


@pytest.mark.parametrize("code", [Code.INVALID_TOPIC, Code.POLICY_VIOLATION])
def test_what_the_cluster_refuses_for_good_is_an_error(code: Code) -> None:
    with pytest.raises(LogError, match=r"_schemas cannot be created: no\."):
        create(code, "no.")
