"""Records on their way to the tasks that fold them, without Spark."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.fold import fast_path
from registry.domain.log_format import records
from registry.domain.model import TOP, Subject
from snapshots.spark.tasks import bundles, owned_records
from snapshots.spark.tasks.chunks import BadChunk
from snapshots.spark.tasks.owned_records import OTHER, place_of, plain_key, with_owners

NAMES = [
    b"a", b" ", b"a-b.c_d", b":.c:a", b":.c:", b":.c", b":.", b":.:a", b":..:a", b":.c:d:e", b":c", b"a:.b",
    b"l" * 120, b"l" * 121, b":." + b"c" * 119 + b":a", b":." + b"c" * 120 + b":a", b":.c:" + b"l" * 121,
    b"\xc3\xa9", b"\xc3\xa9" * 60, b"\xc3\xa9" * 61, b"\xf0\x9f\x98\x80", b"\xe2\x80\xa8", b"\xef\xbf\xbd",
    b"\xff", b"\xed\xa0\x80", b"\\u0061", b'\\"', b"a\\nb", b"\x7f", b"~", b"", b"\x01", b"a\n",
    b'","subject":"b',
]  # fmt: skip
KEYS = [
    b'{"keytype":"SCHEMA","subject":"%b","version":1,"magic":1}',
    b'{"keytype":"SCHEMA","subject":"%b","version":999999999,"magic":1}',
    b'{"keytype":"SCHEMA","subject":"%b","version":1000000000,"magic":1}',
    b'{"keytype":"SCHEMA","subject":"%b","version":2147483648,"magic":1}',
    b'{"keytype":"SCHEMA","subject":"%b","version":0,"magic":1}',
    b'{"keytype":"SCHEMA","subject":"%b","version":01,"magic":1}',
    b'{"keytype":"SCHEMA","subject":"%b","version":1,"magic":0}',
    b'{"keytype":"SCHEMA","subject":"%b","magic":0}',
    b'{"subject":"%b","keytype":"SCHEMA","version":1,"magic":1}',
    b'{"keytype":"CONFIG","subject":"%b","magic":0}',
    b'{"keytype":"CONFIG","subject":"%b","magic":1}',
    b'{"keytype":"MODE","subject":"%b","magic":0}',
    b'{"keytype":"DELETE_SUBJECT","subject":"%b","magic":0}',
    b'{"keytype":"CLEAR_SUBJECT","subject":"%b","magic":0}',
    b'{"keytype":"CONTEXT","tenant":"default","context":"%b","magic":0}',
    b'{"keytype":"CONTEXT","tenant":"default","context":".%b","magic":0}',
    b'{"keytype":"CONTEXT","tenant":"other","context":".%b","magic":0}',
    b'{"keytype":"ASSOC","tenant":"default","resourceName":"%b","subject":"s","magic":0}',
    b'{"keytype":"ASSOC","tenant":"default","resourceName":"r","associationType":"t","subject":"%b","magic":0}',
    b'{"keytype":"ASSOC","tenant":"default","subject":"%b","magic":0}',
    b'{"keytype":"NOOP","magic":0,"registrar":"ids","context":".%b"}',
    b'{"keytype":"NOOP","magic":0,"registrar":"webhook","name":"%b"}',
    b'{"keytype":"NOOP","magic":0,"registrar":"webhook-position","name":"%b"}',
    b'{"keytype":"NOOP","magic":0,"registrar":"%b"}',
    b'{"keytype":"%b","magic":0}',
]
# Keys that nobody else writes like that.
ODD = st.sampled_from(KEYS).flatmap(
    lambda key: st.builds(
        lambda name, before, after: before + key % name + after,
        st.sampled_from(NAMES) | st.text(max_size=5).map(str.encode) | st.binary(max_size=5),
        st.sampled_from([b"", b"", b"", b" ", b"\n"]),
        st.sampled_from([b"", b"", b"", b"\n", b" ", b"\0", b"x"]),
    )
)


BINARY = pa.binary()


def _log(keys: list[bytes | None], values: list[bytes | None] | None = None) -> pa.RecordBatch:
    """Return records as Spark reads them from a log, with their places as offsets."""
    numbers = pa.array(range(len(keys)), pa.int64())
    found = pa.array(values or [None] * len(keys), BINARY)
    return pa.record_batch(
        [pa.array(keys, BINARY), numbers, numbers, found], names=["key", "offset", "ts", "value"]
    )


def _tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _holds_owners_and_versions(keys: list[bytes | None]) -> None:
    found = _tuples(with_owners(_log(keys)))
    assert len(found) == len(keys)
    for key, (own, version, _, _, kept, _) in zip(keys, found, strict=True):
        assert (own, version) == place_of(key), key
        plain = key is not None and fast_path.plain_key(key)
        assert (kept is None) == (key is None or bool(plain)), key
        assert not plain or plain_key(own, version) == key


def test_owners_and_versions_are_those_of_the_fold() -> None:
    keys: list[bytes | None] = [key % name for key in KEYS for name in NAMES]
    keys += [records.NOOP_KEY, records.BARRIER_KEY, records.SNAPSHOT_KEY, records.RESEED_KEY, b"", None]
    keys += [records.config_key(TOP), records.mode_key(TOP), records.clear_subject_key(TOP)]
    _holds_owners_and_versions(keys)
    for key in keys:
        _holds_owners_and_versions([key])


@settings(max_examples=50)
@given(st.lists(ODD, min_size=1, max_size=40))
def test_owners_and_versions_of_odd_keys_are_those_of_the_fold(keys: list[bytes | None]) -> None:
    _holds_owners_and_versions(keys)


def test_keys_of_versions_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither with a context; others are few."""
    asked: list[bytes | None] = []
    monkeypatch.setattr(owned_records, "place_of", lambda key: (asked.append(key), (b"", OTHER))[1])
    subjects = [Subject(".", "a"), Subject(".", "a:b"), Subject(".c", "a"), Subject(".c", "a:b")]
    others = [records.config_key(subjects[0]), records.schema_key(Subject(".", 'a"b'), 1)]
    list(owned_records.owners_of([_log([*(records.schema_key(each, 1) for each in subjects), *others])]))
    assert asked == others


