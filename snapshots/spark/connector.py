"""Spark's Kafka connector: four jars that PySpark does not bring, fetched once by the Ivy that it does bring.

Each is held to the checksum that stands beside this module. Once they are in the cache folder
(``$XDG_CACHE_HOME/registrar``, else ``~/.cache/registrar``), no network is needed.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from snapshots.task import BuildFailed

HERE = Path(__file__).parent
NAME = "connector-4.0.0"
"""The newest whose parts are all in Maven's public index; it serves every Spark 4.0."""
SPARK = "4.0."
_FETCH_TIMEOUT_S = 600.0
_SHOWN = 1_000
_log = logging.getLogger(__name__)


def jars(spark_version: str) -> list[Path]:
    """The jars, fetched if they are not in the cache. Raises :class:`..task.BuildFailed`."""
    if not spark_version.startswith(SPARK):
        raise BuildFailed(
            f"this is Spark {spark_version}: name its Kafka connector, such as snapshots_spark_packages ="
            f" org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"
        )
    folder = _cache() / f"{NAME}-{hashlib.sha256(_list().read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        with _one_at_a_time(folder):
            if not folder.exists():
                _fetch(folder)
    return sorted(folder.glob("*.jar"))


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "registrar"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _list() -> Path:
    return HERE / f"{NAME}.sha256"


@contextmanager
def _one_at_a_time(made: Path) -> Iterator[None]:
    with made.with_name(f"{made.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> None:
    """Fill ``folder``: it appears at once, and only when everything in it is what it should be."""
    _log.info("fetching Spark's Kafka connector (10 MB, once) into %s", folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{NAME}-") as work:
        fetched = Path(work) / "jars"
        _run_ivy(fetched, Path(work) / "ivy")
        check(fetched)
        fetched.rename(folder)


def _run_ivy(into: Path, ivy_cache: Path) -> None:
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"), None)
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else shutil.which("java")
    if ivy is None or java is None:
        raise BuildFailed("Spark's Kafka connector is not here, and there is no Java or no Ivy to fetch it")
    command = [
        *(java, "-jar", str(ivy), "-ivy", str(HERE / f"{NAME}.ivy.xml"), "-cache", str(ivy_cache)),
        *("-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", f"{into}/[artifact]-[revision].[ext]"),
    ]
    try:
        done = subprocess.run(  # noqa: S603 (PySpark's own tool)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=_FETCH_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildFailed(f"Spark's Kafka connector could not be fetched: {error}") from error
    if done.returncode or not into.exists():
        raise BuildFailed(
            "Spark's Kafka connector could not be fetched: see whether Maven's public index can be reached"
            f" from here, or fill {_cache()} elsewhere; Ivy said:\n{done.stdout[-_SHOWN:]}"
        )


def check(folder: Path) -> None:
    """Raise :class:`..task.BuildFailed` unless ``folder`` holds the listed jars, byte for byte."""
    lines = _list().read_text(encoding="utf-8").splitlines()
    wanted = {name: digest for digest, name in map(str.split, lines)}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        raise BuildFailed(f"{', '.join(wrong)}: not what {_list().name} lists, so nothing was kept")
