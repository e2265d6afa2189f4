"""Lists of subjects by level, mode, type and words, against looking at every subject; and what they read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from registry.domain.log_format import subject_values
from registry.domain.log_format.records import config_key, mode_key
from registry.domain.model import ALL_CONTEXTS, EVERYWHERE, TOP, Subject
from registry.domain.queries import candidates, entities, scope, subject_ids, versions
from registry.domain.queries.candidates import Owners
from registry.domain.queries.scope import Defaults
from registry.domain.queries.subject_list import SORTS, Filter, SubjectList
from registry.domain.rows import layout
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View
from tests.support.counting_view import CountingView
from tests.unit.queries.test_lists import CONTEXTS, PREFIXES, SUBJECTS, Store, items, resumable
from tests.unit.security.test_permitted_view import access, patterns, permitted

DEFAULTS = Defaults(compatibility="BACKWARD")
LEVELS, MODES = ("BACKWARD", "FULL", "NONE"), ("READWRITE", "READONLY", "IMPORT")
SCOPES = st.one_of(
    SUBJECTS, st.sampled_from([TOP, EVERYWHERE]), st.builds(Subject, st.sampled_from(CONTEXTS), st.just(""))
)
# A scope, and its level (None: its config has none) or mode.
SETTINGS = st.lists(st.tuples(SCOPES, st.sampled_from((None, *LEVELS, *MODES))), max_size=20)
CHOSEN = st.lists(
    st.tuples(st.one_of(SUBJECTS, st.builds(Subject, st.just(ALL_CONTEXTS), st.just("a"))), st.booleans()),
    max_size=25,
)  # fmt: skip


def folded(chosen: list[tuple[Subject, bool]], settings: list[tuple[Subject, str | None]]) -> DictView:
    """Return rows of these subjects, some of them soft-deleted, and these settings."""
    store = Store()
    for number, (subject, deleted) in enumerate(chosen):
        kind = {} if number % 2 else {"schema_type": "JSON"}
        store.version(subject, 1 + number % 2, 1 + number % 7, deleted=deleted, **kind)
    for place, value in settings:
        store.append(*record_of(place, value))
    return store.view


def record_of(place: Subject, value: str | None) -> tuple[bytes, bytes]:
    if value in MODES:
        return mode_key(place), subject_values.mode_value(place, str(value))
    config = {"normalize": True} | ({} if value is None else {"compatibilityLevel": value})
    return config_key(place), subject_values.config_value(place, config)


def naive(view: View, rows: View, wanted: Filter) -> list[Any]:
    """Walk all subjects, and keep those that pass. ``rows``: of everybody."""

    def passes(subject: Subject) -> bool:
        latest = versions.latest(view, subject) or versions.newest(view, subject)
        assert latest is not None
        owner = layout.scope_key(layout.VERSION, subject)[1:]
        return (
            wanted.level in ("", scope.config_in_scope(rows, subject, DEFAULTS).compatibility_level)
            and wanted.mode in ("", scope.mode_in_scope(rows, subject))
            and wanted.schema_type in ("", entities.schema_type(latest.row))
            and (wanted.owners is None or owner in wanted.owners)
        )

    return [each for each in items(wanted.subjects.walk(view)) if passes(getattr(each, "subject", each))]


@pytest.fixture(params=["bounded", "small"])
def bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test also with seeks that give up soon."""
    if request.param == "small":
        monkeypatch.setattr(candidates, "CANDIDATES_MAX", 2)
        monkeypatch.setattr(candidates, "ROWS_MAX", 2)
        monkeypatch.setattr(subject_ids, "BATCH", 3)


FILTERS = st.builds(
    lambda prefix, sort, deleted, level, mode, kind: Filter(
        SubjectList(prefix, deleted[0], deleted[1], sort), kind, level, mode
    ),
    st.sampled_from(PREFIXES), st.sampled_from(SORTS),
    st.sampled_from([(False, False), (True, False), (False, True)]),
    st.sampled_from(("", *LEVELS)), st.sampled_from(("", *MODES)), st.sampled_from(("", "", "JSON")),
)  # fmt: skip


