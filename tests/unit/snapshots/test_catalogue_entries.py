"""Entries of the catalogue: which may follow which, which are free to build, and how they are read."""

from __future__ import annotations

import pytest

from snapshots.catalogue.catalogue import SILENT_MS, Entry, follows, newest_first
from tests.support.sample_catalogues import NOW, entry

LATE = NOW + SILENT_MS + 1


@pytest.mark.parametrize(
    ("stands", "new", "does"),
    [
        (None, entry(), True),
        (entry(), entry(state="building", builder="a"), True),
        (entry(), entry(state="deleting"), True),
        (entry(state="building", builder="a"), entry(state="building", builder="b"), False),
        (entry(state="building", builder="a"), entry(state="building", builder="b", updated_ms=LATE), True),
        (entry(state="building", builder="a"), entry(state="building", builder="a"), True),
        (entry(state="building", builder="a"), entry(state="requested", updated_ms=NOW + 9), False),
        (entry(state="building", builder="a"), entry(state="requested", updated_ms=LATE), True),
        (entry(state="building", builder="a"), entry(state="failed", builder="a"), True),
        (entry(state="building", builder="a"), entry(state="failed", builder="b"), False),
        (entry(state="building", builder="a"), entry(state="ready", builder="b"), True),
        (entry(state="building", builder="a"), entry(state="deleting", updated_ms=LATE), False),
        (entry(state="ready"), entry(state="deleting"), True),
        (entry(state="ready"), entry(state="building", builder="b", updated_ms=LATE), False),
        (entry(state="ready"), entry(state="failed"), False),
        (entry(state="failed"), entry(state="building", builder="b"), True),
        (entry(state="deleting"), entry(state="ready"), False),
        (entry(state="deleting"), entry(state="requested"), False),
        (entry(state="deleting"), entry(state="deleting"), True),
    ],
)  # fmt: skip
def test_what_may_follow(stands: Entry | None, new: Entry, does: bool) -> None:
    """A catalogue record counts only if it is a legal step from the entry before it."""
    assert follows(stands, new) is does


def test_an_entry_is_free_until_it_was_tried_in_vain_too_often() -> None:
    assert entry().is_free(NOW)
    assert entry(state="failed", attempts=2).is_free(NOW)
    assert not entry(state="failed", attempts=3).is_free(NOW)
    assert not entry(state="building", builder="a").is_free(NOW)
    assert entry(state="building", builder="a", attempts=1).is_free(LATE)
    assert not entry(state="ready").is_free(NOW)


def test_entries_of_other_versions_are_read() -> None:
    read = Entry.loads(entry().dumps()[:-1] + b',"color":"blue"}')
    assert read == entry()
    with pytest.raises(ValueError, match="cannot be the id"):
        Entry.loads(entry("../x").dumps())
    with pytest.raises(ValueError, match="state"):
        Entry.loads(entry().dumps().replace(b'requested"', b'imagined"', 1))


def test_the_newest_come_first() -> None:
    entries = [entry("a", offset=3), entry("b", offset=9), entry("c", offset=9, requested_ms=NOW + 1)]
    assert [each.id for each in newest_first(entries)] == ["c", "b", "a"]
