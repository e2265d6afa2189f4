"""The view of what one principal may read: as if all else were not stored, and at no further cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.domain.queries import lists, versions
from registry.domain.queries.associations import subject_of
from registry.domain.rows import layout, version_row
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View, scan, scan_back
from registry.domain.subject_patterns import parse_pattern
from registry.security.authorization.permitted_view import PermittedView, Spans
from registry.security.authorization.rules import RuleAccess
from registry.security.gate import Access, Permission
from tests.support.counting_view import CountingView
from tests.unit import random_logs

READ = Permission.READ
LONG = "n" * 84
NAMES = st.one_of(
    st.text(alphabet="ab-\x00\x01\u00e9", min_size=1, max_size=3),
    st.text(alphabet="ab", max_size=2).map(lambda end: LONG[:82] + end),
    st.text(alphabet="ab", max_size=2).map(lambda end: LONG + end),
    st.text(alphabet="ab", max_size=2).map(lambda end: LONG + "m" * 60 + end),
)
SUBJECTS = st.builds(Subject, st.sampled_from([".", ".a", ".a-b", ".b"]), NAMES)
RANDOM = st.sampled_from(random_logs.SUBJECTS)


def patterns(subjects: st.SearchStrategy[Subject]) -> st.SearchStrategy[list[str]]:
    cut = st.builds(
        lambda each, at: each._replace(name=each.name[:at]).qualified + "*", subjects, st.integers(0, 100)
    )
    return st.lists(st.one_of(subjects.map(lambda each: each.qualified), cut).filter(is_pattern), max_size=6)


def is_pattern(text: str) -> bool:
    """Return false if rules may not say this, such as ``:*``, which names a context in part."""
    try:
        parse_pattern(text)
    except ValueError:
        return False
    return True


def access(given_patterns: Iterable[str]) -> Access:
    return RuleAccess([(frozenset({READ}), tuple(map(parse_pattern, given_patterns)))])


def permitted(base: View, allowed: Access) -> View:
    return base if allowed.everywhere(READ) else PermittedView(base, Spans(allowed))


def of(subjects: Iterable[Subject], text: str = '"int"') -> DictView:
    """Each subject with two versions of the id 1."""
    rows = DictView()
    for subject in subjects:
        for version in (1, 2):
            offset = len(list(rows.rows()))
            value = schema_value(subject, version, 1, text)
            rows.commit(apply(rows, Record(offset, 1000, schema_key(subject, version), value)))
    return rows


@given(st.lists(SUBJECTS, max_size=12, unique=True), patterns(SUBJECTS), SUBJECTS)
def test_lists_show_what_may_be_read(
    subjects: list[Subject], given_patterns: list[str], sought: Subject
) -> None:
    base, allowed = of(subjects), access(given_patterns)
    rows = permitted(base, allowed)
    readable = [each for each in subjects if allowed.may(READ, each)]
    everything = [each for each in lists.subjects(base, ":*:") if each is not None]
    shown = [each for each in lists.subjects(rows, ":*:") if each is not None]
    assert shown == [each for each in everything if allowed.may(READ, each)]
    resumed = [each for each in lists.subjects(rows, ":*:", sought) if each is not None]
    assert resumed == [each for each in lists.subjects(base, ":*:", sought) if each in readable]
    for context in (".", ".a", ".b"):
        found = {each.found.subject for each in lists.versions_of_id(rows, context, 1) if each is not None}
        assert found == {each for each in readable if each.context == context}
        first = versions.by_id(rows, context, 1)
        assert (first is not None) is bool(found)
    for subject in subjects:
        latest = versions.latest(rows, subject)
        assert (latest is not None) is (subject in readable)
        assert len(list(scan_back(rows, layout.scope_key(layout.VERSION, subject)))) == 2 * (
            subject in readable
        )


def owner(base: View, key: bytes, value: bytes) -> Subject | None:
    """The subject of a row; None for rows that have none."""
    match key[:1]:
        case layout.VERSION:
            return versions.subject_at(key, value)
        case layout.ASSOCIATION:
            return subject_of(value)
        case layout.CONFIG | layout.MODE:
            return layout.scope_of(key, value)
        case layout.GUID | layout.ID | layout.REFERRER:
            packed = layout.owner_of(key)
            row = base.get(layout.VERSION + packed + key[-4:])
            return None if row is None else versions.subject_at(layout.VERSION + packed + key[-4:], row)
        case layout.RESOURCE_NAME | layout.RESOURCE_ID:
            row = base.get(layout.association_of(key))
            return None if row is None else subject_of(row)
    return None


def groups(base: DictView) -> Iterator[bytes]:
    """The beginnings of keys that are scanned."""
    yield from (layout.VERSION, layout.ASSOCIATION, layout.CONFIG, layout.MODE)
    for key, _ in base.rows():
        match key[:1]:
            case layout.GUID:
                yield key[: key.index(b"\0") + 17]
            case layout.REFERRER:
                yield key[: key.index(b"\0", key.index(b"\0") + 1) + 5]
            case layout.RESOURCE_NAME:
                yield layout.resource_of(key)
            case layout.RESOURCE_ID:
                yield key[: key.index(b"\0") + 1]


@given(random_logs.logs, patterns(RANDOM))
def test_every_table_is_shown_without_the_rows_of_other_subjects(
    log: list[Record], given_patterns: list[str]
) -> None:
    base, allowed = random_logs.fold(log), access(given_patterns)
    if allowed.everywhere(READ):
        return
    rows = PermittedView(base, Spans(allowed))
    for prefix in set(groups(base)):
        expected = [
            row
            for row in scan(base, prefix)
            if (subject := owner(base, *row)) is not None and allowed.may(READ, subject)
        ]
        assert list(scan(rows, prefix)) == expected
        if prefix == layout.VERSION:
            assert list(scan_back(rows, prefix)) == expected[::-1]
        closed = (layout.CONFIG, layout.MODE)
        for key, value in scan(base, prefix):
            if key[:1] not in closed:
                assert (rows.get(key) == value) is ((key, value) in expected)
    for key, _ in scan(base, layout.ID):
        prefix = key[: key.index(b"\0") + 5]
        ids = [
            row
            for row in scan(base, prefix)
            if (subject := owner(base, *row)) is not None and allowed.may(READ, subject)
        ]
        assert sorted(scan(rows, prefix)) == ids


@pytest.mark.parametrize(
    "table",
    [
        layout.QUARANTINE,
        layout.CLUSTER,
        layout.ENCODED,
        layout.FOREIGN,
        layout.WEBHOOK,
        layout.POSITION,
        layout.SOURCE,
        layout.USE,
    ],
)
def test_tables_without_subjects_are_not_shown(table: bytes) -> None:
    rows = PermittedView(DictView([(table + b"a\0b\0", b"value")]), Spans(access([":.:*"])))
    assert rows.get(table + b"a\0b\0") is None
    assert list(scan(rows, table)) == []


@pytest.fixture(scope="module")
def large() -> CountingView:
    """Many subjects with the same schema in one context."""
    rows: dict[bytes, bytes] = {}
    nothing = DictView()
    for number in range(20_000):
        subject = Subject(".", f"s{number:05}")
        value = schema_value(subject, 1, 1, '"int"')
        changes = apply(nothing, Record(number, 1000, schema_key(subject, 1), value))
        rows.update((key, row) for key, row in changes if row is not None)
    return CountingView(rows.items())


MINE = [f"s{number}*" for number in (1000, 1500)] + ["s19999", "absent"]  # 21 subjects in four ranges


def test_what_is_read_is_bounded_by_what_may_be_read(large: CountingView) -> None:
    rows = PermittedView(large, Spans(access(MINE)))
    large.reads = 0
    assert len([each for each in lists.subjects(rows, ":*:") if each is not None]) == 21
    assert large.reads < 100
    large.reads = 0
    found = versions.by_id(rows, ".", 1)
    assert found is not None
    assert found.subject.name == "s10000"
    assert large.reads < 2 * versions.SHARED_ROWS_MAX + 20
    large.reads = 0
    assert len([each for each in lists.versions_of_id(rows, ".", 1) if each is not None]) == 21
    assert large.reads < 2 * versions.SHARED_ROWS_MAX + 21 * 12


def test_an_id_under_other_subjects_only_is_missing(large: CountingView) -> None:
    rows = PermittedView(large, Spans(access(["absent", "t*"])))
    large.reads = 0
    assert versions.by_id(rows, ".", 1) is None
    assert large.reads < 2 * versions.SHARED_ROWS_MAX + 20
    assert version_row.md5_of(large.get(layout.version_key(Subject(".", "s00001"), 1)) or b"")
