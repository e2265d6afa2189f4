"""The cost of builds: CPU of all processes, and the size of what there is to read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from registry.domain.log_format import records
from registry.domain.model import Subject
from registry.log.embedded.log import EmbeddedLog, now_ms
from snapshots.building import builder, cost
from snapshots.building.sources import estimate_size, open_source
from snapshots.building.task import silent
from snapshots.catalogue.catalogue import Entry
from snapshots.catalogue.open import open_catalogue
from snapshots.format.manifest import new_id
from tests.process.snapshots.test_local import embedded

BUSY = "import time\nwhile time.process_time() < 0.3:\n    pass"


def test_a_build_says_what_it_cost_and_what_the_built_in_fold_costs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = embedded(tmp_path, 20)
    with closing(open_source(known).log) as log:
        entry = Entry(
            id=new_id(20, now_ms(), 1), state="requested", log=log.identity, offset=20,
            uri=known.snapshots_location, requested_ms=now_ms(), updated_ms=now_ms(),
        )  # fmt: skip
    with closing(open_catalogue(known)) as catalogue, caplog.at_level("INFO", "snapshots"):
        catalogue.put(entry)
        ready = builder.build_request(known, catalogue, entry, "local", silent)
    assert ready.state == "ready"
    assert ready.wall_s > 0
    assert ready.cpu_s > 0
    expected = 20 * cost.LOCAL_RECORD_US + ready.rows * cost.LOCAL_ROW_US
    assert ready.local_cpu_s == pytest.approx(expected / 1e6)
    assert f"snapshot {ready.id}: it took" in caplog.text
    assert Entry.loads(ready.dumps()) == ready


def test_cpu_counts_in_all_processes_whether_they_run_or_have_ended() -> None:
    before = cost.cpu_s()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    ended = cost.cpu_s()
    assert ended - before >= 0.28
    command = [sys.executable, "-c", f"{BUSY}\nprint(1, flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline()
        assert cost.cpu_s() - ended >= 0.28
        child.stdin.write(b"\n")


def test_each_step_has_its_own_cost() -> None:
    told: list[str] = []
    costs = cost.StepCosts(lambda step, done, total: told.append(step))
    for step in ("one", "two", "one"):
        costs(step, 0, 1)
    assert list(costs.steps) == [cost.PREPARING, "one", "two"]
    assert told == ["one", "two", "one"]


PAUSED = f"import os, signal\n{BUSY}\nprint(os.getpid(), flush=True)\nsignal.pause()"


def test_what_processes_used_stays_counted_when_they_are_lost() -> None:
    """As workers of Spark are, if the process that has forked them ends before them."""
    costs = cost.StepCosts(silent)
    costs("one", 0, 1)
    command = ["sh", "-c", '"$0" -c "$1" & wait', sys.executable, PAUSED]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        lost = int(parent.stdout.readline())
        costs("one", 1, 1)
        parent.kill()
        parent.wait()
        try:
            costs("two", 1, 1)
        finally:
            os.kill(lost, signal.SIGKILL)
    assert costs.steps["one"].cpu_s >= 0.28
    assert all(each.cpu_s >= 0 for each in costs.steps.values())
    assert costs.total.cpu_s >= 0.28


@pytest.mark.parametrize("every", [1, 50])
def test_the_size_of_a_log_is_estimated_by_its_records_not_by_its_offsets(tmp_path: Path, every: int) -> None:
    with closing(EmbeddedLog(tmp_path / "log")) as log:
        for at in range(0, 20_000, 1_000):
            keys = [records.config_key(Subject(".", f"s{n // every}")) for n in range(at, at + 1_000)]
            log.append([records.Entry(key, b"{}") for key in keys])
        while log.compact(now_ms() + 86_400_000, 0, 0):
            pass
        size = estimate_size(log, 0, 20_000)
        left = sum(1 for _ in records_in(log))
    assert left < 1.1 * 20_000 / every
    assert 0.9 * left <= size.records <= 1.1 * left
    assert 40 <= size.bytes / size.records <= 60


def records_in(log: EmbeddedLog) -> list[records.Record]:
    """Return all records that the log still has."""
    found, at = [], 0
    while at < 20_000:
        fetched = log.read(at, 20_000, 1 << 30)
        found += fetched.records
        at = fetched.next
    return found
