"""The laws of the fold, on random logs. Every store, overlay and snapshot of the product rests on them."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.fold.fold import apply, owner
from registry.domain.log_format import usage, values
from registry.domain.log_format.records import (
    DeleteSubjectKey,
    Record,
    SchemaKey,
    UnreadableKey,
    canonical_key,
    decode_key,
)
from registry.domain.rows import digest, layout
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import Block, History
from tests.unit.random_logs import by_owner, covering, fold, logs, meaning, rows_of

seeds = st.integers(0, 2**32)


@given(logs, seeds)
def test_interleaving_of_owners_does_not_matter(log: list[Record], seed: int) -> None:
    chance, waiting, other = random.Random(seed), by_owner(log), []
    while waiting:
        group = chance.choice(waiting)
        other.append(group.pop(0))
        waiting = [group for group in waiting if group]
    assert rows_of(other) == rows_of(log)


@given(logs)
def test_folding_each_owner_apart_and_uniting_gives_the_same_rows(log: list[Record]) -> None:
    parts = [rows_of(group) for group in by_owner(log)]
    united = {key: value for part in parts for key, value in part.items()}
    assert sum(len(part) for part in parts) == len(united)
    assert united == rows_of(log)


@given(logs.map(covering), st.data())
def test_a_compacted_log_gives_the_same_rows(log: list[Record], data: st.DataObject) -> None:
    upto = data.draw(st.integers(0, len(log)), label="cleaned up to")
    kept = _cleaned(log, upto)
    again = data.draw(st.integers(0, len(kept)), label="cleaned again up to")
    kept = _cleaned(kept, again)
    forgotten = data.draw(st.sets(st.sampled_from(_droppable(kept)))) if _droppable(kept) else set()
    assert rows_of([record for record in kept if record.offset not in forgotten]) == rows_of(log)


def _cleaned(log: list[Record], upto: int) -> list[Record]:
    """Return the log after cleaning: before ``upto``, only the last record of each key remains."""
    last = {record.key: record.offset for record in log[:upto]}
    return [record for record in log[:upto] if last[record.key] == record.offset] + log[upto:]


def _droppable(log: list[Record]) -> list[int]:
    """Return the tombstones before which no record of their key remains, in any spelling of it."""
    seen, out = set(), []
    for record in log:
        about = meaning(record.key)
        if record.value is None and about not in seen:
            out.append(record.offset)
        else:
            seen.add(about)
    return out


@given(logs, st.integers(0, 40))
def test_folding_to_an_offset_saving_and_resuming_gives_the_same_rows(log: list[Record], at: int) -> None:
    saved = list(fold(log[:at]).rows())
    assert dict(fold(log[at:], DictView(saved)).rows()) == rows_of(log)


@given(logs)
def test_the_running_digest_equals_the_digest_from_scratch(log: list[Record]) -> None:
    view, running = DictView(), digest.EMPTY
    for record in log:
        for key, value in apply(view, record):
            running = digest.digest_after_change(running, key, view.get(key), value)
            view.commit([(key, value)])
    assert running == digest.of_rows(view.rows())
    assert running == digest.combine(digest.of_rows(rows_of(group).items()) for group in by_owner(log))


class OwnRowsOnly:
    """A view that refuses access to rows of other owners."""

    def __init__(self, view: DictView, allowed: bytes) -> None:
        self.view, self.allowed = view, allowed

    def get(self, key: bytes) -> bytes | None:
        assert layout.owner_of(key) == self.allowed
        return self.view.get(key)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        return self.view.seek(key)

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        return self.view.seek_back(key)

    def revision(self) -> None:
        return self.view.revision()

    def block(self, key: bytes) -> Block | None:
        return self.view.block(key)

    def history(self) -> History | None:
        return self.view.history()


@given(logs)
def test_a_record_reads_and_changes_rows_of_its_owner_only_and_each_once(log: list[Record]) -> None:
    view = DictView()
    for record in log:
        changes = apply(OwnRowsOnly(view, owner(record.key)), record)
        assert {layout.owner_of(key) for key, _ in changes} <= {owner(record.key)}
        assert len(dict(changes)) == len(changes)
        assert all(view.get(key) is not None for key, value in changes if value is None)
        view.commit(changes)
    assert all(len(key) <= 511 for key, _ in view.rows())


@given(logs)
def test_versions_and_their_flags_are_what_the_words_say(log: list[Record]) -> None:
    last: dict[SchemaKey, Record] = {}
    marks: dict[DeleteSubjectKey, list[tuple[int, int]]] = {}
    for record in log:
        key = meaning(record.key)
        if isinstance(key, SchemaKey):
            last[key] = record
        elif isinstance(key, DeleteSubjectKey):
            marks[key] = _marks_after(marks.get(key, []), record)
    expected = {}
    for key, record in last.items():
        try:
            own = values.read_schema(record.value or b"").deleted
        except values.BadValue:
            continue
        mine = marks.get(DeleteSubjectKey(key.subject), [])
        covered = any(offset > record.offset and key.version <= upto for offset, upto in mine)
        expected[layout.version_key(*key)] = (record.offset, own, own or covered)
    found = {
        key: VersionRow.unpack(value) for key, value in rows_of(log).items() if key.startswith(layout.VERSION)
    }
    assert {key: (row.offset, row.own_deleted, row.deleted) for key, row in found.items()} == expected
    assert all(key in found for key in expected)


def _marks_after(marks: list[tuple[int, int]], record: Record) -> list[tuple[int, int]]:
    try:
        return [*marks, (record.offset, values.read_delete_mark(record.value or b""))]
    except values.BadValue:
        return []


@given(logs)
def test_a_key_has_its_rows_or_a_quarantine_row(log: list[Record]) -> None:
    table = rows_of(log)
    for key in table:
        if key.startswith(layout.QUARANTINE):
            assert key[1:] not in table


@given(logs)
def test_index_rows_are_those_of_the_version_rows(log: list[Record]) -> None:
    table = rows_of(log)
    index = {key for key in table if key[:1] in (layout.ID, layout.GUID, layout.REFERRER)}
    again = {
        key
        for record in log
        if (raw := _alive(record, table))
        for key, _ in apply(DictView(), record._replace(key=raw))
        if key[:1] in (layout.ID, layout.GUID, layout.REFERRER)
    }
    assert index == again


@given(logs)
def test_rows_of_uses_are_those_of_the_sources(log: list[Record]) -> None:
    table = rows_of(log)
    found = {key: value for key, value in table.items() if key.startswith(layout.USE)}
    rows = [usage.use_rows(value) for key, value in table.items() if key.startswith(layout.SOURCE)]
    assert found == {key: value for each in rows for key, value in each.items()}
    assert sum(map(len, rows)) == len(found)
    assert all(layout.source_of(key) in table for key in found)


def _alive(record: Record, table: dict[bytes, bytes]) -> bytes | None:
    key = meaning(record.key)
    if not isinstance(key, SchemaKey):
        return None
    row = table.get(layout.version_key(*key))
    return canonical_key(key) if row and VersionRow.unpack(row).offset == record.offset else None


@given(logs)
def test_what_bytes_a_readable_key_has_does_not_matter(log: list[Record]) -> None:
    def shown(log: list[Record]) -> dict[bytes, bytes]:
        hidden = (layout.QUARANTINE, layout.FOREIGN)
        return {key: value for key, value in rows_of(log).items() if key[:1] not in hidden}

    rewritten = rows_of([_rewritten(record) for record in log])
    assert shown([_rewritten(record) for record in log]) == shown(log)
    assert rewritten.keys() == {key for key in rows_of(log) if key[:1] != layout.FOREIGN}


@given(logs)
def test_foreign_bytes_of_a_key_are_kept_while_the_log_has_them(log: list[Record]) -> None:
    last = {record.key: record.value for record in log}
    foreign = {
        raw
        for raw, value in last.items()
        if value is not None and isinstance(key := meaning(raw), SchemaKey) and raw != canonical_key(key)
    }
    kept = {value for key, value in rows_of(log).items() if key.startswith(layout.FOREIGN + layout.VERSION)}
    assert kept == foreign


def _rewritten(record: Record) -> Record:
    try:
        return record._replace(key=canonical_key(decode_key(record.key)))
    except UnreadableKey:
        return record


@settings(max_examples=100)
@given(st.none() | st.binary(), st.none() | st.binary(), st.integers(0, 2**62), st.integers(-1, 2**62))
def test_no_bytes_make_it_fail(key: bytes | None, value: bytes | None, offset: int, ts: int) -> None:
    view = fold([Record(offset, ts, key, value)])
    deletes = value is None or value in (b"", b"null")  # The last two are deleted as by other writers.
    assert bool(list(view.rows())) != deletes or meaning(key) is not key
    assert not list(fold([Record(offset + 1, ts, key, None)], view).rows())
