"""A census, and reading of messages with another schema, on a Spark cluster of two workers."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastavro
import pytest

from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from registry.cli.decoding.rereading import Reader
from snapshots.building.task import silent
from snapshots.census import files
from snapshots.census.rereading import reread
from snapshots.census.run import Result, Scope, open_location, run
from snapshots.spark import shipping
from snapshots.spark.census import COUNTING
from snapshots.spark.jars import avro_jars, connector_jars
from tests.cluster.snapshots.conftest import HOME, running
from tests.cluster.snapshots.test_spark_cluster import executors
from tests.process.snapshots import counting, rereading
from tests.support.kafka_topics import make_topic
from tests.support.running import ROOT

# PySpark leaves closing the sockets of its results to the garbage collector.
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

DELETED = {"cleanup.policy": "delete"}
MANY, PARTITIONS = 200_000, 8
CONF = (
    "spark.ui.enabled=false spark.executor.memory=512m spark.executor.cores=1 spark.driver.host=127.0.0.1"
    " spark.scheduler.minRegisteredResourcesRatio=1.0"
)


def test_a_census_counts_every_message_once_though_an_executor_dies(kafka: Broker, tmp_path: Path) -> None:
    servers = kafka.address
    topic = make_topic(servers, DELETED, name="dying.a", partitions=PARTITIONS)
    some = list(counting.messages(1, 10_000))
    counting.produce(servers, topic, itertools.islice(itertools.cycle(some), MANY), partitions=PARTITIONS)
    found = count_while_an_executor_dies(servers, tmp_path, "dying.*")
    assert found.census.messages == MANY
    assert counting.as_counts(found.rows.uses) == counting.counted(servers, topic, PARTITIONS)


def count_while_an_executor_dies(servers: str, folder: Path, topics: str) -> Result:
    killed: list[int] = []
    with running(folder / "spark", 2) as (master, workers):
        settings = Settings(
            kafka=servers, data=folder, snapshots_spark_master=master, snapshots_spark_conf=CONF
        )

        def kill(step: str, done: int, total: int) -> None:
            if step == COUNTING and 0 < done < total and not killed:
                (executor,) = executors(workers[0].pid)
                os.kill(executor, signal.SIGKILL)
                killed.append(executor)

        found = run(settings, Scope((topics,)), open_location(settings), kill)
    assert killed
    return found


def test_executors_read_messages_with_what_the_driver_ships(kafka: Broker, tmp_path: Path) -> None:
    servers = kafka.address
    topic = make_topic(servers, DELETED, name="reread.cluster", partitions=2)
    counting.produce(servers, topic, rereading.messages(3, 2_000), partitions=2)
    with running(tmp_path / "spark", 2) as (master, _):
        settings = Settings(
            kafka=servers, data=tmp_path, snapshots_spark_master=master, snapshots_spark_conf=CONF
        )
        found = reread(settings, topic, "value", Reader(rereading.READER), rereading.find, silent)
    count, failing = rereading.failing(servers, topic, 2)
    assert (found.messages, found.failures) == (count, sum(map(len, failing.values())))
    assert {str(each.writer) for each in found.failed} == failing.keys()


def test_spark_submit_takes_a_census_of_topics_and_files(kafka: Broker, cluster: str, tmp_path: Path) -> None:
    """The driver has the distribution installed, executors get the packed archive; no path names the tree."""
    servers = kafka.address
    topic = make_topic(servers, DELETED, name="submitted.a", partitions=2)
    counting.produce(servers, topic, counting.messages(5, 2_000), partitions=2)
    containers, values = tmp_path / "containers.avro", [b"\0\0\0\0\7", b"text"]
    schema = {"type": "record", "name": "R", "fields": [{"name": "value", "type": "bytes"}]}
    with containers.open("wb") as file:
        fastavro.writer(file, schema, [{"value": each} for each in values])
    archive = tmp_path / "packed.zip"
    shipping.write_archive(archive)
    command = [
        *(str(HOME / "bin" / "spark-submit"), "--master", cluster, "--executor-memory", "512m"),
        *("--jars", ",".join(map(str, [*connector_jars(), *avro_jars()])), "--archives", str(archive)),
        *("--conf", "spark.ui.enabled=false", str(ROOT / "snapshots" / "spark" / "submit.py")),
        *("census", "run", "--kafka", servers, "--topics", "submitted.*", "--data", str(tmp_path)),
        *("--files", f"avro:{containers}#value", "--json"),
    ]
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own

    def submit() -> dict[str, Any]:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    first = submit()
    location = open_location(Settings(data=tmp_path))
    (census,) = files.newest_first(location)
    uses = files.read_rows(location, census).uses
    assert (first["id"], first["sources"]) == (census.id, {"read": 2, "unread": 0})
    assert counting.as_counts(use for use in uses if use.source == topic) == counting.counted(
        servers, topic, 2
    )
    assert {(use.framing, use.id, use.messages) for use in uses if use.source != topic} == {
        ("id", 7, 1), ("none", None, 1),
    }  # fmt: skip
    assert list((tmp_path / "work").glob("app-*/0/stderr")), "an executor has run"
    counting.produce(servers, topic, counting.messages(6, 100), partitions=2)
    assert submit()["base"] == first["id"]
    newest = next(files.newest_first(location))
    uses = files.read_rows(location, newest).uses
    assert counting.as_counts(use for use in uses if use.source == topic) == counting.counted(
        servers, topic, 2
    )
