"""Reading a log in Kafka while others write, after compaction, and while brokers come and go."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from deploy.local.broker import Broker, Brokers
from registry.domain.log_format.records import Entry, Record
from registry.log.contract import (
    RECORD_HEADER_BYTES,
    DamagedLog,
    ForeignLog,
    LogError,
    RecordHeaders,
    RecordTooLarge,
)
from registry.log.kafka import fetcher, read_buffer, record_batches, requests
from registry.log.kafka.broker_connection import login_with
from registry.log.kafka.connection import Connections, Purpose
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.contract.log.conftest import OddBroker, Opened
from tests.support.kafka_batches import with_header_key
from tests.support.kafka_topics import consumed, delete_topic, make_topic
from tests.support.running import until

ALL = 1 << 30


def read_on(log: KafkaLog, offset: int = 0) -> tuple[list[Record], int]:
    """Return all records from ``offset`` on, and the offset that was reached: the log's end."""
    found: list[Record] = []
    end = log.query_end(30)
    while offset < end:
        assert log.wait(offset, 30)
        fetched = log.read(offset, 700, ALL)
        assert fetched.next > offset, "a read after a wait gets on"
        found += fetched.records
        offset = fetched.next
    return found, offset


def produced(servers: str, topic: str, *values: bytes, **settings: str | int) -> None:
    """Append records by another client, all in one batch if possible."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "log_level": 0, **settings})
    for n, value in enumerate(values):
        producer.produce(topic, value, b"key%d" % n, partition=0, headers={"some": b"header"})
    assert producer.flush(30) == 0


@pytest.mark.parametrize("is_first", [True, False])
def test_a_log_that_is_closed_while_a_request_is_being_sent_logs_no_error(
    kafka: Broker, is_first: bool
) -> None:
    errors: list[dict[str, Any]] = []

    async def close_while_sending() -> None:
        loop, own = asyncio.get_running_loop(), asyncio.current_task()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        connections = Connections(login_with(Security()))
        address = ("127.0.0.1", kafka.port, Purpose.QUERY)
        await connections.open(*address)
        if not is_first:
            await connections.send(*address, requests.Metadata("any"), 30.0)
        sending = asyncio.ensure_future(connections.send(*address, requests.Metadata("any"), 30.0))
        tasks: set[asyncio.Task[Any]] = set()

        def cancel() -> None:
            tasks.update(task for task in asyncio.all_tasks() if task is not own)
            for task in tasks:
                task.cancel()

        loop.call_soon(cancel)
        await asyncio.wait({sending})
        # The call and the reader of the connection; who waits for the first answer explains a listener that
        # hangs up.
        assert len(tasks) == 2 + is_first
        await asyncio.gather(*tasks, return_exceptions=True)
        await connections.close()

    asyncio.run(close_while_sending())
    gc.collect()
    assert not errors


def test_who_waits_at_the_end_ends_the_rest_that_lets_what_came_be_applied(
    kafka: Broker, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "_REST_S", 3600.0)
    monkeypatch.setattr(fetcher, "_REFRESH_EVERY_S", 3600.0)
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    for end in range(1, 6):
        produced(kafka.address, topic, b"%d" % end)
        assert log.wait(end - 1, 30)
        fetched = log.read(end - 1, 700, ALL)
        assert [record.value for record in fetched.records] == [b"%d" % end]
        until(lambda: log._fetcher._rests_until, 30, "the rest")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_others_wrote_is_read_however_it_is_compressed(
    kafka: Broker, opened: Opened, codec: str
) -> None:
    topic = make_topic(kafka.address)
    sent = [b"%d " % n * 100 for n in range(100)]
    produced(kafka.address, topic, *sent, **{"compression.type": codec})
    records, end = read_on(opened(kafka.address, topic))
    assert [record.value for record in records] == sent
    assert [record.key for record in records] == [b"key%d" % n for n in range(100)]
    assert end == 100


def test_markers_of_transactions_are_passed_over(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    producer = Producer(
        {"bootstrap.servers": kafka.address, "transactional.id": f"mirror-{topic}", "log_level": 0}
    )
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value", b"key", partition=0)
        producer.flush(30)
        end(30)
    log = opened(kafka.address, topic)
    records, end = read_on(log)
    assert [record.offset for record in records] == [0, 2, 4], "Confluent reads what was aborted, too"
    assert end == log.end() == 6
    assert log.wait(5, 30)
    assert log.read(5, 10, ALL)[:2] == ([], 6), "nothing but a marker, and still it gets on"


def test_holes_that_compaction_made_are_passed_over(odd: OddBroker, opened: Opened) -> None:
    settings = {"min.compaction.lag.ms": "0", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.0"}
    log = opened(odd.address, make_topic(odd.address, settings))
    log.claim()

    def compacted() -> list[Record]:
        # Only closed segments are compacted; time and one more record close this one.
        log.append([Entry(b"last", b"")])
        records, end = read_on(log)
        assert end == log.end()
        return records if len(records) < end / 2 else []

    for n in range(50):
        log.append([Entry(b"same", b"%d" % n), Entry(b"other%d" % n, None if n % 2 else b"")])
    records = until(compacted, 60, "compaction")
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert [record.value for record in records if record.key == b"same"] == [b"49"]
    # The records that closed the segments may have been compacted in the meantime.
    again = [record for record in read_on(log, 1)[0] if record.key != b"last"]
    assert again == [record for record in records if record.offset >= 1 and record.key != b"last"]
    end = log.end()
    assert log.headers_before(end, end).since > 0, "record headers went with the records that compaction took"


def test_a_record_larger_than_what_is_fetched_at_once_arrives(
    kafka: Broker, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "FETCH_BYTES", 1000)
    monkeypatch.setattr(read_buffer, "AHEAD_BYTES", 3000)
    log = opened(kafka.address, make_topic(kafka.address))
    log.claim()
    entries = [Entry(b"%d" % n, bytes(size)) for n, size in enumerate((10, 900_000, 10, 20_000, 10, 10))]
    for entry in entries:
        log.append([entry])
    records, _ = read_on(log)
    assert [Entry(record.key or b"", record.value) for record in records] == entries


def test_bytes_that_were_damaged_on_the_way_are_not_taken() -> None:
    whole = record_batches.build([Entry(b"key", b"value" * 10)], record_batches.NO_PRODUCER, -1, 7).data
    assert [record.value for run in record_batches.runs(whole, 0) for record in run] == [b"value" * 10]
    damaged = whole[:-5] + b"!" + whole[-4:]
    with pytest.raises(DamagedLog, match="checksum"):
        list(record_batches.runs(damaged, 0))
    assert list(record_batches.runs(whole[:-1], 0)) == [], "the last batch of a fetch may be cut off"
    assert record_batches.next_offset(whole[:-1], 3) == 3


def test_notes_come_with_their_records_and_count_against_no_record(kafka: Broker, opened: Opened) -> None:
    log = opened(kafka.address, make_topic(kafka.address, {"max.message.bytes": "2000"}))
    log.claim()
    largest = Entry(b"k", bytes(log.record_bytes_max - 1))
    log.append(
        [largest, Entry(b"a", b"1"), Entry(b"b", None)], headers={0: bytes(RECORD_HEADER_BYTES), 2: b"of b"}
    )
    log.append([Entry(b"c", b"")], headers={0: b"of c"})
    with pytest.raises(RecordTooLarge):
        log.append([largest], headers={0: bytes(RECORD_HEADER_BYTES + 1)})
    wanted = [(0, bytes(RECORD_HEADER_BYTES)), (2, b"of b"), (3, b"of c")]
    for step in (1, 10):
        headers: list[tuple[int, bytes]] = []
        offset = 0
        while offset < 4:
            assert log.wait(offset, 30)
            fetched = log.read(offset, step, ALL)
            headers += fetched.headers
            offset = fetched.next
        assert headers == wanted
    assert log.headers_before(4, 2) == RecordHeaders(2, wanted[1:])
    assert log.headers_before(3, 100) == RecordHeaders(0, wanted[:2])
    assert log.headers_before(0, 100) == RecordHeaders(0, [])


def test_other_clients_find_the_principal_in_a_header_and_the_same_key_and_value(
    kafka: Broker, opened: Opened
) -> None:
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    log.claim()
    log.append([Entry(b"a", b"1"), Entry(b"a", b"1", "zoë".encode()), Entry(b"b", None, b"bob")])
    log.append([Entry(b"c", b"3", b"carol")], headers={0: b"of the command"})
    found = consumed(kafka.address, topic)
    assert [(each.key(), each.value()) for each in found] == [
        (b"a", b"1"), (b"a", b"1"), (b"b", None), (b"c", b"3"),
    ]  # fmt: skip
    assert [each.headers() for each in found] == [
        None,
        [("registrar-principal", "zoë".encode())],
        [("registrar-principal", b"bob")],
        [("registrar", b"of the command"), ("registrar-principal", b"carol")],
    ]


def test_headers_of_others_are_taken_as_they_are(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    said: list[list[tuple[str, bytes | None]]] = [
        [("registrar-principal", None)],
        [("registrar-principal", b"")],
        [("registrar-principal", b"\xff\n" * 10_000)],
        [("other", b"x"), ("registrar-principal", b"first"), ("registrar-principal", b"second")],
    ]
    for headers in said:
        producer.produce(topic, b"value", b"key", partition=0, headers=headers)
    assert producer.flush(30) == 0
    records, _ = read_on(opened(kafka.address, topic))
    assert [record.principal for record in records] == [b"", b"", b"\xff\n" * 10_000, b"first"]


def test_a_header_whose_key_is_no_text_ends_no_reading(
    kafka: Broker, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers take such a record from anybody who may write to the topic, and Java's clients read it."""
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    log.claim()
    build = record_batches.build

    def odd(*parts: Any) -> record_batches.Batch:
        batch = build(*parts)
        return batch._replace(
            data=with_header_key(batch.data, b"registrar", b"\xff\xfe\x80\xc3(\xa0\xa1\0\n")
        )

    monkeypatch.setattr(record_batches, "build", odd)
    log.append([Entry(b"a", b"1"), Entry(b"b", b"2")], headers={0: b"header"})
    monkeypatch.setattr(record_batches, "build", build)
    log.append([Entry(b"c", b"3", b"carol")])
    for each in (log, opened(kafka.address, topic)):
        assert [record.key for record in read_on(each)[0]] == [b"a", b"b", b"c"]
    assert log.headers_before(3, 10) == RecordHeaders(0, [])


