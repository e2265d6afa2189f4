"""Reseeding: the records made from a store's rows restore these rows, including ids."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain import reseed
from registry.domain.decide.ids import Ids
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import Entry, Record, decode_key
from registry.domain.model import TOP, Subject
from registry.domain.queries import versions
from registry.domain.rows import layout
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import scan
from tests.unit.random_logs import fold, logs

A, B = Subject(".", "a"), Subject(".", "b")
LONG = "." + "k" * 130


def log_of(entries: list[Entry], start: int = 0) -> list[Record]:
    return [Record(start + index, 5000 + index, *entry) for index, entry in enumerate(entries)]


def version(
    subject: Subject, number: int, schema_id: int, text: str = '"int"', *, deleted: bool = False
) -> Entry:
    value = values.schema_value(subject, number, schema_id, text, deleted=deleted)
    return Entry(records.schema_key(subject, number), value)


def mark(subject: Subject, upto: int) -> Entry:
    return Entry(records.delete_subject_key(subject), values.delete_subject_value(subject, upto))


def clear(subject: Subject) -> Entry:
    return Entry(records.clear_subject_key(subject), values.clear_subject_value(subject))


def reseeded(view: DictView) -> DictView:
    return fold(log_of(list(reseed.entries(view))))


@given(logs)
def test_a_reseeded_log_gives_the_same_rows(log: list[Record]) -> None:
    old = fold(log)
    new = reseeded(old)
    assert list(reseed.differences(old, new)) == []
    for table, same in (layout.QUARANTINE, 0), (layout.FOREIGN, 0), (layout.CLUSTER, 0):
        assert len(list(scan(new, table))) == same


@given(logs)
def test_what_is_served_is_the_same(log: list[Record]) -> None:
    old = fold(log)
    new = reseeded(old)
    for context in (".", ".c"):
        for schema_id in range(4):
            before, after = (versions.by_id(view, context, schema_id) for view in (old, new))
            assert (before is None) == (after is None)
            if before is not None and after is not None:
                assert (before.subject, before.version, before.row.schema) == (
                    after.subject, after.version, after.row.schema,
                )  # fmt: skip
        assert Ids().grant(old, context).schema_id == Ids().grant(new, context).schema_id


@given(logs)
def test_reseeding_again_says_the_same(log: list[Record]) -> None:
    once = list(reseed.entries(fold(log)))
    assert list(reseed.entries(fold(log_of(once)))) == once


@given(logs, st.data())
def test_no_prefix_forgets_a_reservation(log: list[Record], data: st.DataObject) -> None:
    old = fold(log)
    every = list(reseed.entries(old))
    new = fold(log_of(every[: data.draw(st.integers(0, len(every)))]))
    for key, _ in scan(new, layout.ID):
        context = "." if key.startswith(layout.context_key(layout.ID, ".")) else ".c"
        assert new.get(layout.context_key(layout.RESERVATION, context)) == old.get(
            layout.context_key(layout.RESERVATION, context)
        )


@given(logs)
def test_every_key_stands_once_and_in_our_bytes(log: list[Record]) -> None:
    keys = Counter(entry.key for entry in reseed.entries(fold(log)))
    assert set(keys.values()) <= {1}
    assert all(records.canonical_key(decode_key(key)) == key for key in keys)


def test_a_subject_deleted_for_good_and_registered_again_stays() -> None:
    """The old mark comes before the new versions; otherwise it would delete them."""
    entries = [version(A, 1, 1), mark(A, 1), Entry(records.schema_key(A, 1), None), version(A, 1, 2)]
    new = reseeded(fold(log_of(entries)))
    found = versions.latest(new, A)
    assert found is not None
    assert found.row.schema_id == 2


def test_the_oldest_subject_of_an_id_answers_for_it() -> None:
    new = reseeded(fold(log_of([version(B, 1, 1), version(A, 1, 1)])))
    found = versions.by_id(new, ".", 1)
    assert found is not None
    assert found.subject == B


def test_what_was_forgotten_stays_forgotten_and_what_came_after_stays() -> None:
    entries = [version(A, 1, 1), mark(A, 1), clear(TOP), version(B, 1, 2, deleted=True)]
    new = reseeded(fold(log_of(entries)))
    assert versions.get(new, A, 1) is None
    assert versions.get(new, B, 1) is not None


def test_a_mark_that_a_lower_one_replaced_still_deletes() -> None:
    old = fold(log_of([version(A, 1, 1), version(A, 2, 2, '"long"'), mark(A, 2), mark(A, 1)]))
    new = reseeded(old)
    assert [row.deleted for _, _, row in versions.versions(new, A, deleted=True)] == [True, True]
    assert list(reseed.differences(old, new)) == []


def test_long_names_are_found_again() -> None:
    subject, context = Subject(LONG, "s" * 130), Subject(LONG, "")
    entries = [
        Entry(records.reservation_key(LONG), values.reservation_value(20)),
        version(subject, 1, 1),
        mark(subject, 1),
        clear(context),
    ]
    old = fold(log_of(entries))
    assert reseed.left_out(old) == {}
    assert [entry.key for entry in reseed.entries(old)] == [entry.key for entry in entries]


def test_what_is_not_carried_is_counted() -> None:
    entries = [
        Entry(records.reservation_key(LONG), values.reservation_value(20)),
        Entry(records.mode_key(A), b"{"),
        Entry(b"?", b"1"),
    ]
    old = fold(log_of(entries))
    assert reseed.left_out(old) == {"quarantined records": 2, "rows whose long names are unknown": 1}
    assert list(reseed.entries(old)) == []


@pytest.mark.parametrize(
    "entries",
    [
        [version(A, 1, 2)],
        [version(A, 1, 1, deleted=True)],
        [version(A, 1, 1), version(B, 1, 1)],
        [version(A, 1, 1), Entry(records.mode_key(A), subject_values.mode_value(A, "READONLY"))],
        [version(A, 1, 1), mark(A, 1)],
        [],
    ],
)
def test_differences_are_noticed(entries: list[Entry]) -> None:
    assert list(reseed.differences(fold(log_of([version(A, 1, 1)])), fold(log_of(entries))))


def test_the_marker_names_the_log_that_is_continued() -> None:
    entry = reseed.marker("cluster/_schemas/id", 42, 7)
    view = fold(log_of([entry], 9))
    value = view.get(layout.cluster_key(records.RESEED))
    assert value is not None
    assert orjson.loads(value) == {
        "from": "cluster/_schemas/id", "at": 42, "records": 7, "offset": 9, "ts": 5000,
    }  # fmt: skip
