"""The contract of every log; each implementation passes the same tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.broker import Broker
from registry.domain.log_format.headers import PRINCIPAL_BYTES_MAX, PRINCIPAL_ROOM_BYTES, pack_principal
from registry.domain.log_format.lineage import NOTHING
from registry.domain.log_format.records import Entry, Record
from registry.log.contract import RECORD_HEADER_BYTES, Fetched, Log, LogError, RecordTooLarge
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.support.kafka_topics import make_topic

ALL = 1 << 30
RECORD_BYTES_MAX = 100_000


@pytest.fixture(params=["embedded", "kafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    made = in_kafka(request.getfixturevalue("kafka")) if request.param == "kafka" else embedded(tmp_path)
    made.claim()
    yield made
    made.close()


def embedded(folder: Path) -> Log:
    return EmbeddedLog(folder / "log", map_bytes=64 << 20, clock=lambda: 7, record_bytes_max=RECORD_BYTES_MAX)


def in_kafka(broker: Broker) -> Log:
    topic = make_topic(broker.address, {"max.message.bytes": str(RECORD_BYTES_MAX + 180)})
    return KafkaLog(
        Security(),
        broker.address,
        topic,
        transactional_id=f"registrar.{topic}",
        append_timeout_s=30.0,
        now_ms=lambda: 7,
    )


def read(log: Log, offset: int, records_max: int = 10, bytes_max: int = ALL) -> Fetched:
    """Return the next read that advances; one at the log's end, which does not."""
    if offset < log.end():
        assert log.wait(offset, 30)
    return log.read(offset, records_max, bytes_max)


def entries(count: int, size: int = 3) -> list[Entry]:
    return [Entry(b"key%d" % n, b"v" * size) for n in range(count)]


def read_all(log: Log, end: int) -> list[Record]:
    found: list[Record] = []
    offset = 0
    while offset < end:
        fetched = read(log, offset, 1000)
        found += fetched.records
        offset = fetched.next
    return found


def test_a_new_log_is_empty(log: Log) -> None:
    assert log.end() == 0
    assert log.read(0, 10, ALL) == Fetched([], 0)
    assert log.query_end(30) == 0
    assert log.identity


def test_what_was_appended_is_read_back_with_its_offset_and_time(log: Log) -> None:
    assert log.append([Entry(b"a", b"1"), Entry(b"b", None)]) == 0
    assert log.append([Entry(b"a", b"")]) == 2
    assert log.end() == 3
    assert log.query_end(30) == 3
    assert read_all(log, 3) == [
        Record(0, 7, b"a", b"1"),
        Record(1, 7, b"b", None),
        Record(2, 7, b"a", b""),
    ]


def test_an_acknowledged_append_is_within_the_end_that_is_queried_next(log: Log) -> None:
    for number in range(20):
        assert log.append([Entry(b"k", b"%d" % number)]) == number
        assert log.query_end(30) == number + 1


def test_keys_and_values_are_any_bytes(log: Log) -> None:
    odd = [
        Entry(b"", b""),
        Entry(b"\0", b"\0" * 10),
        Entry(b"k" * 5000, bytes(range(256)) * 90),
        Entry(b"", None),
    ]
    log.append(odd)
    assert [Entry(record.key or b"", record.value) for record in read_all(log, 4)] == odd


def test_principals_come_back_with_their_records(log: Log) -> None:
    longest = pack_principal("Ünïcode\n" * 1000)
    said = [
        Entry(b"a", b"1", b"alice"), Entry(b"b", None, longest), Entry(b"a", b"2"),
        Entry(b"", b"", b"\xff\0"), Entry(b"c", b"3"), Entry(b"d", None, b"bob"),
    ]  # fmt: skip
    log.append(said[:2])
    log.append(said[2:], headers={1: b"header"})
    wanted = [Record(offset, 7, *entry) for offset, entry in enumerate(said)]
    assert read_all(log, 6) == wanted
    assert read(log, 0, 2).records == wanted[:2]
    assert read(log, 4).records == wanted[4:]
    again = log.read_again(1, 10, ALL)
    assert again.records == wanted[1 : again.next]


def test_the_longest_principal_fits_where_its_room_is_left(log: Log) -> None:
    largest = Entry(b"k", b"v" * (log.record_bytes_max - 1))
    named = Entry(b"k", largest.value[PRINCIPAL_ROOM_BYTES:], bytes(PRINCIPAL_BYTES_MAX))
    log.append([largest, named], headers={0: bytes(RECORD_HEADER_BYTES), 1: bytes(RECORD_HEADER_BYTES)})
    assert [record[2:] for record in read_all(log, 2)] == [largest, named]


def test_an_append_of_nothing_is_nothing(log: Log) -> None:
    log.append(entries(2))
    assert log.append([]) == 2
    assert log.end() == 2


