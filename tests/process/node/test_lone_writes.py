"""Lone writes: made by the node's event loop, while its write thread waits."""

from __future__ import annotations

import asyncio
import mmap
import re
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import Done, Outcome, Refused, Register, Unknown
from registry.domain.log_format.records import Entry
from registry.domain.rows.view import Change
from registry.log.contract import NO_HEADERS, Fencing, LogError, OnAppended, OutcomeUnknown
from registry.log.embedded.log import EmbeddedLog
from registry.node.leadership.role import RoleHolder
from registry.node.write.loop import SLOW_PAUSES_S, SLOW_S, LoneAppends, LoneWrites, WriteLoop
from tests.process.node.stations import MAP, Station
from tests.support.pending import pending
from tests.support.running import ROOT, until_async

pytestmark = pytest.mark.anyio

# Pages of the log and the store, and the page of each that names the newest commit.
PAGES_MAX = 14
# System calls that read or write, besides one for each page.
CALLS_MAX = 2
# Calls of this project's functions in the node, from the queue to the outcome, for content that another
# subject has: 27 of them find out whether its id stands for it.
FUNCTIONS_MAX = 420
VERSIONS, WRITES = 300, 20


class FailingLog(EmbeddedLog):
    """A log that may fail while it appends, so that nobody knows if it did."""

    failing = False

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        if self.failing:
            raise OutcomeUnknown("the disk failed")
        return super().append(entries, cuts, headers)


class HeldLog(FailingLog):
    """A log whose appends, once begun, wait for :meth:`finish`."""

    # False: what is appended has to be waited for, as if brokers had to be asked for it.
    at_hand = True
    # True: it is closed as soon as it has appended, and so cannot say where it ends.
    closing = False
    closed = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, map_bytes=MAP)
        self.begun: list[tuple[Sequence[Entry], OnAppended]] = []

    def begin_append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes], done: OnAppended
    ) -> None:
        assert not cuts
        assert not headers
        self.begun.append((entries, done))

    def is_at_hand(self, offset: int) -> bool:
        return self.at_hand and offset < self.end()

    def end(self) -> int:
        if self.closed:
            raise LogError("the log is closed")
        return super().end()

    def finish(self) -> None:
        """Append what was begun, or fail."""
        entries, done = self.begun.pop()
        try:
            first = self.append(entries)
            self.closed = self.closing
            done(first)
        except OutcomeUnknown as error:
            done(error)


