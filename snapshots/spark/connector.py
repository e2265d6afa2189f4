"""Spark's Kafka connector: four jars that PySpark does not bring."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pyspark

from registry.base.config.settings import Settings
from snapshots.building.task import EngineUnavailable

from .jars import Jars, NotAvailable, find_java

# Of each Spark, the newest connector with all its jars in Maven Central; it works with every patch of it.
_PINNED = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0"}
_ARTIFACT = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_log = logging.getLogger(__name__)


def _java() -> str:
    program = find_java()
    if program is None:
        raise NotAvailable("Spark's Kafka connector is not cached, and there is no Java to fetch it with")
    return program


def connector_for(spark: str) -> Jars | None:
    """Return the connector of a Spark; ``None`` if its checksums are not known."""
    version = _PINNED.get(".".join(spark.split(".")[:2]))
    return Jars(Path(__file__).parent, f"connector-{version}", _java, _log.info) if version else None


def conf(settings: Settings) -> dict[str, str]:
    """Return the settings that give Spark the connector. Raises :class:`EngineUnavailable`.

    Of a Spark whose connector is not known, Spark itself fetches that of the same version, for each build.
    """
    if settings.snapshots_spark_packages:
        return {"spark.jars.packages": settings.snapshots_spark_packages}
    if connector_for(pyspark.__version__) is None:
        return {"spark.jars.packages": f"{_ARTIFACT}:{pyspark.__version__}"}
    return {"spark.jars": ",".join(map(str, jars()))}


def jars() -> list[Path]:
    """Return the jars of the installed Spark, fetched if they are not in the cache.

    Raises :class:`EngineUnavailable`.
    """
    connector = connector_for(pyspark.__version__)
    if connector is None:
        raise EngineUnavailable(f"the Kafka connector of Spark {pyspark.__version__} is not known")
    try:
        return connector.here()
    except NotAvailable as error:
        raise EngineUnavailable(f"Spark's Kafka connector: {error}") from error


if __name__ == "__main__":  # fetches the jars ahead, for an image
    sys.stdout.writelines(f"{jar}\n" for jar in jars())
