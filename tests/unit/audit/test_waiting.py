"""Lines of the audit log that wait for an output."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from registry.audit import sinks
from registry.audit.sinks import LINES_MAX, WaitingSink
from tests.support.running import until_async


class Gate:
    """An output that takes lines while it is open, and fails while ``problem`` is set."""

    name = "/audit.jsonl"

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.problem = ""
        self.tried = 0
        self.closed = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def put(self, line: bytes) -> str:
        self.open.wait()
        self.tried += 1
        if not self.problem:
            self.lines.append(line)
        return self.problem

    def close(self) -> None:
        self.closed.set()


def run(test: Callable[[Gate, WaitingSink], Awaitable[None]], *, required: bool = False) -> Gate:
    gate = Gate()

    async def main() -> None:
        sink = WaitingSink(gate, required=required)
        try:
            await test(gate, sink)
        finally:
            gate.open.set()
            gate.problem = ""
            await sink.close(30.0)

    asyncio.run(main())
    assert gate.closed.wait(30)
    return gate


def test_an_answer_waits_until_its_line_is_written() -> None:
    async def test(gate: Gate, sink: WaitingSink) -> None:
        for number in range(100):
            sink.write(b"%d\n" % number, awaited=True)
            await sink.wait_written()
            assert len(gate.lines) == number + 1

    gate = run(test)
    assert gate.lines == [b"%d\n" % each for each in range(100)]


def test_an_output_that_hangs_stops_one_answer_for_a_moment_and_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sinks, "ANSWERS_WAIT_S", 0.05)

    async def test(gate: Gate, sink: WaitingSink) -> None:
        gate.open.clear()
        for _ in range(1000):
            sink.write(b"x\n", awaited=True)
            await sink.wait_written()
        assert gate.lines == []
        gate.open.set()
        await until_async(lambda: len(gate.lines) == 1000, "the lines that waited")
        assert sink.lost_count == 0
        await until_async(lambda: not sink._stuck, "answers to wait again")
        sink.write(b"y\n", awaited=True)
        await sink.wait_written()
        assert gate.lines[-1] == b"y\n"

    run(test)
    assert caplog.text.count("responses no longer wait for it") == 1


def test_lines_that_wait_are_bounded_and_those_beyond_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sinks, "ANSWERS_WAIT_S", 0.01)

    async def test(gate: Gate, sink: WaitingSink) -> None:
        gate.open.clear()
        for _ in range(LINES_MAX + 7):
            sink.write(b"x\n", awaited=True)
            await sink.wait_written()
        assert sink.lost_count == 7

    assert len(run(test).lines) == LINES_MAX
    assert "/audit.jsonl accepts no more audit entries" in caplog.text


def test_a_line_that_fails_is_lost_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def test(gate: Gate, sink: WaitingSink) -> None:
        gate.problem = "No space left on device"
        sink.write(b"x\n", awaited=True)
        await sink.wait_written()
        assert (sink.lost_count, gate.tried) == (1, 1)

    run(test)
    assert "cannot write to the audit log /audit.jsonl: No space left on device" in caplog.text


def test_what_is_not_written_in_time_at_the_end_is_lost() -> None:
    gate = Gate()
    gate.open.clear()

    async def main() -> int:
        sink = WaitingSink(gate)
        for _ in range(3):
            sink.write(b"x\n")
        await sink.close(0.01)
        return sink.lost_count

    assert asyncio.run(main()) == 3
    gate.open.set()
    assert gate.closed.wait(30)


def test_required_lines_are_tried_until_they_are_written_and_answers_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sinks, "RETRY_S", 0.01)
    monkeypatch.setattr(sinks, "ANSWERS_WAIT_S", 0.01)

    async def test(gate: Gate, sink: WaitingSink) -> None:
        gate.problem = "No space left on device"
        sink.write(b"x\n", awaited=True)
        answer = asyncio.ensure_future(sink.wait_written())
        await until_async(lambda: gate.tried > 3, "another try")
        assert (answer.done(), sink.lost_count) == (False, 0)
        gate.problem = ""
        await answer
        assert gate.lines == [b"x\n"]

    run(test, required=True)


def test_required_lines_are_never_too_many_but_those_for_which_no_answer_waits_are() -> None:
    async def test(gate: Gate, sink: WaitingSink) -> None:
        gate.open.clear()
        for _ in range(LINES_MAX):
            sink.write(b"x\n")
        sink.write(b"lost\n")
        sink.write(b"kept\n", awaited=True)
        assert sink.lost_count == 1

    assert run(test, required=True).lines[-1] == b"kept\n"
