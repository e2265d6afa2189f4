"""A node's cache of executed commands is bounded, and knows from which offset on it is complete."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Thread

from registry.domain.commands import IDEMPOTENCY_KEY_BYTES, IdempotencyKey
from registry.domain.log_format.headers import pack_header, unpack_header
from registry.domain.log_format.records import Record
from registry.log.contract import Fetched, RecordHeaders, Unreachable
from registry.node.replication.dedup import DedupCache, Remembered

ALL = 1 << 20


def name(number: int) -> bytes:
    return number.to_bytes(IDEMPOTENCY_KEY_BYTES, "big")


def idempotency_key(number: int, since: int = 0) -> IdempotencyKey:
    return IdempotencyKey(name(number), since)


def fetched(offsets: Iterable[int], *, after: int | None = None, brief: bytes = b"{}") -> Fetched:
    """Return records at these offsets, each with a record header whose idempotency key is its offset."""
    found = list(offsets)
    records = [Record(offset, 0, b"key", b"value") for offset in found]
    headers = [(offset, pack_header(name(offset), brief, ALL)) for offset in found]
    return Fetched(records, found[-1] + 1 if after is None else after, headers)


def test_what_was_read_is_remembered_with_its_brief() -> None:
    memory = DedupCache(10)
    memory.read(10, fetched(range(10, 20), brief=b'{"id":7}'))
    assert memory.find(idempotency_key(12)) == Remembered(b'{"id":7}', 12)
    assert memory.find(idempotency_key(30)) is None


def test_the_later_of_two_replies_to_a_command_counts_whatever_is_read_first() -> None:
    first, second = (pack_header(name(1), brief, ALL) for brief in (b"1", b"22"))
    memory = DedupCache(0, count_max=2)
    memory.read(0, Fetched([Record(at, 0, b"key", b"") for at in (0, 1)], 2, [(0, first), (1, second)]))
    assert memory.find(idempotency_key(1)) == Remembered(b"22", 1)
    memory.read(2, fetched([2, 3]))
    assert memory.find(idempotency_key(1)) is None
    assert not memory.knows(idempotency_key(1))


def test_a_command_older_than_what_was_read_is_not_known_not_to_be_done() -> None:
    memory = DedupCache(10)
    assert memory.knows(idempotency_key(1, since=10))
    assert not memory.knows(idempotency_key(1, since=9))


def test_the_oldest_are_forgotten_and_then_not_known() -> None:
    memory = DedupCache(0, count_max=5)
    memory.read(0, fetched(range(20)))
    assert memory.find(idempotency_key(14)) is None
    assert memory.find(idempotency_key(15)) is not None
    assert memory.since == 15
    assert not memory.knows(idempotency_key(14, since=14))


def test_long_replies_leave_room_for_fewer() -> None:
    memory = DedupCache(0, bytes_max=1000)
    memory.read(0, fetched(range(20), brief=b"x" * 100))
    assert memory.since == 10


def test_records_that_are_missing_may_have_had_notes() -> None:
    memory = DedupCache(0)
    memory.read(0, fetched([0, 1, 4, 5]))
    assert memory.since == 4
    assert memory.find(idempotency_key(5)) is not None
    memory.read(6, fetched([6, 7], after=9))
    assert memory.since == 9, "what is missing at the end may have had record headers too"


def test_what_is_read_again_counts_once() -> None:
    memory = DedupCache(0, count_max=5)
    for _ in range(3):
        memory.read(0, fetched(range(5)))
    assert memory.since == 0


class Past:
    """A log that only has earlier records."""

    def __init__(self, noted: RecordHeaders | None) -> None:
        self._noted = noted
        self.asked: list[int] = []

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        self.asked.append(offset)
        if self._noted is None:
            raise Unreachable("nobody listens")
        return self._noted


def test_looking_back_once_makes_older_commands_known() -> None:
    past = Past(RecordHeaders(4, fetched(range(4, 10)).headers))
    memory = DedupCache(10)
    memory.read(10, fetched(range(10, 12)))
    for _ in range(2):
        memory.look_back(past)  # type: ignore[arg-type]
    assert past.asked == [10]
    assert memory.since == 4
    assert memory.find(idempotency_key(4)) is not None
    assert memory.find(idempotency_key(11)) is not None


def test_who_reads_on_need_not_wait_for_who_looks_back() -> None:
    memory = DedupCache(10)

    class Slow(Past):
        def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
            reader = Thread(target=memory.read, args=(10, fetched(range(10, 12))), daemon=True)
            reader.start()
            reader.join(30)
            assert not reader.is_alive()
            return super().headers_before(offset, records_max)

    memory.look_back(Slow(RecordHeaders(4, fetched(range(4, 10)).headers)))  # type: ignore[arg-type]
    assert [memory.find(idempotency_key(number)) is not None for number in (3, 4, 9, 10, 11)] == [
        False,
        *[True] * 4,
    ]
    assert memory.since == 4


def test_looking_back_in_vain_changes_nothing_and_is_tried_again() -> None:
    past = Past(None)
    memory = DedupCache(10)
    for _ in range(2):
        memory.look_back(past)  # type: ignore[arg-type]
    assert past.asked == [10, 10]
    assert memory.since == 10


def test_what_was_forgotten_is_not_looked_for_behind_a_gap() -> None:
    past = Past(RecordHeaders(4, fetched(range(4, 10)).headers))
    memory = DedupCache(10, count_max=2)
    memory.read(10, fetched(range(10, 15)))
    memory.look_back(past)  # type: ignore[arg-type]
    assert not past.asked
    assert memory.since == 13


def test_notes_of_others_are_no_notes() -> None:
    assert unpack_header(b"") is None
    assert unpack_header(b"\x07" + bytes(40)) is None
    assert unpack_header(b"\x01short") is None
    short = pack_header(name(1), b"a long reply", 20)
    assert unpack_header(short) == (name(1), None)
    assert len(short) == 1 + IDEMPOTENCY_KEY_BYTES
