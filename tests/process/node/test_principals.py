"""Principals in the records of a writer: those of their commands, also where one batch has several."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.domain.commands import DeleteSubject, Done, Register
from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.domain.pending_command import CommandRequest, PendingCommand
from registry.domain.principal import ANONYMOUS, Principal
from registry.log.embedded.log import EmbeddedLog
from tests.process.node.stations import Station


def submit(station: Station, name: str, *commands: Register | DeleteSubject) -> None:
    principal = Principal(name) if name else ANONYMOUS
    for command in commands:
        request = CommandRequest(command, 30.0, principal=principal)
        station.writer.submit(PendingCommand(request, 30.0, station.outcomes.append))


def named(station: Station) -> list[tuple[bytes, str]]:
    """Return the kinds of the records and whom they name."""
    return [((each.key or b"")[12:18], each.principal.decode()) for each in station.records()]


@pytest.fixture
def station(tmp_path: Path) -> Station:
    return Station(tmp_path / "node", EmbeddedLog(tmp_path / "log", map_bytes=64 << 20))


def test_each_record_of_a_batch_names_whose_command_it_is(station: Station) -> None:
    station.writer.open(None)
    submit(station, "alice", Register(":.c:a", '"int"'))
    submit(station, "", Register("b", '"int"'))
    submit(station, "zoë", Register("c", '"string"'), DeleteSubject("c"))
    station.writer.step()
    assert all(isinstance(each, Done) for each in station.outcomes)
    assert named(station) == [
        (b'NOOP",', "alice"), (b"CONTEX", "alice"), (b"SCHEMA", "alice"),
        (b'NOOP",', ""), (b"SCHEMA", ""),
        (b"SCHEMA", "zoë"), (b"DELETE", "zoë"),
    ]  # fmt: skip
    station.close()


def test_what_a_node_writes_by_itself_names_nobody(station: Station) -> None:
    station.writer.open(None)
    station.writer.renew()
    assert station.log.read(0, 10, 1 << 20).records[0][2:] == Entry(NOOP_KEY, None)
    station.close()


def test_nobody_is_named_where_that_is_turned_off(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
    station = Station(tmp_path / "node", log, record_principals=False)
    station.writer.open(None)
    submit(station, "alice", Register("a", '"int"'))
    station.writer.step()
    assert {name for _, name in named(station)} == {""}
    station.close()
