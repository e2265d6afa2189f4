"""A build on a Spark cluster, a standalone master and a worker, by ``spark-submit``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from deploy.local.broker import Broker
from registry.config.settings import Settings
from snapshots.building import local
from snapshots.building.sources import open_source
from snapshots.building.task import silent
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.spark import connector
from tests.kafka_topics import make_topic
from tests.process.snapshots.test_spark import entry, numbered, produced
from tests.running import ROOT
from tests.sample_snapshots import files_of, task

HOME = Path(pyspark.__file__).parent


@pytest.mark.long
def test_a_cluster_builds_what_the_plain_fold_builds(tmp_path: Path, kafka: Broker, cluster: str) -> None:
    topic = make_topic(kafka.address)
    produced(kafka.address, topic, numbered([entry(number) for number in range(300)]))
    command = [
        str(HOME / "bin" / "spark-submit"),
        *("--master", cluster, "--executor-memory", "512m"),
        *("--jars", ",".join(map(str, connector.jars(pyspark.__version__)))),
        *("--conf", "spark.ui.enabled=false"),
        str(ROOT / "snapshots" / "spark" / "submit.py"),
        *("--kafka", kafka.address, "--topic", topic, "--data", str(tmp_path / "data")),
    ]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    is_that_of_the_plain_fold(tmp_path, Settings(data=tmp_path / "data", kafka=kafka.address, topic=topic))
    assert list((tmp_path / "work").glob("app-*/0/stderr")), "an executor has run"


def is_that_of_the_plain_fold(tmp_path: Path, built: Settings) -> None:
    """Assert that the files of the newest snapshot are Spark's, and those that the plain fold writes."""
    location = Location.parse(built.snapshots_location)
    made = stored.find(location, stored.LATEST)
    source = open_source(built)
    plain = local.build(task(tmp_path, source, source.end()), silent)
    source.log.close()
    assert made.engine == "spark"
    assert files_of(location, made) == files_of(Location.parse(tmp_path / "snapshots"), plain)
    assert made.digest == plain.digest
