"""The one Spark session of the tests of registrar.spark, with the jars that Spark's own functions need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from deploy.local.jars import java
from tests.clients.integrations import tool_jars
from tests.support.running import ROOT

# For a session that starts soon and runs for seconds.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    # Python workers import the tree, as they would an installed distribution.
    "spark.executorEnv.PYTHONPATH": str(ROOT),
}


@contextmanager
def session(master: str = "local[1]", *jars: str, **settings: str) -> Iterator[SparkSession]:
    """Open a session in this process."""
    java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master)
    wanted = {"spark.jars": ",".join([*map(str, tool_jars("spark-avro")), *jars])}
    for name, value in (_SETTINGS | wanted | settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
