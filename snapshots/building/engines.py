"""The engines that build snapshots, and the choice between them.

``auto`` is Spark wherever PySpark and Java are installed, else the built-in fold ``local``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from snapshots.spark.jars import find_java

from . import local
from .task import Engine, EngineUnavailable

AUTO, LOCAL, SPARK = "auto", "local", "spark"
_PACKAGES = ("pyspark", "numpy", "pandas")
_PYSPARK_MIN = 4


class ChosenEngine(NamedTuple):
    """The name of an engine, and why it was chosen."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


def choose(wanted: str) -> ChosenEngine:
    """Return the engine to build with; only ``auto`` leaves a choice."""
    if wanted != AUTO:
        return ChosenEngine(wanted, "as set")
    missing = _missing_for_spark()
    if missing:
        return ChosenEngine(LOCAL, f"Spark is not installed: {missing}")
    return ChosenEngine(SPARK, "PySpark and Java are installed")


def engine_named(name: str) -> Engine:
    """Return the engine. Raises :class:`.task.EngineUnavailable` if it is not installed."""
    if name == LOCAL:
        return local.build
    if find_spec("pyspark") is not None and (old := reason_too_old(version("pyspark"))):
        raise EngineUnavailable(f"{old}, which the engine spark needs; --engine local does not")
    try:
        # Imported by name, because PySpark is optional.
        build: Engine = import_module("snapshots.spark.engine").build
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            f"{error}: the engine spark needs the extra kafka-registrar[spark] (docs/install.md); "
            "--engine local does not"
        ) from error
    return build


def reason_too_old(version: str) -> str:
    """Return why this version of PySpark cannot be used; empty if it can.

    Before 4.0, it has no data sources in Python, no checkpoints on two executors, and no Arrow tables.
    """
    return f"PySpark {version} is older than 4.0" if int(version.partition(".")[0]) < _PYSPARK_MIN else ""


def _missing_for_spark() -> str:
    """Return what Spark needs and this machine lacks; empty if it has everything."""
    for package in _PACKAGES:
        if find_spec(package) is None:
            return f"there is no Python package {package}"
    if find_java() is None:
        return "there is no Java"
    return reason_too_old(version("pyspark"))
