"""Which snapshots are deleted, in which order, and which must wait."""

from __future__ import annotations

from snapshots.catalogue.catalogue import SILENT_MS, Entry
from snapshots.catalogue.retention import Action, plan, reason_not_deletable
from tests.support.sample_catalogues import NOW, entry, ready


def ids(entries: list[Entry], keep: int = 2, now: int = NOW) -> list[int]:
    """Return the offsets of the snapshots to delete."""
    return [step.entry.offset for step in plan(entries, keep, now) if step.action is Action.FORGET]


FOUR = [ready(4), ready(1), ready(3), ready(2)]


def test_the_newest_are_kept() -> None:
    assert ids(FOUR) == [1, 2]
    assert ids(FOUR, keep=4) == []
    assert ids(FOUR, keep=0) == [1, 2, 3]


def test_what_waits_or_may_be_tried_again_stays() -> None:
    others = [entry("a", offset=9), entry("b", offset=0, state="failed", attempts=1)]
    assert ids([*FOUR, *others], keep=4) == []


def test_failures_go_as_snapshots_do() -> None:
    failed = [entry(str(n), state="failed", attempts=3, offset=n) for n in (11, 12, 13)]
    assert ids([*FOUR, *failed]) == [1, 2, 11]


def test_what_the_kept_ones_and_the_base_of_a_build_need_is_kept() -> None:
    two, four = ready(2, needs=(ready(1).id,)), ready(4, needs=(ready(1).id, ready(2).id))
    assert ids([ready(1), two, ready(3), four, ready(5)], keep=1) == [4, 2, 1, 3], (
        "users before what they use"
    )
    assert ids([ready(1), two, ready(3), four, ready(5)], keep=2) == [3]
    building = entry("b", state="building", builder="x", offset=9, base=two.id)
    assert ids([ready(1), two, ready(3), four, ready(5), building], keep=1) == [4, 3]


def test_each_log_has_its_own() -> None:
    assert ids([*FOUR, ready(5, log="b"), ready(6, log="b"), ready(7, log="b")]) == [1, 2, 5]


def test_nothing_is_deleted_under_a_build_until_its_base_is_known() -> None:
    building = entry("b", state="building", builder="x", offset=9)
    assert ids([*FOUR, building]) == []
    assert ids([*FOUR, building.in_state("building", NOW, base=ready(1).id)]) == [2]
    assert ids([*FOUR, building], now=NOW + SILENT_MS + 1) == [1, 2]
    assert ids([*FOUR, building.in_state("building", NOW, log="another")]) == [1, 2]


def test_what_was_begun_is_gone_on_with() -> None:
    begun = ready(4).in_state("deleting", NOW)
    assert [step.action for step in plan([begun], 3, NOW)] == [Action.DELETE, Action.FORGET]


def test_why_a_deletion_must_wait() -> None:
    old, new = ready(1), ready(2)
    building = entry("b", state="building", builder="x", base=old.id)
    entries = {each.id: each for each in (old, new, building)}
    assert reason_not_deletable(entries, "b", NOW) == "it is being built by x"
    assert (
        reason_not_deletable(entries, old.id, NOW) == "the snapshot b is being built and may be built upon it"
    )
    assert reason_not_deletable(entries, new.id, NOW) == ""
    upon = ready(3, needs=(new.id,))
    assert (
        reason_not_deletable(entries | {upon.id: upon}, new.id, NOW)
        == f"the snapshot {upon.id} needs its files"
    )
    based = entries | {
        upon.id: upon.in_state("deleting", NOW),
        "b": building.in_state("building", NOW, base=upon.id),
    }
    assert "may be built upon it" in reason_not_deletable(based, new.id, NOW)
    assert reason_not_deletable(entries, "b", NOW + SILENT_MS + 1) == ""
