"""The choice between Spark and the built-in fold, where one of them, or a part of Spark, is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyspark
import pytest

from registry.log.embedded.log import EmbeddedLog
from tests.running import ROOT
from tests.sample_snapshots import version


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


@pytest.mark.long
def test_with_all_of_it_spark_builds(data: Path) -> None:
    done = build(data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by the engine spark (PySpark and Java are installed)" in done.stdout
    assert engine_of(data) == "spark"
