"""The comparison of two revisions: what it takes for dearer."""

from __future__ import annotations

import pytest

from bench.ab import CPU, FUNCTIONS, LOADS, PAGES, RATE, SYSTEM_CALLS, Measure, compare, has_risen


@pytest.mark.parametrize(
    ("measure", "before", "after", "risen"),
    [
        (FUNCTIONS, [67.0, 67.1], [68.0, 69.0], True),
        (FUNCTIONS, [67.0, 67.1], [67.4, 90.0], False),  # the least counts
        (FUNCTIONS, [1000.0], [1009.0], False),  # runs of one revision differ by so much
        (FUNCTIONS, [1000.0], [1011.0], True),
        (PAGES, [0.0], [1.0], True),
        (SYSTEM_CALLS, [3.0], [2.0], False),
        (CPU, [20.0], [40.0], False),  # not a count
        (RATE, [20.0], [40.0], False),
    ],
)
def test_a_count_has_risen_if_its_least_differs_by_more_than_runs_do(
    measure: Measure, before: list[float], after: list[float], risen: bool
) -> None:
    assert has_risen(measure, before, after) is risen


def test_the_table_has_medians_and_least_values_and_names_what_is_dearer() -> None:
    before = {("by id", CPU): [20.0, 24.0, 22.0], ("by id", FUNCTIONS): [52.0], ("latest", PAGES): [0.0]}
    after = {("by id", CPU): [26.0, 25.0, 24.0], ("by id", FUNCTIONS): [60.0], ("latest", PAGES): [0.0]}
    rows, dearer = compare(before, after, None)
    assert rows == [
        "| by id: CPU, µs | 22.0 (20.0) | 25.0 (24.0) | 1.14 |  |",
        "| by id: calls of functions | 52.0 (52.0) | 60.0 (60.0) | 1.15 | risen |",
        "| latest: page writes | 0.0 (0.0) | 0.0 (0.0) | 1.00 |  |",
    ]
    assert dearer == ["by id: calls of functions"]


@pytest.mark.parametrize(("bound", "dearer"), [(10.0, ["by id: CPU, µs"]), (20.0, [])])
def test_cpu_is_dearer_above_the_given_bound(bound: float, dearer: list[str]) -> None:
    before, after = {("by id", CPU): [20.0, 22.0, 24.0]}, {("by id", CPU): [24.0, 25.0, 26.0]}
    assert compare(before, after, bound)[1] == dearer


def test_every_load_can_be_sent_over_one_connection_and_by_wrk() -> None:
    for load in LOADS.values():
        assert load.method in {"GET", "POST"}
        assert load.path.format(n=1).startswith("/")
        assert "function request()" in load.script
