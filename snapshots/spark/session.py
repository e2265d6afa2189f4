"""Spark's session: on this machine, or on the cluster that the settings name."""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from registry.config.settings import Settings
from snapshots.building.task import BuildFailed

from . import connector, shipping
from .session_end import end, wait_until_over

HERE = Path(__file__).parent
_TRIES = 3
_SQL = {
    # How many tasks there are is decided here, from what is known of the log and the rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # Chunks are large and compressed already; by itself, Spark gathers 10,000 of them in memory.
    "spark.sql.inMemoryColumnarStorage.batchSize": "16",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
_BRIEF_SQL = {
    # Compiling code takes longer than doing little work without.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_QUIET = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
# By itself, Java collects all garbage when it has loaded 21 MB of classes: in the middle of the work.
_JVM = "-XX:+UseParallelGC -XX:MetaspaceSize=256m"
_BRIEF = "-XX:TieredStopAtLevel=1"
_LONG = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""A build is over before it pays to compile at its best all that Java would: only the hottest is."""
_KEPT = str(1 << 30)
"""Bytes that workers keep of what they free: part after part, the system would hand out empty pages anew."""
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore"


@contextmanager
def open_session(settings: Settings, *, brief: bool = False) -> Iterator[SparkSession]:
    """A session, for a ``with`` block: of a Spark that runs here already (``spark-submit``), or a new one.

    ``brief``: for little work, for which Java compiles nothing at its best.
    Raises :class:`..task.BuildFailed` where there is no Java, no connector or no such Spark.
    """
    # It tells of each connection that it ends.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    wait_until_over()
    running = SparkSession.getActiveSession()
    if running is not None:
        with _prepared(running, _sql(settings, brief=brief)):
            yield running
        return
    conf = session_conf(settings, brief=brief)
    _set_environment(conf)
    with _started(conf) as session, _prepared(session, _sql(settings, brief=brief)):
        yield session


@contextmanager
def _started(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    threading.Thread(target=_load_ahead, name="ahead", daemon=True).start()
    try:
        session = SparkSession.builder.config(map=dict(conf)).getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise BuildFailed(f"Spark did not start: {error}") from error
    try:
        yield session
    finally:
        end(session)


def _load_ahead() -> None:
    """Load what PySpark will ask for, while Java starts."""
    with suppress(ImportError):  # as PySpark says in words of its own
        importlib.import_module("pandas")


def session_conf(settings: Settings, *, brief: bool = False) -> dict[str, str]:
    """Spark's configuration: what the user says counts most.

    Raises :class:`..task.BuildFailed` when the connector cannot be had, or ``snapshots_spark_conf`` is
    malformed.
    """
    where = settings.snapshots_spark_master
    conf = {"spark.app.name": "registrar snapshot", "spark.master": where}
    conf |= {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.redaction.regex": _SECRETS,
    }
    given = given_conf(settings.snapshots_spark_conf)
    if where.startswith("local"):
        conf |= _on_this_machine(where, _BRIEF if brief else _LONG)
    if settings.kafka and not {"spark.jars", "spark.jars.packages"} & given.keys():
        conf |= connector.conf(settings)
    return conf | given


def _sql(settings: Settings, *, brief: bool) -> dict[str, str]:
    """What is set in a session for one build, unless the user says otherwise."""
    given = given_conf(settings.snapshots_spark_conf)
    return {
        name: value for name, value in (_SQL | _BRIEF_SQL if brief else _SQL).items() if name not in given
    }


def given_conf(text: str) -> dict[str, str]:
    """The pairs of ``NAME=VALUE NAME=VALUE``; a value with blanks stands in quotes."""
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise BuildFailed(f"snapshots_spark_conf cannot be read: {error}") from error
    for name, equals, _ in pairs:
        if not (name and equals):
            raise BuildFailed(f"snapshots_spark_conf: {name!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _on_this_machine(where: str, compiled: str) -> dict[str, str]:
    # By itself, a Spark on one machine gives up when a task fails once.
    tried = f"{where[:-1]},{_TRIES}]" if where.endswith("]") and "," not in where and "[" in where else where
    return {
        "spark.master": tried,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {_QUIET} {_JVM} {compiled}",
        # What is exchanged stays on this machine, and compressing it takes longer than writing it.
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
        "spark.executorEnv.PYTHONPATH": str(shipping.SOURCES),
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": _KEPT,
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": _KEPT,
    }


def _set_environment(conf: Mapping[str, str]) -> None:
    """What Spark reads before there is a session."""
    if "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if conf["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise BuildFailed(
            "Spark needs Java 17 or newer: install the package default-jre-headless, or set JAVA_HOME"
        )


@contextmanager
def _prepared(session: SparkSession, sql: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session that may be used for other things before and after, with ``sql`` set in between."""
    before = {name: session.conf.get(name) for name in sql}
    for name, value in sql.items():
        session.conf.set(name, value)
    try:
        with tempfile.TemporaryDirectory() as folder:
            if not (session.sparkContext.master or "").startswith("local"):
                archive = Path(folder, shipping.ARCHIVE)
                shipping.write_archive(archive)
                session.sparkContext.addPyFile(str(archive))
            yield session
    finally:
        with suppress(Py4JError, OSError):  # where Spark was killed
            for name, earlier in before.items():
                session.conf.set(name, earlier or "")
