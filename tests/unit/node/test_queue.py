"""Queued commands: their order, and their number."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import NotPrimary, Outcome, Refused, Register, refusal
from registry.domain.errors import FORWARD_FAILED, TOO_MANY_WRITES, UNAVAILABLE
from registry.domain.pending_command import PendingCommand
from registry.node.write.queue import Queue
from tests.support.pending import pending
from tests.support.running import until

LARGE = 2 * LARGE_BYTES


class Trial:
    def __init__(self, bytes_max: int = 1 << 30) -> None:
        self.replies: list[Outcome] = []
        self.now = 0.0
        # Calls that the queue has scheduled.
        self.timers: list[Callable[[], None]] = []
        self.queue = Queue(
            lambda replies: self.replies.extend(outcome for _, outcome in replies),
            lambda: self.now,
            commands_max=100,
            bytes_max=bytes_max,
            timeout_s=1.0,
            call_later=lambda _, call: self.timers.append(call),
        )
        self.queue.open()

    def submit(self, subject: str, size: int = 0) -> bool:
        """Return true if the command waits, and was not refused."""
        replies = len(self.replies)
        self.queue.submit(pending(Register(subject, "x" * size)))
        if len(self.replies) == replies:
            return True
        assert self.replies.pop() == refusal(TOO_MANY_WRITES())
        return False

    def take(self, bytes_max: float, count: int = 100) -> list[str]:
        return names(self.queue.take(count, bytes_max))


def names(taken: list[PendingCommand]) -> list[str]:
    found = []
    for each in taken:
        assert isinstance(each.command, Register)
        found.append(each.command.subject)
    return found


def test_batches_of_small_and_of_large_commands_alternate() -> None:
    trial = Trial()
    for number in range(3):
        trial.submit(f"large{number}", LARGE)
    for number in range(4):
        trial.submit(f"small{number}", LARGE_BYTES // 2)
    assert trial.take(LARGE_BYTES) == ["small0", "small1"]
    assert trial.take(LARGE_BYTES) == ["large0"]
    assert trial.take(LARGE_BYTES) == ["small2", "small3"]
    assert trial.take(LARGE_BYTES) == ["large1"]
    assert trial.take(LARGE_BYTES) == ["large2"]


def test_large_commands_go_together_while_they_fit() -> None:
    trial = Trial()
    for number in range(3):
        trial.submit(f"large{number}", LARGE)
    assert trial.take(2 * LARGE) == ["large0", "large1"]
    assert trial.take(2 * LARGE) == ["large2"]


def test_what_is_put_back_is_taken_first() -> None:
    trial = Trial()
    for number in range(2):
        trial.submit(f"large{number}", LARGE)
        trial.submit(f"small{number}")
    taken = trial.queue.take(100, 1)
    trial.queue.put_back(taken, "")
    assert names(taken) == ["small0"]
    assert [trial.take(1) for _ in range(4)] == [["large0"], ["small0"], ["large1"], ["small1"]]


def test_a_small_command_may_wait_where_no_large_one_may() -> None:
    trial = Trial(bytes_max=8 * LARGE)
    assert 0 < sum(trial.submit("large", LARGE) for _ in range(20)) < 20
    assert trial.submit("small")
    assert [trial.take(1) for _ in range(2)] == [["small"], ["large"]]
    assert trial.submit("large", LARGE), "there is room again"


def test_all_that_wait_get_a_reply_when_the_queue_is_shut() -> None:
    trial = Trial()
    trial.submit("large", LARGE)
    trial.submit("small")
    trial.queue.shut()
    assert trial.replies == [NotPrimary(), NotPrimary()]
    assert len(trial.queue) == 0


def test_commands_are_refused_before_their_deadline_while_the_writer_is_busy() -> None:
    trial = Trial()
    trial.submit("small")
    trial.submit("large", LARGE)
    trial.now = 0.5
    trial.submit("later")
    assert len(trial.timers) == 1, "one timer for all"
    trial.now = 0.95
    trial.timers.pop()()
    assert [each.code for each in trial.replies if isinstance(each, Refused)] == [UNAVAILABLE.code] * 2
    assert trial.take(LARGE) == ["later"]
    trial.timers.pop()()
    assert trial.timers == [], "nothing waits"
    assert trial.submit("another")
    assert len(trial.timers) == 1


def test_a_command_whose_deadline_has_passed_is_neither_taken_nor_queued_again() -> None:
    trial = Trial()
    trial.submit("taken")
    trial.submit("late")
    taken = trial.queue.take(1, 1)
    trial.now = 1.5
    assert trial.take(LARGE) == []
    trial.queue.put_back(taken, "")
    assert len(trial.queue) == 0
    assert [each.code for each in trial.replies if isinstance(each, Refused)] == [UNAVAILABLE.code] * 2


def test_a_refusal_says_that_the_log_cannot_be_reached_until_it_can() -> None:
    trial = Trial()
    for code, reason in ((FORWARD_FAILED.code, "no answer"), (UNAVAILABLE.code, "")):
        trial.submit("s")
        commands = trial.queue.take(1, 1)
        if not reason:
            trial.queue.note_written()
        trial.queue.put_back(commands, reason)
        trial.now += 1.0
        while trial.timers:
            trial.timers.pop()()
        refusal = trial.replies.pop()
        assert isinstance(refusal, Refused)
        assert (refusal.code, refusal.message.endswith(reason or "try again")) == (code, True)


def test_a_writer_that_waits_gets_no_timer_with_a_command_and_wakes_up() -> None:
    trial = Trial()
    taken: list[list[str]] = []
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(lambda: trial.queue.wait(None) and taken.append(trial.take(LARGE)))
        until(lambda: trial.queue.add(pending(Register("first", ""))), 10, "the writer to wait")
        trial.queue.wake()
        waiting.result()
    assert taken[0][-1] == "first"


def test_another_thread_writes_in_place_of_a_writer_that_waits() -> None:
    trial = Trial()
    with ThreadPoolExecutor(1) as threads:
        with trial.queue.in_place_of_writer() as alone:
            assert not alone, "no writer waits"
        waiting = threads.submit(trial.queue.wait, None)
        until(lambda: trial.queue.writer_waits, 10, "the writer to wait")
        assert trial.queue.add(pending(Register("first", "")))
        with trial.queue.in_place_of_writer() as alone:
            assert alone
            assert trial.take(LARGE) == ["first"]
            trial.submit("second")
            assert len(trial.timers) == 1, "a command behind it may wait for long"
            trial.queue.wake()
            with trial.queue.in_place_of_writer() as twice:
                assert not twice
        assert waiting.result() is True, "woken for the second"
        assert trial.take(LARGE) == ["second"]


def wait_displaced(trial: Trial, threads: ThreadPoolExecutor) -> Future[bool]:
    """Have a writer wait for a moment, and another thread take its place within that."""
    while True:
        waiting = threads.submit(trial.queue.wait, 0.05)
        until(lambda it=waiting: it.done() or trial.queue.writer_waits, 10, "the writer to wait")  # type: ignore[misc]
        # Its time may be up, but it cannot leave while this thread holds the lock.
        with trial.queue._changed:
            if trial.queue.writer_waits:
                assert trial.queue.add(pending(Register("first", "")))
                assert trial.queue.displace_writer()
                return waiting


def test_a_writer_whose_time_is_up_waits_for_the_thread_in_its_place_and_no_longer() -> None:
    trial = Trial()
    with ThreadPoolExecutor(1) as threads:
        waiting = wait_displaced(trial, threads)
        assert trial.take(LARGE) == ["first"]
        until(lambda: trial.queue._overdue, 10, "its time to be up")
        assert not waiting.done()
        trial.queue.reinstate_writer()
        try:
            assert waiting.result(10) is False, "it has to look after its claim, and no command waits"
        finally:
            trial.queue.close()


def test_a_writer_gets_what_the_thread_in_its_place_has_left() -> None:
    trial, done = Trial(), list[str]()
    with ThreadPoolExecutor(1) as threads:
        waiting = wait_displaced(trial, threads)
        assert trial.take(LARGE) == ["first"]
        trial.queue.reinstate_writer(lambda: done.append("first"))
        assert waiting.result(10) is True
    left = trial.queue.take_left()
    assert left is not None
    left()
    assert done == ["first"]
    assert trial.queue.take_left() is None


def test_no_thread_takes_the_place_of_a_writer_that_does_not_know_yet_what_is_left_to_it() -> None:
    trial = Trial()
    with ThreadPoolExecutor(1) as threads:
        waiting = wait_displaced(trial, threads)
        assert trial.take(LARGE) == ["first"]
        with trial.queue._changed:  # so it cannot wake up
            trial.queue.reinstate_writer(lambda: None)
            assert not trial.queue.add(pending(Register("second", "")))
            assert not trial.queue.displace_writer()
        assert waiting.result(10) is True
    assert trial.queue.take_left() is not None
    assert trial.take(LARGE) == ["second"]


def test_several_commands_are_left_to_the_writer() -> None:
    trial = Trial()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(trial.queue.wait, None)
        until(lambda: trial.queue.writer_waits, 10, "the writer to wait")
        assert trial.queue.add(pending(Register("first", "")))
        assert trial.queue.add(pending(Register("second", "")))
        with trial.queue.in_place_of_writer() as alone:
            assert not alone
        trial.queue.wake()
        assert waiting.result() is True
    assert trial.take(LARGE) == ["first", "second"]


def test_a_queue_that_closes_while_another_thread_writes_lets_its_writer_go_afterwards() -> None:
    trial = Trial()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(trial.queue.wait, None)
        until(lambda: trial.queue.writer_waits, 10, "the writer to wait")
        assert trial.queue.add(pending(Register("first", "")))
        with trial.queue.in_place_of_writer():
            trial.queue.close()
            assert trial.take(LARGE) == ["first"]
            assert not waiting.done()
        assert waiting.result() is False
