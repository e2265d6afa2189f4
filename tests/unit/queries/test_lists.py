"""Lists: their order, and starting after any item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.fold.fold import apply
from registry.domain.log_format import subject_values, values
from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import (
    AssociationKey,
    Record,
    association_key,
    context_key,
    schema_key,
)
from registry.domain.lookup.duplicates import id_conflicts
from registry.domain.model import Subject
from registry.domain.queries import associations, by_subject, lists, subject_order, versions
from registry.domain.queries.associations import Filter
from registry.domain.queries.subject_order import Prefix
from registry.domain.queries.walks import in_order
from registry.domain.rows.memory_views import DictView, MovingView
from registry.domain.rows.view import View

LONG_CONTEXT = "." + "c" * 130
CONTEXTS = [".", ".a", ".a-b", ".a.b", ".a-", ".ab", ".a~", ".b", ".\u00e9", LONG_CONTEXT]
STEM = "n" * 84
NAMES = st.one_of(
    st.sampled_from(["a", "b", ":", ":-", ":.", ":.x", ":.a:", ":/", ":x", "\u00e9", "\U0001f600"]),
    st.text(":.-ab\x00\x01", min_size=1, max_size=4),
    st.builds(
        lambda tail, size: STEM + tail * size, st.text("ab:\x01", min_size=1, max_size=2), st.integers(0, 80)
    ),
)
SUBJECTS = st.builds(Subject, st.sampled_from(CONTEXTS), NAMES)
PREFIXES = [
    *("", "a", ":", STEM, STEM + "a" * 90, ":*:", ":*:a", ":*::.", ":.", ":.a", ":.a-", ":.a:", ":.:", ":.c"),
    *(":.:a", ":.a:" + STEM, ":.a-:"),
]  # fmt: skip


class Store:
    """Rows folded from records, written without the checks of our own writers."""

    def __init__(self) -> None:
        self.view = DictView()
        self.offset = 0

    def append(self, key: bytes, value: bytes | None) -> None:
        self.view.commit(apply(self.view, Record(self.offset, 0, key, value)))
        self.offset += 1

    def version(self, name: str | Subject, number: int = 1, schema_id: int = 1, **members: Any) -> None:
        subject = Subject.parse(name) if isinstance(name, str) else name
        text = members.pop("schema", '"string"')
        value = values.schema_value(subject, number, schema_id, text, **members)
        self.append(schema_key(subject, number), value)

    def associate(self, subject: str, name: str, namespace: str = "n", **members: Any) -> None:
        key = AssociationKey(Subject.parse(subject), name, namespace, "topic", members.pop("kind", "value"))
        found = associations.Association(
            subject, f"guid-{name}", name, namespace, f"id-{name}", "topic", key.association_type, **members
        )
        self.append(association_key(key), found.entry().value)


def items(walk: Iterator[Any]) -> list[Any]:
    return [each for each in walk if each is not None]


def resumable(
    walk: Callable[[View, Any], Iterator[Any]], view: View, mark: Callable[[Any], Any]
) -> list[Any]:
    """Return all items after checking that a walk can be resumed after each of them."""
    everything = items(walk(view, None))
    for place, each in enumerate(everything):
        assert items(walk(view, mark(each))) == everything[place + 1 :]
    return everything


class TestSubjects:
    @given(st.sets(SUBJECTS, max_size=30), st.sampled_from(PREFIXES))
    def test_they_come_in_the_order_of_their_qualified_names(self, chosen: set[Subject], text: str) -> None:
        store, prefix = Store(), Prefix.parse(text)
        for each in chosen:
            store.version(each)
        known = {each for each in chosen if Subject.parse(each.qualified) == each}
        found = resumable(
            lambda view, after: lists.subjects(view, text, after), store.view, lambda each: each
        )
        assert set(found) & known == {each for each in known if prefix.admits(each)}
        assert found == sorted(found, key=subject_order.rank)
        short = [
            each.qualified for each in found if each.context != LONG_CONTEXT and each.context.isprintable()
        ]
        assert short == sorted(short)

    @given(st.sets(SUBJECTS, max_size=12), SUBJECTS, st.sampled_from(PREFIXES))
    def test_they_go_on_behind_one_that_is_gone(self, chosen: set[Subject], gone: Subject, text: str) -> None:
        store = Store()
        for each in chosen - {gone}:
            store.version(each)
        everything = items(lists.subjects(store.view, text))
        if Prefix.parse(text).admits(gone):
            behind = [each for each in everything if subject_order.rank(each) > subject_order.rank(gone)]
            assert items(lists.subjects(store.view, text, gone)) == behind

    @pytest.mark.parametrize(
        ("how", "found"),
        [
            ({}, ["both", "live"]),
            ({"deleted": True}, ["both", "gone", "live"]),
            ({"deleted_only": True}, ["gone"]),
            ({"deleted": True, "deleted_only": True}, ["gone"]),
        ],
    )
    def test_a_subject_is_deleted_when_all_its_versions_are(self, how: Any, found: list[str]) -> None:
        store = Store()
        for name, number, deleted in [
            ("both", 1, True),
            ("both", 2, False),
            ("gone", 1, True),
            ("gone", 2, True),
        ]:
            store.version(name, number, deleted=deleted)
        store.version("live")
        walk = resumable(
            lambda view, after: lists.subjects(view, "", after, **how), store.view, lambda each: each
        )
        assert [each.name for each in walk] == found

    def test_a_walk_pauses_within_a_subject_of_many_deleted_versions(self) -> None:
        store = Store()
        for number in range(1, 101):
            store.version("s", number, deleted=True)
        assert len(list(lists.subjects(store.view, ""))) > 100

    def test_a_filter_by_associations(self) -> None:
        store = Store()
        for name in ("s", "w", "none"):
            store.version(name)
        store.associate("s", "t", lifecycle="STRONG")
        store.associate("w", "t", kind="key", lifecycle="WEAK")
        for wanted, found in [
            (Filter(lifecycles=("STRONG",)), ["s"]),
            (Filter(lifecycles=("WEAK", "NONE")), ["none", "w"]),
            (Filter("topic", ("key",)), ["w"]),
            (Filter("other"), []),
        ]:
            listed = lists.Schemas("", wanted=wanted).walk(store.view)
            assert [each.found.subject.name for each in items(listed)] == found

    def test_a_walk_pauses_at_each_subject_that_a_filter_by_associations_excludes(self) -> None:
        store = Store()
        for number in range(100):
            store.version(f"s{number}")
        assert len(list(lists.Schemas("", wanted=Filter("topic")).walk(store.view))) == 100


@given(st.lists(st.tuples(SUBJECTS, st.integers(1, 3), st.booleans()), max_size=20), st.data())
def test_schemas_can_begin_behind_any_version(
    chosen: list[tuple[Subject, int, bool]], data: st.DataObject
) -> None:
    store = Store()
    for subject, number, deleted in chosen:
        store.version(subject, number, deleted=deleted)
    wanted = lists.Schemas(
        data.draw(st.sampled_from(PREFIXES)),
        deleted=data.draw(st.booleans()),
        latest_only=data.draw(st.booleans()),
        with_aliases=data.draw(st.booleans()),
    )
    for alias in data.draw(st.lists(SUBJECTS, max_size=3)):
        target = data.draw(SUBJECTS)
        config = subject_values.config_value(alias, {"alias": target.qualified})
        store.append(b'{"keytype":"CONFIG","subject":%s,"magic":0}' % dumps(alias.qualified), config)
    found = resumable(wanted.walk, store.view, lambda each: (each.found.subject, each.found.version))
    listed = [(subject_order.rank(each.found.subject), each.found.version) for each in found]
    assert listed == sorted(set(listed))
    if not wanted.with_aliases:
        shown = items(lists.subjects(store.view, wanted.prefix, deleted=wanted.deleted))
        assert list(dict.fromkeys(each.found.subject for each in found)) == shown


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(1, 2), st.booleans())))
def test_each_subject_of_an_id_comes_once_with_its_last_version(
    chosen: list[tuple[str, int, int, bool]],
) -> None:
    store = Store()
    last: dict[str, tuple[int, bool]] = {}
    written: dict[tuple[str, int], tuple[int, int, bool]] = {}
    for name, number, schema_id, deleted in chosen:
        written[name, number] = (store.offset, schema_id, deleted)
        store.version(name, number, schema_id, deleted=deleted)
    for (name, number), (_, schema_id, deleted) in sorted(written.items(), key=lambda each: each[1][0]):
        if schema_id == 1:
            last[name] = (number, deleted)
    for seen in (True, False):

        def walk(view: View, after: bytes | None, seen: bool = seen) -> Iterator[Any]:
            return lists.versions_of_id(view, ".", 1, after or b"", deleted=seen)

        found = resumable(walk, store.view, lambda each: each.place)
        shown = {name: number for name, (number, deleted) in last.items() if seen or not deleted}
        assert {each.found.subject.name: each.found.version for each in found} == shown
        assert len(found) == len(shown)


def test_contexts_can_begin_behind_any() -> None:
    store = Store()
    for name in CONTEXTS[1:]:
        store.append(context_key(name), b"{}")
    found = resumable(lambda view, after: versions.contexts(view, "", after), store.view, lambda each: each)
    assert found == [".", *sorted(CONTEXTS[1:])]
    assert items(versions.contexts(store.view, ".a")) == sorted(
        each for each in CONTEXTS if each.startswith(".a")
    )
    assert items(versions.contexts(store.view, "x")) == []


def test_associations_can_begin_behind_any() -> None:
    store = Store()
    for name in ("t", "u", "x" * 130, "x" * 131):
        for namespace in ("n", "m"):
            for kind in ("value", "key"):
                store.associate(f"s-{kind}", name, namespace, kind=kind)
    walks: list[Callable[[View, Any], Iterator[Any]]] = [
        lambda view, after: associations.list_of_subject(view, Subject.parse("s-key"), Filter(), after),
        lambda view, after: associations.list_of_resource_id(view, "id-t", Filter(), after),
        lambda view, after: associations.list_named(view, "-", "-", Filter(), after),
        lambda view, after: associations.list_named(view, "t", "-", Filter(), after),
        lambda view, after: associations.list_named(view, "-", "n", Filter("topic", ("key",)), after),
        lambda view, after: associations.list_named(view, "t", "n", Filter(), after),
    ]
    sizes = [len(resumable(walk, store.view, associations.sort_key)) for walk in walks]
    assert sizes == [8, 4, 16, 4, 4, 2]


def test_clashes_are_reported_with_the_first_that_has_the_id() -> None:
    store = Store()
    store.version("alone", schema_id=7)
    for name, schema in (("a", '"int"'), ("b", '"long"'), ("c", '"int"'), ("d", '"bytes"')):
        store.version(name, schema=schema)
    found = [(each.subject.name, first.subject.name) for each, first in items(id_conflicts(store.view))]
    assert found == [("b", "a"), ("d", "a")]


@given(st.lists(st.integers(0, 50)), st.integers(1, 5), st.none() | st.integers(-1, 50))
def test_sorting_in_batches_is_sorting(numbers: list[int], batch: int, after: int | None) -> None:
    def walk() -> Iterator[int | None]:
        return iter([None, *numbers])

    expected = sorted({each for each in numbers if after is None or each > after})
    assert items(in_order(walk, lambda each: each, after, batch)) == expected


def test_a_walk_goes_on_over_another_view() -> None:
    before, after = Store(), Store()
    for name in ("a", "b", "d"):
        before.version(name)
    for name in ("b", "c", "d"):
        after.version(name)
    moving = MovingView()
    moving.show(before.view)
    walk = lists.subjects(moving, "")
    assert next(walk) == Subject(".", "a")
    moving.show(after.view)
    assert items(walk) == [Subject(".", "b"), Subject(".", "c"), Subject(".", "d")]


def test_names_of_all_subjects(small: Any) -> None:
    small.register("b")
    small.register(":.ctx:a")
    assert by_subject.subjects(small.view, ":*:") == [":.ctx:a", "b"]
