"""Log and store after ``kill -9`` at any moment: acknowledged data is there, and both continue."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from lmdb import verify

from registry.base.processes.child_process import module_command
from registry.domain.fold.fold import FOLD_VERSION, apply
from registry.domain.log_format.records import Entry
from registry.domain.rows import digest
from registry.domain.rows.memory_views import DictView
from registry.log.embedded.log import EmbeddedLog
from registry.store.open import open_store

MAP = 256 << 20
APPEND = """
import sys
from pathlib import Path
from registry.domain.log_format.records import Entry
from registry.log.embedded.log import EmbeddedLog
log = EmbeddedLog(Path(sys.argv[1]), map_bytes=256 << 20)
n = log.end()
print(n, flush=True)
while True:
    numbers = range(n, n + n % 9 + 1)
    values = [None if i % 7 == 0 else b"%d" % i + b"x" * 300 for i in numbers]
    n = log.append([Entry(b"key%d" % (i % 50), value) for i, value in zip(numbers, values)]) + len(numbers)
    print(n, flush=True)
    if n % 3 == 0:
        log.compact(1 << 50, 0, 0, 20)
"""
FOLLOW = """
import sys
from pathlib import Path
from registry.log.embedded.log import EmbeddedLog
from registry.node.replication.follower import Follower
from registry.store.open import open_store
folder, far_behind = Path(sys.argv[1]), int(sys.argv[2])
log = EmbeddedLog(folder / "log", map_bytes=256 << 20)
# Far behind, it is written through a writable map.
end = log.end() + (1 << 20 if far_behind else 0)
store, messages = open_store(folder / "store", log.identity, end, map_bytes=256 << 20)
assert not messages, messages
assert store.is_mapped == bool(far_behind)
print(store.applied, flush=True)
follower = Follower(log, store, far_behind=far_behind or None)
while follower.step(50):
    print(store.applied, flush=True)
"""


def run_and_kill(program: str, arguments: list[str], lines: int) -> list[int]:
    """Start the program, kill it after this many lines, and return all numbers that it printed."""
    _, environment = module_command("registry")
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert child.stdout
    said = [int(line) for line, _ in zip(child.stdout, range(lines), strict=False)]
    child.kill()
    rest, _ = child.communicate()
    return said + [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.parametrize("seed", range(3))
def test_every_acknowledged_append_is_there_after_a_kill(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        said = run_and_kill(APPEND, [str(tmp_path / "log")], chance.randrange(1, 150))
        log = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
        assert log.end() >= said[-1]
        records = log.read(0, 1 << 20, 1 << 30).records
        last = {record.key: record for record in records}
        for n in range(50):
            upto = log.end() - 1
            newest = upto - (upto - n) % 50 if upto >= n else None
            if newest is not None and newest % 7:
                assert last[b"key%d" % n].offset == newest
                assert (last[b"key%d" % n].value or b"").startswith(b"%d" % newest)
        assert len(records) == log.count()
        log.close()
        assert verify.verify(str(tmp_path / "log")) == [], "no page is lost or leaked"


def config(n: int) -> Entry:
    subject = b"s%d" % (n % 700)
    key = b'{"keytype":"CONFIG","subject":"%s","magic":0}' % subject
    if n % 11 == 0:
        return Entry(key, None)
    return Entry(key, b'{"subject":"%s","compatibilityLevel":"%s"}' % (subject, (b"NONE", b"FULL")[n % 2]))


@pytest.mark.parametrize("far_behind", [0, 100])
def test_a_killed_follower_resumes_exactly(tmp_path: Path, far_behind: int) -> None:
    log = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    log.append([config(n) for n in range(6000)])
    records = log.read(0, 1 << 20, 1 << 30).records
    identity = log.identity
    log.close()
    chance = random.Random(far_behind)
    applied = 0
    for lines in [chance.randrange(2, 40) for _ in range(4)] + [10_000]:
        said = run_and_kill(FOLLOW, [str(tmp_path), str(far_behind)], lines)
        assert said[0] >= applied
        store, messages = open_store(tmp_path / "store", identity, 6000, map_bytes=MAP, fold=FOLD_VERSION)
        assert not messages
        assert store.applied >= said[-1]
        applied = store.applied
        plain = DictView()
        for record in records[:applied]:
            plain.commit(apply(plain, record))
        assert store.digest == digest.of_rows(plain.rows())
        while not store.verify_step():
            pass
        store.close()
    assert applied == 6000
