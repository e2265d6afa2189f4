"""Comparisons of transitive levels: each model once, and none again."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.commands import Register
from registry.domain.compatibility import checks, verdicts
from registry.domain.lookup import registration
from registry.domain.lookup.registration import Content
from registry.domain.model import Subject
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import Config
from registry.domain.schemas import FORMATS
from tests.unit.small_registry import CountingAvro, SmallRegistry, properties, record

SUBJECT = Subject(".", "s")
NEW = record("R", "a", "new?")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> SmallRegistry:
    monkeypatch.setitem(FORMATS, "AVRO", CountingAvro())
    small = SmallRegistry()
    small.level("s", "NONE")
    for number in range(10):
        small.register("s", record("R", "a", f"b{number % 5}?"), metadata=properties(k=str(number)))
    return small


def compared(registry: SmallRegistry, text: str = NEW, **config: Any) -> tuple[int, bool]:
    """Return how many comparisons a check takes, and if it passes."""
    parser = registry.parser
    content = read(registry, Register("s", text))
    earlier = versions.versions(registry.view, SUBJECT, newest_first=True)
    steps = checks.check(registry.view, parser.memory, content, earlier, Config(**config), registry.defaults)
    avro = FORMATS["AVRO"]
    assert isinstance(avro, CountingAvro)
    before = avro.comparisons
    messages = parser.run(steps)
    return avro.comparisons - before, not messages


def read(registry: SmallRegistry, request: Register) -> Content:
    steps = registration.read(registry.view, SUBJECT, request, new=True, normalize=False)
    return registry.parser.run(steps)


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


def test_what_is_not_compatible_is_reported_again(registry: SmallRegistry) -> None:
    added = record("R", "a", "new")

    assert not compared(registry, added, compatibility_level="BACKWARD_TRANSITIVE")[1]
    assert not compared(registry, added, compatibility_level="BACKWARD_TRANSITIVE")[1]


@pytest.mark.parametrize("level", ["FULL_TRANSITIVE", "BACKWARD_TRANSITIVE"])
def test_rows_that_are_known_to_pass_are_not_even_unpacked(registry: SmallRegistry, level: str) -> None:
    assert compared(registry, compatibility_level=level)[1]

    assert left(registry, NEW, compatibility_level=level) == []
    registry.register("s", record("R", "a", "c?"))
    assert left(registry, NEW, compatibility_level=level) == [11]
    assert len(left(registry, record("R", "a", "d?"), compatibility_level=level)) == 11
    assert len(left(registry, NEW, compatibility_level="FORWARD_TRANSITIVE")) == 11
    assert len(left(registry, NEW, compatibility_level=level, validate_fields=True)) == 11
    assert len(left(registry, NEW, compatibility_level=level.partition("_")[0])) == 11


def left(registry: SmallRegistry, text: str, **config: Any) -> list[int]:
    """Return the versions that a check of a text would look at."""
    request = Register("s", text)
    content = read(registry, request)
    passes = verdicts.known_to_pass(registry.parser.memory, content, Config(**config), registry.defaults)
    earlier = versions.versions(registry.view, SUBJECT, newest_first=True, leave_out=passes)
    return [each.version for each in earlier]


def test_a_type_of_schema_is_part_of_what_passes(registry: SmallRegistry) -> None:
    text = '{"type":"string","title":"t"}'  # Both store it alike.
    registry.level("t", "NONE")
    registry.register("t", text)
    registry.register("t", text, schema_type="JSON")
    for kind in ("AVRO", "JSON"):
        content = read(registry, Register("t", text, kind))
        config = Config(compatibility_level="BACKWARD_TRANSITIVE")
        earlier = versions.versions(registry.view, Subject(".", "t"))
        same = [each for each in earlier if entities.schema_type(each.row) == kind]
        memory = registry.parser.memory
        steps = checks.check(registry.view, memory, content, same, config, registry.defaults)
        assert not registry.parser.run(steps)
        passes = verdicts.known_to_pass(memory, content, config, registry.defaults)
        assert passes is not None
        packed = [each.row.pack() for each in versions.versions(registry.view, Subject(".", "t"))]
        assert [passes(each) for each in packed].count(True) == 1
