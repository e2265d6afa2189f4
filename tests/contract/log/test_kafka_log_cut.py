"""A topic that lost its last records on the broker's disk, and grew again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition

from deploy.local import jars
from deploy.local.broker import COMPACTS_SOON, Broker
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Entry
from registry.log.contract import NO_HEADERS, Fenced, ForeignLog, Log, LogError, OutcomeUnknown
from registry.log.kafka import record_batches, requests
from registry.log.kafka.cluster_topics import DescribedTopic, describe_topics, find_epoch_ends
from registry.log.kafka.connection import NoAnswer, Purpose
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.timestamps import wall_ms
from snapshots.census.plan import after_reading, epochs_before, plan_topics
from tests.contract.log.conftest import Opened
from tests.faults.cutting import cut
from tests.support.kafka_topics import admin, delete_topic, make_topic
from tests.support.running import until

FOREIGN_S = 30.0
LATE_BYTES = 20_000
_keys = count()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("cut"), settings=COMPACTS_SOON) as broker:
        yield broker


def write(log: Log, times: int) -> None:
    """Append records of different keys, each in a batch of its own."""
    for _ in range(times):
        log.append([Entry(b"key%d" % next(_keys), b"v")])


def read(log: Log, end: int, begun: Lineage = NOTHING, offset: int = 0) -> Lineage:
    """Return the lineage of the log up to ``end``."""
    while offset < end:
        assert log.wait(offset, FOREIGN_S)
        fetched = log.read(offset, 1000, 1 << 20)
        begun = begun.with_records(fetched.records, fetched.epoch, fetched.epoch_end)
        offset = fetched.next
    return begun


def foreign(log: KafkaLog) -> str:
    """Return the error of a log that has detected that it is another one."""

    def said() -> str:
        try:
            log.query_end(1)
        except ForeignLog as error:
            return str(error)
        except LogError:
            pass
        return ""

    found: str = until(said, FOREIGN_S, "the loss to be noticed")
    return found


def lose(broker: Broker, topic: str, records: int) -> int:
    """Stop the broker, cut its log and start it again; return the log's new end."""
    broker.kill()
    end = cut(broker.folder, topic, records)
    broker.start().wait()
    return end


def test_a_log_that_grew_again_is_another(own: Broker, opened: Opened) -> None:
    topic = make_topic(own.address)
    writer, reader = opened(own.address, topic), opened(own.address, topic)
    writer.claim()
    write(writer, 20)
    lineage = read(reader, 20)
    assert (lineage.epoch_end, len(lineage.traces)) == (20, 8)
    idle = opened(own.address, topic)
    assert idle.divergence(lineage) is None
    assert not idle.wait(20, 0.1)

    assert lose(own, topic, 9) == 11
    fresh = opened(own.address, topic)
    assert fresh.divergence(lineage) == 11, "cut, and not grown yet"
    fresh.claim()
    write(fresh, 12)
    assert fresh.query_end(30) == 23
    again = opened(own.address, topic)
    assert again.divergence(lineage) == 19, "by the records"
    # Before Kafka 4.1 a single broker leads in the same epoch after a restart.
    by_epoch = 11 if jars.KAFKA == jars.NEWEST else None
    assert again.divergence(Lineage((), lineage.epoch, lineage.epoch_end)) == by_epoch, "by the epoch alone"
    assert again.divergence(Lineage(lineage.traces)) == 19, "by the records alone"
    assert again.divergence(read(again, 23)) is None
    # From 11, if it noticed the loss before the topic grew again.
    lost = f"the topic {topic} has lost records: from offset (11|19) or earlier on it does not have those"
    assert re.fullmatch(f"{lost} that were read up to 20", foreign(reader))
    assert re.match(lost, foreign(idle)), "though it has read nothing itself"
    with pytest.raises(ForeignLog):
        reader.read(20, 10, 1 << 20)
    # It had the claim before, and accepts no other log.
    with pytest.raises((ForeignLog, Fenced)):
        writer.append([Entry(b"late", b"v")])
    assert again.query_end(30) == 23, "nothing was appended by who had written the former one"


