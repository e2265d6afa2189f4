"""Registering another version reads, parses and compares as much as registering the second one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from registry.domain.parsing.parser import Parser
from tests.unit.decide.test_delete_costs import Counting
from tests.unit.small_registry import SmallRegistry, record


class Rows(Counting):
    """Rows of which it is known that subjects have only grown at the top."""

    def revision(self) -> Hashable | None:  # type: ignore[override]
        return 1


class CountingParser(Parser):
    """A parser that counts what it parses and compares."""

    parsed = compared = 0

    def parse(self, *source: Any, **options: Any) -> Any:
        self.parsed += 1
        return super().parse(*source, **options)

    def differences(self, *schemas: Any, **options: Any) -> Any:
        self.compared += 1
        return super().differences(*schemas, **options)


def costs(level: str, count: int) -> tuple[int, int, int]:
    """Return how often rows are read and schemas parsed and compared for a version on top of so many."""
    small = SmallRegistry()
    rows, parser = Rows(), CountingParser()
    small.view, small.parser = rows, parser
    small.level("s", level)
    for number in range(count):
        small.register("s", record("R", "a", f"b{number}?"))
    rows.reads = parser.parsed = parser.compared = 0
    small.register("s", record("R", "a", "new?"))
    return rows.reads, parser.parsed, parser.compared


@pytest.mark.parametrize("level", ["NONE", "BACKWARD"])
def test_a_version_costs_as_much_however_many_there_are(level: str) -> None:
    assert costs(level, 200) == costs(level, 2)


def test_a_transitive_level_costs_one_comparison_each_way_a_version() -> None:
    assert costs("FULL_TRANSITIVE", 60)[2] == 2 * 60
