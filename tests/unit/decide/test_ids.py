"""Ids: they grow, a reservation covers each before its use, and none is assigned twice."""

from __future__ import annotations

import orjson

from registry.domain.commands import Register
from registry.domain.decide.ids import Ids
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry
from registry.domain.model import ID_MAX, Subject
from registry.domain.rows.memory_views import DictView
from tests.support.counting_view import CountingView
from tests.unit.small_registry import INT, SmallRegistry, record


def reserved(entries: list[Entry]) -> list[int]:
    """Return the highest ids of reservations, without those of free ranges."""
    return [
        orjson.loads(entry.value)["upto"]
        for entry in entries
        if entry.value and b'"upto"' in entry.value and b"\\t" not in entry.key
    ]


def new_ids(small: SmallRegistry, count: int, subject: str = "s") -> list[int]:
    taken = len(small.log)
    return [small.place(f"{subject}{taken}-{n}", record(f"R{taken}_{n}"))[0] for n in range(count)]


def test_ids_begin_above_what_somebody_else_has_counted() -> None:
    ids = Ids()
    ids.restart(100)
    view = DictView()
    assert ids.grant(view, ".").schema_id == 101
    assert ids.grant(view, ".c").schema_id == 1


def test_a_reservation_stands_before_the_first_id_that_it_covers(small: SmallRegistry) -> None:
    small.register("s0", record("R0"))
    assert [orjson.loads(entry.key)["keytype"] for entry in small.last] == ["NOOP", "SCHEMA"]
    assert reserved(small.last) == [20]
    small.register("s1", record("R1"))
    assert reserved(small.last) == []


def test_reservations_double_up_to_a_limit(small: SmallRegistry) -> None:
    small.ids = Ids(batch=2, batch_max=8)
    assert new_ids(small, 30) == list(range(1, 31))
    uptos = [
        orjson.loads(each.value)["upto"] for each in small.log if b'"ids"' in (each.key or b"") and each.value
    ]
    assert uptos == [2, 6, 14, 22, 30]


def test_contexts_have_ids_of_their_own(small: SmallRegistry) -> None:
    small.register("s", record("A"))
    assert small.place(":.ctx:s", record("B")) == (1, 1)
    assert small.last[0].key == records.reservation_key(".ctx")


def test_a_new_primary_starts_above_the_reservation(small: SmallRegistry) -> None:
    new_ids(small, 3)
    small.ids = Ids()
    assert new_ids(small, 1) == [21]
    small.ids.restart()
    assert new_ids(small, 1) == [41]


def test_and_above_what_others_wrote(small: SmallRegistry) -> None:
    new_ids(small, 1)
    other = Subject.parse("other")
    small.append(records.schema_key(other, 1), values.schema_value(other, 1, 90, INT))
    small.ids = Ids()
    assert new_ids(small, 1) == [91]


def test_an_id_in_use_is_skipped(small: SmallRegistry) -> None:
    new_ids(small, 1)
    other = Subject.parse("other")
    small.append(records.schema_key(other, 1), values.schema_value(other, 1, 2, INT))
    small.append(records.schema_key(other, 2), values.schema_value(other, 2, 7, '"long"'))
    assert new_ids(small, 2) == [8, 9]


def test_an_import_above_the_range_moves_it_and_is_covered(small: SmallRegistry) -> None:
    small.mode(None, "IMPORT")
    small.register("s", schema_id=50, version=1)
    assert reserved(small.last) == [69]
    small.register("s", INT, schema_id=51, version=2)
    assert reserved(small.last) == []
    small.mode(None, "READWRITE")
    assert new_ids(small, 1) == [52]


def test_an_import_below_moves_nothing(small: SmallRegistry) -> None:
    new_ids(small, 5)
    small.mode(None, "IMPORT", force=True)
    small.register("t", INT, schema_id=0, version=1)
    assert reserved(small.last) == []
    small.mode(None, "READWRITE")
    assert new_ids(small, 1) == [6]


def test_an_imported_id_is_not_given_again_after_it_was_deleted_and_compacted(small: SmallRegistry) -> None:
    small.mode("s", "IMPORT")
    small.register("s", schema_id=50, version=1)
    small.purge("s")
    latest = {each.key: each for each in small.log}
    compacted = SmallRegistry()
    for each in sorted(latest.values()):
        if each.key is not None and each.value is not None:
            compacted.append(each.key, each.value)
    assert new_ids(compacted, 1)[0] > 50


def test_the_last_ids_are_reserved_one_by_one(small: SmallRegistry) -> None:
    small.mode("s", "IMPORT")
    small.register("s", schema_id=ID_MAX - 2, version=1)
    assert reserved(small.last) == [ID_MAX - 2]
    small.ids = Ids()
    assert new_ids(small, 2) == [ID_MAX - 1, ID_MAX]
    assert new_ids(small, 1, ":.ctx:s") == [1]


def test_a_grant_that_is_not_taken_changes_nothing(small: SmallRegistry) -> None:
    ids = Ids()
    first = ids.grant(small.view, ".")
    assert ids.grant(small.view, ".") == first
    ids.take(first)
    assert ids.grant(small.view, ".").schema_id == 2


def test_a_reserved_id_costs_one_read() -> None:
    """Reservations and free ranges are read only when the reserved ids are used up."""
    ids, view = Ids(), CountingView()
    first = ids.grant(view, ".")
    ids.take(first)
    assert view.reads == 3, "the reservation, the free ranges, and the highest id"
    for _ in range(19):
        ids.take(ids.grant(view, "."))
    assert view.reads == 3 + 19


def test_ranges_can_be_put_back(small: SmallRegistry) -> None:
    """A decided batch that is not appended has used no ids."""
    ids = Ids()
    saved = ids.save()
    ids.take(ids.grant(small.view, "."))
    ids.restore(saved)
    again = ids.grant(small.view, ".")
    assert (again.schema_id, reserved(again.entries)) == (1, [20])


def test_used_up(small: SmallRegistry) -> None:
    """If no ids of a context are left, none is granted."""
    small.append(records.reservation_key("."), values.reservation_value(ID_MAX))
    for ids in (small.ids, Ids()):
        small.ids = ids
        code, message = small.refusal(Register("t", record("T")))
        assert code == 40982
        assert "the ids of the default context are exhausted" in message
    assert new_ids(small, 1, ":.ctx:s") == [1]
