"""A build on a Spark cluster, a standalone master and a worker, by ``spark-submit``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from deploy.local.broker import COMPACTS_SOON, Broker
from registry.base.config.settings import Settings
from registry.domain.rows.memory_views import DictView
from snapshots.building import builder, local
from snapshots.building.sources import open_source
from snapshots.building.task import silent
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.verify import verify
from snapshots.spark import engine
from snapshots.spark.jars import connector_jars
from tests.cluster.snapshots.conftest import running
from tests.process.snapshots.test_spark import COMPACTS, compacted, entry, numbered, produced
from tests.support.kafka_topics import make_topic
from tests.support.running import ROOT, until
from tests.support.sample_snapshots import files_of, rows_in, task
from tests.unit.random_logs import fold, rows_of

# PySpark leaves closing the sockets of its results to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

HOME = Path(pyspark.__file__).parent


@pytest.mark.long
def test_a_cluster_builds_what_the_plain_fold_builds(tmp_path: Path, kafka: Broker, cluster: str) -> None:
    topic = make_topic(kafka.address)
    produced(kafka.address, topic, numbered([entry(number) for number in range(300)]))
    command = [
        str(HOME / "bin" / "spark-submit"),
        *("--master", cluster, "--executor-memory", "512m"),
        *("--jars", ",".join(map(str, connector_jars()))),
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


@pytest.mark.long
@pytest.mark.parametrize("killed", [1, 2])
def test_executors_that_are_killed_after_the_fold_leave_a_sound_snapshot(tmp_path: Path, killed: int) -> None:
    """The log is compacted meanwhile: chunks come from the other executor, or everything is folded again."""
    first, later = ([entry(number, text) for number in range(300)] for text in ('"int"', '"string"'))
    log = numbered([*first, *later], round(time.time() * 1000) - 3_600_000, 20)
    builds: list[int] = []
    with (
        Broker(tmp_path / "kafka", settings=COMPACTS_SOON) as broker,
        running(tmp_path / "spark", 2) as (master, workers),
    ):
        topic = make_topic(broker.address, COMPACTS)
        produced(broker.address, topic, log[:300])

        def kill(step: str, done: int, total: int) -> None:
            here = threading.current_thread() is threading.main_thread()
            if not (here and step == engine.FOLDING and done == total):
                return
            builds.append(total)
            if len(builds) == 1:
                for worker in workers[:killed]:
                    (executor,) = executors(worker.pid)
                    os.kill(executor, signal.SIGKILL)
                produced(broker.address, topic, log[300:])
                until(lambda: compacted(broker, topic, log), 60, "compaction of what was folded")

        given = Settings(
            data=tmp_path / "data", kafka=broker.address, topic=topic, allow_delete_policy=True,
            snapshots_spark_master=master,
            snapshots_spark_conf="spark.ui.enabled=false spark.executor.memory=512m spark.executor.cores=1"
            " spark.driver.host=127.0.0.1 spark.scheduler.minRegisteredResourcesRatio=1.0",
        )  # fmt: skip
        made = builder.build_now(given, None, "spark", kill)
    assert len(builds) == killed, "with both executors, all chunks were lost"
    location = Location.parse(given.snapshots_location)
    assert not list(verify(location, made.id, lambda done, total: None))
    assert made.offset == 300
    if killed == 1:
        assert made.counts["V"] == 300, "nothing of the fold was lost"
    found = rows_in(location, made)
    assert dict(fold(log[300:], DictView(found)).rows()) == rows_of(log)


def executors(worker: int) -> list[int]:
    """Return the executors that a worker has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == worker and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


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
