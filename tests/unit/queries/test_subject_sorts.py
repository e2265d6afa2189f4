"""The orders of the list of subjects, against sorting all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.log_format.records import Record
from registry.domain.model import Subject
from registry.domain.queries import lists, subject_order, versions
from registry.domain.queries.subject_ids import ById, Place
from registry.domain.queries.subject_list import SORTS, SubjectList
from registry.domain.queries.subject_order import Prefix
from registry.domain.rows import layout
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View
from registry.security.gate import Permission
from tests.unit import random_logs
from tests.unit.queries.test_lists import PREFIXES, SUBJECTS, Store, items, resumable
from tests.unit.security.test_permitted_view import access, patterns, permitted

DELETIONS = [(False, False), (True, False), (False, True)]
VERSIONS = st.lists(
    st.tuples(SUBJECTS, st.integers(1, 5), st.integers(-1, 4), st.booleans()), max_size=30
)  # fmt: skip


def folded(written: list[tuple[Subject, int, int, bool]]) -> DictView:
    """Return the rows of versions with these numbers and ids, some of them soft-deleted."""
    store = Store()
    for subject, version, schema_id, deleted in written:
        store.version(subject, version, schema_id, deleted=deleted)
    return store.view


def naive(view: View, wanted: SubjectList) -> list[Place]:
    """Look up the latest version of every subject, and sort."""
    found = []
    known = lists.subjects(view, wanted.prefix, deleted=wanted.deleted, deleted_only=wanted.deleted_only)
    for subject in items(known):
        newest = versions.latest(view, subject) or versions.newest(view, subject)
        assert newest is not None
        found.append(Place(subject, newest.row.schema_id, newest.row.offset, newest.version))
    found.sort(key=lambda each: (each.schema_id, each.offset, each.key), reverse=wanted.sort.startswith("-"))
    return sorted(found, key=lambda each: layout.part(each.subject.context))


def names(view: View, wanted: SubjectList) -> list[str]:
    return [each.qualified for each in items(wanted.walk(view))]


@given(st.sets(SUBJECTS, max_size=30), st.sampled_from(PREFIXES))
def test_names_go_back_in_the_reverse_order(chosen: set[Subject], text: str) -> None:
    store = Store()
    for each in chosen:
        store.version(each)
    wanted = SubjectList(text, sort="-name")
    found = resumable(wanted.walk, store.view, lambda each: each)
    assert found == items(lists.subjects(store.view, text))[::-1]


@given(st.sets(SUBJECTS, max_size=12), SUBJECTS, st.sampled_from(PREFIXES))
def test_names_go_back_from_one_that_is_gone(chosen: set[Subject], gone: Subject, text: str) -> None:
    store = Store()
    for each in chosen - {gone}:
        store.version(each)
    wanted = SubjectList(text, sort="-name")
    everything = items(wanted.walk(store.view))
    if Prefix.parse(text).admits(gone):
        before = [each for each in everything if subject_order.rank(each) < subject_order.rank(gone)]
        assert items(wanted.walk(store.view, gone)) == before


@given(st.lists(st.text(".-a:", max_size=3), max_size=12), st.text(".-a", max_size=3))
def test_contexts_go_back_however_their_names_begin(tails: list[str], beginning: str) -> None:
    store = Store()
    for tail in tails:
        store.version(Subject("." + tail.replace(":", "z"), "x"))
    for text in (":*:", f":.{beginning}"):
        forward = items(lists.subjects(store.view, text))
        assert items(SubjectList(text, sort="-name").walk(store.view)) == forward[::-1]


@pytest.mark.parametrize("few", [0, 3, 1000])
@given(VERSIONS, st.sampled_from(PREFIXES), st.sampled_from(["id", "-id"]), st.sampled_from(DELETIONS))
def test_ids_are_in_order_whichever_way_they_are_found(
    few: int, written: list[Any], text: str, sort: str, deletion: tuple[bool, bool]
) -> None:
    view = folded(written)
    wanted = SubjectList(text, *deletion, sort)
    chosen = ById(Prefix.parse(text), wanted.admits, sort == "-id", few)
    assert resumable(chosen.walk, view, lambda each: each) == naive(view, wanted)


@pytest.mark.parametrize("sort", SORTS)
@given(random_logs.logs, st.sampled_from(["", ":*:", "a", ":.c:"]), st.sampled_from(DELETIONS))
def test_every_order_lists_the_same_subjects_of_any_log(
    sort: str, log: list[Record], text: str, deletion: tuple[bool, bool]
) -> None:
    view = random_logs.fold(log)
    wanted = SubjectList(text, *deletion, sort)
    by_name = [each.qualified for each in items(SubjectList(text, *deletion).walk(view))]
    expected = [each.qualified for each in naive(view, wanted)] if wanted.by_id else by_name
    assert names(view, wanted) == (by_name[::-1] if sort == "-name" else expected)


@pytest.mark.parametrize("few", [0, 1000])
@given(VERSIONS, patterns(SUBJECTS), st.sampled_from(SORTS))
def test_other_subjects_are_left_out_and_the_order_stays(
    few: int, written: list[Any], chosen: list[str], sort: str
) -> None:
    base, allowed = folded(written), access(chosen)
    wanted = SubjectList(":*:", sort=sort)
    rows = permitted(base, allowed)

    def found(view: View) -> list[Any]:
        if not wanted.by_id:
            return items(wanted.walk(view))
        return items(ById(Prefix.parse(":*:"), wanted.admits, sort == "-id", few).walk(view))

    def readable(each: Subject | Place) -> bool:
        return allowed.may(Permission.READ, each.subject if isinstance(each, Place) else each)

    assert found(rows) == [each for each in found(base) if readable(each)]


@given(SUBJECTS, st.integers(), st.integers(), st.integers())
def test_any_numbers_make_a_place(subject: Subject, schema_id: int, offset: int, version: int) -> None:
    place = Place(subject, schema_id, offset, version)
    assert place.key.startswith(layout.context_key(layout.ID, subject.context))


def test_a_walk_by_id_pauses_at_every_row_and_lists_a_subject_once() -> None:
    store = Store()
    for number in range(1, 51):
        for name in "abc":
            store.version(name, number, number)
    walk = list(ById(Prefix.parse(":*:"), lambda deleted: not deleted, few=0).walk(store.view))
    assert len(walk) >= 150
    assert names(store.view, SubjectList(":*:", sort="-id")) == ["c", "b", "a"]
