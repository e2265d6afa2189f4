"""A census, and reading of messages with another schema, on a Spark cluster of two workers."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pytest

from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from registry.cli.decoding.rereading import Reader
from snapshots.building.task import silent
from snapshots.census.rereading import reread
from snapshots.census.run import Scope, open_location, run
from snapshots.spark.census import COUNTING
from tests.cluster.snapshots.conftest import running
from tests.cluster.snapshots.test_spark_cluster import executors
from tests.process.snapshots import counting, rereading
from tests.support.kafka_topics import make_topic

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
    killed: list[int] = []
    with running(tmp_path / "spark", 2) as (master, workers):
        settings = Settings(
            kafka=servers, data=tmp_path, snapshots_spark_master=master, snapshots_spark_conf=CONF
        )

        def kill(step: str, done: int, total: int) -> None:
            if step == COUNTING and 0 < done < total and not killed:
                (executor,) = executors(workers[0].pid)
                os.kill(executor, signal.SIGKILL)
                killed.append(executor)

        found = run(settings, Scope(("dying.*",)), open_location(settings), kill)
    assert killed
    assert found.census.messages == MANY
    assert counting.as_counts(found.rows.uses) == counting.counted(servers, topic, PARTITIONS)


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