def test_a_read_keeps_the_number_of_records(log: Log) -> None:
    log.append(entries(10))
    first = read(log, 4, 3)
    assert [record.offset for record in first.records] == [4, 5, 6]
    assert first.next == 7
    last = read(log, 8, 3)
    assert [record.offset for record in last.records] == [8, 9]
    assert last.next == 10
    assert log.read(10, 3, ALL)[:2] == ([], 10)


def test_a_read_keeps_the_bytes_but_gives_at_least_one_record(log: Log) -> None:
    log.append(entries(10, size=1000))
    assert len(read(log, 0, 10, 3500).records) == 3
    assert len(read(log, 3, 10, 1).records) == 1
    assert read(log, 4, 10, 1).next == 5


def test_reading_goes_back_and_forth(log: Log) -> None:
    log.append(entries(10))
    for offset in (9, 0, 5, 5, 0):
        assert read(log, offset).records[0].offset == offset


def test_a_record_that_is_too_large_takes_its_whole_batch_with_it(log: Log) -> None:
    largest = Entry(b"k", b"v" * (log.record_bytes_max - 1))
    with pytest.raises(RecordTooLarge, match=f"100001 bytes is over the log's limit of {RECORD_BYTES_MAX}"):
        log.append([Entry(b"a", b"1"), Entry(b"k", (largest.value or b"") + b"v")])
    assert log.end() == 0
    assert log.append([largest]) == 0


def test_more_than_fits_one_piece_is_appended_in_order(log: Log) -> None:
    many = entries(100, size=9_000)
    assert log.append(many, cuts=range(0, 100, 7)) == 0
    assert log.append(entries(1)) == 100
    assert [Entry(record.key or b"", record.value) for record in read_all(log, 101)] == many + entries(1)


def test_wait_ends_when_the_log_grows_and_when_time_is_up(log: Log) -> None:
    assert not log.wait(0, 0.01)
    log.append(entries(1))
    assert log.wait(0, 30)
    assert log.read(0, 10, ALL).next == 1
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(log.wait(1, 30)))
    thread.start()
    log.append(entries(1))
    thread.join(30)
    assert waited == [True]


def test_many_threads_append_and_read(log: Log) -> None:
    def write(name: int) -> None:
        for n in range(20):
            log.append([Entry(b"%d" % name, b"%d" % n), Entry(b"%d" % name, None)])

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    seen: list[Record] = []
    while len(seen) < 160 and log.wait(len(seen), 30):
        seen += log.read(len(seen), 7, ALL).records
    for thread in threads:
        thread.join(30)
    assert [record.offset for record in seen] == list(range(160))
    for name in range(4):
        values = [record.value for record in seen if record.key == b"%d" % name]
        assert values == [value for n in range(20) for value in (b"%d" % n, None)]
    pairs = zip(seen[::2], seen[1::2], strict=True)
    assert all(first.key == second.key for first, second in pairs), "a batch was torn apart"


def test_a_closed_log_refuses_everything(log: Log) -> None:
    log.append(entries(1))
    log.close()
    log.close()
    calls = (
        log.end,
        log.claim,
        lambda: log.query_end(1),
        lambda: log.read(0, 1, 1),
        lambda: log.wait(0, 0),
        lambda: log.append(entries(1)),
    )
    for call in calls:
        with pytest.raises(LogError, match="closed"):
            call()


def test_a_log_is_distinguished_from_another_history_of_its_own(log: Log) -> None:
    log.append(entries(20))
    held = read_all(log, 20)
    lineage = NOTHING.with_records(held)
    assert log.divergence(NOTHING) is None
    assert log.divergence(lineage) is None
    log.append(entries(3))
    assert log.divergence(lineage) is None
    other = held[-1]._replace(value=b"another")
    assert log.divergence(NOTHING.with_records([*held[:-1], other])) == 19
    longer = NOTHING.with_records([*held, *(other._replace(offset=at) for at in range(20, 40))])
    assert log.divergence(longer) == 23
    assert [each.value for each in read_all(log, 23)[:20]] == [b"vvv"] * 20, "it can be read all the same"


def test_records_are_read_again_at_any_offset_while_the_follower_stays_where_it_is(log: Log) -> None:
    log.append(entries(10))
    assert [record.offset for record in read(log, 0, 4).records] == [0, 1, 2, 3]
    for offset in (7, 2, 0, 9):
        again = log.read_again(offset, 3, ALL)
        assert [record.offset for record in again.records] == [*range(offset, min(10, offset + 3))]
        assert again.next == min(10, offset + 3)
    assert log.read_again(10, 3, ALL)[:2] == ([], 10)
    assert [record.offset for record in read(log, 4, 4).records] == [4, 5, 6, 7]


def test_the_first_record_after_a_time_is_found(log: Log) -> None:
    assert log.first_after(0) is None
    log.append(entries(3))  # the clock shows 7
    assert [log.first_after(time_ms) for time_ms in (-1, 0, 6, 7, 1 << 62)] == [0, 0, 0, None, None]
