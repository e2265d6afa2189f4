"""Commands whose deadline passes in the writer: nothing is appended that would then be in doubt."""

from __future__ import annotations

from pathlib import Path

from registry.domain.commands import Done, Outcome, Refused, Register
from registry.log.embedded.log import EmbeddedLog
from tests.process.node.stations import Station
from tests.support.pending import pending


def test_nothing_is_appended_for_a_command_that_was_decided_too_late(tmp_path: Path) -> None:
    station = Station(tmp_path / "node", EmbeddedLog(tmp_path / "log"))
    station.writer.open(None)
    late: list[Outcome] = []
    station.writer.submit(pending(Register("late", '"int"'), late.append, deadline=1.0))
    station.submit(Register("patient", '"int"'))
    seen: list[int] = []

    def slow(_: int) -> None:
        seen.append(station.log.end())
        station.now = 2.0  # The rows take long to be there.

    station.before_following = slow
    while station.writer.wait(0):
        station.writer.step()
    (refusal,) = late
    assert isinstance(refusal, Refused)
    assert refusal.code == 503
    assert [type(each) for each in station.outcomes] == [Done]
    assert seen[:2] == [0, 0], "the first batch was not appended"
    assert b"late" not in b"".join(each.key or b"" for each in station.records())
    station.close()
