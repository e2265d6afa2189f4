"""The writer decides a command only for the names that were checked, also within one batch."""

from __future__ import annotations

from pathlib import Path

from registry.domain.commands import Command, Done, PutConfig, Refused, Register
from registry.domain.principal import CheckedNames
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
