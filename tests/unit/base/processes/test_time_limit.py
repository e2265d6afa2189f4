"""Limits of time for blocks of the main thread."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from registry.base.processes.time_limit import time_limit
from snapshots.building.task import BuildFailed

LONG_S, SHORT_S = 600.0, 0.02


def wait_for_ever() -> None:
    with suppress(Exception):  # As libraries do with whatever they meet.
        threading.Event().wait(LONG_S)


@pytest.fixture(autouse=True)
def no_alarm_is_left() -> object:
    before = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before


def test_what_takes_longer_is_ended_with_the_failure() -> None:
    with pytest.raises(BuildFailed, match="too long"), time_limit(SHORT_S, BuildFailed("too long")):
        wait_for_ever()


def test_what_is_done_in_time_is_not_disturbed() -> None:
    with time_limit(LONG_S, BuildFailed("too long")):
        done = True
    assert done


@pytest.mark.parametrize(("outer_s", "inner_s"), [(SHORT_S, LONG_S), (LONG_S, SHORT_S)])
def test_of_limits_within_limits_the_first_to_pass_counts(outer_s: float, inner_s: float) -> None:
    with (
        pytest.raises(BuildFailed, match="outer" if outer_s < inner_s else "inner"),
        time_limit(outer_s, BuildFailed("outer")),
        time_limit(inner_s, BuildFailed("inner")),
    ):
        wait_for_ever()


def test_the_outer_limit_still_counts_after_an_inner_one() -> None:
    def limited_twice() -> None:
        with time_limit(0.1, BuildFailed("inner")):
            pass
        wait_for_ever()

    with pytest.raises(BuildFailed, match="outer"), time_limit(0.2, BuildFailed("outer")):
        limited_twice()


def test_errors_of_the_block_are_its_own() -> None:
    with pytest.raises(KeyError), time_limit(LONG_S, BuildFailed("too long")):
        raise KeyError


def test_other_threads_are_not_limited() -> None:
    def limited() -> str:
        with time_limit(SHORT_S, BuildFailed("too long")):
            return "done"

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(limited).result() == "done"
