"""An owner's rows in the past, told from what a log still has: those that there were, or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.fold.fold import owner
from registry.domain.history.entries import OFFSET_BYTES, HistoryEntry, packed_owner, slice_of, unpack
from registry.domain.history.moment import find_lost, replay, rows_of
from registry.domain.log_format.records import Record, delete_subject_key, schema_key
from registry.domain.log_format.values import delete_subject_value, schema_value
from registry.domain.model import Subject
from tests.unit.random_logs import fold, logs, meaning


def cleaned(log: list[Record], upto: int) -> list[Record]:
    """Return the log after cleaning: before ``upto``, only the last record of each key remains."""
    last = {record.key: record.offset for record in log[:upto]}
    return [record for record in log[:upto] if last[record.key] == record.offset] + log[upto:]


def buried(log: list[Record]) -> list[Record]:
    """Return the log without tombstones before which no record of their key remains, in any spelling."""
    seen, kept = set(), []
    for record in log:
        if record.value is not None or meaning(record.key) in seen:
            kept.append(record)
            seen.add(meaning(record.key))
    return kept


def entries_of(log: list[Record], packed: bytes) -> list[HistoryEntry]:
    found = slice_of(0, log, log[-1].offset + 1 if log else 0).entries
    return [unpack(key, value) for key, value in found if key[:-OFFSET_BYTES] == packed]


@given(logs, st.data())
def test_rows_of_the_past_are_those_that_there_were_or_are_known_to_be_lost(
    log: list[Record], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(log)), label="the past")
    base = data.draw(st.integers(0, at), label="the snapshot")
    clean = data.draw(st.integers(0, len(log)), label="cleaned up to")
    kept = cleaned(log, clean)
    kept = buried(kept) if data.draw(st.booleans(), label="without tombstones") else kept
    found = {record.offset: record for record in kept}
    for packed in {owner(record.key) for record in log} - {b""}:
        entries = entries_of(log[base:at], packed)
        there = {each.offset: found[each.offset] for each in entries if each.offset in found}
        begin = rows_of(fold(log[:base]), packed)
        if find_lost(entries, there) is None:
            told = replay(packed, begin, entries, there)
            assert sorted(told) == sorted(rows_of(fold(log[:at]), packed))
        else:
            assert len(kept) < len(log), "nothing is lost that was not removed"


@given(logs)
def test_a_whole_log_loses_nothing(log: list[Record]) -> None:
    for packed in {owner(record.key) for record in log} - {b""}:
        entries = entries_of(log, packed)
        assert find_lost(entries, {record.offset: record for record in log}) is None


def test_a_removed_mark_is_not_replaced_by_a_lower_one() -> None:
    """Without the record that restored version 2, it would seem to be deleted still."""
    subject = Subject(".", "a")
    mark = delete_subject_key(subject)
    said = [
        *((schema_key(subject, n), schema_value(subject, n, n, '"int"')) for n in (1, 2)),
        (mark, delete_subject_value(subject, 2)),
        (mark, None),
        (mark, delete_subject_value(subject, 1)),
    ]
    log = [Record(offset, 1000, key, value) for offset, (key, value) in enumerate(said)]
    entries = entries_of(log, packed_owner(subject))
    gone = find_lost(entries, {each.offset: each for each in log if each.offset != 3})
    assert gone is not None
    assert gone.offset == 3
