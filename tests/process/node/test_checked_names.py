"""The writer decides a command only for the names and the state that were checked, also within one batch."""

from __future__ import annotations

from pathlib import Path

from registry.domain.commands import Command, Condition, Done, PutConfig, Refused, Register
from registry.domain.model import Subject
from registry.domain.principal import CheckedNames
from registry.domain.queries import entities, versions
from registry.log.embedded.log import EmbeddedLog
from tests.process.node.stations import Station
from tests.support.pending import pending

MINE = CheckedNames(names={"write": frozenset({"s"})})


def test_an_alias_that_is_set_ahead_in_the_same_batch_leads_to_no_unchecked_subject(
    tmp_path: Path,
) -> None:
    station = Station(tmp_path / "node", EmbeddedLog(tmp_path / "log", map_bytes=64 << 20))
    station.writer.open(None)
    commands: list[tuple[Command, CheckedNames | None]] = [
        (PutConfig("s", {"alias": "theirs"}), None),
        (Register("s", '"int"'), MINE),
        (Register("s", '"int"'), None),
    ]
    for command, checked in commands:
        station.writer.submit(pending(command, station.outcomes.append, checked=checked))
    station.writer.step()
    alias, limited, unlimited = station.outcomes
    assert isinstance(alias, Done)
    assert isinstance(limited, Refused)
    assert (limited.code, limited.retry_after_s) == (503, 1)
    assert isinstance(unlimited, Done)
    station.close()


def test_of_two_writes_in_one_batch_that_saw_the_same_only_the_first_goes_through(tmp_path: Path) -> None:
    station = Station(tmp_path / "node", EmbeddedLog(tmp_path / "log", map_bytes=64 << 20))
    station.writer.open(None)
    none, schemas = Condition(none_match=["*"]), ('"int"', '"long"')
    for schema in schemas:
        station.writer.submit(pending(Register("s", schema), station.outcomes.append, condition=none))
    station.writer.step()
    with station.store.view() as view:
        found = versions.latest(view, Subject.parse("s"))
        assert found is not None
        seen = Condition([entities.version_tag(1, found.row)])
    for schema in ('"float"', '"double"'):
        change = Register("s", schema, force=True)
        station.writer.submit(pending(change, station.outcomes.append, condition=seen))
    station.writer.step()
    kinds = [type(each) for each in station.outcomes]
    assert kinds == [Done, Refused, Done, Refused]
    assert [each.code for each in station.outcomes if isinstance(each, Refused)] == [41280, 41280]
    station.close()
