"""Counts of the refusals of unknown clients."""

from __future__ import annotations

from collections.abc import Callable

from registry.audit.log import ADDRESSES_MAX, EVERY_S, OTHERS, Refusals, RequestEntry


class Timers:
    """A clock that calls functions when it is set forward."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._calls.append((self.now + delay_s, call))

    def forward(self, seconds: float) -> None:
        self.now += seconds
        due = [call for at, call in self._calls if at <= self.now]
        self._calls = [each for each in self._calls if each[0] > self.now]
        for call in due:
            call()

    @property
    def running(self) -> int:
        return len(self._calls)


def refused(address: str, path: str = "/subjects") -> RequestEntry:
    return RequestEntry(f"GET {path}", "r", "", address, "", 401, 401, admitted=False)


def refusals() -> tuple[Refusals, Timers, list[RequestEntry]]:
    timers, found = Timers(), list[RequestEntry]()
    return Refusals(found.append, timers.later), timers, found


def test_an_address_has_an_entry_a_second_that_says_how_many_requests_it_stands_for() -> None:
    counted, timers, found = refusals()
    for second in range(3):
        for number in range(1000):
            counted.add(refused("192.0.2.1", f"/{second}-{number}"))
            assert len(found) == second + 1
        timers.forward(EVERY_S)
    assert [(each.operation, each.requests) for each in found] == [
        ("GET /0-0", 1), ("GET /0-999", 999), ("GET /1-999", 1000), ("GET /2-999", 1000),
    ]  # fmt: skip
    assert sum(each.requests for each in found) == 3000


def test_an_address_that_has_stopped_is_forgotten() -> None:
    counted, timers, found = refusals()
    for _ in range(2):
        counted.add(refused("192.0.2.1"))
        timers.forward(EVERY_S)
        assert timers.running == 0
    assert [each.requests for each in found] == [1, 1]


def test_addresses_do_not_wait_for_each_other() -> None:
    counted, _, found = refusals()
    for number in range(ADDRESSES_MAX):
        counted.add(refused(f"192.0.2.{number}"))
    assert len(found) == ADDRESSES_MAX


def test_of_very_many_addresses_the_further_ones_are_counted_together() -> None:
    counted, timers, found = refusals()
    for number in range(10_000):
        counted.add(refused(f"address {number}"))
    assert timers.running == ADDRESSES_MAX + 1
    timers.forward(EVERY_S)
    assert len(found) == ADDRESSES_MAX + 2
    assert (found[-1].address, found[-1].requests) == (OTHERS, 10_000 - ADDRESSES_MAX - 1)
    assert sum(each.requests for each in found) == 10_000


def test_what_was_counted_is_recorded_at_the_end() -> None:
    counted, _, found = refusals()
    for _ in range(5):
        counted.add(refused("192.0.2.1"))
    counted.close()
    assert [each.requests for each in found] == [1, 4]