def test_what_was_appended_here_next_is_read_without_a_fetch(odd: OddBroker, opened: Opened) -> None:
    topic = make_topic(odd.address)
    log = opened(odd.proxy.address, topic)
    log.claim()
    log.append([Entry(b"k", b"0")])
    assert read_on(log)[1] == 1
    odd.proxy.loses_fetches = True
    try:
        log.append([Entry(b"k", b"1"), Entry(b"k", None)], headers={1: b"record header"})
        assert log.wait(1, 0.0)
        mine = log.read(1, 10, ALL)
    finally:
        odd.proxy.loses_fetches = False
    elsewhere = opened(odd.address, topic)
    assert elsewhere.wait(1, 30)
    assert mine[:3] == elsewhere.read(1, 10, ALL)[:3]
    produced(odd.address, topic, b"another's")
    assert read_on(log, 3)[0][0].value == b"another's"


def test_no_more_than_fits_is_held_of_what_is_appended_here_and_not_read(
    odd: OddBroker, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_buffer, "AHEAD_BYTES", 3000)
    log = opened(odd.proxy.address, make_topic(odd.address))
    log.claim()
    log.append([Entry(b"k", b"0")])
    assert read_on(log)[1] == 1
    odd.proxy.loses_fetches = True
    try:
        for n in range(20):
            log.append([Entry(b"%d" % n, bytes(1000))])
        offset = 1
        while log.wait(offset, 0.0):
            offset = log.read(offset, 10, ALL).next
        assert 3 <= offset <= 5, "about as much as is read ahead"
    finally:
        odd.proxy.loses_fetches = False
    assert [record.key for record in read_on(log, offset)[0]] == [b"%d" % n for n in range(offset - 1, 20)]


