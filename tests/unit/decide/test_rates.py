"""Writes of each principal in a minute."""

from __future__ import annotations

import pytest

from registry.domain.admission import PRINCIPALS_MAX, WriteRates
from registry.domain.errors import RegistryError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refusal(rates: WriteRates, name: str, per_minute: int) -> RegistryError:
    with pytest.raises(RegistryError) as refused:
        rates.take(name, per_minute)
    return refused.value


def write(rates: WriteRates, name: str, per_minute: int) -> None:
    """Make one write, alone in its batch."""
    rates.begin()
    rates.take(name, per_minute)
    rates.pay()


def test_what_a_minute_allows_may_come_at_once_and_then_evenly() -> None:
    clock = Clock()
    rates = WriteRates(clock)
    for _ in range(6):
        write(rates, "alice", 6)
    error = refusal(rates, "alice", 6)
    assert (error.code, error.retry_after_s) == (429, 10)
    clock.now += 9.9
    assert refusal(rates, "alice", 6).retry_after_s == 1
    clock.now += 0.2
    write(rates, "alice", 6)
    assert refusal(rates, "alice", 6).retry_after_s == 10


def test_principals_are_counted_separately() -> None:
    rates = WriteRates(Clock())
    write(rates, "alice", 1)
    write(rates, "bob", 1)
    refusal(rates, "alice", 1)


def test_a_lower_limit_applies_to_writes_saved_up_before() -> None:
    rates = WriteRates(Clock())
    write(rates, "alice", 100)
    write(rates, "alice", 1)
    refusal(rates, "alice", 1)


def test_without_a_limit_nothing_is_counted() -> None:
    rates = WriteRates(Clock())
    for _ in range(1000):
        write(rates, "alice", 0)
    write(rates, "alice", 1)


def test_the_principals_that_are_remembered_are_bounded() -> None:
    rates = WriteRates(Clock())
    write(rates, "first", 1)
    for at in range(PRINCIPALS_MAX):
        write(rates, f"p{at}", 1)
    write(rates, "first", 1)
    refusal(rates, f"p{PRINCIPALS_MAX - 1}", 1)


def test_writes_of_a_batch_count_against_each_other_and_are_kept_only_if_they_are_paid_for() -> None:
    rates = WriteRates(Clock())
    for _ in range(3):
        rates.begin()
        rates.take("alice", 2)
        rates.take("alice", 2)
        refusal(rates, "alice", 2)
    rates.pay()
    rates.begin()
    refusal(rates, "alice", 2)
