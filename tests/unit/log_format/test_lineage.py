"""Lineages: the records they remember, and how they detect a different log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from registry.domain.log_format.lineage import NOTHING, TRACES_MAX, EpochEnd, Lineage
from registry.domain.log_format.records import Record


def record(offset: int, key: bytes = b"", value: bytes | None = b"v", ts: int = 7) -> Record:
    return Record(offset, ts, key or b"key%d" % offset, value)


def records(*offsets: int) -> list[Record]:
    return [record(offset) for offset in offsets]


def offsets(lineage: Lineage) -> list[int]:
    return [trace.offset for trace in lineage.traces]


def test_the_newest_record_of_each_of_the_last_keys_is_remembered() -> None:
    lineage = NOTHING.with_records(records(*range(20)))
    assert offsets(lineage) == list(range(20 - TRACES_MAX, 20))
    assert lineage.end == 20
    lineage = lineage.with_records([record(20, b"noop"), record(21, b"noop")])
    lineage = lineage.with_records([record(22, b"noop")])
    assert offsets(lineage) == [*range(13, 20), 22], "an idle primary's records do not displace all others"


def test_what_is_remembered_does_not_depend_on_how_the_log_was_read() -> None:
    log = [record(at, b"key%d" % (at * at % 11)) for at in range(60)]
    at_once = NOTHING.with_records(log)
    one_by_one = NOTHING
    for each in log:
        one_by_one = one_by_one.with_records([each])
    assert at_once == one_by_one


def test_an_epoch_is_kept_until_a_later_one_is_known() -> None:
    lineage = NOTHING.with_records(records(0, 1), 4, 2)
    assert (lineage.epoch, lineage.epoch_end) == (4, 2)
    lineage = lineage.with_records(records(2))
    assert (lineage.epoch, lineage.epoch_end, lineage.end) == (4, 2, 3)
    assert lineage.with_records([], 5, 4)[1:] == (5, 4)


def test_a_lineage_survives_being_stored() -> None:
    for lineage in (NOTHING, NOTHING.with_records(records(*range(9)), 3, 9), Lineage((), 3, 9)):
        assert Lineage.unpack(lineage.pack()) == lineage
    assert Lineage.unpack(b"") == NOTHING
    damaged = bytearray(NOTHING.with_records(records(1)).pack())
    damaged[5] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        Lineage.unpack(bytes(damaged))


READ = NOTHING.with_records(records(*range(90, 100)), 5, 100)
ONLY_RECORDS = Lineage(READ.traces)
ONLY_EPOCH = Lineage((), 5, 100)
# Appended without fetching a batch since: the epoch is that of earlier ones.
EARLIER_EPOCH = READ._replace(epoch_end=95)
SAME, ANOTHER, EARLIER = record(99), record(99, value=b"w"), record(94)

DECISIONS = [
    # lineage, the record found, end, end of the epoch, divergence
    ("nothing is remembered", NOTHING, None, 0, None, None),
    ("nothing is remembered, and the log has records", NOTHING, None, 100, EpochEnd(9, 9), None),
    ("the same log at the same end", READ, SAME, 100, EpochEnd(5, 100), None),
    ("the same log, longer", READ, SAME, 200, EpochEnd(5, 150), None),
    ("the log was cut", READ, EARLIER, 95, EpochEnd(5, 95), 95),
    ("the log was cut by one record", READ, EARLIER, 99, EpochEnd(5, 99), 99),
    ("another record stands there", READ, ANOTHER, 120, EpochEnd(5, 91), 99),
    ("another value, whatever epochs say", READ, ANOTHER, 120, EpochEnd(5, 120), 99),
    ("another time", READ, record(99, ts=8), 120, None, 99),
    ("a tombstone in its place", READ, record(99, value=None), 120, None, 99),
    ("the record is the same, so epochs are not needed", READ, SAME, 120, EpochEnd(4, 91), None),
    ("all were compacted, and the epoch goes as far", READ, None, 120, EpochEnd(5, 100), None),
    ("all were compacted, and the epoch ended before", READ, None, 120, EpochEnd(5, 91), 91),
    ("all were compacted, and the epoch is not there", READ, None, 120, EpochEnd(4, 120), 100),
    ("all were compacted, and the epoch is not known", READ, None, 120, EpochEnd(-1, -1), None),
    ("all were compacted, and epochs were not asked for", READ, None, 120, None, None),
    ("the last was compacted, an earlier one is the same", READ, EARLIER, 120, EpochEnd(5, 110), None),
    ("the same, but its epoch ended before", READ, EARLIER, 120, EpochEnd(5, 97), 97),
    ("records alone: the same", ONLY_RECORDS, SAME, 120, None, None),
    ("records alone: another", ONLY_RECORDS, ANOTHER, 120, None, 99),
    ("records alone: cut", ONLY_RECORDS, None, 99, None, 99),
    ("the epoch alone: the same", ONLY_EPOCH, None, 120, EpochEnd(5, 120), None),
    ("the epoch alone: ended before", ONLY_EPOCH, None, 120, EpochEnd(5, 91), 91),
    ("an earlier epoch proves no more than it says", EARLIER_EPOCH, None, 120, EpochEnd(5, 95), None),
    ("an earlier epoch, which ended before", EARLIER_EPOCH, None, 120, EpochEnd(5, 91), 91),
]


@pytest.mark.parametrize(
    ("lineage", "found", "end", "epoch_end", "divergence"), [row[1:] for row in DECISIONS],
    ids=[row[0] for row in DECISIONS],
)  # fmt: skip
def test_whether_a_log_is_another(
    lineage: Lineage, found: Record | None, end: int, epoch_end: EpochEnd | None, divergence: int | None
) -> None:
    assert lineage.divergence(found, end, epoch_end) == divergence


def compacted(log: Sequence[Record]) -> list[Record]:
    """Return the last record of each key."""
    last = {each.key: each for each in log}
    return sorted(last.values())


def test_compaction_takes_no_proof_away_while_keys_are_not_written_again() -> None:
    log = [record(at, b"key%d" % (at % 20)) for at in range(100)]
    kept = {each.offset for each in compacted(log)}
    assert set(offsets(NOTHING.with_records(log))) <= kept