def test_a_log_closes_also_when_somebody_has_just_looked_for_more(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    for _ in range(20):
        log = opened(kafka.address, topic)
        log.claim()
        end = read_on(log)[1]
        log.append([Entry(b"k", b"v")])
        read_on(log, end)
        log.wait(end + 1, 0.0)
        log.close()


def test_times_that_the_broker_gives_are_those_that_are_read(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address, {"message.timestamp.type": "LogAppendTime"})
    log = opened(kafka.address, topic, now_ms=lambda: 1)
    log.claim()
    log.append([Entry(b"k", b"0")])
    assert read_on(log)[1] == 1
    log.append([Entry(b"k", b"1")])
    assert read_on(log, 1) == read_on(opened(kafka.address, topic), 1)


def test_reading_goes_on_after_an_error_that_nobody_expected(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    partition, odd = log._partition, "no topic's id"
    partition.topic_id, right = odd, partition.topic_id  # type: ignore[assignment]
    with pytest.raises(LogError, match="cannot be read"):
        until(lambda: log.wait(0, 0.1), 30, "the error")
    partition.topic_id = right
    produced(kafka.address, topic, b"1")

    def goes_on() -> bool:
        try:
            return log.wait(0, 0.1)
        except LogError:
            return False

    until(goes_on, 30, "reading to go on")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("brokers"), 3) as running:
        yield running


# In make test, test_kafka_log_fencing.py loses answers and restarts a broker; test_kafka_log_stale.py moves.
@pytest.mark.long
def test_reading_and_appending_go_on_when_the_partition_moves(brokers: Brokers, opened: Opened) -> None:
    topic = make_topic(brokers.address, {"min.insync.replicas": "2"}, replicas=3)
    log, follower = (opened(brokers.address, topic, append_timeout_s=60.0) for _ in range(2))
    strict = opened(
        brokers.address,
        make_topic(brokers.address, {"min.insync.replicas": "3"}, replicas=3),
        append_timeout_s=3.0,
    )
    log.claim()
    log.append([Entry(b"first", b"")])
    offsets: list[int] = []
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.01):
            offsets.append(log.append([Entry(b"%d" % len(offsets), b"")]))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        place = log._partition.cluster and log._partition.cluster.partition
        assert place
        assert place.broker
        port = place.broker.port
        gone = next(node for node in brokers.nodes if node.port == port)
        gone.kill()
        so_far = len(offsets)
        until(lambda: len(offsets) > so_far + 10 or not writer.is_alive(), 60, "appends to go on")
        few = "NOT_ENOUGH_REPLICAS; nothing was appended"
        until(lambda: few in refusal(strict), 60, "the replicas to be too few, which leaves no doubt")
        gone.start().wait()
        until(lambda: not refusal(strict), 60, "all replicas to be back")
    finally:
        done.set()
        writer.join(90)
    assert offsets == list(range(1, len(offsets) + 1))
    records, _ = read_on(follower)
    assert [record.key for record in records] == [b"first", *(b"%d" % n for n in range(len(offsets)))]
    assert log.check_topic() == []


def refusal(log: KafkaLog) -> str:
    """Return why a claim or an append was refused; empty if it was not."""
    try:
        log.claim()
        log.append([Entry(b"strict", b"")])
    except LogError as error:
        return str(error)
    return ""


def test_brokers_that_know_topics_only_by_name_are_asked_by_name(
    kafka: Broker, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests.Fetch, "_CLASSES", requests.Fetch._CLASSES[:1])
    monkeypatch.setattr(requests.Produce, "_CLASSES", requests.Produce._CLASSES[:1])
    monkeypatch.setattr(fetcher, "_REFRESH_EVERY_S", 0.1)
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    log.claim()
    entries = [Entry(b"%d" % n, b"value") for n in range(3)]
    assert log.append(entries) == 0
    assert [Entry(record.key or b"", record.value) for record in read_on(log)[0]] == entries
    delete_topic(kafka.address, topic)
    make_topic(kafka.address, name=topic)

    def noticed() -> bool:
        try:
            return log.wait(3, 0.05)
        except ForeignLog:
            return True

    assert until(noticed, 30, "another topic to be noticed") is True
    with pytest.raises(ForeignLog):
        log.append(entries)
