"""Schemas by target, as found at one moment of the rows."""

from __future__ import annotations

import pytest

from registry.reader.fast_path.reads import RecentSchemas

SCHEMA = (b"etag: x\r\n", b"{}" * 200)


def test_what_was_added_is_found_at_the_same_moment_only() -> None:
    recent = RecentSchemas()
    assert recent.get(1, b"/schemas/ids/1") is None
    recent.add(b"/schemas/ids/1", SCHEMA)
    assert recent.get(1, b"/schemas/ids/1") == SCHEMA
    assert recent.get(1, b"/schemas/ids/2") is None
    assert recent.get(2, b"/schemas/ids/1") is None
    assert recent.get(1, b"/schemas/ids/1") is None


def test_one_in_so_many_that_were_missed_is_wanted() -> None:
    recent = RecentSchemas()
    wanted = [recent.wants_next() for _ in range(4 * RecentSchemas.EVERY)]
    assert sum(wanted) == 4
    assert wanted.index(True) == RecentSchemas.EVERY - 1


def test_all_are_dropped_when_there_is_no_room() -> None:
    recent = RecentSchemas(10_000)
    recent.get(1, b"")
    for number in range(100):
        recent.add(b"%d" % number, SCHEMA)
    found = [number for number in range(100) if recent.get(1, b"%d" % number)]
    assert 0 < len(found) <= 10
    assert found == list(range(100 - len(found), 100))


@pytest.mark.parametrize(
    ("target", "body"), [(b"/" * 5000, b"{}"), (b"/schemas/ids/1", b"{}" * 1000)], ids=["target", "body"]
)
def test_long_targets_and_large_bodies_are_not_kept(target: bytes, body: bytes) -> None:
    recent = RecentSchemas(10_000)
    recent.get(1, b"")
    recent.add(target, (b"", body))
    assert recent.get(1, target) is None
