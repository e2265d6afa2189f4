"""Sessions of a real Spark, in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import ROOT

_KEPT = """
import os, signal, sys
from pyspark import SparkContext
from registry.base.config.settings import Settings
from snapshots.spark.session import open_session

conf = "spark.ui.enabled=false spark.sql.codegen.wholeStage=true"
given = Settings(snapshots_spark_master="local[1]", snapshots_spark_conf=conf)
names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")

def show(session):
    found = session.range(3).count(), session.sparkContext.applicationId, SparkContext._gateway.proc.pid
    print(*found, *map(session.conf.get, names))

def kill(session):
    java = SparkContext._gateway.proc
    os.kill(java.pid, signal.SIGKILL)
    java.wait()
    session.range(3).count()

def fail(session):
    raise OSError

def stop(session):
    session.sparkContext.stop()

for work in (None, None, fail, None, kill, stop, None):
    try:
        with open_session(given, keep=True) as session:
            show(session)
            if work:
                work(session)
    except Exception:
        print("failed")
"""


# In make test, tests/process/snapshots/test_spark.py builds several times in one session.
@pytest.mark.long
def test_a_kept_session_serves_the_next_build_unless_a_build_failed_or_it_was_stopped_or_killed(
    tmp_path: Path,
) -> None:
    """All have what the user sets, and leave nothing in the home folder."""
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", _KEPT], cwd=ROOT, env={**os.environ, **home},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, failing, failed, renewed, killed, lost, stopped, last = done.stdout.splitlines()
    assert first == second == failing
    assert (failed, lost) == ("failed", "failed")
    assert renewed == killed
    counts, sessions, javas, *found = zip(
        *(line.split() for line in (first, renewed, stopped, last)), strict=True
    )
    assert counts == ("3",) * 4
    assert found == [("true",) * 4, ("NO_CODEGEN",) * 4]
    assert len({*sessions}) == 4, "a session whose build failed was ended"
    assert javas[0] == javas[1] != javas[2] == javas[3], "Java serves on, and is replaced once it was killed"
    assert not list(tmp_path.iterdir())


_FROZEN = """
import os, signal
from pyspark import SparkContext
from registry.base.config.settings import Settings
from snapshots.spark import session as sessions

sessions._END_S = 3.0
given = Settings(snapshots_spark_master="local[1]")
end = sessions._end

def freeze_and_end(session):
    os.kill(SparkContext._gateway.proc.pid, signal.SIGSTOP)
    end(session)

for way_to_end in (freeze_and_end, end):
    sessions._end = way_to_end
    with sessions.open_session(given) as session:
        print(session.range(3).count(), SparkContext._gateway.proc.pid, flush=True)
"""


@pytest.mark.long
def test_a_java_that_does_not_end_its_session_is_killed_and_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FROZEN], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    (counted, frozen), (again, java) = (line.split() for line in done.stdout.splitlines())
    assert counted == again == "3"
    assert java != frozen
    assert not Path("/proc", frozen).exists(), "it was killed"
