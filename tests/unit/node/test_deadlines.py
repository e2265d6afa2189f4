"""Calls that are due at some time: each once, in order, by one thread that is there while there are some."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from queue import SimpleQueue

import pytest

from registry.node.write.deadlines import Deadlines
from tests.running import until

LONG_S = 1_000.0


def serving() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "deadlines"]


def test_what_is_due_is_called_in_the_order_of_the_times_and_then_the_thread_ends() -> None:
    called: SimpleQueue[str] = SimpleQueue()
    deadlines, begun = Deadlines(), threading.Event()
    others = serving()
    now = time.monotonic()
    deadlines.add(now - 4, begun.wait)
    late = deadlines.add(now + LONG_S, lambda: called.put("late"))
    for name, at in (("third", now - 1), ("second", now - 2), ("first", now - 3)):
        deadlines.add(at, lambda name=name: called.put(name))
    (thread,) = (each for each in serving() if each not in others)
    begun.set()
    assert [called.get(timeout=30) for _ in range(3)] == ["first", "second", "third"]
    assert thread.is_alive()

    def last() -> None:
        late.drop()
        called.put("last")

    deadlines.add(now, last)
    thread.join(30)
    assert not thread.is_alive()
    assert [called.get_nowait(), called.empty()] == ["last", True]
    deadlines.add(now, lambda: called.put("again"))
    assert called.get(timeout=30) == "again"


class Command:
    def late(self) -> None: ...


def test_what_is_dropped_is_not_held() -> None:
    command = Command()
    held = weakref.ref(command)
    deadlines = Deadlines()
    deadline = deadlines.add(time.monotonic() + LONG_S, command.late)
    deadline.drop()
    del command
    assert held() is None
    deadlines.add(time.monotonic(), lambda: None)  # the thread looks, and finds nothing more to wait for


def test_what_was_called_is_not_held_while_the_next_one_is_waited_for() -> None:
    command = Command()
    held = weakref.ref(command)
    deadlines = Deadlines()
    next_one = deadlines.add(time.monotonic() + LONG_S, lambda: None)
    deadlines.add(time.monotonic(), command.late)
    del command
    until(lambda: held() is None, 30, "the command to be let go")
    next_one.drop()
    deadlines.add(time.monotonic(), lambda: None)


def test_a_call_that_fails_does_not_keep_the_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()
    deadlines = Deadlines()
    now = time.monotonic()
    with caplog.at_level(logging.ERROR):
        deadlines.add(now + 0.01, lambda: 1 // 0)
        deadlines.add(now + 0.02, called.set)
        assert called.wait(30)
    assert "what was due has failed" in caplog.text


def test_a_machine_without_threads_is_said_and_the_next_call_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    called: SimpleQueue[int] = SimpleQueue()
    deadlines = Deadlines()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        deadlines.add(time.monotonic(), lambda: called.put(1))
    assert "no thread to look at the clock" in caplog.text
    deadlines.add(time.monotonic(), lambda: called.put(2))
    assert [called.get(timeout=30), called.get(timeout=30)] == [1, 2]
