"""How Spark's session is started: what makes it quick, on a real Spark in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark import SparkContext

from snapshots.spark.shared_classes import OPTIONS, sharing_classes
from tests.running import ROOT

_SESSIONS = """
from pathlib import Path
from registry.settings import Settings
from snapshots.spark.session import open_session

def seen(batches):
    import gc, sys
    import pyarrow as pa
    for batch in batches:
        there = [name for name in ("pandas", "snapshots.spark.tasks.folding") if name in sys.modules]
        archives = [entry for entry in sys.path if entry.endswith((".zip", ".jar"))]
        pa.array([b""], pa.binary())
        yield pa.record_batch([pa.array([f"{there} {archives} {gc.get_freeze_count() > 0}"])], names=["seen"])

said = Settings(snapshots_spark_master="local[1]", snapshots_spark_conf="spark.sql.codegen.wholeStage=true")
for _ in range(3):
    with open_session(said, brief=True) as session:
        names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
        print("compiles", *map(session.conf.get, names))
        print("worker", session.range(1).mapInArrow(seen, "seen string").collect()[0].seen)
        maps = Path(f"/proc/{session.sparkContext._gateway.proc.pid}/maps").read_text()
        files = {line.split()[-1] for line in maps.splitlines() if "registrar/spark-" in line}
        print("mapped", sorted(files))
"""


def test_what_java_loaded_is_kept_and_workers_are_forked_from_what_they_need(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SESSIONS], cwd=ROOT, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = list((tmp_path / "registrar").iterdir())
    assert [file.suffix for file in kept] == [".jsa"]
    worker = "worker ['snapshots.spark.tasks.folding'] [] True"
    mapped = f"mapped ['{kept[0]}']"
    compiles = "compiles true NO_CODEGEN"
    assert done.stdout.splitlines() == [
        compiles, worker, "mapped []", *(2 * [compiles, worker, mapped]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.master": "spark://host:7077", OPTIONS: "-Da=b"},
        {"spark.master": "local[*]", OPTIONS: "-XX:SharedArchiveFile=own.jsa"},
        {"spark.master": "local[*]", OPTIONS: "-Xshare:off"},
    ],
)
def test_who_shares_otherwise_or_elsewhere_is_left_alone(
    conf: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with sharing_classes(conf, keep=True) as found:
        assert found == conf
    assert not any(tmp_path.rglob("*.jsa"))


def test_long_builds_share_what_was_kept_and_keep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    conf = {"spark.master": "local[*]"}
    with sharing_classes(conf, keep=False) as found:
        assert found == conf
    with pytest.raises(RuntimeError) as broken_off, sharing_classes(conf, keep=True) as found:
        raise RuntimeError(found[OPTIONS])
    kept = Path(str(broken_off.value).partition("ArchiveClassesAtExit=")[2])
    kept.with_suffix("").touch()
    with sharing_classes(conf, keep=False) as found:
        assert found[OPTIONS].endswith(f"-XX:SharedArchiveFile={kept.with_suffix('')}")


def test_what_nobody_has_used_for_long_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    folder = tmp_path / "registrar"
    folder.mkdir()
    ages = {"spark-1.jsa": 40 * 24, "spark-2.jsa": 20 * 24, "spark-2.jsa.1": 2, "other": 9999}
    for name, hours in ages.items():
        (folder / name).touch()
        os.utime(folder / name, times=(0, time.time() - hours * 3600))
    with pytest.raises(RuntimeError), sharing_classes({"spark.master": "local[*]"}, keep=True):
        raise RuntimeError
    assert sorted(file.name for file in folder.iterdir()) == ["other", "spark-2.jsa"]
