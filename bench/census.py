"""Measure how many messages a second a census counts: ``make bench-census``.

A topic gets messages of 120 bytes with keys of 12, of several schemas, on a broker of this machine. The rate
is that of Spark's job alone, without its start; the broker shares the cores with it. CPU is that of Spark's
processes. With ``--workers``, Spark runs as a cluster of so many processes with one core each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark import SparkContext

from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from snapshots.building.task import silent
from snapshots.census.plan import Range
from snapshots.spark.census import open_counter
from tests.__main__ import cpu_seconds

TOPIC, PARTITIONS, SCHEMAS = "bench.census", 8, 20
KEY, VALUE = b"customer-%03d", b"\0%b" + bytes(115)


def fill(servers: str, messages: int) -> None:
    """Produce messages of 120 bytes, of each schema in turn."""
    client = AdminClient({"bootstrap.servers": servers})
    client.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    producer = Producer({
        "bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000,
        "batch.num.messages": 50_000, "batch.size": 1 << 20,
    })  # fmt: skip
    values = [VALUE % number.to_bytes(4) for number in range(SCHEMAS)]
    keys = [KEY % number for number in range(1_000)]
    for number in range(messages):
        producer.produce(TOPIC, values[number % SCHEMAS], keys[number % 1_000], number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def rates(settings: Settings, messages: int, rounds: int) -> Iterator[tuple[float, float]]:
    """Yield the messages a second of each round, and the CPU of each message in microseconds.

    The first round is slower, because Java compiles meanwhile.
    """
    ranges = [Range(TOPIC, number, 0, messages // PARTITIONS) for number in range(PARTITIONS)]
    with open_counter(settings, silent) as counter:
        java = SparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # noqa: SLF001
        for _ in range(rounds):
            began, before = time.perf_counter(), cpu_seconds(java)
            uses, problems = counter.count_topics(ranges)
            seconds, cpu_s = time.perf_counter() - began, cpu_seconds(java) - before
            assert not problems
            assert sum(use.messages for use in uses if use.side == "value") == messages
            yield messages / seconds, cpu_s / messages * 1e6


def main() -> None:
    """Measure, and print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    messages = given.messages // PARTITIONS * PARTITIONS
    master = f"local-cluster[{given.workers},1,1024]" if given.workers else f"local[{given.cores}]"
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        began = time.perf_counter()
        fill(broker.address, messages)
        print(f"{messages} messages produced in {time.perf_counter() - began:.1f} s", flush=True)
        settings = Settings(kafka=broker.address, snapshots_spark_master=master)
        for number, (rate, cpu_us) in enumerate(rates(settings, messages, given.rounds), 1):
            print(
                f"{master}, round {number}: {rate:,.0f} messages/s, {cpu_us:.2f} us of CPU each", flush=True
            )


if __name__ == "__main__":
    main()
