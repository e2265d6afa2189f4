"""The records of a census: parts of long usages, what says nothing new, and what is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.domain.commands import DeleteUsage, PutCensus, PutUsage, repeatable
from registry.domain.log_format import records, usage
from registry.domain.log_format.usage import PART_USES_MAX, Use
from registry.domain.rows import layout
from registry.domain.rows.view import scan
from tests.unit.small_registry import SmallRegistry

GUID = "00000000-0000-0000-0000-00000000000a"
CENSUS = {"id": "c1", "location": "/census/c1", "sha256": "00", "started": 10, "ended": 20, "complete": True}


def use(schema: int | str = 1, messages: int = 3, **more: Any) -> list[Any]:
    framing = "id" if isinstance(schema, int) else "guid"
    return [more.get("side", "value"), more.get("framing", framing), schema, messages, 60, 1, 2, True]


def put(*uses: list[Any], source: str = "orders", **members: Any) -> PutUsage:
    value = {"census": "c1", "state": "read", "ms": 5, "messages": 3, "uses": uses, **members}
    return PutUsage(source, orjson.dumps(value))


def census(**members: Any) -> PutCensus:
    return PutCensus(orjson.dumps(CENSUS | members))


def test_a_source_is_found_by_the_ids_and_guids_that_it_uses() -> None:
    small = SmallRegistry()
    small.submit(put(use(7), use(7, side="key"), use(GUID), context=".c"))
    small.submit(put(use(7), source="other"))
    found = list(usage.uses_of(small.view, ".c", [7, bytes(15) + b"\x0a"]))
    assert [(each.source, each.use.side, each.use.schema) for each in found] == [
        ("orders", "value", 7), ("orders", "key", 7), ("orders", "value", GUID),
    ]  # fmt: skip
    assert [each.source for each in usage.uses_of(small.view, ".", [7])] == ["other"]


def test_a_source_with_a_long_name_is_found_by_its_whole_name() -> None:
    small = SmallRegistry()
    small.submit(put(use(7), source="l" * 300))
    assert [each.source for each in usage.uses_of(small.view, ".", [7])] == ["l" * 300]


def test_what_says_nothing_new_is_not_written_again() -> None:
    small = SmallRegistry()
    small.submit(put(use(7)))
    small.submit(put(use(7), census="c2", ms=99))
    assert small.last == []
    small.submit(put(use(7, messages=4), census="c2"))
    assert len(small.last) == 1
    small.submit(census())
    small.submit(census())
    assert small.last == []
    small.submit(census(id="c2"))
    assert usage.census(small.view) is not None
    assert len(small.last) == 1
    assert repeatable(put())
    assert repeatable(census())


def test_an_older_census_replaces_neither_a_source_nor_a_newer_census() -> None:
    small = SmallRegistry()
    small.submit(put(use(7), ms=9))
    small.submit(census())
    for older in (put(use(8), ms=8), census(id="c0", started=9)):
        assert small.refusal(older)[0] == 42284
    small.submit(put(use(8), ms=9))
    small.submit(census(id="c2", started=11))


def test_a_source_published_as_unread_makes_the_newest_census_incomplete() -> None:
    small = SmallRegistry()
    small.submit(put(use(7)))
    small.submit(census())
    small.submit(put(use(8)))
    found = usage.census(small.view)
    assert found is not None
    assert found.complete
    small.submit(put(state="unread", reason="it has no partition leader"))
    found = usage.census(small.view)
    assert found is not None
    assert (found.id, found.complete, found.unread) == ("c1", False, 1)


def test_many_uses_become_parts_and_fewer_remove_what_is_left() -> None:
    small = SmallRegistry()
    small.submit(put(*(use(each) for each in range(2 * PART_USES_MAX + 1))))
    assert [orjson.loads(each.key).get("part", 0) for each in small.last] == [0, 1, 2]
    assert all(len(each.value or b"") < 1_000_000 for each in small.last)
    found = usage.source(small.view, "orders")
    assert found is not None
    assert [each.schema for each in found.uses] == list(range(2 * PART_USES_MAX + 1))
    small.submit(put(use(1)))
    assert [(records.decode_key(each.key), each.value is None) for each in small.last] == [
        (records.NoopKey(records.USAGE, None, "orders", part), part > 0) for part in range(3)
    ]
    assert len(list(scan(small.view, layout.USE))) == 1
    small.submit(DeleteUsage("orders"))
    assert not [*scan(small.view, layout.USE), *scan(small.view, layout.SOURCE)]
    assert small.refusal(DeleteUsage("orders")) == (40483, "Source 'orders' not found.")


def test_the_largest_part_is_smaller_than_a_record_may_be() -> None:
    most = Use("value", "header-guid", GUID, 2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1, exact=False)
    whole = usage.Usage(census="c" * 1000, state="read", reason="r" * 1000, uses=[most] * PART_USES_MAX)
    assert len(usage.usage_value(whole)) < 1_000_000


@pytest.mark.parametrize(
    "command",
    [
        put(source=""),
        put(source="a\n"),
        put(source="a" * 1001),
        put(state="half"),
        put(context="c"),
        put(context=".a:b"),
        put(["value", "id", GUID, 1, 1, 1, 1, True]),
        put(["value", "none", 1, 1, 1, 1, 1, True]),
        put(["value", "guid", "x", 1, 1, 1, 1, True]),
        put(["value", "id", 1, -1, 1, 1, 1, True]),
        put(["value", "id", 2**31, 1, 1, 1, 1, True]),
        put(["side", "id", 1, 1, 1, 1, 1, True]),
        put(["value", "id", 1]),
        put(use(1), messages="many"),
        PutUsage("orders", b"[]"),
        census(started=21),
        census(unread=1),
        census(complete="yes"),
        PutCensus(b"{}"),
    ],
)
def test_bad_values_are_refused_and_change_nothing(command: PutUsage | PutCensus) -> None:
    code, message = SmallRegistry().refusal(command)
    assert code == 42284
    assert message.startswith("Invalid usage or census: ")
