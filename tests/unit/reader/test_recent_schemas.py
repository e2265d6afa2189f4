"""Schemas by target, as found at one moment of the rows."""

from __future__ import annotations

import pytest

from registry.reader.fast_path.reads import RecentSchemas

TARGET = b"/schemas/ids/1"
SCHEMA = (b"etag: x\r\n", b"{}" * 200)


def offer(recent: RecentSchemas, moment: int | None, target: bytes, body: bytes = SCHEMA[1]) -> None:
    """Offer a schema often enough to be added."""
    for _ in range(RecentSchemas.EVERY):
        recent.offer(moment, target, (SCHEMA[0], body))


def test_what_is_found_was_added_at_one_moment() -> None:
    recent = RecentSchemas()
    offer(recent, 1, TARGET)
    offer(recent, 1, b"/schemas/ids/2")
    assert recent.moment == 1
    assert recent.found == {TARGET: SCHEMA, b"/schemas/ids/2": SCHEMA}
    recent.offer(2, TARGET, SCHEMA)
    assert recent.moment == 2
    assert recent.found == {}


def test_what_was_found_in_rows_that_clients_may_not_see_is_not_added() -> None:
    recent = RecentSchemas()
    offer(recent, 1, TARGET)
    offer(recent, None, TARGET)
    assert recent.moment is None
    assert recent.found == {}


def test_one_in_so_many_that_are_offered_is_added() -> None:
    recent = RecentSchemas()
    for number in range(4 * RecentSchemas.EVERY):
        recent.offer(1, b"%d" % number, SCHEMA)
    assert list(recent.found) == [b"%d" % (count * RecentSchemas.EVERY - 1) for count in range(1, 5)]


def test_all_are_dropped_when_there_is_no_room() -> None:
    recent = RecentSchemas(10_000)
    for number in range(100):
        offer(recent, 1, b"%d" % number)
    found = [number for number in range(100) if b"%d" % number in recent.found]
    assert 0 < len(found) <= 10
    assert found == list(range(100 - len(found), 100))


@pytest.mark.parametrize(
    ("target", "body"), [(b"/" * 5000, b"{}"), (TARGET, b"{}" * 1000)], ids=["target", "body"]
)
def test_long_targets_and_large_bodies_are_not_kept(target: bytes, body: bytes) -> None:
    recent = RecentSchemas(10_000)
    offer(recent, 1, target, body)
    assert recent.found == {}
