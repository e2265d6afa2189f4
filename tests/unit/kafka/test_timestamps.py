"""Timestamps of records while clocks jump."""

from __future__ import annotations

from registry.log.kafka.timestamps import Timestamps

HOUR_MS = 3_600_000


class Clocks:
    wall = 1_000_000_000_000
    running = 5.0

    def timestamps(self) -> Timestamps:
        return Timestamps(lambda: self.wall, lambda: self.running)

    def pass_(self, seconds: float) -> None:
        self.wall += int(seconds * 1000)
        self.running += seconds


def test_records_have_the_time_of_the_wall_clock_also_when_it_is_set_back() -> None:
    clocks = Clocks()
    timestamps = clocks.timestamps()
    timestamps.record_accepted(timestamps.now())
    clocks.wall -= 24 * HOUR_MS
    assert timestamps.now() == clocks.wall


def test_a_time_from_the_future_is_replaced_by_one_that_is_counted_from_the_last_good_one() -> None:
    clocks = Clocks()
    timestamps = clocks.timestamps()
    good = timestamps.now()
    timestamps.record_accepted(good)
    clocks.pass_(2.0)
    clocks.wall += 24 * HOUR_MS
    bad = timestamps.now()
    assert bad == clocks.wall
    assert timestamps.next_after_rejection(bad) == good + 2000
    timestamps.record_accepted(good + 2000)
    clocks.pass_(3.0)
    assert timestamps.now() == good + 5000


def test_a_clock_that_was_set_right_is_believed_again() -> None:
    clocks = Clocks()
    timestamps = clocks.timestamps()
    timestamps.record_accepted(timestamps.now())
    clocks.wall += 24 * HOUR_MS
    timestamps.next_after_rejection(timestamps.now())
    clocks.wall -= 24 * HOUR_MS
    assert timestamps.now() == clocks.wall


def test_without_a_good_time_there_is_nothing_to_count_from() -> None:
    timestamps = Clocks().timestamps()
    assert timestamps.next_after_rejection(timestamps.now()) is None


def test_a_clock_that_was_rejected_with_nothing_to_count_from_is_ahead_until_it_is_set_back() -> None:
    clocks = Clocks()
    timestamps = clocks.timestamps()
    assert not timestamps.is_ahead
    assert timestamps.next_after_rejection(timestamps.now()) is None
    assert timestamps.is_ahead
    clocks.pass_(60.0)
    assert timestamps.is_ahead, "a running clock is not set right by that"
    clocks.wall -= 2 * HOUR_MS
    assert not timestamps.is_ahead


def test_a_rejected_clock_is_tried_again_because_the_brokers_may_have_been_wrong() -> None:
    clocks = Clocks()
    timestamps = clocks.timestamps()
    assert timestamps.next_after_rejection(timestamps.now()) is None
    clocks.pass_(599.0)
    assert timestamps.is_ahead
    clocks.pass_(2.0)
    assert not timestamps.is_ahead
    assert timestamps.next_after_rejection(timestamps.now()) is None
    assert timestamps.is_ahead
    timestamps.record_accepted(timestamps.now())
    assert not timestamps.is_ahead
