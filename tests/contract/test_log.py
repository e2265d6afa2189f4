"""What every log promises; each implementation passes the same tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.domain.records import Entry, Record
from registry.log.contract import Log, LogError, RecordTooLarge
from registry.log.embedded import EmbeddedLog

ALL = 1 << 30


@pytest.fixture(params=["embedded"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    made = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20, clock=lambda: 7, record_bytes_max=100_000)
    yield made
    made.close()


def entries(count: int, size: int = 3) -> list[Entry]:
    return [Entry(b"key%d" % n, b"v" * size) for n in range(count)]


def test_a_new_log_is_empty(log: Log) -> None:
    assert log.end() == 0
    assert log.read(0, 10, ALL) == []
    assert log.identity


def test_what_was_appended_is_read_back_with_its_offset_and_time(log: Log) -> None:
    assert log.append([Entry(b"a", b"1"), Entry(b"b", None)]) == 0
    assert log.append([Entry(b"a", b"")]) == 2
    assert log.end() == 3
    assert log.read(0, 10, ALL) == [
        Record(0, 7, b"a", b"1"),
        Record(1, 7, b"b", None),
        Record(2, 7, b"a", b""),
    ]


def test_keys_and_values_are_any_bytes(log: Log) -> None:
    odd = [
        Entry(b"", b""),
        Entry(b"\0", b"\0" * 10),
        Entry(b"k" * 5000, bytes(range(256)) * 90),
        Entry(b"", None),
    ]
    log.append(odd)
    assert [Entry(record.key or b"", record.value) for record in log.read(0, 10, ALL)] == odd


def test_an_append_of_nothing_is_nothing(log: Log) -> None:
    log.append(entries(2))
    assert log.append([]) == 2
    assert log.end() == 2


def test_a_read_keeps_the_number_of_records(log: Log) -> None:
    log.append(entries(10))
    assert [record.offset for record in log.read(4, 3, ALL)] == [4, 5, 6]
    assert [record.offset for record in log.read(8, 3, ALL)] == [8, 9]
    assert log.read(10, 3, ALL) == []
    assert log.read(99, 3, ALL) == []


def test_a_read_keeps_the_bytes_but_gives_at_least_one_record(log: Log) -> None:
    log.append(entries(10, size=1000))
    assert len(log.read(0, 10, 3500)) == 3
    assert len(log.read(0, 10, 1)) == 1


def test_a_record_that_is_too_large_takes_its_whole_batch_with_it(log: Log) -> None:
    largest = Entry(b"k", b"v" * (log.record_bytes_max - 1))
    with pytest.raises(RecordTooLarge, match="100001 bytes is over the log's limit of 100000"):
        log.append([Entry(b"a", b"1"), Entry(b"k", (largest.value or b"") + b"v")])
    assert log.end() == 0
    assert log.append([largest]) == 0


def test_wait_ends_when_the_log_grows_and_when_time_is_up(log: Log) -> None:
    assert not log.wait(0, 0.01)
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(log.wait(1, 30)))
    thread.start()
    log.append(entries(1))
    assert log.wait(0, 30)
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
        seen += log.read(len(seen), 7, ALL)
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
    for call in (log.end, lambda: log.read(0, 1, 1), lambda: log.append(entries(1)), lambda: log.wait(0, 0)):
        with pytest.raises(LogError, match="closed"):
            call()
