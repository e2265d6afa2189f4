"""The cache of what was verified a short time ago."""

from __future__ import annotations

from registry.security.authentication.verification import Recent


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_used_stays_and_what_is_not_goes() -> None:
    clock = Clock()
    recent: Recent[int] = Recent(10.0, 100, clock)
    recent.put("used", 1)
    recent.put("unused", 2)
    for _ in range(30):
        clock.now += 5.0
        assert recent.get("used") == 1
    assert recent.get("unused") is None


def test_nothing_outlives_two_periods_without_any_use() -> None:
    clock = Clock()
    recent: Recent[int] = Recent(10.0, 100, clock)
    recent.put("a", 1)
    clock.now += 20.0
    assert recent.get("a") is None


def test_the_number_of_entries_is_bounded() -> None:
    recent: Recent[int] = Recent(10.0, 100, Clock())
    for number in range(1000):
        recent.put(str(number), number)
        assert recent.get("0" if number < 50 else str(number)) is not None
    assert recent.get("999") == 999
    assert sum(recent.get(str(number)) is not None for number in range(1000)) <= 200


def test_all_and_one_can_be_forgotten() -> None:
    recent: Recent[int] = Recent(10.0, 100, Clock())
    recent.put("a", 1)
    recent.put("b", 2)
    recent.drop("a")
    recent.drop("c")
    assert (recent.get("a"), recent.get("b")) == (None, 2)
    recent.clear()
    assert recent.get("b") is None
