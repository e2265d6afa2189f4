"""Rows that are added ahead of the other records, whichever these are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import DictView
from registry.store.folding.bulk_fold import NewVersions
from tests.unit.random_logs import fold, logs, rows_of

FEW = 40  # of 20,000


def version(offset: int, name: str, number: int = 1, text: str = "int", deleted: str = "false") -> Record:
    key = f'{{"keytype":"SCHEMA","subject":"{name}","version":{number},"magic":1}}'
    value = (
        f'{{"subject":"{name}","version":{number},"id":{offset + 1},'
        f'"schema":"\\"{text}\\"","deleted":{deleted}}}'
    )
    return Record(offset, 7, key.encode(), value.encode())


def mark(offset: int, name: str, upto: int) -> Record:
    key = f'{{"keytype":"DELETE_SUBJECT","subject":"{name}","magic":0}}'
    return Record(offset, 7, key.encode(), f'{{"subject":"{name}","version":{upto}}}'.encode())


def rows_with_new_first(log: list[Record], at: int, batch: int, expected: int) -> dict[bytes, bytes]:
    """Return the rows of a log of which the part from ``at`` on is sorted, in batches."""
    view = fold(log[:at])
    versions = NewVersions(expected)
    added: dict[bytes, bytes] = {}
    waiting: list[Record] = []
    for begun in range(at, len(log), batch):
        rows, later = versions.sort(view, log[begun : begun + batch])
        assert not added.keys() & dict(rows).keys(), "a row is added once"
        assert all(view.get(key) is None for key, _ in rows)
        added.update(rows)
        waiting += later
    view.commit(added.items())
    for record in waiting:
        view.commit(apply(view, record))
    return dict(view.rows())


@given(logs, st.integers(0, 20), st.integers(1, 20), st.integers(0, 100))
def test_new_versions_first_and_the_other_records_then_give_the_same_rows(
    log: list[Record], at: int, batch: int, expected: int
) -> None:
    assert rows_with_new_first(log, at, batch, expected) == rows_of(log)


def test_only_records_of_owners_with_other_records_wait() -> None:
    log = [version(number, f"s{number}") for number in range(50)]
    log += [mark(50, "s3", 1), version(51, "s3", 2), version(52, "s4", 2), version(53, "s5", text="long")]
    rows, waiting = NewVersions(1000).sort(DictView(), log)
    assert [record.offset for record in waiting] == [50, 51, 53]
    assert len(rows) == 3 * 51


def test_a_version_after_its_subjects_deletion_is_not_deleted_with_it() -> None:
    """Adding it first would let the mark cover it."""
    log = [version(0, "s"), mark(1, "s", 2), version(2, "s", 2)]
    assert rows_with_new_first(log, 0, 1, 10) == rows_of(log)


def test_few_keys_are_taken_for_others() -> None:
    versions, count = NewVersions(20_000), 20_000
    log = [version(number, f"s{number}") for number in range(count)]
    assert len(versions.sort(DictView(), log).waiting) <= FEW


def test_more_keys_than_expected_only_let_more_records_wait() -> None:
    log = [version(number, f"s{number}") for number in range(1000)]
    assert rows_with_new_first(log, 0, 100, expected=1) == rows_of(log)
