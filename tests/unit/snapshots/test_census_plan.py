"""The plan of a census and the merging of its rows, without Kafka and without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from registry.domain.commands import DeleteUsage, PutCensus, PutUsage
from registry.log.kafka.cluster_topics import DescribedPartition, DescribedTopic
from registry.node.snapshots.build_process import census_commands
from snapshots.census.plan import (
    READ,
    UNREAD,
    PartitionRow,
    Range,
    Use,
    after_reading,
    epochs_before,
    merge,
    plan_topics,
)
from snapshots.census.topics import is_complete, is_in_scope, matches, parse_patterns, stale_sources

ID, EPOCH = "i" * 22, 3


def topic(*partitions: tuple[int, int], compacted: bool = False, **changes: Any) -> DescribedTopic:
    described = [
        DescribedPartition(number, begin, end, end, size=100, epoch=EPOCH)
        for number, (begin, end) in enumerate(partitions)
    ]
    return DescribedTopic("t", ID, False, compacted, tuple(described))._replace(**changes)


def row(begin: int, end: int, **changes: Any) -> PartitionRow:
    return PartitionRow("t", 0, begin, end, 100, False, ID, READ, "", EPOCH)._replace(**changes)


def use(first: int, last: int, messages: int = 10, **changes: Any) -> Use:
    return Use("t", 0, "value", "id", 1, None, messages, 100, first, last, 1000, 2000)._replace(**changes)


def ranges(found: DescribedTopic, *base: PartitionRow) -> tuple[list[Range], bool]:
    """Return what is read, and whether rows of the base are taken over."""
    planned = plan_topics([found], {each.place: each for each in base})
    return list(planned.ranges), ("t", 0) in planned.kept


@pytest.mark.parametrize(
    ("found", "base", "read", "kept"),
    [
        pytest.param(topic((5, 9)), None, (5, 9), False, id="a topic that was never counted"),
        pytest.param(topic((0, 0)), None, None, False, id="an empty one"),
        pytest.param(topic((0, 9)), row(0, 6), (6, 9), True, id="only what is new"),
        pytest.param(topic((0, 9)), row(0, 9), None, True, id="nothing is new"),
        pytest.param(topic((7, 9)), row(0, 6), (7, 9), True, id="some of it was removed before it was read"),
        pytest.param(topic((0, 9)), row(0, 6, topic_id="other"), (0, 9), False, id="created again"),
        pytest.param(topic((0, 4)), row(0, 6), (0, 4), False, id="truncated"),
        pytest.param(topic((0, 9)), row(0, 6, compacted=True), (0, 9), False, id="was compacted before"),
        pytest.param(topic((0, 9), compacted=True), row(0, 9), (0, 9), False, id="is compacted now"),
        pytest.param(
            topic((0, 9), compacted=True), row(0, 9, compacted=True), None, True, id="as it was"
        ),
        pytest.param(
            topic((0, 9), compacted=True), row(0, 9, compacted=True, size=90), (0, 9), False, id="it ran"
        ),
        pytest.param(
            topic((0, 9), compacted=True), row(0, 6, compacted=True), (0, 9), False, id="compacted and longer"
        ),
        pytest.param(topic((0, 9)), row(0, 6, state=UNREAD), (6, 9), True, id="read up to a transaction"),
        pytest.param(topic((0, 9), problem="no Read"), row(0, 6), None, True, id="not permitted any more"),
        pytest.param(topic((0, 9), problem="no Read"), None, None, False, id="never permitted"),
    ],
)  # fmt: skip
def test_only_what_the_base_has_not_counted_is_read(
    found: DescribedTopic, base: PartitionRow | None, read: tuple[int, int] | None, kept: bool
) -> None:
    wanted = [Range("t", 0, *read)] if read else []
    assert ranges(found, *([base] if base else [])) == (wanted, kept)


def later(found: DescribedTopic, epoch: int | None) -> DescribedTopic:
    """Return a topic whose only partition has a leader in another epoch."""
    return found._replace(partitions=(found.partitions[0]._replace(epoch=epoch),))


GREW = "it was truncated from offset 6 to 5, and grew again"


@pytest.mark.parametrize(
    ("found", "base", "epoch_end", "read", "reason"),
    [
        pytest.param(later(topic((0, 9)), 4), row(0, 6), 6, (6, 9), "", id="another leader, nothing is lost"),
        pytest.param(later(topic((0, 9)), 4), row(0, 6), 8, (6, 9), "", id="the former one wrote more"),
        pytest.param(later(topic((0, 9)), 5), row(0, 6), 5, (0, 9), GREW, id="it lost one message"),
        pytest.param(later(topic((0, 6)), 5), row(0, 6), 5, (0, 6), GREW, id="and has as many now"),
        pytest.param(later(topic((0, 9)), 4), row(0, 6), None, (0, 9), "does not say", id="nobody answers"),
        pytest.param(later(topic((0, 9)), 1), row(0, 6), -1, (0, 9), "not know its epoch 3", id="a new log"),
        pytest.param(later(topic((7, 9)), 4), row(0, 6), 2, (7, 9), "", id="retention removed it anyway"),
        pytest.param(
            topic((0, 9)), row(0, 6, epoch=None), None, (0, 9), "is unknown", id="an older census"
        ),
        pytest.param(later(topic((0, 9)), None), row(0, 6), None, (0, 9), "is unknown", id="no epochs"),
        pytest.param(
            topic((0, 9), id=""), row(0, 6, topic_id=""), None, (0, 9), "no ids", id="topics without ids"
        ),
        pytest.param(
            later(topic((0, 9), compacted=True), 4), row(0, 9, compacted=True), 9, None, "", id="compacted"
        ),
        pytest.param(
            later(topic((0, 9), compacted=True), 4), row(0, 9, compacted=True), 7, (0, 9), "truncated",
            id="compacted and cut, of the same size",
        ),
    ],
)  # fmt: skip
def test_rows_of_the_base_count_only_while_the_partition_holds_what_they_counted(
    found: DescribedTopic,
    base: PartitionRow,
    epoch_end: int | None,
    read: tuple[int, int] | None,
    reason: str,
) -> None:
    ends = {} if epoch_end is None else {base.place: epoch_end}
    planned = plan_topics([found], {base.place: base}, ends)
    assert planned.ranges == ((Range("t", 0, *read),) if read else ())
    assert (base.place in planned.kept) is not bool(reason)
    (planned_row,) = planned.partitions
    assert (planned_row.state, planned_row.epoch) == (READ, found.partitions[0].epoch)
    assert reason in planned_row.reason
    assert bool(planned_row.reason) is bool(reason)


def test_leaders_are_asked_for_the_epochs_of_others_only() -> None:
    topics = {"t": later(topic((2, 9)), 4)}
    assert epochs_before([row(0, 6)], topics) == {("t", 0): EPOCH}
    assert epochs_before([row(0, 6, epoch=4)], topics) == {}
    assert epochs_before([row(0, 2)], topics) == {}, "it holds nothing of that"
    assert epochs_before([row(0, 6, epoch=None), row(0, 6, partition=1)], topics) == {}
    assert epochs_before([row(0, 6)], {}) == {}


def test_what_was_known_of_a_partition_without_a_leader_is_kept_with_its_epoch() -> None:
    found = topic()._replace(partitions=(DescribedPartition(0, problem="no leader"),))
    (kept,) = plan_topics([found], {("t", 0): row(2, 6)}).partitions
    assert kept == row(2, 6, state=UNREAD, reason="no leader", size=None)
    (again,) = plan_topics([found._replace(id="x")], {("t", 0): row(2, 6)}).partitions
    assert (again.begin, again.end, again.topic_id) == (0, 0, "x"), "it was created again"


def test_a_compacted_partition_of_unknown_size_is_always_read() -> None:
    found = topic(compacted=True)._replace(partitions=(DescribedPartition(0, 0, 9, 9, epoch=EPOCH),))
    assert ranges(found, row(0, 9, compacted=True, size=None)) == ([Range("t", 0, 0, 9)], False)


def test_a_partition_is_unread_while_a_transaction_is_open_but_is_counted_up_to_it() -> None:
    planned = plan_topics([topic()._replace(partitions=(DescribedPartition(0, 0, 5, 9),))], {})
    assert planned.ranges == (Range("t", 0, 0, 5),)
    assert (planned.partitions[0].state, planned.partitions[0].end) == (UNREAD, 5)
    assert "a transaction has been open since offset 5" in planned.partitions[0].reason


def test_a_topic_that_may_not_even_be_described_is_a_row_with_the_reason() -> None:
    hidden = topic(problem="this client needs Describe on the topic", id="")
    (found,) = plan_topics([hidden], {}).partitions
    assert (found.source, found.partition, found.state) == ("t", -1, UNREAD)
    assert found.reason == hidden.problem
    assert list(after_reading([found], {})) == [found]


@pytest.mark.parametrize(
    ("after", "state", "begin", "reason"),
    [
        pytest.param(topic((0, 12)), READ, 0, "", id="more was written"),
        pytest.param(topic((3, 12)), READ, 3, "", id="some was removed"),
        pytest.param(topic((11, 12)), READ, 9, "", id="all was removed"),
        pytest.param(topic((0, 4)), UNREAD, 0, "truncated from offset 9 to 4", id="truncated"),
        pytest.param(topic((0, 9), id="x"), UNREAD, 0, "deleted and created again", id="created again"),
        pytest.param(topic(), UNREAD, 0, "deleted while", id="a partition is gone"),
        pytest.param(None, UNREAD, 0, "deleted while", id="deleted"),
        pytest.param(topic((0, 9), problem="no Read"), UNREAD, 0, "no Read", id="not permitted any more"),
    ],
)
def test_what_happened_while_it_was_read_is_noticed(
    after: DescribedTopic | None, state: str, begin: int, reason: str
) -> None:
    (found,) = after_reading([row(0, 9)], {"t": after} if after else {})
    assert (found.state, found.begin, found.end) == (state, begin, 9)
    assert reason in found.reason


def test_a_partition_that_was_truncated_and_grew_while_it_was_read_is_unread_and_never_continued() -> None:
    after = {"t": later(topic((0, 12)), 5)}
    (found,) = after_reading([row(0, 9)], after, {("t", 0): 9})
    assert found == row(0, 9)
    (found,) = after_reading([row(0, 9)], after, {("t", 0): 8})
    assert (found.state, found.topic_id) == (UNREAD, "")
    assert found.reason == "while it was read, it was truncated from offset 9 to 8, and grew again"
    (again,) = plan_topics(after.values(), {found.place: found}).partitions
    assert again.reason == f"in the last census, {found.reason}"
    unsaid = {"t": later(topic((0, 12)), None)}
    assert list(after_reading([row(0, 9, epoch=None)], unsaid)) == [row(0, 9, epoch=None)]


@pytest.mark.parametrize("after", [topic((0, 4)), topic()])
def test_a_partition_that_lost_messages_is_read_again_as_a_whole_once_it_has_grown(
    after: DescribedTopic,
) -> None:
    (found,) = after_reading([row(0, 9)], {"t": after})
    assert ranges(topic((0, 12)), found) == ([Range("t", 0, 0, 12)], False)


def test_what_was_counted_is_added_to_the_base_and_what_retention_removed_is_dropped() -> None:
    base = [use(0, 4), use(0, 6, id=2), use(0, 9, id=3, messages=3)]
    found = merge([use(10, 12, messages=2)], base, [row(5, 13)])
    assert found == [
        use(10, 12, messages=2),
        use(5, 6, id=2, exact=False),
        use(5, 9, id=3, messages=3, exact=False),
    ]
    again = merge([use(14, 15, id=3, first_ms=500, last_ms=600)], found, [row(6, 16)])
    assert again[-1] == use(6, 15, 13, id=3, bytes=200, first_ms=500, exact=False)


def test_samples_are_the_newest_that_still_exist() -> None:
    kept = use(0, 9, framing="none", id=None, samples=(1, 3, 5, 7, 9))
    (found,) = merge([kept._replace(first_offset=10, last_offset=11, samples=(10, 11))], [kept], [row(4, 12)])
    assert found.samples == (5, 7, 9, 10, 11)


def test_rows_of_files_have_no_offsets_and_are_kept() -> None:
    found = use(0, 0, first_offset=None, last_offset=None, first_ms=None, last_ms=None)
    assert merge([found], [], [row(0, 0)]) == [found]


def test_rows_of_partitions_that_are_gone_are_dropped() -> None:
    assert merge([], [use(0, 5), use(0, 5, partition=1)], [row(0, 6)]) == [use(0, 5)]


def states(*found: str) -> Iterable[PartitionRow]:
    return [row(0, 1, state=state) for state in found]


def test_only_a_census_of_all_topics_that_were_read_is_complete() -> None:
    assert is_complete(["*"], states(READ, READ), knows_all_topics=True)
    assert is_complete(["*", "a"], [], knows_all_topics=True)
    assert not is_complete(["a*"], states(READ), knows_all_topics=True)
    assert not is_complete(["*", "!a"], states(READ), knows_all_topics=True)
    assert not is_complete(["*"], states(READ, UNREAD), knows_all_topics=True)
    assert not is_complete(["*"], states(READ), knows_all_topics=False)


def test_topics_of_tools_are_counted_only_if_a_pattern_of_their_own_names_them() -> None:
    heartbeats = topic(name="__debezium-heartbeat.db")
    assert not is_in_scope(["*"], heartbeats)
    assert not is_in_scope(["*", "__other*"], heartbeats)
    assert is_in_scope(["*", "__debezium-heartbeat.*"], heartbeats)
    assert not is_in_scope(["__consumer_offsets"], topic(name="__consumer_offsets", internal=True))
    assert is_in_scope(["*"], topic(name="_t"))


def test_publishing_withdraws_sources_only_after_the_census() -> None:
    lines = [{"source": "a", "usage": {}}, {"census": {"patterns": ["*"]}}]
    published = list(census_commands(lines, ["a", "gone"]))
    assert [type(each) for each in published] == [PutUsage, PutCensus, DeleteUsage]
    assert published[-1] == DeleteUsage("gone")


def test_topics_are_named_by_names_prefixes_or_all() -> None:
    patterns = parse_patterns("orders.*, payments,orders.*")
    assert patterns == ("orders.*", "payments")
    assert [matches(patterns, each) for each in ("orders.eu", "payments", "payments2", "orders")] == [
        True, True, False, False,
    ]  # fmt: skip
    for wrong in ("", " , ", "*.orders"):
        with pytest.raises(ValueError, match=r"named|end"):
            parse_patterns(wrong)


def test_patterns_may_leave_topics_out() -> None:
    patterns = parse_patterns("orders.*,!orders.raw.*, !orders.old,orders.raw.known")
    names = ("orders.new", "orders.old", "orders.older", "orders.raw.x", "orders.raw.known", "other")
    assert [each for each in names if matches(patterns, each)] == ["orders.new", "orders.older"]
    assert parse_patterns("!a") == ("!a", "*")
    assert [each for each in ("a", "b") if matches(parse_patterns("!a"), each)] == ["b"]
    counted = [topic(name=name) for name in ("__tool", "__other", "plain")]
    assert [each.name for each in counted if is_in_scope(parse_patterns("__*,!__other"), each)] == ["__tool"]
    for wrong in ("!", "a!", "!a*b", "!!a"):
        with pytest.raises(ValueError, match="may only begin"):
            parse_patterns(wrong)


def test_files_that_are_not_counted_any_more_are_withdrawn_by_a_census_of_the_same_kind() -> None:
    stored = ["t", "/lake#a", "/lake#b", "/by-hand#c"]
    before = ["*", "parquet:/lake#a", "parquet:/lake#b"]

    def stale(found: set[str], patterns: list[str], former: list[str]) -> list[str]:
        return list(stale_sources(stored, found, patterns, former))

    assert stale({"t", "/lake#a"}, before[:2], before) == ["/lake#b"]
    assert stale({"t"}, ["*"], before) == ["/lake#a", "/lake#b"]
    assert stale(set(), ["*"], before) == ["t", "/lake#a", "/lake#b"]
    # Of some topics only, or after a census of files alone: nobody says that these are not counted elsewhere.
    assert stale({"t"}, ["t"], before) == []
    assert stale({"t"}, ["*"], before[1:]) == []
    assert stale({"t"}, ["*"], []) == []
    assert stale({"t"}, ["*", "!x"], before) == []
    assert stale({"t"}, ["*"], [*before, "!x"]) == []
