"""Comparisons of transitive levels: each model once, and none again."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain import compatibility, parsing, versions
from registry.domain.commands import Register
from registry.domain.model import Subject
from registry.domain.parser import Parser
from registry.domain.scope import Config
from tests.unit.small_registry import SmallRegistry, properties, record

SUBJECT = Subject(".", "s")
NEW = record("R", "a", "new?")


class Counting(Parser):
    """A parser that counts what it compares."""

    compared = 0

    def differences(self, *schemas: Any, **options: Any) -> Any:
        self.compared += 1
        return super().differences(*schemas, **options)


@pytest.fixture
def registry() -> SmallRegistry:
    small = SmallRegistry()
    small.parser = Counting()
    small.level("s", "NONE")
    for number in range(10):
        small.register("s", record("R", "a", f"b{number % 5}?"), metadata=properties(k=str(number)))
    return small


def compared(registry: SmallRegistry, text: str = NEW, **config: Any) -> tuple[int, bool]:
    """How many comparisons a check takes, and whether it passes."""
    parser = registry.parser
    assert isinstance(parser, Counting)
    before = parser.compared
    request = Register("s", text)
    content = parsing.read(registry.view, parser, SUBJECT, request, new=True, normalize=False)
    earlier = versions.versions(registry.view, SUBJECT, newest_first=True)
    messages = compatibility.check(
        registry.view, parser, content, earlier, Config(**config), registry.defaults
    )
    return parser.compared - before, not messages


def test_versions_of_one_model_are_compared_once(registry: SmallRegistry) -> None:
    assert compared(registry, compatibility_level="BACKWARD_TRANSITIVE") == (5, True)


def test_a_check_that_is_repeated_compares_nothing(registry: SmallRegistry) -> None:
    compared(registry, compatibility_level="FULL_TRANSITIVE")

    assert compared(registry, compatibility_level="FULL_TRANSITIVE") == (0, True)
    registry.register("s", record("R", "a", "c?"))
    assert compared(registry, compatibility_level="FULL_TRANSITIVE") == (2, True)


def test_a_verdict_counts_for_its_level_and_schema_only(registry: SmallRegistry) -> None:
    removed, added = record("R"), record("R", "a", "new")

    assert compared(registry, removed, compatibility_level="BACKWARD_TRANSITIVE")[1]
    assert not compared(registry, removed, compatibility_level="FORWARD_TRANSITIVE")[1]
    assert not compared(registry, added, compatibility_level="BACKWARD_TRANSITIVE")[1]
    assert compared(registry, added, compatibility_level="FORWARD_TRANSITIVE")[1]


def test_what_is_not_compatible_is_told_again(registry: SmallRegistry) -> None:
    added = record("R", "a", "new")

    assert not compared(registry, added, compatibility_level="BACKWARD_TRANSITIVE")[1]
    assert not compared(registry, added, compatibility_level="BACKWARD_TRANSITIVE")[1]
