"""Sets of jars from Maven Central, such as Spark's Kafka connector, which PySpark does not bring.

Ivy, which PySpark's wheel contains, fetches them once.

``NAME.ivy.xml`` and ``NAME.sha256`` describe a set; every jar is checked against its checksum. Once the jars
are in the cache folder (``$XDG_CACHE_HOME/registrar``, else ``~/.cache/registrar``), no network is needed.

``python -m snapshots.spark.jars`` fetches the connector and prints its jars, for images.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_TIMEOUT_S = 900.0
_SHOWN = 2_000
# Of each Spark, the newest connector with all its jars in Maven Central; it works with every patch of it.
_AVRO_PINNED = {"4.0": "4.0.1"}
_PINNED = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0"}
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_log = logging.getLogger(__name__)


class NotAvailable(RuntimeError):
    """Something required is missing; the text says what to do about it."""


class Jars:
    """The set ``name``, described in ``home``; ``java`` finds the program, ``log`` receives messages."""

    def __init__(self, home: Path, name: str, java: Callable[[], str], log: Callable[[str], object]) -> None:
        self._name, self._java, self._log = name, java, log
        self._list, self._ivy = home / f"{name}.sha256", home / f"{name}.ivy.xml"

    @property
    def is_cached(self) -> bool:
        """True if :meth:`here` fetches nothing."""
        return self._folder().exists()

    def _folder(self) -> Path:
        return cache() / f"{self._name}-{hashlib.sha256(self._list.read_bytes()).hexdigest()[:12]}"

    def here(self) -> list[Path]:
        """Return the jars, fetched if they are not in the cache. Raises :class:`NotAvailable`."""
        folder = self._folder()
        if not folder.exists():
            with one_at_a_time(folder):
                if not folder.exists():
                    self._fetch(folder)
        return sorted(folder.glob("*.jar"))

    def check(self, folder: Path) -> None:
        """Raise :class:`NotAvailable` unless ``folder`` holds the listed jars and no others."""
        lines = self._list.read_text(encoding="utf-8").splitlines()
        wanted = {name: digest for digest, name in map(str.split, lines)}
        found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
        wrong = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
        if wrong:
            raise NotAvailable(
                f"{', '.join(wrong)}: the checksum is not the one in {self._list.name}, so nothing was kept;"
                " retry, and if that does not help, check which server the files come from"
            )

    def _fetch(self, folder: Path) -> None:
        """Fetch into a temporary folder, check everything, and rename it to ``folder``."""
        self._log(f"fetching {self._name} (once) into {folder.parent}")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{self._name}-") as work:
            fetched = Path(work) / "jars"
            self._run_ivy(fetched, Path(work) / "ivy")
            self.check(fetched)
            fetched.rename(folder)

    def _run_ivy(self, into: Path, ivy_cache: Path) -> None:
        ivy = next(pyspark_jars().glob("ivy-*.jar"), None)
        if ivy is None:
            raise NotAvailable(
                "this pyspark contains no Ivy: install the version that requirements-dev.txt names"
            )
        command = [
            *(self._java(), "-jar", str(ivy), "-ivy", str(self._ivy), "-cache", str(ivy_cache)),
            *("-confs", "default", "-types", "jar", "bundle"),
            *("-retrieve", f"{into}/[artifact]-[revision].[ext]"),
        ]
        try:
            done = subprocess.run(  # noqa: S603 (PySpark's own tool)
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotAvailable(f"cannot fetch {self._name}: {error}; try again later") from error
        if done.returncode or not into.exists():
            raise NotAvailable(
                f"cannot fetch {self._name}: check that Maven Central can be reached from here and that Java"
                f" trusts its certificate, or copy {cache()} from another machine; Ivy printed:\n"
                f"{done.stdout[-_SHOWN:]}"
            )


def find_java() -> str | None:
    """Return the program ``java`` that Spark will start; ``None`` if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java") if home else shutil.which("java")


def pyspark_jars() -> Path:
    """Return the folder of the jars in PySpark's wheel. Raises :class:`NotAvailable`."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotAvailable(
            "the Python package pyspark is needed: install the extra kafka-registrar[spark], "
            "see docs/install.md"
        )
    return Path(spec.origin).parent / "jars"


@contextmanager
def one_at_a_time(made: Path) -> Iterator[None]:
    """Hold the lock for creating the file or folder ``made``; other processes wait."""
    with made.with_name(f"{made.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache() -> Path:
    """Return the cache folder of this machine, created if it is missing."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "registrar"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def packages_conf(packages: str, *, kafka: bool, avro: bool) -> dict[str, str]:
    """Return Spark's settings for its packages: what the user has chosen, and what is needed beyond that.

    ``kafka``: with the connector; ``avro``: with Spark's package for Avro, if that is available.
    Raises :class:`NotAvailable`.
    Of a Spark whose connector is not known, Spark itself fetches that of the same version, for each build.
    """
    chosen, jars = [packages] if packages else [], list[Path]()
    if kafka and "spark-sql-kafka" not in packages:
        spark = _installed_spark()
        if connector_for(spark) is None:
            chosen.append(f"{_CONNECTOR}:{spark}")
        else:
            jars += connector_jars()
    if avro and "spark-avro" not in packages:
        jars += avro_jars()
    found = {"spark.jars.packages": ",".join(chosen), "spark.jars": ",".join(map(str, jars))}
    return {name: value for name, value in found.items() if value}


def connector_jars() -> list[Path]:
    """Return the connector of the installed Spark, fetched if it is not in the cache.

    Raises :class:`NotAvailable`.
    """
    spark = _installed_spark()
    connector = connector_for(spark)
    if connector is None:
        raise NotAvailable(f"the Kafka connector of Spark {spark} is not known")
    try:
        return connector.here()
    except NotAvailable as error:
        raise NotAvailable(f"Spark's Kafka connector: {error}") from error


def avro_jars() -> list[Path]:
    """Return Spark's package for Avro, fetched if it is not in the cache; nothing if it is not available."""
    version = _AVRO_PINNED.get(".".join(_installed_spark().split(".")[:2]))
    try:
        return Jars(Path(__file__).parent, f"avro-{version}", _java, _log.info).here() if version else []
    except NotAvailable as error:
        _log.info("Spark reads Avro without its own package, in Python: %s", error)
        return []


def connector_for(spark: str) -> Jars | None:
    """Return the connector of a Spark; ``None`` if its checksums are not known."""
    version = _PINNED.get(".".join(spark.split(".")[:2]))
    return Jars(Path(__file__).parent, f"connector-{version}", _java, _log.info) if version else None


def _installed_spark() -> str:
    import pyspark  # noqa: PLC0415 (other sets of jars need no Spark)

    return pyspark.__version__


def _java() -> str:
    program = find_java()
    if program is None:
        raise NotAvailable("it is not cached, and there is no Java to fetch it with")
    return program


if __name__ == "__main__":
    sys.stdout.writelines(f"{jar}\n" for jar in connector_jars())
