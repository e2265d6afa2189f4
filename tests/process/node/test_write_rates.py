"""Writes a minute of a principal, in batches that are decided more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from registry.domain.commands import Done, Outcome, Refused, Register
from registry.domain.log_format.records import Entry
from registry.domain.policies import parse
from registry.domain.principal import Principal
from registry.log.contract import NO_HEADERS, LogError, RecordTooLarge, Unreachable
from registry.log.embedded.log import EmbeddedLog
from tests.process.node.stations import Station
from tests.support.pending import pending

PER_MINUTE = 4


class FailingLog(EmbeddedLog):
    """A log whose appends fail with the errors in ``failures``, as long as there are any."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.failures: list[LogError] = []

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        if self.failures:
            raise self.failures.pop()
        return super().append(entries, cuts, headers)


def status(outcome: Outcome) -> int:
    return outcome.code if isinstance(outcome, Refused) else 200 if isinstance(outcome, Done) else 0


@pytest.mark.parametrize(
    "failures",
    [[Unreachable("nobody listens")] * 3, [RecordTooLarge("not that large")]],
    ids=lambda each: each[0],
)
def test_a_batch_that_is_decided_again_costs_its_writes_once(
    tmp_path: Path, failures: list[LogError]
) -> None:
    log = FailingLog(tmp_path / "log")
    station = Station(tmp_path / "node", log, policies=parse(f"writes_per_minute = {PER_MINUTE}"))
    station.writer.open(None)
    log.failures = list(failures)
    for number in range(PER_MINUTE):
        station.submit(Register(f"s{number}", '"int"'))
    while station.writer.wait(0):
        with suppress(Unreachable):
            station.writer.step()
    assert [status(each) for each in station.outcomes] == [200] * PER_MINUTE
    assert status(station.ask(Register("more", '"int"'))) == 429
    station.close()


def test_writes_that_failed_are_not_paid_for(tmp_path: Path) -> None:
    log = FailingLog(tmp_path / "log")
    station = Station(tmp_path / "node", log, policies=parse(f"writes_per_minute = {PER_MINUTE}"))
    station.writer.open(None)
    log.failures = [LogError("the disk is full")] * 10
    refused = [status(station.ask(Register(f"s{number}", '"int"'))) for number in range(10)]
    assert set(refused) == {50001}
    done = [status(station.ask(Register(f"s{number}", '"int"'))) for number in range(PER_MINUTE + 1)]
    assert done == [200] * PER_MINUTE + [429]
    station.close()


def test_principals_of_each_kind_have_writes_of_their_own(tmp_path: Path) -> None:
    station = Station(
        tmp_path / "node", EmbeddedLog(tmp_path / "log"), policies=parse("writes_per_minute = 1")
    )
    station.writer.open(None)
    for number, kind in enumerate(("user", "token", "user")):
        asked = pending(Register(f"s{number}", '"int"'), station.outcomes.append)
        asked.request = replace(asked.request, principal=Principal("bob"), kind=kind)
        station.writer.submit(asked)
        station.writer.step()
    assert [status(each) for each in station.outcomes] == [200, 200, 429]
    station.close()
