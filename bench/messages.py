"""Messages a second that PySpark reads from Kafka: Spark's bare ``from_avro``, and ``from_registry``.

    python bench/messages.py [--messages 2000000] [--rounds 3] [--tasks 2] [--memory]

starts a broker, a registry and Spark, with so many tasks at once, writes two topics of messages with 6
fields, one with one writer id and one with 50, and reads them in turns. ``CPU`` is that of Java and its
Python workers, of the best round, a message; the first round warms up. ``--memory`` reads the messages from
Spark's cache instead, so that reading from Kafka does not hide what a function costs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.avro.functions import from_avro, to_avro

from deploy.local.broker import Broker
from registrar.spark import Registry, from_registry
from registrar.spark.framing import prefix_of_id
from snapshots.spark.jars import connector_jars
from tests.__main__ import cpu_seconds
from tests.clients.spark_session import session
from tests.support.running import Registry as Server

WRITERS = 50
SUBJECT = "orders-value"
FIELDS = {
    "id": ("long", "id"),
    "name": ("string", "concat('name-', cast(id AS string))"),
    "price": ("double", "id * 1.5D"),
    "count": ("int", "cast(id % 1000 AS int)"),
    "paid": ("boolean", "id % 2 = 0"),
    "note": ("string", "'a note of twenty byt'"),
}


class Result(NamedTuple):
    """The best round of one way to read."""

    per_s: float
    cpu_us: float


def schema(number: int) -> str:
    fields = [{"name": name, "type": kind} for name, (kind, _) in FIELDS.items()]
    return json.dumps({"type": "record", "name": "Order", "doc": f"version {number}", "fields": fields})


def fill(spark: SparkSession, broker: str, ids: list[int], messages: int) -> None:
    """Write the topics ``one`` and ``many``. All schemas have the same fields, so one writes for all."""
    row = sql.struct(*(sql.expr(value).alias(name) for name, (_, value) in FIELDS.items()))
    payload = to_avro(row, schema(0))
    writers = sql.array(*(sql.lit(prefix_of_id(writer)) for writer in ids))
    prefix = sql.element_at(writers, (sql.col("id") % len(ids) + 1).cast("int"))
    for topic, head in (("one", sql.lit(prefix_of_id(ids[0]))), ("many", prefix)):
        frame = spark.range(messages, numPartitions=4).select(sql.concat(head, payload).alias("value"))
        target = frame.write.format("kafka").option("kafka.bootstrap.servers", broker)
        target.option("topic", topic).save()


def read(spark: SparkSession, broker: str, topic: str) -> DataFrame:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", broker).option("subscribe", topic)
    return source.option("minPartitions", "4").load().select("value")


def measure(frame: DataFrame, column: Column | None, messages: int, java: int) -> Result:
    began, before = time.monotonic(), cpu_seconds(java)
    rows = frame.select(column.alias("order")).select("order.*") if column is not None else frame
    rows.write.format("noop").mode("overwrite").save()
    return Result(messages / (time.monotonic() - began), (cpu_seconds(java) - before) / messages * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(Broker(folder / "kafka")).address
        server = Server(folder / "registry").wait()
        stack.callback(server.stop)
        jars = map(str, connector_jars())
        options = {
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC", "spark.driver.memory": "2g",
            "spark.ui.showConsoleProgress": "false",
        }  # fmt: skip
        spark = stack.enter_context(session(f"local[{given.tasks}]", *jars, **options))
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 (there is no other way)
        java: int = jvm.java.lang.ProcessHandle.current().pid()
        registry = Registry(server.url)
        texts = [schema(number) for number in range(WRITERS)]
        post = registry.post
        ids = [post("subjects", SUBJECT, "versions", body={"schema": text})["id"] for text in texts[:-1]]
        late = from_registry("value", registry, SUBJECT, ids[0])
        ids.append(post("subjects", SUBJECT, "versions", body={"schema": texts[-1]})["id"])
        fill(spark, broker, ids, given.messages)
        frames = {topic: read(spark, broker, topic) for topic in ("one", "many")}
        if given.memory:
            frames = {topic: frame.cache() for topic, frame in frames.items()}
        bare = from_avro(sql.substring("value", 6, 1 << 30), texts[0])
        ways: dict[str, Callable[[], Result]] = {
            "messages as bytes": lambda: measure(frames["one"], None, given.messages, java),
            "from_avro": lambda: measure(frames["one"], bare, given.messages, java),
            "from_registry, 1 id in use": lambda: measure(
                frames["one"], from_registry("value", registry, SUBJECT, ids[0]), given.messages, java
            ),
            f"from_registry, {WRITERS} ids": lambda: measure(
                frames["many"], from_registry("value", registry, SUBJECT, ids[0]), given.messages, java
            ),
            "the same, follow=False": lambda: measure(
                frames["many"],
                from_registry("value", registry, SUBJECT, ids[0], follow=False),
                given.messages,
                java,
            ),
            f"from_registry, 1 of {WRITERS} ids unknown": lambda: measure(
                frames["many"], late, given.messages, java
            ),
        }
        best = {name: Result(0.0, float("inf")) for name in ways}
        for _ in range(given.rounds + 1):
            for name, way in ways.items():
                found = way()
                best[name] = Result(max(best[name].per_s, found.per_s), min(best[name].cpu_us, found.cpu_us))
        show(best)


def show(best: dict[str, Result]) -> None:
    base = best["from_avro"]
    print(f"{'':34} {'messages/s':>12} {'CPU':>8} {'rate':>6} {'CPU of from_avro':>17}")
    for name, found in best.items():
        ratio = f"{found.per_s / base.per_s:6.2f} {found.cpu_us / base.cpu_us:17.2f}"
        print(f"{name:34} {found.per_s:12,.0f} {found.cpu_us:5.2f} us {ratio}")


if __name__ == "__main__":
    main()
