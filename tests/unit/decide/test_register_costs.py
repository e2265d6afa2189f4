"""Registering another version reads, parses and compares as much as registering the second one."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable
from typing import Any

import pytest

from registry.domain.commands import Register
from registry.domain.queries.scope import Defaults
from registry.domain.schemas import FORMATS
from registry.node.write.batch import Decider, Planned
from tests.support.counting_view import CountingView
from tests.support.pending import pending
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


def logical_costs(avro: CountingAvro, level: str, count: int) -> tuple[tuple[int, int, int], Counter[str]]:
    """Return the same under the policy LOGICAL, and how often types are read and compared as tables."""
    small = SmallRegistry()
    small.view = rows = Rows()
    small.config("s", compatibilityLevel=level, compatibilityPolicy="LOGICAL")
    for number in range(count):
        small.register("s", record("R", "a", doc=str(number)))
    calls: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call" and "/schemas/" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    rows.reads = avro.parses = avro.comparisons = 0
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        small.register("s", record("R", "a", doc="new"))
    finally:
        sys.setprofile(before)
    return (rows.reads, avro.parses, avro.comparisons), calls


def test_a_version_under_logical_costs_as_much_however_many_there_are(avro: CountingAvro) -> None:
    many, few = (logical_costs(avro, "BACKWARD", count) for count in (200, 2))
    assert many[0] == few[0]
    assert many[1]["change_findings"] == few[1]["change_findings"] == 2
    assert many[1].total() == few[1].total()


def test_a_transitive_level_under_logical_compares_each_version_once_a_way_and_engine(
    avro: CountingAvro,
) -> None:
    costs, calls = logical_costs(avro, "FULL_TRANSITIVE", 60)
    assert costs[2] == 2 * 60
    assert calls["change_findings"] == 2 * 2 * 60
    # The types of schemas that are kept are kept too.
    assert calls["read"] < 10


def batch_reads(count: int) -> int:
    """Return how many rows of the store are read to decide a batch that registers schemas of new subjects."""
    rows, commands = CountingView(), [Register(f"s{n}", record(f"R{n}", "a")) for n in range(count)]
    batch = Decider(Defaults(), 100).decide(rows, map(pending, commands), base=0, now=1, bytes_max=10_000)
    assert all(isinstance(each, Planned) for each in batch.plans)
    return rows.reads


def test_what_all_commands_of_a_batch_ask_for_is_read_once() -> None:
    batch_reads(1)  # what is found out once
    # Configs and modes are the subject's own; the others, and what a census says, are known.
    assert batch_reads(22) - batch_reads(12) <= 10 * 8
    # A lone command has no records before it to be shown.
    assert batch_reads(1) <= 12
