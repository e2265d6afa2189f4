"""Large commands and the writer's batches: what does not fit one goes into the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.domain.commands import DeleteVersion, Done, Register
from registry.log.embedded.log import EmbeddedLog
from registry.node.write.batch import BATCH_BYTES_MAX
from registry.node.write.writer import TAKEN_BYTES_MAX
from tests.process.node.stations import Station

RECORD_BYTES = BATCH_BYTES_MAX // 2


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Station]:
    log = EmbeddedLog(tmp_path / "log", record_bytes_max=RECORD_BYTES)
    station = Station(tmp_path / "node", log)
    station.writer.open(None)
    yield station
    station.close()


def large(subject: str) -> Register:
    doc = "x" * (RECORD_BYTES // 2)
    return Register(subject, f'{{"type":"record","name":"R{subject}","doc":"{doc}","fields":[]}}')


def step_to_the_end(station: Station) -> int:
    """Return the number of batches."""
    count = 0
    while station.writer.wait(0):
        station.writer.step()
        count += 1
    return count


def test_all_large_writes_that_come_at_once_are_done(station: Station) -> None:
    names = [f"s{number}" for number in range(12)]
    for name in names:
        station.submit(large(name))
    assert step_to_the_end(station) >= len(names) * RECORD_BYTES // 2 // (2 * TAKEN_BYTES_MAX)
    assert len(station.outcomes) == len(names)
    assert all(isinstance(each, Done) for each in station.outcomes), station.outcomes


def test_a_small_write_waits_for_one_batch_of_large_ones_and_for_none_beside_it(station: Station) -> None:
    for number in range(12):
        station.submit(large(f"s{number}"))
    station.writer.step()
    done = len(station.outcomes)
    assert 0 < done < 12
    for number in range(3):
        station.submit(Register(f"small{number}", f'{{"type":"fixed","name":"F","size":{number + 1}}}'))
    station.writer.step()
    small = [each.body for each in station.outcomes[done:] if isinstance(each, Done)]
    assert len(small) == 3
    assert all(b'\\"fixed\\"' in each for each in small)


def test_large_writes_are_done_while_small_ones_never_end(station: Station) -> None:
    for number in range(3):
        station.submit(large(f"s{number}"))
    steps = 0
    while sum(len(each.body) > RECORD_BYTES // 2 for each in station.outcomes if isinstance(each, Done)) < 3:
        station.submit(Register("small", '"int"'))
        station.writer.step()
        steps += 1
    assert steps <= 6


def test_small_commands_with_large_records_go_into_several_batches(station: Station) -> None:
    names = [f"s{number}" for number in range(12)]
    for name in names:
        station.ask(large(name))
    done = len(station.outcomes)
    for name in names:
        station.submit(DeleteVersion(name, 1))
    assert step_to_the_end(station) > 1
    assert station.outcomes[done:] == [Done(b"1", each.offset) for each in station.outcomes[done:]]  # type: ignore[union-attr]
    assert len(station.outcomes) == done + len(names)
