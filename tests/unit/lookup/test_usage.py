"""The versions that a schema is compared with at a level for those in use."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from registry.api.association_requests import resource_request
from registry.domain.commands import Associate, PutCensus, PutUsage, Refused
from registry.domain.log_format import usage as stored
from registry.domain.lookup import usage
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.queries.scope import Config, Defaults
from registry.domain.queries.walks import run_search
from registry.node.write.batch import Decider
from tests.support.pending import pending
from tests.unit.small_registry import SmallRegistry, properties, record, reference

S = Subject(".", "s")
# After the records of a small registry, whose times are 1000, 1001, …
LATER = 1_000_000


def census(small: SmallRegistry, *ids: int, context: str = ".", **members: Any) -> stored.Census:
    """Publish a census that has found messages with these ids."""
    uses = [["value", "id", each, 1, 60, 1, 2, True] for each in ids]
    source = {"census": "c", "state": "read", "messages": 1, "context": context, "uses": uses}
    small.submit(PutUsage("s", orjson.dumps(source)))
    found = {"id": "c", "location": "/c", "sha256": "0", "started": LATER, "ended": LATER, "complete": True}
    small.submit(PutCensus(orjson.dumps(found | members)))
    newest = stored.census(small.view)
    assert newest is not None
    return newest


def needed(small: SmallRegistry, newest: stored.Census, group: str | None = None, **more: Any) -> list[int]:
    found = [each.version for each in usage.needed_versions(small.view, S, newest, group, **more)]
    if not more:
        searched = run_search(usage.find_needed(small.view, S, newest, group))
        assert [each.version for each in searched] == found
    return found


def test_the_latest_version_and_those_in_use_are_needed_also_by_reference() -> None:
    small = SmallRegistry(Defaults("NONE"))
    for field in "abcde":
        small.place("s", record("R", field))
    small.place("user", record("U", "x"), references=[reference("s", 2)])
    small.delete("s", 3)
    assert needed(small, census(small, 3, 6)) == [5, 3, 2]
    assert needed(small, census(small)) == [5]


def test_what_messages_need_through_a_soft_deleted_version_is_needed() -> None:
    small = SmallRegistry(Defaults("NONE"))
    for field in "ab":
        small.place("s", record("R", field))
    small.place("user", record("U", "x"), references=[reference("s", 1)])
    small.delete("user", 1)
    assert needed(small, census(small, 3)) == [2, 1]
    assert needed(small, census(small)) == [2]


def test_a_census_says_nothing_of_versions_that_were_registered_after_it_began() -> None:
    small = SmallRegistry(Defaults("NONE"))
    for field in "abc":
        small.place("s", record("R", field))
    second = versions.get(small.view, S, 2)
    assert second is not None
    assert needed(small, census(small, started=second.ts)) == [3, 2]
    assert needed(small, census(small, started=second.ts + 1)) == [3]


def test_what_refers_to_versions_is_examined_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallRegistry(Defaults("NONE"))
    for field in "abc":
        small.place("s", record("R", field))
    for version in (1, 2):
        for number in range(2):
            small.place(f"u{version}{number}", record("U", "x"), references=[reference("s", version)])
    newest = census(small)
    assert needed(small, newest) == [3]
    monkeypatch.setattr(usage, "EXAMINED_MAX", 3)
    assert needed(small, newest) == [3, 1]  # Nobody has looked whether version 1 is in use.
    monkeypatch.setattr(usage, "EXAMINED_MAX", 0)
    assert needed(small, newest) == [3, 2, 1]


def test_each_group_has_a_latest_version() -> None:
    small = SmallRegistry(Defaults("NONE"))
    for field, major in zip("abcd", "1121", strict=True):
        small.place("s", record("R", field), metadata=properties(major=major))
    small.delete("s", 4)
    newest = census(small)
    assert needed(small, newest) == [3]
    assert needed(small, newest, "major") == [3, 2]
    assert needed(small, newest, "major", leave_out=lambda _: True) == [3, 2]


@pytest.mark.parametrize(
    ("level", "used", "named"),
    [("BACKWARD_TRANSITIVE", True, True), ("BACKWARD_TRANSITIVE", None, False), ("BACKWARD", True, False)],
)
def test_only_a_transitive_level_can_be_for_versions_in_use(
    level: str, used: bool | None, named: bool
) -> None:
    small = SmallRegistry()
    census(small)
    config = Config(compatibility_level=level, compatibility_used=used)
    basis = usage.basis_of(small.view, config, Defaults(now=LATER))
    assert (basis is not None) is named


@pytest.mark.parametrize("old", [True, False])
def test_an_old_census_decides_about_no_schema_of_an_association_either(old: bool) -> None:
    small = SmallRegistry(Defaults("NONE"))

    def associate(*fields: str, create: bool) -> Associate:
        value = {"subject": ":.n:t-value", "associationType": "value", "lifecycle": "STRONG"}
        with_schema = {**value, "schema": {"schema": record("R", *fields)}}
        body = {
            "resourceName": "t",
            "resourceNamespace": "n",
            "resourceId": "i",
            "associations": [with_schema],
        }
        return Associate(resource_request(orjson.dumps(body), create=create), ".", create=create)

    small.submit(associate("a", create=True))
    for field in ("b", "c"):
        small.place(":.n:t-value", record("R", field))
    small.config(":.n:t-value", compatibilityLevel="FORWARD_USED")
    census(small, ended=LATER if old else time.time_ns() // 1_000_000, context=".n")
    command = associate("c", "d", create=False)
    decider = Decider(Defaults(), 100)
    [plan] = decider.decide(small.view, [pending(command)], base=0, now=1, bytes_max=1 << 20).plans
    assert isinstance(plan, Refused) is old
    if isinstance(plan, Refused):
        assert "Compared with all versions: the newest census, c, ended" in plan.message