@pytest.mark.usefixtures("bounds")
@given(CHOSEN, SETTINGS, FILTERS, st.one_of(st.none(), st.sets(SUBJECTS, max_size=8)), patterns(SUBJECTS))
@example([(Subject(".", ""), False)], [(TOP, "FULL")], Filter(SubjectList(":*:"), level="FULL"), None, ["s*"])
def test_a_filtered_list_is_what_passes_of_the_whole_one_from_everywhere(
    chosen: list[tuple[Subject, bool]],
    settings: list[tuple[Subject, str | None]],
    wanted: Filter,
    named: set[Subject] | None,
    allowed: list[str],
) -> None:
    rows = folded(chosen, settings)
    if named is not None:
        some = [*named, *(subject for subject, _ in chosen[::2])]
        owners = Owners([layout.scope_key(layout.VERSION, each)[1:] for each in some])
        wanted = wanted._replace(owners=owners)
    for view in (rows, permitted(rows, access(allowed))):
        found = resumable(lambda seen, after: wanted.walk(seen, DEFAULTS, after), view, lambda each: each)
        assert found == naive(view, rows, wanted)


def many(count: int) -> CountingView:
    """Return subjects of two contexts, of which every hundredth has a level and a mode of its own."""
    store = Store()
    store.view = CountingView()
    for number in range(count):
        place = Subject(("", ".c")[number % 2] or ".", f"s{number:05}")
        store.version(place, 1, number + 1)
        if number % 100 == 0:
            store.append(*record_of(place, "FULL"))
            store.append(*record_of(place, "READONLY"))
    store.append(*record_of(Subject(".c", ""), "NONE"))
    return store.view


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    "wanted", [{"level": "FULL"}, {"mode": "READONLY"}, {"level": "FULL", "mode": "IMPORT"}]
)
def test_few_matches_of_many_are_found_without_a_look_at_the_others(
    sort: str, wanted: dict[str, str]
) -> None:
    view = many(4000)
    view.reads = 0
    found = items(Filter(SubjectList(":*:", sort=sort), **wanted).walk(view, DEFAULTS))
    assert len(found) == (0 if wanted.get("mode") == "IMPORT" else 40)
    assert view.reads < 40 * 40


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("level", ["BACKWARD", "NONE"])
def test_a_page_of_many_matches_costs_no_more_than_itself(sort: str, level: str) -> None:
    view, page = many(4000), []
    view.reads = 0
    for each in Filter(SubjectList(":*:", sort=sort), level=level).walk(view, DEFAULTS):
        page += [] if each is None else [each]
        if len(page) == 50:
            break
    assert len(page) == 50
    # By id, a context's first subjects are counted once.
    assert view.reads < 50 * 12 + (2 * subject_ids.FEW if "id" in sort else 0)


def test_a_seek_reads_a_bounded_number_of_rows() -> None:
    store = Store()
    store.view = CountingView()
    for number in range(3000):
        place = Subject(".", f"s{number:05}")
        store.version(place, 1, number + 1)
        store.append(*record_of(place, "FULL" if number in (0, 2999) else "NONE"))
    for sort in ("name", "-name"):
        walk, most = Filter(SubjectList(":*:", sort=sort), level="FULL").walk(store.view, DEFAULTS), 0
        store.view.reads, found = 0, []
        for each in walk:
            found += [] if each is None else [each]
            most, store.view.reads = max(most, store.view.reads), 0
        assert len(found) == 2, "a seek that gave up skipped a subject"
        # Between two subjects a walk looks for the next context, too.
        assert most <= 6 * candidates.CANDIDATES_MAX * (candidates.ROWS_MAX + 2) < 2000
