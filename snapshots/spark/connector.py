"""Spark's Kafka connector: four jars that PySpark does not bring."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pyspark

from registry.base.config.settings import Settings
from snapshots.building.task import EngineUnavailable

from .jars import Jars, NotAvailable, find_java

SPARK = "4.0."
_ARTIFACT = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_log = logging.getLogger(__name__)


def _java() -> str:
    program = find_java()
    if program is None:
        raise NotAvailable("Spark's Kafka connector is not cached, and there is no Java to fetch it with")
    return program


# The newest version with all its jars in Maven Central; it works with every Spark 4.0.
CONNECTOR = Jars(Path(__file__).parent, "connector-4.0.0", _java, _log.info)


def conf(settings: Settings) -> dict[str, str]:
    """Return the settings that give Spark the connector. Raises :class:`EngineUnavailable`.

    Of another Spark than 4.0, Spark itself fetches the connector of the same version, for each build.
    """
    if settings.snapshots_spark_packages:
        return {"spark.jars.packages": settings.snapshots_spark_packages}
    if not pyspark.__version__.startswith(SPARK):
        return {"spark.jars.packages": f"{_ARTIFACT}:{pyspark.__version__}"}
    return {"spark.jars": ",".join(map(str, jars()))}


def jars() -> list[Path]:
    """Return the jars, fetched if they are not in the cache. Raises :class:`EngineUnavailable`."""
    try:
        return CONNECTOR.here()
    except NotAvailable as error:
        raise EngineUnavailable(f"Spark's Kafka connector: {error}") from error


if __name__ == "__main__":  # fetches the jars ahead, for an image
    sys.stdout.writelines(f"{jar}\n" for jar in CONNECTOR.here())
