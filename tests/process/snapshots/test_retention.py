"""Old snapshots are deleted, even if the process that deletes them dies midway."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from registry.base.config.settings import Settings
from snapshots.catalogue.catalogue import Entry
from snapshots.catalogue.open import open_catalogue
from snapshots.catalogue.retention import Action, execute, plan
from snapshots.format.location import Location
from tests.support.sample_catalogues import NOW, entry, ready

FOUR = [ready(4), ready(1), ready(3), ready(2)]


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
