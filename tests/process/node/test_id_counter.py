"""The mirror of the default context's ids in a counter that others use, too."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import pytest

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record, reservation_key
from registry.domain.log_format.values import reservation_value
from registry.domain.rows.memory_views import DictView
from registry.node.leadership.claim import IdCounter

_T = TypeVar("_T")


class Place:
    """A counter that answers at once, and the rows that are mirrored in it."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.rows = DictView()
        self.asked: list[tuple[int, ...]] = []

    def reserve(self, upto: int) -> None:
        self.rows.commit(apply(self.rows, Record(0, 0, reservation_key("."), reservation_value(upto))))

    def view(self) -> AbstractContextManager[DictView]:
        return nullcontext(self.rows)

    def advance(self, upto: int) -> Future[int]:
        self.asked.append((upto,))
        before, self.value = self.value, max(self.value, upto)
        return finished(before)

    def lower(self, since: int, to: int) -> Future[bool]:
        self.asked.append((since, to))
        unchanged = self.value == since
        self.value = to if unchanged else self.value
        return finished(unchanged)


def finished(result: _T) -> Future[_T]:
    found: Future[_T] = Future()
    found.set_result(result)
    return found


@pytest.mark.parametrize(("counted", "floor"), [(0, 0), (20, 0), (21, 21)])
def test_only_what_others_have_counted_is_a_floor(counted: int, floor: int) -> None:
    """Otherwise ids that are released later would still seem to be taken by others."""
    place = Place(counted)
    place.reserve(20)
    counter = IdCounter(place.view, place.advance, place.lower)
    counter.read()
    assert counter.floor == floor
    assert place.value == max(20, counted)


def test_the_counter_follows_reservations_and_releases_and_is_asked_only_then() -> None:
    place = Place(0)
    counter = IdCounter(place.view, place.advance, place.lower)
    counter.read()
    for upto in (20, 20, 60, 20, 20):
        place.reserve(upto)
        counter.wrote()
        assert place.value == upto
    assert place.asked == [(0,), (20,), (60,), (60, 20)]


def test_the_counter_stays_where_others_have_moved_it() -> None:
    place = Place(0)
    place.reserve(60)
    counter = IdCounter(place.view, place.advance, place.lower)
    counter.read()
    place.value = 80
    place.reserve(20)
    counter.wrote()
    assert place.value == 80
