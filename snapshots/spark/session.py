"""Spark's session, on this machine or on the cluster that the settings name."""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from registry.base.config.settings import Settings
from registry.base.processes.time_limit import time_limit
from snapshots.building.task import BuildFailed, EngineUnavailable

from . import shipping
from .failures import reason
from .jars import NotAvailable, find_java, packages_conf

HERE = Path(__file__).parent
_TRIES = 3
_SQL = {
    # The engine decides on the number of tasks, since it knows the sizes of the log and the rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
}
# On one machine, Java handles a few thousand pieces and no records: compiling for them takes longer than
# running without.
_SQL_HERE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_QUIET = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
# By default, Java runs a full collection after loading 21 MB of classes, in the middle of the work.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:MetaspaceSize=256m"
_JVM_OF_RECORDS = "-XX:+UseParallelGC -XX:MetaspaceSize=256m"
# Freed bytes that workers keep: otherwise the system would zero new pages for every part.
_KEPT = str(1 << 30)
# Without these, Delta reads no table.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore"
# How long a session may take to end before its Java is killed.
_END_S = 60.0
# Set while no session is ending.
_ended = threading.Event()
_ended.set()
# The context of the session that was left running for the next build, if any.
_kept: set[SparkContext] = set()


@contextmanager
def open_session(
    settings: Settings,
    *,
    keep: bool = False,
    records_in_java: bool = False,
    formats: Collection[str] = (),
) -> Iterator[SparkSession]:
    """Open a session for a ``with`` block: one that runs, as that of ``spark-submit``, else a new one.

    ``keep``: leave the session running for the next call, unless the block fails: what a failed build has
    left in it must not harm the next one. ``records_in_java``: Java will handle every record, also here.
    ``formats``: what it will read, besides Kafka: with Spark's package for ``avro``, if that is available,
    and as the package for ``delta`` asks, which the user names.
    Raises :class:`..task.BuildFailed` if there is no Java, no connector or no such Spark.
    """
    # It logs every connection that it closes, and traces of those that Java closes.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    _wait_for_end()
    session = _running()
    own = session is None or session.sparkContext in _kept
    if session is None:
        conf = session_conf(settings, records_in_java=records_in_java, formats=formats)
        _set_environment(conf)
        session = _start(conf, settings.snapshots_spark_start_timeout_s)
    _kept.clear()
    succeeded = False
    try:
        with _with_settings(session, _sql(session, settings, records_in_java=records_in_java)):
            yield session
        succeeded = True
    finally:
        if own and keep and succeeded:
            _kept.add(session.sparkContext)
        elif own:
            _end(session)


def _running() -> SparkSession | None:
    """Return the session that runs in this process; a kept one, or its Java, may have ended meanwhile."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 (there is no other way)
    java = getattr(gateway, "proc", None)
    if java is not None and java.poll() is not None:
        _kill_java()  # It has ended; PySpark would go on asking it.
        return None
    try:
        # Java knows it by the thread's connection, which a failed step has closed.
        running = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001 (there is no other way)
        if running is None or running.sparkContext._jsc is None:  # noqa: SLF001 (as above)
            return None  # Nothing runs, or only the context was stopped.
        if not running.sparkContext._jsc.sc().isStopped():  # noqa: SLF001 (as above)
            return running
        running.stop()
    except (Py4JError, OSError):
        _kill_java()
    return None


def _start(conf: Mapping[str, str], limit_s: float) -> SparkSession:
    threading.Thread(target=_load_ahead, name="ahead", daemon=True).start()
    try:
        with time_limit(limit_s, EngineUnavailable(_not_started(conf, limit_s))):
            session = SparkSession.builder.config(map=dict(conf)).getOrCreate()
            if not runs_here(conf["spark.master"]):
                # It waits for the first executor.
                session.range(1, numPartitions=1).count()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        why = reason(str(error))  # asks Java
        _kill_java()
        raise EngineUnavailable(f"Spark did not start: {why}") from error
    except BaseException:
        _kill_java()
        raise
    return session


def _not_started(conf: Mapping[str, str], limit_s: float) -> str:
    if runs_here(conf["spark.master"]):
        return f"Spark did not start within {limit_s:g} s (snapshots_spark_start_timeout_s)"
    return (
        f"Spark had no executor within {limit_s:g} s (snapshots_spark_start_timeout_s): check that "
        f"{conf['spark.master']} answers, that a worker has free cores and memory, and that it reaches this "
        "machine"
    )


def runs_here(where: str) -> bool:
    """Return whether a Spark master means this machine alone."""
    return where == "local" or where.startswith("local[")


def _kill_java() -> None:
    """End the Java that this process has started, if any, so that the next session starts another one."""
    for pid in _java_processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def _java_processes() -> list[int]:
    """Return the children of this process that are Spark's Java, or the script that becomes it.

    PySpark knows its Java only once that has answered; one that is left would never end.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_bytes() if parent == os.getpid() else b""
            if b"spark-submit" in words or b"org.apache.spark" in words:
                found.append(int(folder.name))
    return found


def _end(session: SparkSession) -> None:
    """Stop a session in a thread; only the next session waits for it.

    After the last task, PySpark waits another second for what tasks have counted before it stops. If this
    process ends first, Java notices and ends too.
    """

    def run() -> None:
        try:
            with suppress(Py4JError, OSError, RuntimeWarning):  # Spark was killed
                session.stop()
        finally:
            _ended.set()

    _ended.clear()
    threading.Thread(target=run, name="ending", daemon=True).start()


