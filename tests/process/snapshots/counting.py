"""Messages of many kinds, and a count of what they name by another client, one message after another."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from snapshots.census.plan import Use

Headers = list[tuple[str, bytes | None]]
GUIDS = [uuid.UUID(int=number << 64 | number) for number in range(3)]
# Not in the wire format, some nearly.
UNFRAMED = [b"", b"\0", b"\0\0\0\1", b"\1" + bytes(15), b"\2text", b"text"]
# After these the client connects by itself, and goes on.
PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}


class Sent(NamedTuple):
    """A message to send."""

    key: bytes | None
    value: bytes | None
    headers: Headers


Payload = Callable[[random.Random], bytes]


def any_bytes(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(20))


def messages(seed: int, count: int, payload: Payload = any_bytes) -> Iterator[Sent]:
    """Yield random messages of all framings, on both sides."""
    chance = random.Random(seed)
    for _ in range(count):
        headers: Headers = [("trace", b"1")] if chance.random() < 0.2 else []
        names = "__key_schema_id", "__value_schema_id"
        key, value = (_data(chance, name, headers, payload(chance)) for name in names)
        yield Sent(key, value, headers)


def _data(chance: random.Random, header: str, headers: Headers, payload: bytes) -> bytes | None:
    named = [
        b"\0" + chance.choice([1, 2, 300_000, 2**31 - 1, 2**32 - 1]).to_bytes(4),
        b"\1" + chance.choice(GUIDS).bytes,
    ]
    match chance.randrange(8):
        case 0:
            return None
        case 1:
            return chance.choice(UNFRAMED)
        case 2:
            # The last one counts.
            values = [chance.choice([*named, b"\0\0", b"unknown"]) for _ in range(chance.choice((1, 1, 2)))]
            headers.extend((header, value) for value in values)
            return payload
        case framed:
            return named[framed % 2] + payload


def produce(servers: str, topic: str, sent: Iterable[Sent], *, partitions: int = 1) -> None:
    """Append messages to the partitions in turn."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number, each in enumerate(sent):
        producer.produce(topic, each.value, each.key, number % partitions, headers=list(each.headers))
        if number % 1_000 == 0:
            producer.poll(0)
            # Less than the producer's queue can hold.
            while len(producer) > 50_000:
                producer.poll(1)
    producer.flush()


def produce_in_transactions(
    servers: str, topic: str, batches: Iterable[tuple[Iterable[Sent], bool]], *, partitions: int = 1
) -> None:
    """Append batches of messages, each in a transaction; one whose flag is false is aborted."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "transactional.id": topic})
    producer.init_transactions()
    for batch, committed in batches:
        producer.begin_transaction()
        for number, each in enumerate(batch):
            producer.produce(topic, each.value, each.key, number % partitions, headers=list(each.headers))
        producer.flush()
        (producer.commit_transaction if committed else producer.abort_transaction)()


@contextmanager
def open_transaction(servers: str, topic: str) -> Iterator[None]:
    """Keep a transaction with a message open for a ``with`` block, and commit it then."""
    producer = Producer({
        "bootstrap.servers": servers, "log_level": 0, "transactional.id": topic,
        "transaction.timeout.ms": 900_000,
    })  # fmt: skip
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"text", partition=0)
    producer.flush()
    yield
    producer.commit_transaction()


def counted(servers: str, topic: str, partitions: int = 1) -> dict[tuple[Any, ...], list[Any]]:
    """Return the counts of the committed messages by source, partition, side, framing, id and guid."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for message in committed(servers, topic, partitions):
        headers = dict(message.headers() or [])
        for side, data in (("key", message.key()), ("value", message.value())):
            name = _name(data, headers.get(f"__{side}_schema_id"))
            key = topic, message.partition(), side, *name
            row = found.setdefault(key, [0, 0, message.offset(), 0, message.timestamp()[1], 0])
            row[0] += 1
            row[1] += len(data or b"")
            row[3] = message.offset()
            row[4] = min(row[4], message.timestamp()[1])
            row[5] = max(row[5], message.timestamp()[1])
    return found


def committed(servers: str, topic: str, partitions: int) -> Iterator[Message]:
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": topic, "log_level": 0, "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", "enable.partition.eof": True, "enable.auto.commit": False,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    ended = set[int]()
    try:
        while len(ended) < partitions:
            for message in consumer.consume(1_000, 5.0):
                if (error := message.error()) is None:
                    yield message
                elif error.code() not in PASSING:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
    finally:
        consumer.close()


def _name(data: bytes | None, header: bytes | None) -> tuple[str, int | None, str | None]:
    if data is None:
        return "null", None, None
    where, prefix = (data, "") if header is None else (header, "header-")
    if where[:1] == b"\0" and len(where) >= 5:
        return prefix + "id", int.from_bytes(where[1:5], signed=True), None
    if where[:1] == b"\1" and len(where) >= 17:
        return prefix + "guid", None, str(uuid.UUID(bytes=where[1:17]))
    return "none", None, None


def as_counts(uses: Iterable[Use]) -> dict[tuple[Any, ...], list[Any]]:
    """Return the rows of a census in the form of :func:`counted`."""
    return {tuple(use[:6]): list(use[6:12]) for use in uses}