def test_a_primary_does_not_append_to_a_log_that_lost_all_of_its_records(own: Broker, opened: Opened) -> None:
    topic = make_topic(own.address)
    first, second = opened(own.address, topic), opened(own.address, topic, transactional_id="another")
    first.claim()
    write(first, 10)
    second.claim()
    write(second, 3)
    read(second, 13)
    assert lose(own, topic, 3) == 10
    # The broker knows nothing of this producer any more, so sequence numbers stop no other claim.
    with pytest.raises((ForeignLog, Fenced, OutcomeUnknown)):
        second.append([Entry(b"late", b"v")])
    assert opened(own.address, topic).query_end(30) == 10


def unread_bytes(port: int) -> int:
    """Return the most bytes that wait in one connection for the process that listens on ``port``."""
    tables = [Path("/proc/net", name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    return max((int(row[4][9:], 16) for row in rows if row[1].endswith(f":{port:04X}")), default=0)


def test_a_request_that_a_broker_received_before_it_lost_records_is_never_executed(
    own: Broker, opened: Opened
) -> None:
    topic = make_topic(own.address)
    log = opened(own.address, topic)
    claim = log.claim()
    write(log, 5)
    partition, loop = log._partition, log._loop
    port, late = int(own.address.rpartition(":")[2]), [Entry(b"late", b"v" * LATE_BYTES)]

    def send_to_frozen(sequence: int) -> Future[Any]:
        """Send the next batch, which then waits in the broker's socket."""
        batch = record_batches.build(late, claim, sequence, wall_ms(), NO_HEADERS)
        request = requests.Produce(topic, partition.topic_id, batch.data, timeout_ms=30_000)
        own.freeze()
        sent = asyncio.run_coroutine_threadsafe(partition.send(request, Purpose.APPEND, FOREIGN_S), loop)
        until(lambda: unread_bytes(port) >= LATE_BYTES, FOREIGN_S, "the request to arrive")
        return sent

    sent = send_to_frozen(5)
    own.thaw()
    assert requests.read_produce(sent.result(FOREIGN_S)).offset == 5, "a request that is executed"
    sent = send_to_frozen(6)
    assert lose(own, topic, 3) == 3
    with pytest.raises(NoAnswer):
        sent.result(FOREIGN_S)
    assert opened(own.address, topic).query_end(30) == 3


def test_neither_compaction_nor_a_start_of_the_broker_makes_another_log(own: Broker, opened: Opened) -> None:
    kept = make_topic(own.address)
    writer, follower = opened(own.address, kept), opened(own.address, kept)
    writer.claim()
    write(writer, 5)
    followed = read(follower, 5)
    soon = {"min.compaction.lag.ms": "0", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.0"}
    topic = make_topic(own.address, soon | {"max.compaction.lag.ms": "500"})
    log, reader = opened(own.address, topic), opened(own.address, topic)
    log.claim()
    for _ in range(10):
        log.append([Entry(b"one", b"v"), Entry(b"other", b"v")])
    lineage = read(reader, 20)

    def compacted() -> bool:
        log.append([Entry(b"one", b"w"), Entry(b"other", b"w")])
        left = opened(own.address, topic)
        assert left.wait(0, 30)
        return left.read(0, 1, 1 << 20).records[0].offset >= 20

    until(compacted, 60.0, "all that is remembered to be compacted")
    fresh = opened(own.address, topic)
    assert fresh.divergence(lineage) is None
    assert fresh.divergence(lineage._replace(epoch_end=lineage.epoch_end + 1)) is None
    own.kill()
    own.start().wait()
    assert reader.query_end(30) > 20
    assert opened(own.address, topic).divergence(lineage) is None
    write(writer, 5)
    followed = read(follower, 10, followed, 5)
    fresh = opened(own.address, kept)
    assert fresh.divergence(followed) is None
    assert fresh.divergence(read(fresh, 10)) is None


def produce_one_by_one(servers: str, topic: str, messages: int) -> None:
    """Append messages, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for _ in range(messages):
        producer.produce(topic, b"v")
        producer.flush()


def test_a_census_continues_only_partitions_that_hold_what_it_has_counted(own: Broker) -> None:
    """After a start of the broker: one is as it was, others were cut, made anew, emptied, and grew again."""
    servers, names = own.address, ("census.as-it-was", "census.cut", "census.new", "census.emptied")
    kept, shortened, anew, emptied = (
        make_topic(servers, {"cleanup.policy": "delete"}, name=name) for name in names
    )

    def described() -> dict[str, DescribedTopic]:
        found = describe_topics(Security(), servers, timeout_s=30).topics
        return {name: found[name] for name in names}

    for name in names:
        produce_one_by_one(servers, name, 20)
    before = plan_topics(described().values(), {}).partitions
    assert [(row.end, row.reason) for row in before] == [(20, "")] * 4
    assert lose(own, shortened, 9) == 11
    delete_topic(servers, anew)
    make_topic(servers, {"cleanup.policy": "delete"}, name=anew)
    client = admin(servers)  # Kept, because its pending calls would end with it.
    (deleted,) = client.delete_records([TopicPartition(emptied, 0, OFFSET_END)]).values()
    assert deleted.result(30).low_watermark == 20
    for name in names:
        produce_one_by_one(servers, name, 25)
    topics = described()
    asked = epochs_before(before, topics)
    # Before Kafka 4.1 a single broker leads in the same epoch after a restart.
    leads_anew = jars.KAFKA == jars.NEWEST
    assert {kept, shortened} <= {topic for topic, _ in asked} or not leads_anew
    ends = find_epoch_ends(Security(), servers, asked, timeout_s=30)
    planned = plan_topics(topics.values(), {row.place: row for row in before}, ends)
    ranges = {each.source: (each.start, each.end) for each in planned.ranges}
    reasons = {row.source: row.reason for row in planned.partitions if row.reason}
    assert ranges.pop(shortened) == ((0, 36) if leads_anew else (20, 36))
    assert reasons.pop(shortened, "") == (
        "it was truncated from offset 20 to 11, and grew again" if leads_anew else ""
    )
    assert ranges == {kept: (20, 45), anew: (0, 25), emptied: (20, 45)}
    assert reasons == {anew: "it was deleted and created again"}
    unread = {row.source: row.reason for row in after_reading(before, topics, ends) if row.reason}
    assert unread.keys() == ({shortened, anew} if leads_anew else {anew})


@pytest.mark.long
def test_a_log_restored_with_its_leader_epochs_is_identified_by_its_records(
    opened: Opened, tmp_path: Path
) -> None:
    with Broker(tmp_path / "broker") as broker:
        topic = make_topic(broker.address)
        writer = opened(broker.address, topic)
        writer.claim()
        write(writer, 10)
        broker.stop()
        copytree(broker.folder / "data", tmp_path / "copy")
        broker.start().wait()
        write(writer, 10)
        reader = opened(broker.address, topic)
        lineage = read(reader, 20)
        # At once, so that no node learns of the epochs that it goes through in an orderly stop.
        broker.kill()
        rmtree(broker.folder / "data")
        (tmp_path / "copy").rename(broker.folder / "data")
        broker.start().wait()
        fresh = opened(broker.address, topic)
        fresh.claim()
        write(fresh, 12)
        end = fresh.query_end(30)
        assert read(fresh, end).epoch == lineage.epoch
        assert fresh.divergence(Lineage((), lineage.epoch, 20)) is None, "epochs do not tell"
        assert fresh.divergence(lineage) == 19
        assert "lost records" in foreign(reader)
