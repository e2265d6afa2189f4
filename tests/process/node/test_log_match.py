"""A node decides by the lineage of its store if it can resume from a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Entry
from registry.log.contract import ForeignLog
from registry.log.embedded.log import EmbeddedLog
from registry.node.replication.log_match import Known, LogMatcher


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as made:
        made.append([Entry(b"key%d" % number, b"v") for number in range(20)])
        yield made


def remembered(log: EmbeddedLog, end: int) -> Lineage:
    return NOTHING.extended(log.read(0, end, 1 << 20).records)


def examine(log: EmbeddedLog, applied: int, lineage: Lineage) -> str:
    """Return why the log is not accepted; empty if it is."""
    known = Known(log.identity, applied, 0, lineage)
    try:
        LogMatcher(lambda: known, margin_ms=0, now=lambda: 0)(log)
    except ForeignLog as error:
        return str(error)
    return ""


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
