"""The time for which something has not responded."""

from __future__ import annotations

import asyncio
import time

from registry.base.observe.metrics import REMEMBERED_S, Pauses, Pulse
from tests.support.running import until_async


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_longest_pause_is_reported_for_a_while() -> None:
    clock = Clock()
    pauses = Pauses(clock)
    assert pauses.longest_s() == pauses.age_s() == 0
    for seconds in (1, 5, 2):
        pauses.beat()
        clock.now += seconds
    assert pauses.longest_s() == 5
    clock.now += 4
    assert (pauses.age_s(), pauses.longest_s()) == (6, 6), "the pause under way counts"
    pauses.beat()
    for _ in range(round(2 * REMEMBERED_S) + 10):
        clock.now += 1
        pauses.beat()
    assert pauses.longest_s() == 1


def test_a_loop_that_does_something_else_is_late() -> None:
    async def keep() -> float:
        pulse = Pulse()
        pulse.start()
        busy = time.monotonic() + 0.5
        while time.monotonic() < busy:
            pass
        await until_async(lambda: pulse.lag_s() > 0.3, "the lag to be told")
        pulse.stop()
        return pulse.lag_s()

    assert asyncio.run(keep()) >= 0.3