def _wait_for_end() -> None:
    """Wait until the last session has ended; kill a Java that does not end it."""
    if not _ended.wait(_END_S):
        _kill_java()
        _ended.wait()


def _load_ahead() -> None:
    """Import what PySpark will need while Java starts."""
    with suppress(ImportError):  # PySpark reports the error better.
        importlib.import_module("pandas")


def session_conf(
    settings: Settings, *, records_in_java: bool = False, formats: Collection[str] = ()
) -> dict[str, str]:
    """Return Spark's configuration; the user's settings override all others.

    ``records_in_java``, ``formats``: see :func:`open_session`.
    Raises :class:`..task.BuildFailed` if the connector is not available, or if ``snapshots_spark_conf`` is
    malformed.
    """
    where = settings.snapshots_spark_master
    conf = {"spark.app.name": "registrar snapshot", "spark.master": where}
    conf |= {
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        # Tasks pack what they send and keep; Java would compress it once more.
        **dict.fromkeys(
            ("spark.rdd.compress", "spark.shuffle.compress", "spark.shuffle.spill.compress"), "false"
        ),
        # What the files hold is compared with what was folded.
        "spark.shuffle.checksum.enabled": "false",
        "spark.redaction.regex": _SECRETS,
        "spark.driver.extraJavaOptions": _QUIET,
    }
    given = given_conf(settings.snapshots_spark_conf)
    here = runs_here(where)
    if here:
        conf |= _on_this_machine(where)
        if records_in_java:
            conf["spark.driver.extraJavaOptions"] = f"-Duser.timezone=UTC {_QUIET} {_JVM_OF_RECORDS}"
    java_reads = records_in_java or (settings.kafka and not here)
    if java_reads and not {"spark.jars", "spark.jars.packages"} & given.keys():
        try:
            packages = settings.snapshots_spark_packages
            conf |= packages_conf(packages, kafka=bool(settings.kafka), avro="avro" in formats)
        except NotAvailable as error:
            raise EngineUnavailable(str(error)) from error
    if "delta" in formats:
        conf |= _DELTA
    return conf | given


def _sql(session: SparkSession, settings: Settings, *, records_in_java: bool) -> dict[str, str]:
    """Return the SQL settings of one job, without those that the user has set."""
    given = given_conf(settings.snapshots_spark_conf)
    here = runs_here(session.sparkContext.master or "")
    wanted = _SQL | _SQL_HERE if here and not records_in_java else _SQL
    if records_in_java:
        # What is counted is little, however many records are read.
        wanted = wanted | {"spark.sql.shuffle.partitions": str(session.sparkContext.defaultParallelism)}
    return {name: value for name, value in wanted.items() if name not in given}


def given_conf(text: str) -> dict[str, str]:
    """Return the pairs of ``NAME=VALUE NAME=VALUE``; a value with spaces is quoted."""
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise BuildFailed(f"snapshots_spark_conf cannot be read: {error}") from error
    for name, equals, _ in pairs:
        if not (name and equals):
            raise BuildFailed(f"snapshots_spark_conf: {name!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _on_this_machine(where: str) -> dict[str, str]:
    # By default, Spark on one machine fails when a task fails once.
    tried = f"{where[:-1]},{_TRIES}]" if where.endswith("]") and "," not in where and "[" in where else where
    return {
        "spark.master": tried,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {_QUIET} {_JVM}",
        "spark.executorEnv.PYTHONPATH": str(shipping.SOURCES),
        "spark.python.daemon.module": "snapshots.spark.daemon",
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": _KEPT,
        "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": _KEPT,
    }


def _set_environment(conf: Mapping[str, str]) -> None:
    """Set the environment variables that Spark reads before there is a session."""
    if "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if runs_here(conf["spark.master"]):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if conf["spark.master"].startswith("sc:") or "SPARK_REMOTE" in os.environ:
        raise EngineUnavailable(
            "Spark Connect cannot build snapshots, because they need a driver of their own: set "
            "snapshots_spark_master to the cluster's URL, and unset SPARK_REMOTE"
        )
    if find_java() is None:
        raise EngineUnavailable(
            "Spark needs Java 17 or newer: install the package default-jre-headless, or set JAVA_HOME"
        )


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that exists until this process ends: executors that start later fetch from it, too."""
    return tempfile.TemporaryDirectory()


def _ship(context: SparkContext) -> None:
    """Have executors import the tasks' modules; once for each context."""
    archive = Path(_folder().name, shipping.ARCHIVE)
    if not any(each.endswith(shipping.ARCHIVE) for each in context.listFiles):
        shipping.write_archive(archive)
        context.addPyFile(str(archive))
        # The driver has the whole project; what it imported from here would be gone with the session.
        sys.path[:] = [each for each in sys.path if not each.endswith(shipping.ARCHIVE)]


@contextmanager
def _with_settings(session: SparkSession, sql: Mapping[str, str]) -> Iterator[SparkSession]:
    """Set ``sql`` in a session for the block, and restore its settings afterwards."""
    before = {name: session.conf.get(name) for name in sql}
    for name, value in sql.items():
        session.conf.set(name, value)
    try:
        if not runs_here(session.sparkContext.master or ""):
            _ship(session.sparkContext)
        yield session
    finally:
        with suppress(Py4JError, OSError):  # Spark was killed
            for name, earlier in before.items():
                session.conf.set(name, earlier or "")
