"""Old snapshots are deleted, even if the process that deletes them dies midway."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from registry.base.config.settings import Settings
from snapshots.catalogue.catalogue import SILENT_MS, Entry
from snapshots.catalogue.open import open_catalogue
from snapshots.catalogue.retention import Action, execute, plan, reason_not_deletable
from snapshots.format.location import Location
from tests.support.sample_catalogues import NOW, entry


def ready(offset: int, **given: object) -> Entry:
    return entry(f"20260921T131320Z-{offset:012d}-00aa11", state="ready", offset=offset, **given)


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


@pytest.mark.parametrize("made", range(7))
def test_whatever_ends_in_between_is_gone_on_with(tmp_path: Path, made: int) -> None:
    catalogue = open_catalogue(Settings(data=tmp_path))
    location = Location.parse(str(tmp_path / "snapshots"))
    for each in FOUR:
        snapshot = each.in_state("ready", NOW, uri=location.uri)
        location.write(f"{each.id}/manifest.json", b"{}")
        location.write(f"{each.id}/part-0123456789abcdef.arrow", b"rows")
        catalogue.put(snapshot)

    def retire(count: int | None) -> list[Entry]:
        planned = plan(catalogue.entries().values(), 2, NOW)
        taken = islice(execute(planned, catalogue, Location.parse, NOW), count)
        return [step.entry for step in taken if step.action is Action.FORGET]

    retire(made)
    going = {each.id for each in catalogue.entries().values() if each.state == "deleting"}
    for each in catalogue.entries().values():
        # Snapshots that are not marked are complete.
        assert each.id in going or location.read(f"{each.id}/manifest.json") == b"{}"
    retire(None)
    assert sorted(location.folders()) == sorted(catalogue.entries()) == [ready(3).id, ready(4).id]
    assert retire(None) == []


def test_what_is_another_thing_by_now_is_left_alone(tmp_path: Path) -> None:
    catalogue = open_catalogue(Settings(data=tmp_path))
    building = entry(state="building", builder="x", attempts=3)
    catalogue.put(building)
    planned = plan([entry(state="failed", attempts=3)], 0, NOW)
    assert list(execute(planned, catalogue, Location.parse, NOW)) == []
    assert catalogue.entries() == {building.id: building}


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
