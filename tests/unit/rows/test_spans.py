"""Spans of the log: whatever the order in which its parts come, in the end one span holds all of it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.rows import view
from registry.domain.rows.view import SPANS_MAX, Span, complete_from, gap_below, join_span

END = 60


@given(st.data(), st.sets(st.integers(0, END - 1)))
def test_parts_in_any_order_become_one_span_that_knows_the_last_hole(
    data: st.DataObject, holes: set[int]
) -> None:
    found: tuple[Span, ...] = ()
    while (gap := gap_below(found, END)) is not None:
        begin = data.draw(st.integers(gap[0], gap[1] - 1))
        end = data.draw(st.integers(begin + 1, gap[1]))
        since = max((hole + 1 for hole in holes if begin <= hole < end), default=begin)
        found = join_span(found, Span(begin, since, end))
        assert view.unpack(view.pack(found)) == found
        assert all(left.end < right.begin for left, right in pairwise(found))
    since = max((hole + 1 for hole in holes), default=0)
    assert found == (Span(0, since, END),)
    assert complete_from(found, END) == since


def test_nothing_is_complete_while_the_newest_part_is_missing() -> None:
    assert complete_from((Span(0, 0, 5),), 6) == 6
    assert complete_from((), 6) == 6
    assert gap_below((), 0) is None


def test_the_lowest_of_too_many_spans_are_forgotten() -> None:
    found: tuple[Span, ...] = ()
    for number in range(SPANS_MAX + 2):
        found = join_span(found, Span(10 * number, 10 * number, 10 * number + 1))
    assert [each.begin for each in found] == [10 * number for number in range(2, SPANS_MAX + 2)]


def test_spans_of_another_format_are_none() -> None:
    known = view.pack((Span(0, 0, 1),))
    for raw in (b"\x01" + known[1:], known[:-1], b""):
        assert view.unpack(raw) == ()
    assert [view.is_foreign(raw) for raw in (known, b"\x01" + known[1:], b"")] == [False, True, False]