class Trial:
    """A writer over real files with a write thread, and the lone writes of the running event loop."""

    lone: LoneWrites | LoneAppends

    def __init__(self, folder: Path) -> None:
        self.log = HeldLog(folder / "log")
        self.station = Station(folder / "store", self.log, history=True)
        self.writer = self.station.writer
        self.outcomes: list[Outcome] = []
        # For each outcome, true if the event loop's thread wrote.
        self.by_loop: list[bool] = []
        self.failures: list[str] = []
        self.time = 0.0
        # How long each write of the event loop seems to take.
        self.takes_s = 0.0
        self._loop_thread = threading.get_ident()
        self.holder = holder = RoleHolder(switched=lambda role: self.writer.open(None), changed=lambda: None)
        started = threading.Event()
        started.set()
        self.write_loop = WriteLoop(
            self.writer, holder, started=started, confirm=lambda: True, claim=lambda: 0,
            fencing=Fencing, renew_s=None,
        )  # fmt: skip
        self.lone = LoneWrites(
            self.writer, self._write_in_place, is_busy=lambda: self.station.store.is_being_written,
            guarded=self._guarded, clock=self._clock,
        )  # fmt: skip
        holder.standalone()
        self.thread = threading.Thread(target=self._guarded, args=("write", self.write_loop.run))

    def append_slowly(self) -> None:
        """Write as in a cluster, where the event loop does not wait for the log."""
        loop = asyncio.get_running_loop()
        self.lone = LoneAppends(
            self.writer, self.write_loop, self.log, is_busy=lambda: self.station.store.is_being_written,
            guarded=self._guarded, soon=loop.call_soon_threadsafe,
        )  # fmt: skip

    def _write_in_place(self) -> bool:
        self.time += self.takes_s
        return self.write_loop.write_in_place()

    def _guarded(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except LogError as error:
            self.failures.append(f"{name}: {error}")

    def _clock(self) -> float:
        return self.time

    async def idle(self) -> None:
        """Return when the write thread waits for commands."""
        await until_async(lambda: self.writer.waits, "the write thread to wait")

    def submit(self, subject: str, size: int = 0) -> None:
        self.lone.submit(pending(Register(subject, f'{{"type":"string","doc":"{"x" * size}"}}'), self._reply))

    def _reply(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.by_loop.append(threading.get_ident() == self._loop_thread)

    async def write(self, *subjects: str, size: int = 0) -> list[bool]:
        """Write to these subjects at the same time; return for each if the event loop's thread did it."""
        await self.idle()
        begin = len(self.outcomes)
        for each in subjects:
            self.submit(each, size)
        await until_async(lambda: len(self.outcomes) == begin + len(subjects), "the outcomes")
        assert all(isinstance(each, Done) for each in self.outcomes[begin:])
        return self.by_loop[begin:]


@asynccontextmanager
async def trial(folder: Path) -> AsyncIterator[Trial]:
    made = Trial(folder)
    made.thread.start()
    try:
        yield made
    finally:
        made.write_loop.stop()
        while made.log.begun:  # after a failed assertion
            made.log.finish()
        await asyncio.to_thread(made.thread.join)
        made.station.close()


def moved() -> tuple[float, int]:
    """Return how many pages this process has written so far, and its system calls that read or write."""
    found = dict(re.findall(r"(\w+): (\d+)", Path("/proc/self/io").read_text()))
    return int(found["wchar"]) / mmap.PAGESIZE, int(found["syscr"]) + int(found["syscw"])


def waits(thread: threading.Thread) -> int:
    """Return how often a thread has waited so far."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


@contextmanager
def functions_called() -> Iterator[list[str]]:
    """Yield a list that receives the names of this project's functions that this thread calls."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/registry/"):
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


async def test_what_comes_alone_is_written_by_the_event_loop_in_few_pages(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await node.write(*(f"subject{number}" for number in range(VERSIONS)))
        await node.idle()
        (pages, calls), batches, woken = moved(), node.writer.stat().batches, waits(node.thread)
        for number in range(WRITES):
            assert await node.write(f"lone{number}") == [True]
        written, called = (after - before for after, before in zip(moved(), (pages, calls), strict=True))
        assert written / WRITES <= PAGES_MAX
        assert called / WRITES <= written / WRITES + CALLS_MAX
        assert node.writer.stat().batches - batches == WRITES
        # The write thread sleeps all the time; it may only just have fallen asleep.
        assert waits(node.thread) - woken <= 1


async def test_a_lone_write_calls_few_functions(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await node.write("first")
        await node.write("second")
        await node.idle()
        with functions_called() as called:
            assert await node.write("third") == [True]
        assert len(called) <= FUNCTIONS_MAX, Counter(called)


async def test_what_comes_together_is_written_by_the_write_thread_as_one_batch(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        assert await node.write("first", "second", "third") == [False] * 3
        assert node.writer.stat().batches == 1
        assert await node.write("fourth") == [True]


async def test_large_commands_are_left_to_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        assert await node.write("large", size=LARGE_BYTES) == [False]


async def test_after_a_long_write_the_write_thread_writes_for_a_while(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        node.takes_s = 2 * SLOW_S
        assert await node.write("slow") == [True]
        node.takes_s = 0.0
        assert await node.write("next") == [False]
        node.time += SLOW_PAUSES_S[0]
        assert await node.write("later") == [True]


async def test_only_long_writes_that_follow_each_other_are_left_to_the_write_thread_for_long(
    tmp_path: Path,
) -> None:
    def pause_after(took_s: float) -> float:
        def take() -> None:
            node.time += took_s

        assert isinstance(node.lone, LoneWrites)
        node.lone.measure(take)
        pause_s = max(0.0, node.lone._slow_until - node.time)
        node.time += pause_s
        return round(pause_s, 6)

    async with trial(tmp_path) as node:
        first_s, last_s = SLOW_PAUSES_S
        slow_s = 2 * SLOW_S
        assert [pause_after(slow_s) for _ in range(2)] == [first_s, 2 * first_s]
        assert pause_after(0.0) == 0.0, "a part of the next write"
        assert [pause_after(slow_s) for _ in range(3)] == [4 * first_s, last_s, last_s]
        assert [pause_after(0.0) for _ in range(2)] == [0.0, 0.0]
        assert pause_after(slow_s) == first_s


async def test_what_would_wait_for_maintenance_is_left_to_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        begun, end = threading.Event(), threading.Event()

        def slow_step(rows: dict[bytes, bytes | None]) -> Iterator[Change]:
            begun.set()
            end.wait()
            yield from rows.items()

        store = node.station.store
        maintenance = asyncio.to_thread(store.commit_folded, (), slow_step({}), store.applied)  # type: ignore[arg-type]
        running = asyncio.ensure_future(maintenance)
        await asyncio.to_thread(begun.wait)
        await node.idle()
        node.submit("meanwhile")
        await until_async(lambda: not node.writer.waits, "the write thread to take it")
        end.set()
        await running
        await until_async(lambda: node.outcomes, "the outcome")
        assert node.by_loop == [False]


async def test_what_arrives_during_a_lone_write_is_written_by_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await node.idle()
        node.station.before_following = lambda offset: (
            None if node.outcomes or node.writer.stat().waiting else node.submit("meanwhile")
        )
        node.submit("lone")
        await until_async(lambda: len(node.outcomes) == 2, "both outcomes")
        assert node.by_loop == [True, False]


async def test_a_failure_that_ends_the_node_is_reported(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await node.idle()
        node.log.failing = True
        node.submit("s")
        await until_async(lambda: node.failures, "the failure")
        assert node.failures == ["write: the disk failed"]
        assert isinstance(node.outcomes[-1], Unknown)


async def begin(node: Trial, subject: str) -> None:
    """Begin a lone write that does not end before the log has appended its record."""
    node.append_slowly()
    await node.idle()
    before = len(node.outcomes)
    node.submit(subject)
    await until_async(lambda: node.log.begun, "the append")
    assert len(node.outcomes) == before


async def test_the_event_loop_does_not_wait_while_the_log_of_a_cluster_appends(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await node.write("first")
        await begin(node, "lone")
        assert not node.writer.waits, "the event loop writes in place of the write thread"
        woken = waits(node.thread)
        await asyncio.to_thread(node.log.finish)
        await until_async(lambda: len(node.outcomes) == 2, "the outcome")
        assert isinstance(node.outcomes[-1], Done)
        assert node.by_loop[-1] is True
        assert waits(node.thread) == woken, "the write thread sleeps all the time"
        assert node.writer.waits


async def test_the_command_of_another_node_is_answered_once_the_log_has_it(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        node.append_slowly()
        await node.idle()
        followed: list[tuple[int, int]] = []
        node.station.before_following = lambda offset: followed.append((offset, len(node.outcomes)))
        node.lone.submit(pending(Register("theirs", '"string"'), node._reply, once_logged=True))
        await until_async(lambda: node.log.begun, "the append")
        assert not node.outcomes
        node.log.finish()
        await until_async(lambda: followed[-1][0] == node.log.end(), "the records to be followed")
        assert followed[-1] == (node.log.end(), 1)
        assert isinstance(node.outcomes[0], Done)
        await node.idle()
        assert (node.by_loop, node.writer.stat().commands) == ([True], 1)


async def test_only_the_commands_of_other_nodes_are_answered_before_a_batch_is_applied(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path) as node:
        await node.idle()
        answered: list[str] = []
        before: list[list[str]] = []
        node.station.before_following = lambda offset: before.append(answered.copy())
        for name, once_logged in {"ours": False, "theirs": True, "refused": True}.items():
            schema = "{" if name == "refused" else '"string"'
            reply = partial(_note, answered, name)
            node.lone.submit(pending(Register(name, schema), reply, once_logged=once_logged))
        await until_async(lambda: len(answered) == 3, "all answers")
        assert before[-1] == ["theirs"]
        assert answered == ["theirs", "ours", "refused"]
        assert node.writer.stat().commands == 3


def _note(answered: list[str], name: str, outcome: Outcome) -> None:
    answered.append(name)


async def test_what_arrives_during_an_append_is_written_by_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await begin(node, "lone")
        node.submit("meanwhile")
        assert node.writer.stat().waiting == 1
        node.log.finish()
        await until_async(lambda: len(node.outcomes) == 2, "both outcomes")
        assert node.by_loop == [True, False]


async def test_an_append_that_fails_is_settled_by_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await begin(node, "lone")
        node.log.failing = True
        node.log.finish()
        await until_async(lambda: node.outcomes, "the outcome")
        assert isinstance(node.outcomes[0], Unknown)
        assert node.by_loop == [False]
        await until_async(lambda: node.failures, "the failure that ends a node without fencing")


async def test_a_log_that_is_closed_after_an_append_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await begin(node, "lone")
        node.log.closing = True
        node.log.finish()
        await until_async(lambda: node.outcomes, "the outcome")
        assert isinstance(node.outcomes[0], Unknown)
        await until_async(lambda: node.failures, "the failure that ends a node without fencing")


async def scheduled() -> None:
    """Return when what is scheduled now has been done."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


async def test_what_is_left_to_the_write_thread_is_not_forgotten_for_the_next_command(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        node.append_slowly()
        await node.idle()
        with node.writer._queue._changed:  # so the write thread cannot wake up
            node.lone.submit(pending(Register("refused", "{"), node._reply))
            await scheduled()
            assert not node.writer.stat().waiting
            node.submit("next")
            await scheduled()
        await until_async(lambda: len(node.outcomes) + len(node.log.begun) == 2, "both")
        assert [type(each) for each in node.outcomes] == [Refused, Done]


async def test_records_of_another_program_before_ours_are_settled_by_the_write_thread(
    tmp_path: Path,
) -> None:
    async with trial(tmp_path) as node:
        await begin(node, "lone")
        node.log.append([Entry(b"theirs", b"{}")])
        node.log.finish()
        await until_async(lambda: node.outcomes, "the outcome")
        assert isinstance(node.outcomes[0], Done)
        assert node.by_loop == [False]
        assert node.station.store.applied == node.log.end()


async def test_records_that_are_not_at_hand_are_read_by_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await begin(node, "lone")
        node.log.at_hand = False
        node.log.finish()
        await until_async(lambda: node.outcomes, "the outcome")
        assert isinstance(node.outcomes[0], Done)
        assert node.by_loop == [False]


async def test_a_refusal_in_a_cluster_is_confirmed_by_the_write_thread(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        node.append_slowly()
        await node.idle()
        node.lone.submit(pending(Register("s", "{"), node._reply))
        await until_async(lambda: node.outcomes, "the outcome")
        assert isinstance(node.outcomes[0], Refused)
        assert node.by_loop == [False]
        assert not node.log.begun


async def test_a_write_thread_that_stops_waits_for_an_append_of_the_event_loop(tmp_path: Path) -> None:
    async with trial(tmp_path) as node:
        await begin(node, "lone")
        node.write_loop.stop()
        assert node.thread.is_alive()
        node.log.finish()
        await until_async(lambda: not node.thread.is_alive(), "the write thread to end")
        assert isinstance(node.outcomes[0], Done)
