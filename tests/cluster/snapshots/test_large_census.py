"""A census of many messages equals a count by another client, though a driver and an executor die."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.local.broker import COMPACTS_SOON, SESSION, Broker
from snapshots.census import files
from snapshots.format.location import Location
from tests.cluster.snapshots.test_census_cluster import count_while_an_executor_dies
from tests.process.snapshots import counting
from tests.process.snapshots.counting import Sent
from tests.support.kafka_topics import make_topic, set_of_topic
from tests.support.running import ROOT, until

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

PARTITIONS = 4
AVRO, JSON, PROTOBUF = "large.avro", "large.json", "large.protobuf"
PAYLOADS: dict[str, counting.Payload] = {
    AVRO: lambda chance: bytes([2 * (size := chance.randrange(20)), *chance.randbytes(size)]),
    JSON: lambda chance: b'{"id": %d}' % chance.randrange(10**9),
    PROTOBUF: lambda chance: b"\0\x09" + chance.randbytes(8),
}
# Different messages of a topic; they are sent again and again.
DIFFERENT = 10_000
IN_TRANSACTION = 50_000
BROKER = {
    **COMPACTS_SOON,
    # A busy machine may starve the broker for longer than its short session.
    SESSION: "60000",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.dedupe.buffer.size": str(128 << 20),
}
WAIT_S = 1800.0
# Takes a census in a process of its own, which says when it counts.
COUNTS = """
import sys
from pathlib import Path
from registry.base.config.settings import Settings
from snapshots.census.run import Scope, open_location, run
servers, folder = sys.argv[1:]
settings = Settings(kafka=servers, snapshots_spark_master="local[2]", data=Path(folder))
def progress(step, done, total):
    if step == "counting messages":
        Path(folder, "counting").touch()
run(settings, Scope(("large.*",)), open_location(settings), progress)
"""


def test_a_census_of_many_messages_equals_a_count_by_another_client(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """One topic of Avro loses segments, one of JSON is compacted, one of Protobuf has transactions."""
    many: int = pytestconfig.getoption("--census-messages")
    with Broker(tmp_path / "kafka", settings=BROKER, heap="2g") as broker:
        servers = broker.address
        make_topics(servers, many)
        fill(servers, many, many)
        expire(servers, keep=many * 8)
        compact(broker)

        command = [sys.executable, "-c", COUNTS, servers, str(tmp_path)]
        driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        until((tmp_path / "counting").exists, WAIT_S, "Spark to count")
        os.killpg(driver.pid, signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL
        location = Location.parse(tmp_path / "snapshots")
        assert list(files.newest_first(location)) == []

        first = count_while_an_executor_dies(servers, tmp_path, "large.*").rows
        assert {row.reason for row in first.partitions} == {""}
        wanted = brute(servers)
        assert counting.as_counts(first.uses) == wanted
        assert all(use.exact for use in first.uses)
        print(f"{sum(row[0] for key, row in wanted.items() if key[2] == 'value'):,} messages counted")

        fill(servers, many, many // 100)
        expire(servers, keep=many * 4)
        compact(broker)
        subprocess.run(command, cwd=ROOT, check=True)
        second, base = files.newest_first(location)
        assert second.base == base.id
        uses = files.read_rows(location, second).uses
        found, wanted = counting.as_counts(uses), brute(servers)
        exact = {tuple(use[:6]) for use in uses if use.exact}
        assert {key: found[key] for key in exact} == {key: wanted[key] for key in exact}
        assert {key[0] for key in found.keys() - exact} == {AVRO}, "the base has counted expired messages"
        assert found.keys() == wanted.keys()
        assert all(wanted[key][0] <= found[key][0] for key in found)


def make_topics(servers: str, many: int) -> None:
    segments = {"segment.bytes": str(max(1 << 20, many * 3))}
    kept = segments | {"cleanup.policy": "delete"}
    # Compacted once the ratio is set to 0.
    compacted = segments | {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "1.0"}
    for name, settings in ((AVRO, kept), (JSON, compacted), (PROTOBUF, kept)):
        make_topic(servers, settings, name=name, partitions=PARTITIONS)


def fill(servers: str, many: int, count: int) -> None:
    """Append to each topic; of the compacted one, ``many`` messages have half as many keys."""
    avro, json, protobuf = (itertools.cycle(different(name)) for name in (AVRO, JSON, PROTOBUF))
    counting.produce(servers, AVRO, itertools.islice(avro, count), partitions=PARTITIONS)
    # A number behind a key that is nearly in the wire format would make it one, each with another id.
    plain = {None, *counting.UNFRAMED}
    keyed = (
        each._replace(
            key=(b"text" if each.key in plain else each.key or b"") + (number % (many // 2)).to_bytes(4)
        )
        for number, each in enumerate(itertools.islice(json, count))
    )
    counting.produce(servers, JSON, keyed, partitions=PARTITIONS)

    def batches() -> Iterator[tuple[Iterator[Sent], bool]]:
        for number, begin in enumerate(range(0, count, IN_TRANSACTION)):
            size = min(IN_TRANSACTION, count - begin)
            yield itertools.islice(protobuf, size), number % 5 != 3

    counting.produce_in_transactions(servers, PROTOBUF, batches(), partitions=PARTITIONS)


def different(name: str) -> list[Sent]:
    return list(counting.messages(len(name), DIFFERENT, PAYLOADS[name]))


def expire(servers: str, *, keep: int) -> None:
    """Let old segments expire beyond so many bytes of a partition, of some 13 for each message of a topic."""
    before = begins(servers)
    set_of_topic(servers, AVRO, "retention.bytes", str(keep))

    def expired() -> bool:
        return all(now > then for now, then in zip(begins(servers), before, strict=True))

    until(expired, WAIT_S, "segments to expire")


def begins(servers: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "begins", "log_level": 0})
    try:
        partitions = [TopicPartition(AVRO, number) for number in range(PARTITIONS)]
        return [consumer.get_watermark_offsets(each, timeout=60)[0] for each in partitions]
    finally:
        consumer.close()


def compact(broker: Broker) -> None:
    """Let the broker compact all but the active segments, and nothing more until this is called again."""
    set_of_topic(broker.address, JSON, "min.cleanable.dirty.ratio", "0.0")
    until(lambda: cleaned(broker) == active(broker), WAIT_S, "the topic to be compacted")
    set_of_topic(broker.address, JSON, "min.cleanable.dirty.ratio", "1.0")


def active(broker: Broker) -> dict[int, int]:
    """Return where the active segment of each partition begins."""
    folders = {number: broker.folder / "data" / f"{JSON}-{number}" for number in range(PARTITIONS)}
    return {
        number: max(int(file.stem) for file in folder.glob("*.log")) for number, folder in folders.items()
    }


def cleaned(broker: Broker) -> dict[int, int]:
    """Return up to where each partition is compacted."""
    file = broker.folder / "data" / "cleaner-offset-checkpoint"
    lines = file.read_text(encoding="utf-8").splitlines()[2:] if file.exists() else []
    rows = (line.split() for line in lines)
    return {int(partition): int(offset) for topic, partition, offset in rows if topic == JSON}


def brute(servers: str) -> dict[tuple[object, ...], list[object]]:
    return {key: row for name in PAYLOADS for key, row in counting.counted(servers, name, PARTITIONS).items()}
