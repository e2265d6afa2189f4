"""The choice between Spark and the built-in fold, where one of them, or a part of Spark, is missing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from registry.log.embedded.log import EmbeddedLog
from tests.support.disks import Disk
from tests.support.running import ROOT
from tests.support.sample_snapshots import version


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with closing(EmbeddedLog(tmp_path / "data" / "log", map_bytes=64 << 20)) as log:
        log.append([version(f"s{number}", 1, number + 1) for number in range(20)])
    return tmp_path / "data"


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRAR_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT, env=own | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def build(data: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a snapshot with further variables in the environment."""
    return run(["-m", "registry", "snapshot", "build", *words, "--data", str(data)], **environment)


def engine_of(data: Path) -> str:
    [entry] = [json.loads(each.read_bytes()) for each in (data / "snapshots").glob("*/manifest.json")]
    return str(entry["engine"])


def test_without_java_the_built_in_fold_builds(data: Path, tmp_path: Path) -> None:
    done = build(data, JAVA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "by the engine local (Spark is not installed: there is no Java)" in done.stdout
    assert engine_of(data) == "local"


def test_without_pyspark_the_built_in_fold_builds(data: Path, tmp_path: Path) -> None:
    with_others = [path for path in Path(pyspark.__file__).parents[1].iterdir() if path.name != "pyspark"]
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in with_others:
        (packages / path.name).symlink_to(path)
    command = ["-S", "-m", "registry", "snapshot", "build", "--data", str(data)]
    done = run(command, PYTHONPATH=f"{ROOT}:{packages}")
    assert done.returncode == 0, done.stderr
    assert "by the engine local (Spark is not installed: there is no Python package pyspark)" in done.stdout
    assert engine_of(data) == "local"


def test_if_spark_cannot_start_the_built_in_fold_builds(data: Path, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho this is not the Java that Spark needs >&2; exit 1\n")
    java.chmod(0o755)
    done = build(data, JAVA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by the engine spark (PySpark and Java are installed)" in done.stdout
    assert "Spark did not start" in done.stdout
    assert "building by the engine local instead" in done.stdout
    assert engine_of(data) == "local"
    refused = build(data, "--engine", "spark", "--full", JAVA_HOME=str(tmp_path))
    assert refused.returncode == 1
    assert "Spark did not start" in refused.stderr


def test_if_no_executor_comes_the_built_in_fold_builds(data: Path) -> None:
    """A port that accepts connections, as a master that hangs does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = ("--snapshots-spark-master", f"spark://127.0.0.1:{silent.getsockname()[1]}")
        done = build(data, *where, "--snapshots-spark-start-timeout-s", "4")
    assert done.returncode == 0, done.stderr
    assert "Spark had no executor within 4 s (snapshots_spark_start_timeout_s)" in done.stdout
    assert "building by the engine local instead" in done.stdout
    assert "\tat " not in done.stderr
    assert engine_of(data) == "local"


@pytest.mark.long
def test_if_the_disk_of_spark_is_full_the_built_in_fold_builds(data: Path, tmp_path: Path) -> None:
    conf = ("--snapshots-spark-conf", f"spark.local.dir={tmp_path / 'spark'}")
    with Disk(tmp_path / "spark") as disk:
        (disk.place / "file").write_bytes(bytes(1 << 16))
        disk.fill()
        refused = build(data, "--engine", "spark", *conf)
        done = build(data, *conf)
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("registrar: Spark failed: the disk of Spark's temporary files is full")
    assert "\tat " not in refused.stderr
    assert done.returncode == 0, done.stderr
    assert "building by the engine local instead" in done.stdout
    assert engine_of(data) == "local"


@pytest.mark.long
def test_too_small_a_heap_is_reported_in_a_line(data: Path) -> None:
    refused = build(data, "--engine", "spark", "--snapshots-spark-conf", "spark.driver.memory=64m")
    assert refused.returncode == 1
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("registrar: Spark did not start: Java has too little memory: raise")
    assert "\tat " not in refused.stderr


@pytest.mark.long
def test_with_all_of_it_spark_builds(data: Path) -> None:
    done = build(data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by the engine spark (PySpark and Java are installed)" in done.stdout
    assert engine_of(data) == "spark"
