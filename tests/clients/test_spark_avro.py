"""Spark's from_avro with the schemas of a registry, as docs/integrations.md shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from deploy.local.broker import Broker
from snapshots.spark.jars import connector_jars, pyspark_jars
from tests.clients.integrations import BROKER, REGISTRY, tool_jars, write
from tests.clients.samples import ADA, USER_TEXT, USER_WITH_EMAIL_TEXT
from tests.support.running import Served

_TIMEOUT_S = 300.0


@pytest.mark.long
def test_messages_of_two_versions_are_read_as_the_latest(
    kafka: Broker, registry: Served, topic: str, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": kafka.address})
    value = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        producer.produce(topic, AvroSerializer(client, USER_TEXT)(ADA, value))
        eve = {"id": 8, "name": "Eve", "email": "eve@example.org"}
        producer.produce(topic, AvroSerializer(client, USER_WITH_EMAIL_TEXT)(eve, value))
    assert producer.flush(60) == 0
    own = {BROKER: kafka.address, REGISTRY: registry.url, '"clicks"\n': f'"{topic}"\n'}
    script = write(tmp_path, "spark/clicks.py", own)
    packages = ",".join(map(str, [*tool_jars("spark-avro"), *connector_jars()]))
    small = [
        "--master",
        "local[1]",
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        "spark.sql.shuffle.partitions=1",
    ]
    command = [Path(sys.executable).parent / "spark-submit", *small, "--jars", packages, script]
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(pyspark_jars().parent)}
    environment = os.environ | own
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if "|" in line
    ]
    head, *rows = rows
    assert head == ["id", "name", "email"]
    assert sorted(rows) == [["7", "Ada Lovelace", "NULL"], ["8", "Eve", "eve@example.org"]]
