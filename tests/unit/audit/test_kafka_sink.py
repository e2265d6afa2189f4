"""The audit log's way to a topic: what is sent together, sent again, and lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from registry.audit.kafka_sink import BYTES_MAX, LINES_MAX, SENT_BYTES_MAX, SENT_LINES_MAX, KafkaSink
from registry.domain.log_format.records import Entry
from registry.log.contract import LogError, OutcomeUnknown, RecordTooLarge, Rejected, Unreachable
from tests.support.running import until_async


class MemoryTopic:
    """A topic that rejects lines with ``bad`` in them, and fails with the errors in ``failures`` before."""

    def __init__(self, *failures: LogError) -> None:
        self.batches: list[list[bytes]] = []
        self.failures = list(failures)
        self.go_on = threading.Event()
        self.go_on.set()
        self.closed = False

    @property
    def lines(self) -> list[bytes]:
        return [line for batch in self.batches for line in batch]

    def append(self, entries: Sequence[Entry]) -> None:
        assert self.go_on.wait(30)
        if self.closed:
            raise LogError("the log is closed")
        if self.failures:
            raise self.failures.pop(0)
        lines = [each.value or b"" for each in entries]
        if any(b"bad" in line for line in lines):
            raise RecordTooLarge("a record is too large")
        self.batches.append(lines)

    def close(self) -> None:
        self.closed = True
        self.go_on.set()


def run(main: Callable[[KafkaSink], Coroutine[Any, Any, None]], topic: MemoryTopic) -> KafkaSink:
    """Run ``main`` with a sink; return the sink, closed."""

    async def running() -> KafkaSink:
        sink = KafkaSink("audit", topic, retry_s=0.01)
        await main(sink)
        await sink.close(30.0)
        return sink

    return asyncio.run(running())


def test_lines_that_wait_are_sent_together_up_to_a_number_and_a_size() -> None:
    topic = MemoryTopic()
    small = [b"%d" % number for number in range(SENT_LINES_MAX + 3)]
    long = [bytes(50_000) for _ in range(40)]

    async def main(sink: KafkaSink) -> None:
        for line in (*small, *long):
            sink.write(line + b"\n")

    assert run(main, topic).lost_count == 0
    assert topic.lines == [*small, *long]
    assert max(map(len, topic.batches)) == SENT_LINES_MAX
    assert max(sum(map(len, batch)) for batch in topic.batches) <= SENT_BYTES_MAX + 50_000
    assert len(topic.batches) <= 6


@pytest.mark.parametrize(
    "failure", [Unreachable("nobody listens"), OutcomeUnknown("no answer"), LogError("no permission")]
)
def test_lines_are_sent_again_until_they_are_taken(failure: LogError) -> None:
    topic = MemoryTopic(failure, failure, failure)

    async def main(sink: KafkaSink) -> None:
        for number in range(3):
            sink.write(b"%d\n" % number)

    assert run(main, topic).lost_count == 0
    assert topic.lines == [b"0", b"1", b"2"]


def test_a_line_that_is_rejected_is_lost_alone(caplog: pytest.LogCaptureFixture) -> None:
    topic = MemoryTopic()

    async def main(sink: KafkaSink) -> None:
        for line in (b"one\n", b"bad\n", b"two\n"):
            sink.write(line)

    assert run(main, topic).lost_count == 1
    assert topic.lines == [b"one", b"two"]
    assert "the topic audit did not accept 1 audit entries: a record is too large; 1 lost" in caplog.text


def test_a_rejection_of_all_lines_counts_each_of_them() -> None:
    topic = MemoryTopic(*[Rejected("invalid")] * 4)

    async def main(sink: KafkaSink) -> None:
        for number in range(4):
            sink.write(b"%d\n" % number)

    assert run(main, topic).lost_count == 3  # the first try was for all four
    assert topic.lines == [b"3"]


def test_an_unexpected_error_does_not_end_the_audit_log() -> None:
    topic = MemoryTopic()
    topic.failures = [ValueError("unexpected")]  # type: ignore[list-item]

    async def main(sink: KafkaSink) -> None:
        sink.write(b"one\n")

    assert run(main, topic).lost_count == 0
    assert topic.lines == [b"one"]


@pytest.mark.parametrize(("size", "room"), [(1, LINES_MAX), (BYTES_MAX // 4, 4)])
def test_lines_that_wait_are_bounded_and_those_beyond_are_counted(size: int, room: int) -> None:
    topic = MemoryTopic()
    topic.go_on.clear()

    async def main(sink: KafkaSink) -> None:
        for _ in range(room + 5):
            sink.write(bytes(size - 1) + b"\n")
        assert sink.lost_count == 5
        topic.go_on.set()

    assert run(main, topic).lost_count == 5
    assert len(topic.lines) == room


def test_lines_that_are_not_sent_in_time_are_counted_as_lost() -> None:
    topic = MemoryTopic()
    topic.go_on.clear()

    async def main() -> None:
        sink = KafkaSink("audit", topic)
        for _ in range(7):
            sink.write(b"waits\n")
        await until_async(sink._waiting.empty, "the lines to be sent")
        sink.write(b"waits behind them\n")
        await sink.close(0.01)
        assert sink.lost_count == 8

    asyncio.run(main())
    assert topic.closed
