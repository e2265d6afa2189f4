"""Pauses between attempts."""

from __future__ import annotations

import pytest

from registry.webhooks.message import RETRY_AFTER_MAX_S, pause_s, retry_after_s

NOW_S = 1_700_000_000.0


def test_pauses_double_up_to_a_limit() -> None:
    assert [pause_s(failures, 10, 0) for failures in (1, 2, 3, 4, 5, 10_000)] == [1, 2, 4, 8, 10, 10]
    assert pause_s(10_000, 1e9, 0) == 2**20


def test_chance_takes_away_up_to_half() -> None:
    assert [pause_s(3, 60, chance) for chance in (0, 0.5, 1)] == [4, 3, 2]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0), ("", 0), ("7", 7), (" 7 ", 7), ("-7", 0), ("7.5", 0), ("soon", 0), ("٧", 0),
        ("99999999999999999999", RETRY_AFTER_MAX_S), ("Tue, 14 Nov 2023 22:13:50 GMT", 30),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0), ("Tue, 14 Nov 9999 22:13:00 GMT", RETRY_AFTER_MAX_S),
        ("Tue, 99 Nov 2023 22:13:00 GMT", 0),
    ],
)  # fmt: skip
def test_receivers_may_ask_for_a_pause(value: str | None, seconds: float) -> None:
    assert retry_after_s(value, NOW_S) == seconds
