"""The embedded log beyond the contract: durability, one writer, compaction."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import lmdb
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.base.processes.child_process import module_command
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Entry, Record, schema_key
from registry.domain.model import Subject
from registry.domain.rows.memory_views import DictView
from registry.log.contract import DamagedLog, LogError
from registry.log.embedded import layout
from registry.log.embedded.log import EmbeddedLog

ALL = 1 << 30
OPEN_AND_SAY = """
import sys
from pathlib import Path
from registry.log.embedded.log import EmbeddedLog
try:
    EmbeddedLog(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


def opened(path: Path, clock: Callable[[], int] = lambda: 0) -> EmbeddedLog:
    return EmbeddedLog(path / "log", map_bytes=64 << 20, clock=clock)


def everything(log: EmbeddedLog) -> list[Record]:
    return log.read(0, 1 << 20, ALL).records


def compacted(log: EmbeddedLog, now: int, lag: int, retention: int) -> int:
    """Compact everything possible; return how many records were deleted."""
    before = log.count()
    while log.compact(now, lag, retention):
        pass
    return before - log.count()


def test_a_log_is_the_same_after_it_was_opened_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1"), Entry(b"b", None)])
    before, identity = everything(log), log.identity
    log.close()
    again = opened(tmp_path)
    assert (everything(again), again.identity, again.end(), again.count()) == (before, identity, 2, 2)
    again.close()


def test_two_new_logs_have_two_identities(tmp_path: Path) -> None:
    a, b = opened(tmp_path / "a"), opened(tmp_path / "b")
    assert a.identity != b.identity
    a.close()
    b.close()


def test_nobody_but_the_owner_may_read_it(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for path in [*(tmp_path / "log").iterdir(), tmp_path / "log", tmp_path / "log.lock"]:
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_a_second_process_is_refused_and_learns_who_has_the_log(tmp_path: Path) -> None:
    log = opened(tmp_path)
    second = subprocess.run(
        [sys.executable, "-c", OPEN_AND_SAY, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
        env=module_command("registry")[1],
    )
    assert second.stdout == (
        f"LogError the log in {tmp_path / 'log'} is open for writing by process {os.getpid()}: "
        "give each node its own folder (data)\n"
    )
    with pytest.raises(LogError, match="open for writing by process"):
        opened(tmp_path)
    log.append([Entry(b"still", b"ours")])
    log.close()
    opened(tmp_path).close()


def test_a_full_map_refuses_the_append_and_keeps_the_rest(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log", map_bytes=1 << 20)
    log.append([Entry(b"a", b"1")])
    with pytest.raises(LogError, match=r"map size .* nothing was appended"):
        log.append([Entry(b"b", b"x" * 500_000), Entry(b"c", b"x" * 500_000), Entry(b"d", b"x" * 500_000)])
    assert log.end() == 1
    assert log.append([Entry(b"b", b"2")]) == 1
    assert [record.key for record in everything(log)] == [b"a", b"b"]
    log.close()


def test_a_missing_log_that_should_be_there_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedLog, match="missing"):
        EmbeddedLog(tmp_path / "log", must_exist=True)
    assert not (tmp_path / "log").exists()


def test_compaction_keeps_what_is_younger_than_the_lag(tmp_path: Path) -> None:
    now = [1000]
    log = opened(tmp_path, lambda: now[0])
    log.append([Entry(b"a", b"1")])
    now[0] = 2000
    log.append([Entry(b"a", b"2"), Entry(b"z", b"")])
    assert compacted(log, 2999, 1000, 10_000) == 0
    assert compacted(log, 3000, 1000, 10_000) == 1
    assert [record.offset for record in everything(log)] == [1, 2]
    assert (log.end(), log.count()) == (3, 2)
    log.close()
    log = opened(tmp_path)
    assert (log.end(), log.count()) == (3, 2)
    log.close()


def test_compaction_keeps_a_tombstone_for_its_retention_and_then_forgets_the_key(tmp_path: Path) -> None:
    log = opened(tmp_path, lambda: 1000)
    log.append([Entry(b"a", b"1"), Entry(b"a", None), Entry(b"z", b"")])
    assert compacted(log, 1000, 0, 500) == 1
    assert [record.offset for record in everything(log)] == [1, 2]
    assert compacted(log, 1499, 0, 500) == 0
    assert compacted(log, 1500, 0, 500) == 1
    assert [record.offset for record in everything(log)] == [2]
    log.append([Entry(b"a", b"again"), Entry(b"z", b""), Entry(b"y", b"")])
    assert compacted(log, 9000, 0, 500) == 1
    assert [record.key for record in everything(log)] == [b"a", b"z", b"y"]
    log.close()


def test_principals_go_with_their_records(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1", b"alice"), Entry(b"b", None, b"bob"), Entry(b"a", b"2"), Entry(b"z", b"")])
    assert compacted(log, 1 << 40, 0, 0) == 2
    assert everything(log) == [Record(2, 0, b"a", b"2"), Record(3, 0, b"z", b"")]
    with log._env.begin(log._tables.principals) as txn:
        assert list(txn.cursor()) == []
    log.close()


def test_a_damaged_principal_is_none_and_the_record_is_whole(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1", b"alice"), Entry(b"b", b"2", b"bob")])
    with log._env.begin(log._tables.principals, write=True) as txn:
        key = (0).to_bytes(8, "big")
        txn.put(key, (txn.get(key) or b"")[:-1] + b"a")
    assert everything(log) == [Record(0, 0, b"a", b"1"), Record(1, 0, b"b", b"2", b"bob")]
    log.close()


def test_an_earlier_version_and_this_one_take_turns_with_a_log(tmp_path: Path) -> None:
    """Earlier versions know four tables, and open no other."""
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1", b"alice")])
    log.close()
    earlier = lmdb.open(str(tmp_path / "log"), max_dbs=4, map_size=64 << 20)
    records, meta = (earlier.open_db(name, create=False) for name in (layout.RECORDS, layout.META))
    with earlier.begin(write=True) as txn:
        assert [layout.unpack(*row) for row in txn.cursor(records)] == [Record(0, 0, b"a", b"1")]
        offset = layout.pack_offset(1)
        txn.put(offset, layout.pack(offset, 0, Entry(b"b", b"2")), db=records, append=True)
        txn.put(layout.META_STATE, layout.LogState(2, 2, 0).pack(), db=meta)
    earlier.close()
    log = opened(tmp_path)
    log.append([Entry(b"c", b"3", b"carol")])
    assert [record.principal for record in everything(log)] == [b"alice", b"", b"carol"]
    log.close()


def test_a_log_of_an_earlier_version_gets_the_table_that_it_lacks(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1")])
    with log._env.begin(write=True) as txn:
        txn.drop(log._tables.principals)
    log.close()
    log = opened(tmp_path)
    log.append([Entry(b"b", b"2", b"bob")])
    assert [record.principal for record in everything(log)] == [b"", b"bob"]
    log.close()


def test_compaction_leaves_the_last_record_so_that_the_end_can_be_checked(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1"), Entry(b"a", None)])
    while log.compact(1 << 40, 0, 0):
        pass
    assert [record.offset for record in everything(log)] == [0, 1]
    log.close()
    opened(tmp_path).close()


def test_compaction_does_a_bounded_piece_at_a_time(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1")] * 101)
    counts = []
    while log.compact(1 << 40, 0, 0, limit=10):
        counts.append(log.count())
    assert counts == [92, 82, 72, 62, 52, 42, 32, 22, 12, 2]
    log.close()


def test_compaction_takes_nothing_that_the_store_has_not_seen(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([Entry(b"a", b"1"), Entry(b"a", None), Entry(b"z", b"")])
    log.compact(1 << 40, 0, 0, applied=1)
    assert log.count() == 3
    assert log.compact(1 << 40, 0, 0, applied=1) == 0
    log.compact(1 << 40, 0, 0, applied=2)
    assert [record.key for record in everything(log)] == [b"z"]
    log.close()


def test_a_full_log_says_so_until_there_is_room_for_what_it_refused(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log", map_bytes=1 << 20, clock=lambda: 0)
    large = Entry(b"large", bytes(100_000))
    full = False
    while not full:
        try:
            log.append([large])
        except LogError:
            full = True
    assert "log_map_bytes" in log.last_error
    log.check_for_room()
    assert log.last_error, "there is still no room"
    log.append([Entry(b"small", b"")])
    assert log.last_error, "a small record says nothing about a large one"
    compacted(log, 1 << 40, 0, 0)
    log.check_for_room()
    assert not log.last_error
    log.append([large])
    assert not log.last_error
    kept = everything(log)
    log.close()
    log = EmbeddedLog(tmp_path / "log", map_bytes=1 << 20)
    assert everything(log) == kept
    log.close()


READS_ON = """
import sys
from pathlib import Path
from registry.log.embedded.reader import EmbeddedLogReader
reader = EmbeddedLogReader(Path(sys.argv[1]))
for line in sys.stdin:
    end = reader.query_end(0)
    print(end, len(reader.read(0, 1 << 20, 1 << 30).records), flush=True)
"""


def test_another_process_goes_on_reading_a_log_whose_map_was_enlarged(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path / "log", map_bytes=16 << 20).close()
    _, environment = module_command("registry")
    with subprocess.Popen(
        [sys.executable, "-c", READS_ON, str(tmp_path / "log")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as reader:  # fmt: skip
        assert reader.stdin
        assert reader.stdout
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "0 0\n"
        log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
        log.append([Entry(b"%d" % number, bytes(1_000_000)) for number in range(20)])
        said, _ = reader.communicate("\n")
        assert said == "20 20\n"
        log.close()


FULL_DISK = """
import resource, sys
from pathlib import Path
from registry.domain.log_format.records import Entry
from registry.log.contract import LogError
from registry.log.embedded.log import EmbeddedLog
log = EmbeddedLog(Path(sys.argv[1]))
size = (Path(sys.argv[1]) / "data.mdb").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 200_000, resource.RLIM_INFINITY))
done = 0
try:
    while True:
        log.append([Entry(b"%d" % done, b"x" * 1000)] * 10)
        done += 10
except LogError as error:
    print(error)
assert done and log.end() == log.count() == done
assert log.last_error
log.check_for_room()
assert log.last_error
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.check_for_room()
assert not log.last_error
assert log.append([Entry(b"there is room again", b"")]) == done
print(done + 1)
"""


def test_a_full_disk_refuses_the_append_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    _, environment = module_command("registry")
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    said, end = child.stdout.splitlines()
    assert re.fullmatch(
        r"the (disk under the )?log in .* (is full|cannot be written: .*); nothing was appended", said
    )
    log = opened(tmp_path)
    assert [record.offset for record in everything(log)] == list(range(int(end)))
    log.close()


def _record(subject: str, version: int, schema_id: int | None, deleted: bool) -> tuple[bytes, bytes | None]:
    """Return a version record, its tombstone, or for version 0 the deletion of the subject."""
    name = Subject.parse(subject)
    if version == 0:
        key = b'{"keytype":"DELETE_SUBJECT","subject":"%s","magic":0}' % subject.encode()
        # Of the highest version that may exist, as this registry writes it, so that a later mark covers it.
        return key, b'{"subject":"%s","version":3}' % subject.encode()
    if schema_id is None:
        return schema_key(name, version), None
    text = f'{{"type":"fixed","name":"F","size":{schema_id}}}'
    return schema_key(name, version), orjson.dumps(
        {"subject": subject, "version": version, "id": schema_id, "schema": text, "deleted": deleted}
    )


RECORDS = st.builds(
    _record, st.sampled_from(["a", ":.c:b"]), st.integers(0, 3), st.none() | st.integers(1, 4), st.booleans()
)
HISTORY = st.lists(
    st.one_of(
        st.lists(RECORDS, max_size=4),
        st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(1, 5)),
    ),
    max_size=30,
)


@settings(max_examples=25, deadline=None)
@given(HISTORY)
def test_a_compacted_log_says_the_same_as_the_full_one(history: list[object]) -> None:
    """The fold gives the same rows, the order is kept, and no young record is deleted."""
    with tempfile.TemporaryDirectory() as folder:
        clock = [0]
        log = opened(Path(folder), lambda: clock[0])
        full: list[Record] = []
        for step in history:
            clock[0] += 1
            if isinstance(step, list):
                log.append([Entry(key, value) for key, value in step])
                full += [Record(len(full) + n, clock[0], *entry) for n, entry in enumerate(step)]
            elif isinstance(step, tuple):
                pause, lag, retention, limit = step
                clock[0] += pause
                log.compact(clock[0], lag, retention, limit)
                left = everything(log)
                assert [record for record in full if clock[0] - record.ts < lag] == [
                    record for record in left if clock[0] - record.ts < lag
                ]
        left = everything(log)
        assert set(left) <= set(full)
        assert left == sorted(left)
        assert _rows(left) == _rows(full)
        assert (log.count(), log.end()) == (len(left), len(full))
        log.close()
        opened(Path(folder)).close()


def _rows(records: list[Record]) -> list[tuple[bytes, bytes]]:
    plain = DictView()
    for record in records:
        plain.commit(apply(plain, record))
    return list(plain.rows())
