"""A node decides by the lineage of its store if it can resume from a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest

from registry.domain.commands import DeleteSubject, Done, Register
from registry.domain.log_format.lineage import NOTHING, TRACES_MAX, Lineage, Mismatch
from registry.domain.log_format.records import Entry
from registry.log.contract import ForeignLog, Log
from registry.log.embedded.log import EmbeddedLog
from registry.node.replication.log_match import Known, LogMatcher
from tests.process.node.stations import Station


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as made:
        made.append([Entry(b"key%d" % number, b"v") for number in range(20)])
        yield made


def remembered(log: EmbeddedLog, end: int) -> Lineage:
    return NOTHING.with_records(log.read(0, end, 1 << 20).records)


def examine(log: EmbeddedLog, applied: int, lineage: Lineage) -> str:
    """Return why the log is not accepted; empty if it is."""
    found = mismatch(log, Known(log.identity, applied, 0, lineage))
    return "" if found is None else found.reason


def mismatch(log: Log, known: Known) -> Mismatch | None:
    try:
        LogMatcher(lambda: known, margin_ms=0, now=lambda: 0)(log)
    except ForeignLog as error:
        return error.mismatch
    return None


def test_a_store_goes_on_with_the_log_that_it_was_made_from(log: EmbeddedLog) -> None:
    assert examine(log, 15, remembered(log, 15)) == ""
    assert examine(log, 20, remembered(log, 20)) == ""


def test_a_store_of_an_older_version_remembers_nothing_and_goes_on(log: EmbeddedLog) -> None:
    assert examine(log, 20, NOTHING) == ""
    assert "its end was cut off" in examine(log, 21, NOTHING)


def test_another_history_is_refused_with_both_offsets(log: EmbeddedLog, tmp_path: Path) -> None:
    with closing(EmbeddedLog(tmp_path / "other", map_bytes=64 << 20)) as other:
        other.append([Entry(b"key%d" % number, b"w") for number in range(17)])
        why = examine(log, 17, remembered(other, 17))
    assert "from offset 16 or earlier on, up to 20" in why
    assert "the store holds up to 17" in why
    assert "registrar log reseed" in why
    assert "move its folder store away" in why


@pytest.mark.parametrize("lost", [1, 7, 8, 9])
@pytest.mark.parametrize("grown", [0, 30])
def test_a_log_that_lost_its_end_is_proven_up_to_the_newest_record_that_is_remembered_and_there(
    log: EmbeddedLog, tmp_path: Path, lost: int, grown: int
) -> None:
    log.close()
    copytree(tmp_path / "log", tmp_path / "kept")
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as whole:
        whole.append([Entry(b"lost%d" % number, b"v") for number in range(lost)])
        lineage = remembered(whole, 20 + lost)
    with closing(EmbeddedLog(tmp_path / "kept", map_bytes=64 << 20)) as kept:
        kept.append([Entry(b"new%d" % number, b"v") for number in range(grown)])
        found = mismatch(kept, Known(kept.identity, 20 + lost, 0, lineage))
    assert found is not None
    assert found.served
    # The newest records of eight keys are remembered.
    assert found.common == (20 if lost < TRACES_MAX else 0)
    assert ("registered from offset 20 on" in found.reason) is bool(found.common)


@pytest.mark.parametrize("again", [False, True], ids=["others", "the same"])
def test_versions_prove_what_a_log_kept_that_lost_all_that_is_remembered(tmp_path: Path, again: bool) -> None:
    """``again``: clients register the lost schemas once more, so only the times of their records differ."""

    def opened(name: str) -> Station:
        station = Station(tmp_path / f"{name}-store", EmbeddedLog(tmp_path / name, map_bytes=64 << 20))
        station.follow(station.log.end())
        station.writer.open(None)
        return station

    def register(writer: Station, name: str, numbers: range) -> None:
        for number in numbers:
            for context in ("", ":.other:"):
                schema = f'{{"type":"record","name":"{name}{number}","fields":[]}}'
                assert isinstance(writer.ask(Register(f"{context}s{number}", schema)), Done)

    with closing(opened("log")) as station:
        register(station, "R", range(10))
        assert isinstance(station.ask(DeleteSubject("s3")), Done)  # It marks a version that was there before.
        common = station.log.end()
    copytree(tmp_path / "log", tmp_path / "fork")
    with closing(opened("log")) as station, closing(opened("fork")) as fork:
        register(station, "R", range(10, 30))
        register(fork, "R" if again else "S", range(10, 40))
        known = Known(fork.log.identity, station.store.applied, 0, station.store.lineage)
        found = mismatch(fork.log, known), mismatch(fork.log, known._replace(rows=station.store.view))
    assert [each and each.common for each in found] == [0, common - 1], "the deletion is no version's record"


class Topic(EmbeddedLog):
    """A log with the identity of a topic."""

    @property
    def identity(self) -> str:
        return "cluster/topic/id"


@pytest.mark.parametrize(
    ("store", "served"),
    [("cluster/topic/former", True), ("another/topic/former", False), ("3fb5d1c2", False)],
    ids=["made anew", "of another cluster", "an embedded log"],
)
def test_a_store_of_another_cluster_is_not_served_at_all(tmp_path: Path, store: str, served: bool) -> None:
    with closing(Topic(tmp_path / "topic", map_bytes=64 << 20)) as topic:
        found = mismatch(topic, Known(store, 20, 0))
    assert found is not None
    assert (found.served, found.common) == (served, 0)
