"""A reader queries the broker itself for the log's end, if it is the log that the node follows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from deploy.local.broker import Broker
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Entry, Record
from registry.log.kafka.broker_connection import login_with
from registry.log.kafka.connection import Connections
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from registry.reader.log_end_client import LogEndClient

TOPIC = "log-end"


def connections() -> Connections:
    return Connections(login_with(Security()))


@pytest.fixture
def log(kafka: Broker) -> Iterator[KafkaLog]:
    found = KafkaLog(
        Security(),
        kafka.address,
        TOPIC,
        transactional_id="log-end",
        append_timeout_s=10,
        options=TopicOptions(replication_factor=1),
    )
    found.claim()
    yield found
    found.close()


async def _asked(address: str, log: KafkaLog) -> None:
    end = LogEndClient(connections(), address, TOPIC)
    try:
        assert await end.ask() is None  # The node has not reported which log it is.
        end.set_identity(log.identity)
        before = await _once(end)
        assert before == log.end()
        await asyncio.to_thread(log.append, [Entry(b"k", b"v")] * 3)
        assert await _once(end) == before + 3
        end.set_identity(f"{log.identity}-made-anew")
        assert await end.ask() is None
    finally:
        await end.close()


async def _once(end: LogEndClient) -> int:
    """Return the answer, however busy the broker is."""
    while (found := await end.ask()) is None:
        end.resume()
    return found


def test_it_knows_where_the_own_log_ends_and_no_other(kafka: Broker, log: KafkaLog) -> None:
    asyncio.run(asyncio.wait_for(_asked(kafka.address, log), 30))


async def _unanswered(kafka: Broker, log: KafkaLog) -> None:
    end = LogEndClient(connections(), kafka.address, TOPIC)
    try:
        end.set_identity(log.identity)
        await _once(end)
        kafka.freeze()
        assert await end.ask() is None
        kafka.thaw()
        assert await _once(end) == log.end()
    finally:
        kafka.thaw()
        await end.close()


def test_without_an_answer_the_node_is_to_be_asked(kafka: Broker, log: KafkaLog) -> None:
    asyncio.run(asyncio.wait_for(_unanswered(kafka, log), 30))


async def _compared(address: str, log: KafkaLog, held: Lineage, other: Lineage) -> None:
    for lineage, wanted in ((held, log.end()), (other, None)):
        end = LogEndClient(connections(), address, TOPIC, applied=lambda lineage=lineage: lineage)
        try:
            end.set_identity(log.identity)
            found = await (_once(end) if wanted else end.ask())
            assert found == wanted
        finally:
            await end.close()


def test_a_log_that_lost_what_the_store_holds_is_not_believed(kafka: Broker, log: KafkaLog) -> None:
    offset = log.append([Entry(b"k", b"v")])
    assert log.wait(offset, 30)
    record = log.read(offset, 1, 1 << 20).records[0]
    held = NOTHING.with_records([record])
    other = NOTHING.with_records([Record(offset, record.ts, record.key, b"lost")])
    asyncio.run(asyncio.wait_for(_compared(kafka.address, log, held, other), 30))
