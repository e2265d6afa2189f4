"""Registering another version reads, parses and compares as much as registering the second one."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from registry.domain.schemas import FORMATS
from tests.support.counting_view import CountingView
from tests.unit.small_registry import CountingAvro, SmallRegistry, record


class Rows(CountingView):
    """Rows that report that subjects have only grown at the top."""

    def revision(self) -> Hashable | None:  # type: ignore[override]
        return 1


@pytest.fixture
def avro(monkeypatch: pytest.MonkeyPatch) -> CountingAvro:
    counting = CountingAvro()
    monkeypatch.setitem(FORMATS, "AVRO", counting)
    return counting


def costs(avro: CountingAvro, level: str, count: int) -> tuple[int, int, int]:
    """Return how many rows are read, and schemas parsed and compared, for one version more."""
    small = SmallRegistry()
    small.view = rows = Rows()
    small.level("s", level)
    for number in range(count):
        small.register("s", record("R", "a", f"b{number}?"))
    rows.reads = avro.parses = avro.comparisons = 0
    small.register("s", record("R", "a", "new?"))
    return rows.reads, avro.parses, avro.comparisons


@pytest.mark.parametrize("level", ["NONE", "BACKWARD"])
def test_a_version_costs_as_much_however_many_there_are(avro: CountingAvro, level: str) -> None:
    assert costs(avro, level, 200) == costs(avro, level, 2)


def test_a_transitive_level_costs_one_comparison_each_way_a_version(avro: CountingAvro) -> None:
    assert costs(avro, "FULL_TRANSITIVE", 60)[2] == 2 * 60
