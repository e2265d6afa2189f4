"""Spark's classes as Java has loaded them, kept after a first brief build: later ones start seconds earlier.

As it ends, Java writes what it has loaded to a file in the cache folder (class data sharing), and maps that
file when it starts again. A file that does not suit the Java or its jars is passed over by Java itself.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext

from .ending import wait_until_over
from .fetching import cache, pyspark_jars

OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
_OF_THEIR_OWN = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")
_QUIET = "-Xlog:cds*=off"
_WRITING_S = 60.0
_UNUSED_S = 30 * 86_400
"""Files that nobody has used for so long go: each takes 170 MB."""
_LEFT_S = 3_600
"""So do those that Java, whose build was killed, has written for nobody."""
_log = logging.getLogger(__name__)


@contextmanager
def sharing_classes(conf: Mapping[str, str], *, keep: bool) -> Iterator[Mapping[str, str]]:
    """The configuration with the option for the file; where there is none, ``keep`` has it made at the end.

    That takes some seconds, and Java loads more slowly until then. Nothing happens where Java runs already or
    will run elsewhere, where ``conf`` says by itself what is shared, and where nothing can be kept.
    """
    file = _file(conf)
    if file is None or not (file.exists() or keep):
        yield conf
    elif file.exists():
        with suppress(OSError):  # it is another user's
            os.utime(file)
        yield _with(conf, f"-XX:SharedArchiveFile={file}")
    else:
        _sweep(file.parent)
        written = file.with_name(f"{file.name}.{os.getpid()}")
        yield _with(conf, f"-XX:ArchiveClassesAtExit={written}")
        _keep(written, file)


def _file(conf: Mapping[str, str]) -> Path | None:
    """Where it is, or will be."""
    options = conf.get(OPTIONS, "")
    elsewhere = not conf["spark.master"].startswith("local")
    if java_runs() or elsewhere or any(name in options for name in _OF_THEIR_OWN):
        return None
    try:
        folder = cache()
        name = f"spark-{pyspark.__version__}-{_identity(conf)}.jsa"
        return folder / name if os.access(folder, os.W_OK) else None
    except OSError as error:
        _log.debug("no place to keep Spark's classes: %s", error)
        return None


def java_runs() -> bool:
    """Whether a session that is opened here gets a Java that runs already."""
    return SparkContext._gateway is not None  # noqa: SLF001 (there is no other way)


def _identity(conf: Mapping[str, str]) -> str:
    """Names this very Java with these very jars."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    begins_with = [Path(entry) for entry in conf.get(CLASS_PATH, "").split(":") if entry]
    files = [java.resolve(), *sorted(pyspark_jars().glob("*.jar")), *begins_with]
    said = [f"{file}:{stat.st_size}:{stat.st_mtime_ns}" for file in files for stat in [file.stat()]]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]


def _with(conf: Mapping[str, str], option: str) -> dict[str, str]:
    return {**conf, OPTIONS: f"{conf.get(OPTIONS, '')} {_QUIET} {option}".strip()}


def _keep(written: Path, file: Path) -> None:
    """End Java, which writes the file, and put that where later builds look for it."""
    wait_until_over()
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    _log.info("keeping Spark's classes (once) for later builds: %s", file)
    # Another session in this process starts another Java.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    with suppress(OSError, Py4JError, subprocess.TimeoutExpired):
        gateway.shutdown()
        gateway.proc.stdin.close()
        if gateway.proc.wait(_WRITING_S) == 0:
            # A Java that cannot do it leaves no file; an empty one is passed over at every start.
            written.touch()
            written.rename(file)


def _sweep(folder: Path) -> None:
    """Remove what is not used any more, and what builds left that were killed."""
    for file in folder.glob("spark-*.jsa*"):
        with suppress(OSError):
            unused_s = time.time() - file.stat().st_mtime
            if unused_s > (_UNUSED_S if file.suffix == ".jsa" else _LEFT_S):
                file.unlink()
