"""Counts of blocks always match the rows, and lists that skip blocks are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record, clear_subject_key, schema_key
from registry.domain.log_format.values import clear_subject_value, schema_value
from registry.domain.model import Subject
from registry.domain.queries import lists, versions
from registry.domain.queries.walks import BLOCKS_AT_ONCE
from registry.domain.rows import digest
from registry.domain.rows import layout as rows
from registry.domain.rows.memory_views import MovingView, OverlayView
from registry.domain.rows.view import Block, Counts, Skip, View, scan
from registry.store import counts, layout
from registry.store.create import NewStore, Origin
from registry.store.lmdb import Store
from registry.store.reader import StoreReader
from tests.unit.queries.test_lists import PREFIXES, STEM, SUBJECTS

MAP = 64 << 20
BLOCK = 2
END = layout.END
GONE, DELETED, LIVE = range(3)

# Versions to commit together, a subject or context to clear, or the number of blocks to count.
Step = list[tuple[Subject, int, int]] | Subject | int
steps = st.lists(
    st.integers(1, 4)
    | SUBJECTS
    | SUBJECTS.map(lambda subject: Subject(subject.context, ""))
    | st.lists(
        st.tuples(SUBJECTS, st.integers(1, 4), st.sampled_from([GONE, DELETED, LIVE, LIVE])), max_size=9
    ),
    max_size=12,
)


def made(folder: Path) -> None:
    with NewStore(folder, MAP) as new:
        new.finish(Origin(1, "log", layout.State(0, 0), 0))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made(tmp_path / "store-1")
    opened = Store(tmp_path / "store-1", MAP, block=BLOCK)
    yield opened
    opened.close()


def record(offset: int, subject: Subject, version: int, state: int, schema_id: int = 1) -> Record:
    value = schema_value(subject, version, schema_id, '"string"', deleted=state == DELETED)
    return Record(offset, 0, schema_key(subject, version), None if state == GONE else value)


def commit(store: Store, said: list[tuple[Subject, int, int]]) -> None:
    append(store, [record(store.applied + number, *each) for number, each in enumerate(said)])


def clear(store: Store, scope: Subject) -> None:
    append(store, [Record(store.applied, 0, clear_subject_key(scope), clear_subject_value(scope))])


def append(store: Store, records: list[Record]) -> None:
    changes: dict[bytes, bytes | None] = {}
    with store.view() as view:
        overlay = OverlayView(view, changes)
        for each in records:
            changes.update(apply(overlay, each))
    store.commit(changes, store.applied + len(records))


def count(store: Store) -> None:
    while not store.count_step():
        pass


def blocks(view: View) -> list[Block]:
    found, at = [], rows.VERSION
    while at < END:
        block = view.block(at)
        assert block is not None
        found.append(block)
        at = block.end
    return found


def counted_again(view: View, block: Block) -> Counts:
    held = [
        (key[:-4], versions.at(view, key))
        for key, _ in scan(view, rows.VERSION)
        if block.begin <= key < block.end
    ]
    kept = [subject for subject, found in held if found is not None]
    live = [subject for subject, found in held if found is not None and not found.row.deleted]
    if not block.whole:
        return Counts(len(live), len(kept), rows=len(held))
    return Counts(len(live), len(kept), len(set(live)), len(set(kept)), len(held))


def behind(walk: Iterator[Any], skip: Skip) -> list[Any]:
    """Skip as many items as requested, and return the others."""
    found = []
    for each in walk:
        if each is not None and skip.left:
            skip.left -= 1
        elif each is not None:
            found.append(each)
    return found


WALKS: list[Callable[[View, str, Skip], Iterator[Any]]] = [
    lambda view, prefix, skip: lists.subjects(view, prefix, None, skip),
    lambda view, prefix, skip: lists.subjects(view, prefix, None, skip, deleted=True),
    lambda view, prefix, skip: lists.subjects(view, prefix, None, skip, deleted_only=True),
    lambda view, prefix, skip: lists.subjects(view, prefix, None, skip, descending=True),
    lambda view, prefix, skip: lists.subjects(view, prefix, None, skip, descending=True, deleted_only=True),
    lambda view, prefix, skip: lists.Schemas(prefix).walk(view, None, skip),
    lambda view, prefix, skip: lists.Schemas(prefix, deleted=True).walk(view, None, skip),
    lambda view, prefix, skip: lists.Schemas(prefix, latest_only=True).walk(view, None, skip),
    lambda view, prefix, skip: lists.Schemas(prefix, deleted=True, latest_only=True).walk(view, None, skip),
]
HOW: list[dict[str, Any]] = [{}, {"deleted": True}, {"deleted_only": True}, {"deleted_as_negative": True}]
LONG = [(Subject(".", STEM + tail * 80), 1, LIVE) for tail in "abcdef"]
MANY = [(Subject(".", f"s{number}"), version, LIVE) for number in range(9) for version in range(1, 5)]
ONE = [(Subject(".", "a"), version, LIVE) for version in range(1, 8)]
FEWER = [(subject, version, GONE if version > 1 else DELETED) for subject, version, _ in MANY[:-8]]

_KEPT: dict[str, Store] = {}


def emptied(factory: pytest.TempPathFactory) -> Store:
    """Open one store for all examples: opening one takes longer than an example."""
    if "store" not in _KEPT:
        folder = factory.mktemp("counts") / "store-1"
        made(folder)
        _KEPT["store"] = Store(folder, MAP, block=BLOCK)
    store = _KEPT["store"]
    with store.view() as view:
        keys = [key for key, _ in scan(view, b"")]
    store.commit(dict.fromkeys(keys), store.applied)
    return store


@settings(max_examples=60, deadline=None)
@given(steps=steps, prefix=st.sampled_from([":*:", "", *PREFIXES]))
@example(steps=[LONG, 9, [(Subject(".", "a"), 1, LIVE)]], prefix=":*:")
@example(steps=[MANY, 99, FEWER, MANY], prefix="")
@example(steps=[MANY, 99, FEWER], prefix=":*:")
@example(steps=[MANY, 99, [(each, 1, DELETED) for each, *_ in MANY], Subject(".", "")], prefix=":*:")
@example(steps=[ONE, 2, ONE[:4], 9, [(*each[:2], DELETED) for each in ONE], Subject(".", "a")], prefix="")
@example(steps=[99, ONE, [(*each[:2], GONE) for each in ONE[1:]], [(Subject(".", "aa"), 1, LIVE)]], prefix="")
def test_counts_are_those_of_the_rows_and_no_list_differs_by_them(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], prefix: str
) -> None:
    store = emptied(tmp_path_factory)
    for step in steps:
        if isinstance(step, list):
            commit(store, step)
        elif isinstance(step, Subject):
            clear(store, step)
        else:
            any(store.count_step() for _ in range(step))
    count(store)
    with store.view() as view:
        assert store.digest == digest.of_rows(scan(view, b"", b""))
        found = blocks(view)
        assert found[0].begin == rows.VERSION
        for each in found:
            assert each.counts == counted_again(view, each)
            row = view.seek(each.begin)
            assert row is None or row[0] >= END or not each.whole or rows.together(row[0]) >= each.begin
        for walk in WALKS:
            whole = behind(walk(view, prefix, Skip()), Skip())
            for number in range(len(whole) + 2):
                skip = Skip(number)
                assert behind(walk(view, prefix, skip), skip) == whole[number:]
        for subject in {each[0] for step in steps if isinstance(step, list) for each in step}:
            assert versions.latest(view, subject) == versions.latest(OverlayView(view, {b"V": b""}), subject)
            for how in HOW:
                whole = behind(lists.version_numbers(view, subject, **how), Skip())
                for number in range(len(whole) + 1):
                    skip = Skip(number)
                    found = behind(lists.version_numbers(view, subject, None, skip, **how), skip)
                    assert found == whole[number:]


# Versions with one of two ids to commit together, a scope to clear, or the number of rounds to count.
IdStep = list[tuple[Subject, int, int, int]] | Subject | int
FEW = st.builds(Subject, st.sampled_from([".", ".c"]), st.sampled_from("abcd"))
STATES = st.sampled_from([GONE, DELETED, LIVE, LIVE])
id_steps = st.lists(
    st.integers(1, 9)
    | FEW
    | st.sampled_from([Subject(".", ""), Subject(".c", "")])
    | st.lists(st.tuples(FEW, st.integers(1, 5), STATES, st.integers(1, 2)), max_size=9),
    max_size=12,
)
MANY_OF_ONE = [(Subject(".", "s4"), version, LIVE, 2) for version in range(2, 20)]
SHARERS = [(Subject(".", f"s{number}"), 1, LIVE, 1) for number in range(40)]
LATE = [(each[0], 50, LIVE, 1) for each in SHARERS]
HALF_DELETED = [(Subject(".c", f"s{number}"), 1, LIVE if number > 9 else DELETED, 1) for number in range(40)]


@settings(max_examples=60, deadline=None)
@given(steps=id_steps)
@example(steps=[SHARERS, 99, [(*each[:2], DELETED, 1) for each in SHARERS[4:9]]])
@example(steps=[SHARERS, 99, [(each[0], 2, LIVE, 1) for each in SHARERS[4:9]]])
@example(steps=[SHARERS, 99, [(each[0], 2, LIVE, 1) for each in SHARERS[4:9]], SHARERS[:20]])
@example(steps=[HALF_DELETED, 99, Subject(".c", "")])
@example(steps=[LATE, 99, MANY_OF_ONE, [(SHARERS[4][0], 99, LIVE, 1)]])
def test_lists_of_what_holds_an_id_do_not_differ_by_counts(
    tmp_path_factory: pytest.TempPathFactory, steps: list[IdStep]
) -> None:
    store = emptied(tmp_path_factory)
    for step in steps:
        if isinstance(step, list):
            append(store, [record(store.applied + at, *each) for at, each in enumerate(step)])
        elif isinstance(step, Subject):
            clear(store, step)
        else:
            count(store)
            for _ in range(step):
                store.count_ids_step()
    with store.view() as view:
        for context, schema_id, deleted in product([".", ".c"], [1, 2], [True, False]):
            whole = behind(lists.versions_of_id(view, context, schema_id, deleted=deleted), Skip())
            for number in range(len(whole) + 1):
                skip = Skip(number)
                walk = lists.versions_of_id(view, context, schema_id, b"", skip, deleted=deleted)
                assert behind(walk, skip) == whole[number:]


def test_blocks_are_split_and_merged_as_they_grow_and_shrink(store: Store) -> None:
    count(store)
    commit(store, MANY)
    with store.view() as view:
        grown = len(blocks(view))
        assert max(each.counts.rows for each in blocks(view)) <= 2 * BLOCK
        assert grown >= len(MANY) // (2 * BLOCK)
    commit(store, [(subject, version, GONE) for subject, version, _ in MANY])
    with store.view() as view:
        assert len(blocks(view)) < grown // 2


@pytest.mark.parametrize("descending", [False, True])
def test_an_offset_takes_a_step_for_many_blocks(store: Store, descending: bool) -> None:
    """Between two steps, all generators above the walk run: that costs more than to skip a block."""
    subjects = [(Subject(".", f"s{number:03}"), 1, LIVE) for number in range(300)]
    commit(store, subjects)
    count(store)
    with store.view() as view:
        assert len(blocks(view)) > 2 * BLOCKS_AT_ONCE
        skip = Skip(len(subjects) - 1)
        walk = lists.subjects(view, "", None, skip, descending=descending)
        taken = len(list(walk))
    assert skip.left < 2 * BLOCK
    assert taken < len(subjects) / BLOCK / BLOCKS_AT_ONCE + 4 * BLOCK


def test_the_versions_of_one_subject_are_counted_block_by_block(store: Store) -> None:
    commit(store, ONE)
    count_steps = 1
    while not store.count_step():
        count_steps += 1
    assert count_steps > len(ONE) // BLOCK
    with store.view() as view:
        assert max(each.counts.rows for each in blocks(view)) <= BLOCK


def test_a_clear_of_a_context_leaves_the_counts_of_others(store: Store) -> None:
    commit(store, [*MANY, (Subject(".c", "a"), 1, DELETED)])
    count(store)
    clear(store, Subject(".c", ""))
    with store.view() as view:
        assert view.block(rows.version_key(Subject(".", "s1"), 1)) is not None
        assert view.block(rows.version_key(Subject(".c", "a"), 1)) is None
    assert not store.count_step()
    count(store)
    with store.view() as view:
        found = view.block(rows.version_key(Subject(".c", "a"), 1))
        assert found is not None
        assert found.counts == counted_again(view, found)


class Watched(MovingView):
    """A view that counts how often rows are sought."""

    __slots__ = ("sought",)

    def __init__(self, view: View) -> None:
        super().__init__()
        self.show(view)
        self.sought = 0
        self.seek, self.seek_back = self.counting(self.seek), self.counting(self.seek_back)

    def counting(self, seek: Callable[[bytes], tuple[bytes, bytes] | None]) -> Callable[[bytes], Any]:
        """Wrap a function to count its calls."""

        def counted(key: bytes) -> tuple[bytes, bytes] | None:
            self.sought += 1
            return seek(key)

        return counted


@pytest.mark.parametrize("walk", WALKS)
def test_what_is_left_out_costs_a_step_a_block(
    tmp_path: Path, walk: Callable[[View, str, Skip], Iterator[Any]]
) -> None:
    made(tmp_path / "store-1")
    store = Store(tmp_path / "store-1", MAP, block=50)
    subjects = [Subject(".", f"s{number:04}") for number in range(1000)]
    commit(store, [(each, 1, DELETED if at % 10 == 0 else LIVE) for at, each in enumerate(subjects)])
    count(store)
    with store.view() as view:
        whole = behind(walk(view, "", Skip()), Skip())
        watched, skip = Watched(view), Skip(len(whole) - 5)
        assert behind(walk(watched, "", skip), skip) == whole[-5:]
        assert watched.sought < 400
    store.close()


def count_ids(store: Store) -> None:
    count(store)
    while not store.count_ids_step():
        pass


@pytest.mark.parametrize("deleted", [True, False])
def test_an_offset_into_what_holds_an_id_costs_a_step_a_block(tmp_path: Path, deleted: bool) -> None:
    made(tmp_path / "store-1")
    store = Store(tmp_path / "store-1", MAP, block=50)
    commit(store, [(Subject(".", f"s{number:04}"), 1, LIVE) for number in range(1000)])
    count_ids(store)
    for number in range(0, 200, 2):
        commit(store, [(Subject(".", f"s{number:04}"), 1, DELETED)])
    count_ids(store)
    with store.view() as view:
        whole = behind(lists.versions_of_id(view, ".", 1, deleted=deleted), Skip())
        watched, skip = Watched(view), Skip(len(whole) - 5)
        walk = lists.versions_of_id(watched, ".", 1, b"", skip, deleted=deleted)
        assert behind(walk, skip) == whole[-5:]
        assert watched.sought < 400
    store.close()


def test_a_subject_of_many_versions_does_not_keep_an_id_from_being_counted(tmp_path: Path) -> None:
    made(tmp_path / "store-1")
    store = Store(tmp_path / "store-1", MAP, block=50)
    append(store, [record(store.applied + at, Subject(".", "s"), at + 1, LIVE, 2) for at in range(300)])
    append(store, [record(store.applied + at, Subject(".", f"s{at % 200}"), 999, LIVE) for at in range(200)])
    append(store, [record(store.applied, Subject(".", "s"), 999, LIVE)])
    append(store, [record(store.applied + at, Subject(".", f"t{at}"), 1, LIVE) for at in range(200)])
    count_ids(store)
    with store.view() as view:
        watched, skip = Watched(view), Skip(395)
        assert len(behind(lists.versions_of_id(watched, ".", 1, b"", skip), skip)) == 6
        assert watched.sought < 800
    store.close()


@pytest.fixture
def long_subject(tmp_path: Path) -> Iterator[View]:
    """Return one subject of a thousand versions, of which the first and the last 500 are live."""
    made(tmp_path / "store-1")
    store = Store(tmp_path / "store-1", MAP, block=50)
    number = range(1, 1001)
    commit(store, [(Subject(".", "a"), each, LIVE if each == 1 else DELETED) for each in number])
    commit(store, [(Subject(".", "b"), each, LIVE) for each in number])
    count(store)
    with store.view() as view:
        yield view
    store.close()


def test_an_offset_into_the_versions_of_a_subject_costs_a_step_a_block(long_subject: View) -> None:
    watched, skip = Watched(long_subject), Skip(995)
    walk = lists.version_numbers(watched, Subject(".", "b"), None, skip)
    assert behind(walk, skip) == [996, 997, 998, 999, 1000]
    assert watched.sought < 200
    watched, skip = Watched(long_subject), Skip(995)
    schemas = lists.Schemas("").walk(watched, None, skip)
    assert [each.found.version for each in behind(schemas, skip)] == [995, 996, 997, 998, 999, 1000]
    assert watched.sought < 400


def test_the_latest_of_many_soft_deleted_versions_costs_a_step_a_block(long_subject: View) -> None:
    watched = Watched(long_subject)
    found = versions.latest(watched, Subject(".", "a"))
    assert found is not None
    assert found.version == 1
    assert watched.sought < 200
    over = OverlayView(Watched(long_subject), {rows.version_key(Subject(".", "b"), 1001): b""})
    assert versions.latest(over, Subject(".", "a")) == found
    assert over.base.sought < 300  # type: ignore[attr-defined]


def test_versions_that_a_clear_made_forgotten_are_no_part_of_an_offset(store: Store) -> None:
    commit(
        store, [(subject, version, DELETED if version == 1 else state) for subject, version, state in MANY]
    )
    clear(store, Subject(".", "s3"))
    count(store)
    with store.view() as view:
        for walk in WALKS:
            whole = behind(walk(view, "", Skip()), Skip())
            for number in range(len(whole) + 1):
                skip = Skip(number)
                assert behind(walk(view, "", skip), skip) == whole[number:]


def test_a_store_is_counted_again_after_a_version_that_knows_no_counts_wrote_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "store-1"
    made(folder)
    store = Store(folder, MAP)
    commit(store, MANY)
    count(store)
    with store._env.begin(store._meta, write=True) as txn:
        txn.put(layout.META_COUNTED, (store.applied - 1).to_bytes(8, "big"))
    with store.view() as view:
        assert view.block(rows.VERSION) is None
    store.close()
    store = Store(folder, MAP)
    with store.view() as view:
        assert view.block(rows.VERSION) is None
    count(store)
    with store.view() as view:
        assert blocks(view)[0].counts.versions == len(MANY)
    store.close()


def test_counts_are_kept_by_a_store_that_is_opened_again_and_seen_by_its_readers(tmp_path: Path) -> None:
    folder = tmp_path / "store-1"
    made(folder)
    store = Store(folder, MAP)
    commit(store, MANY)
    count(store)
    store.close()
    layout.write_current(tmp_path, layout.Current("store-1", "log"))
    reader = StoreReader(tmp_path)
    with reader.view() as view:
        assert blocks(view)[0].counts.versions == len(MANY)
    reader.close()


def test_a_commit_of_many_subjects_drops_the_counts_until_they_are_made_again(store: Store) -> None:
    commit(store, MANY)
    count(store)
    many = [(Subject(".", f"t{number}"), 1, LIVE) for number in range(counts.SUBJECTS_MAX + 1)]
    commit(store, many)
    with store.view() as view:
        assert view.block(rows.VERSION) is None
    assert not store.count_step()
    count(store)
    with store.view() as view:
        assert sum(each.counts.versions for each in blocks(view)) == len(MANY) + len(many)


def test_rows_that_come_by_the_thousand_are_counted_later(store: Store) -> None:
    count(store)
    folded: dict[bytes, bytes | None] = {}
    for change in apply(OverlayView(store.view(), folded), record(0, Subject(".", "a"), 1, LIVE)):
        folded.update([change])
    new = sorted((key, value) for key, value in folded.items() if value is not None)
    store.commit_folded(new, (), 1)
    with store.view() as view:
        assert view.block(rows.VERSION) is None
    count(store)
    with store.view() as view:
        assert [each.counts for each in blocks(view)] == [Counts(1, 1, 1, 1, 1)]
