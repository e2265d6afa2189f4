"""The memory of the newest events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.events import Event, Kind
from registry.feed.contract import PAGE_BYTES, PAGE_EVENTS, Page
from registry.feed.ring import Ring, RingEntry, entries_of, entry_of


def events(*offsets: int, subject: str = "a") -> list[RingEntry]:
    return [entry_of(Event(each, 1, Kind.MODE_DELETED, ".", subject)) for each in offsets]


def offsets_of(entries: list[RingEntry] | tuple[RingEntry, ...]) -> list[int]:
    return [each.event.offset for each in entries]


def test_it_covers_what_was_added_and_offsets_without_events() -> None:
    ring = Ring(10)
    assert ring.covers(10)
    assert not ring.covers(9)
    assert not ring.covers(11)
    ring.add(events(11, 14), 20)
    assert [position for position in range(25) if ring.covers(position)] == [*range(10, 21)]
    assert [offsets_of([*ring.since(position)[0]]) for position in (10, 11, 12, 14, 15, 20)] == [
        [11, 14], [11, 14], [14], [14], [], []
    ]  # fmt: skip
    assert ring.since(12)[1] == 20


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.integers(1, 20))
def test_it_forgets_the_oldest_events_and_knows_from_where_on_it_is_complete(
    steps: list[int], count_max: int
) -> None:
    ring, added, position = Ring(0, count_max=count_max), list[int](), 0
    for step in steps:
        position += step
        added.append(position)
        ring.add(events(position), position + 1)
    kept = offsets_of([*ring.since(ring.begin)[0]])
    assert kept == added[-count_max:]
    assert ring.begin == (0 if len(added) <= count_max else added[-count_max - 1] + 1)
    assert ring.end == added[-1] + 1


def test_it_is_bounded_by_bytes() -> None:
    ring = Ring(0, bytes_max=3000)
    ring.add(events(*range(10), subject="s" * 1000), 10)
    assert offsets_of([*ring.since(ring.begin)[0]]) == [8, 9]
    ring.add(events(10, subject="s" * 5000), 11)
    assert ring.begin == ring.end == 11


def test_pages_are_bounded_by_count_and_bytes_and_lead_to_one_another() -> None:
    ring = Ring(0)
    ring.add(events(*range(0, 2 * PAGE_EVENTS, 2)), 3000)
    first, following = ring.since(0)
    assert len(first) == PAGE_EVENTS
    assert following == 3000
    ring.add(events(*range(3000, 3010)), 3010)
    found, position = list[int](), 0
    while position < ring.end:
        page, position = ring.since(position)
        assert len(page) <= PAGE_EVENTS
        found += offsets_of([*page])
    assert found == [*range(0, 2 * PAGE_EVENTS, 2), *range(3000, 3010)]


def test_an_event_that_is_larger_than_a_page_is_a_page_of_its_own() -> None:
    ring = Ring(0)
    ring.add(events(1, 2, subject="s" * 2 * PAGE_BYTES), 5)
    assert [(offsets_of([*page]), following) for page, following in (ring.since(0), ring.since(2))] == [
        ([1], 2), ([2], 5)
    ]  # fmt: skip


def test_a_page_is_read_again_as_it_was_made() -> None:
    entries = events(3, 7, subject=":.c:\u00e9")
    assert entries_of(Page([each.data for each in entries], 9)) == entries