class Value(NamedTuple):
    """A value that tasks share."""

    value: Any


def _bundles(lines: list[Any]) -> Iterator[pa.RecordBatch]:
    for first, data in lines:
        yield pa.record_batch([pa.array([first], BINARY), pa.array([data], BINARY)], names=["first", "data"])


some_keys = st.builds(
    lambda name, version: records.schema_key(Subject(".", name), version),
    st.sampled_from("abcdefgh"), st.integers(1, 3),
)  # fmt: skip


@given(
    st.lists(st.tuples(some_keys, st.none() | st.binary(max_size=300)), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(1, 50),
    st.sampled_from([1, 500, 1 << 20]),
)
def test_records_arrive_in_order_and_once(
    found: list[tuple[bytes, bytes | None]], tasks: int, size: int, limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SORTED_BYTES", "BUNDLE_BYTES", "_MERGE_BYTES"):
            patch.setattr(bundles, name, limit)
        patch.setattr(bundles, "HANDED_ON", size)
        keys, values = (list(each) for each in zip(*found, strict=True))
        log = _log(keys, values)
        read = [log.slice(begin, size) for begin in range(0, len(log), size)]
        places = [3 * number for number in range(tasks)]
        lines = [line for batch in bundles.read(Value(places), read) for line in _tuples(batch)]
        arrived: list[Any] = []
        for place in places:
            mine = sorted(line[1:] for line in lines if line[0] == place)
            records_of_task = [each for batch in bundles.records(_bundles(mine)) for each in _tuples(batch)]
            owners = [each[0] for each in records_of_task]
            assert sum(a != b for a, b in itertools.pairwise(owners)) == max(0, len({*owners}) - 1)
            for own in {*owners}:
                own_records = [each for each in records_of_task if each[0] == own]
                assert own_records == sorted(own_records, key=itemgetter(1, 2))
            arrived += records_of_task
    assert sorted(arrived, key=itemgetter(2)) == _tuples(with_owners(log))


def test_records_of_a_large_owner_are_merged_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs follow the log, and so do versions: a task holds a few bundles at any time, not its owner."""
    monkeypatch.setattr(bundles, "SORTED_BYTES", 40_000)
    monkeypatch.setattr(bundles, "BUNDLE_BYTES", 4_000)
    monkeypatch.setattr(bundles, "_MERGE_BYTES", 8_000)
    monkeypatch.setattr(bundles, "HANDED_ON", 10)
    keys: list[bytes | None] = [records.schema_key(Subject(".", "s"), version) for version in range(1, 2_001)]
    log = _log(keys, [bytes(100)] * 2_000)
    sent = bundles.read(Value([0]), [log.slice(begin, 50) for begin in range(0, 2_000, 50)])
    lines = sorted(line[1:] for batch in sent for line in _tuples(batch))
    assert len(lines) >= 100
    taken = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for batch in _bundles(lines):
            taken += 1
            yield batch

    for number, batch in enumerate(bundles.records(counted())):
        assert taken * 20 - number * 10 < 200, "records that were taken and not handed on"
        assert batch["version"].to_pylist() == list(range(10 * number + 1, 10 * number + 11))


def test_each_task_gets_about_equally_many_owners() -> None:
    log = _log([records.schema_key(Subject(".", f"s{number}"), 1) for number in range(4_000)])
    found: Counter[int] = Counter()
    for batch in bundles.read(Value([0, 1, 2, 3]), [log]):
        for place, first, data in _tuples(batch):
            found[place] += sum(len(each) for each in bundles.records(_bundles([(first, data)])))
    assert sorted(found) == [0, 1, 2, 3]
    assert min(found.values()) > 800


def test_a_damaged_bundle_is_noticed() -> None:
    [(first, data)] = [
        line[1:] for batch in bundles.read(Value([0]), [_log([b"k"])]) for line in _tuples(batch)
    ]
    with pytest.raises(BadChunk, match="a bundle of records cannot be read"):
        list(bundles.records(_bundles([(first, data[:-20])])))
