"""Slowing down guesses of passwords by address."""

from __future__ import annotations

import pytest

from registry.security.authentication import verification
from registry.security.authentication.verification import FREE_FAILURES, Throttle

HERE = "192.0.2.1"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fail(throttled: Throttle, address: str = HERE) -> float:
    """Return the seconds to wait, or 0 if a guess was made, which failed."""
    wait_s = throttled.begin(address)
    if not wait_s:
        throttled.end(address, failed=True)
    return wait_s


def test_each_failure_doubles_the_time_for_which_an_address_is_blocked() -> None:
    clock = Clock()
    throttled = Throttle(clock=clock)
    assert [fail(throttled) for _ in range(FREE_FAILURES + 1)] == [0.0] * (FREE_FAILURES + 1)
    blocked = []
    for _ in range(6):
        blocked.append(fail(throttled))
        clock.now += blocked[-1]
        assert fail(throttled) == 0.0
    assert blocked == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize("processes", [2, 4, 16])
def test_a_client_that_is_spread_over_processes_may_guess_no_more_than_at_one(processes: int) -> None:
    alone, together = (guesses_in_an_hour(count) for count in (1, processes))
    assert together <= 1.1 * alone + processes


def guesses_in_an_hour(processes: int) -> int:
    """Return how often a client can guess that tries each process again and again."""
    clock = Clock()
    throttles = [Throttle(processes, clock) for _ in range(processes)]
    count = 0
    for _ in range(4 * 3600):
        count += sum(not fail(each) for each in throttles)
        clock.now += 0.25
    return count


def test_another_address_is_not_blocked() -> None:
    throttled = Throttle(clock=Clock())
    while not fail(throttled):
        pass
    assert fail(throttled, "192.0.2.2") == 0.0


def test_an_address_without_failures_for_a_minute_begins_again() -> None:
    clock = Clock()
    throttled = Throttle(clock=clock)
    while not fail(throttled):
        pass
    clock.now += verification.FORGOTTEN_AFTER_S + 1
    assert [fail(throttled) for _ in range(FREE_FAILURES + 1)] == [0.0] * (FREE_FAILURES + 1)


def test_guesses_at_once_count_before_they_have_failed() -> None:
    throttled = Throttle(clock=Clock())
    waits = [throttled.begin(HERE) for _ in range(verification.PENDING_OF_ADDRESS_MAX + 1)]
    assert waits == [0.0] * verification.PENDING_OF_ADDRESS_MAX + [verification.FIRST_DELAY_S]
    for _ in range(verification.PENDING_OF_ADDRESS_MAX):
        throttled.end(HERE, failed=False)
    assert throttled.begin(HERE) == 0.0


def test_right_passwords_are_never_throttled_and_leave_nothing_behind() -> None:
    throttled = Throttle(clock=Clock())
    for number in range(100):
        assert throttled.begin(f"192.0.2.{number}") == 0.0
        throttled.end(f"192.0.2.{number}", failed=False)
    assert len(throttled) == 0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2001:db8::1", "2001:db8::ffff:1"),  # one client may have a whole network
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth0"),
    ],
)
def test_addresses_that_one_client_can_have_count_as_one(first: str, second: str) -> None:
    throttled = Throttle(clock=Clock())
    while not fail(throttled, first):
        pass
    assert fail(throttled, second) > 0.0


def test_the_table_of_addresses_is_bounded() -> None:
    throttled = Throttle(clock=Clock())
    for number in range(verification.ADDRESSES_MAX + 10):
        fail(throttled, f"address {number}")
    assert len(throttled) == verification.ADDRESSES_MAX
