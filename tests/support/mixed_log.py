"""A large log with everything that a log can contain, the same one for the same arguments."""

from __future__ import annotations

import random
from collections.abc import Iterator

from confluent_kafka import Producer

from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import AssociationKey, Entry, Record
from registry.domain.model import TOP, Metadata, Reference, Subject
from registry.domain.rows.version_row import ENCODED_PROPERTY

# The letters of all tables.
TABLES = set("ABCDEFGIKMNPQRSUVWX")
_ENCRYPTED = Metadata(properties={"p": "encrypted", ENCODED_PROPERTY: "true"}, sensitive=["p"])


def mixed_log(count: int, others: list[Record], first_ms: int, seed: int = 1) -> list[Record]:
    """Return ``count`` records, one a millisecond: versions, changes of them, and ``others`` among them."""
    rng = random.Random(seed)
    entries = _entries(rng, count)
    place = sorted(rng.sample(range(count - 1), len(others)))
    odd = dict(zip(place, others, strict=True))
    found = [odd[at] if at in odd else next(entries) for at in range(count - 1)]
    # Those of the cluster have few keys; this one is the last of its key.
    found.append(Entry(records.SNAPSHOT_KEY, b'{"a":1}'))
    return [Record(at, first_ms + at, each.key, each.value) for at, each in enumerate(found)]


def _entries(rng: random.Random, count: int) -> Iterator[Entry]:
    """Yield versions of many subjects of some contexts, and records that replace or delete earlier ones."""
    newest: dict[Subject, int] = {}
    names: list[Subject] = []
    for number in range(1, count + 1):
        chance = rng.random()
        if not names or chance < 0.3:
            names.append(Subject(rng.choice([".", ".", ".", ".c", f".d{number % 50}"]), f"s{number}"))
        subject = names[-1] if chance < 0.3 else rng.choice(names)
        last = newest.get(subject, 0)
        if chance < 0.8 or not last:
            newest[subject] = last + 1
            yield _version(rng, names, subject, last + 1, number)
        elif chance < 0.9:
            yield _version(rng, names, subject, rng.randint(1, last), number)
        elif chance < 0.93:
            yield Entry(records.schema_key(subject, rng.randint(1, last)), None)
        elif chance < 0.97:
            level = rng.choice(subject_values.LEVELS)
            config = subject_values.config_value(subject, {"compatibilityLevel": level})
            yield Entry(records.config_key(subject), config)
        elif chance < 0.99:
            mode = subject_values.mode_value(TOP, rng.choice(subject_values.MODES))
            yield Entry(records.mode_key(subject), mode)
        elif chance < 0.995:
            key = AssociationKey(subject, f"r{number}", "n", "topic", "value")
            yield Entry(records.association_key(key), b'{"resourceId":"r%d","lifecycle":"WEAK"}' % number)
        elif chance < 0.997:
            yield Entry(
                records.webhook_key(f"w{number % 20}"), b'{"url":"https://a","id":"00","kinds":["mode_set"]}'
            )
        elif chance < 0.999:
            yield Entry(records.position_key(f"w{number % 20}"), b'{"next":7}')
        elif chance < 0.9992:
            yield Entry(records.delete_subject_key(subject), values.delete_subject_value(TOP, last))
        elif chance < 0.9994:
            yield Entry(records.clear_subject_key(subject), b"{}")
        elif chance < 0.9996:
            yield Entry(records.reservation_key(subject.context), values.reservation_value(number))
        else:
            yield Entry(records.context_key(f".d{number % 50}"), b"{}")


def _version(rng: random.Random, names: list[Subject], subject: Subject, version: int, id: int) -> Entry:
    chance = rng.random()
    text = f'{{"type":"fixed","size":{id % 97 + 1},"name":"f{rng.getrandbits(64):x}"}}'
    other = rng.choice(names)
    value = values.schema_value(
        subject, version, id, text,
        references=[Reference("n", other.qualified, 1)] if chance < 0.1 else [],
        metadata=_ENCRYPTED if chance > 0.99 else None,
        md5=bytes(16) if chance > 0.99 else None,
        deleted=chance > 0.9,
    )  # fmt: skip
    return Entry(records.schema_key(subject, version), value)


def produce(servers: str, topic: str, log: list[Record]) -> None:
    """Append the records to a topic; offsets are those of the topic."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for number, record in enumerate(log):
        producer.produce(topic, record.value, record.key, partition=0, timestamp=record.ts)
        if number % 10_000 == 0:
            producer.flush(60)
    assert producer.flush(60) == 0
