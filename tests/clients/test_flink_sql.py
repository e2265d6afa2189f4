"""Flink SQL with its format avro-confluent, as docs/integrations.md shows it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from deploy.local.broker import Broker
from deploy.local.jars import java
from tests.clients import integrations
from tests.clients.integrations import BROKER, JAVA, JVM, REGISTRY, WAYS, class_path, shown, write
from tests.clients.secured import Secured
from tests.support.running import Served

pytestmark = pytest.mark.long
_TIMEOUT_S = 240.0
# What Flink's own scripts open.
_OPENED = (
    *("java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent"),
    "sun.nio.ch",
)
_URL = f"  'value.avro-confluent.url' = '{REGISTRY}'\n"
_ROWS = "1 first\n2 second\n"


def run(file: Path, rows: int) -> str:
    """Run the statements of a file; return the first ``rows`` rows of its query, sorted."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    program = ["-cp", class_path("flink-sql"), JAVA / "Sql.java", file, str(rows)]
    command = [java(), *JVM, *opened, quiet, *program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return "".join(sorted(done.stdout.splitlines(keepends=True)))


def test_writes_and_reads_a_topic(kafka: Broker, registry: Served, topic: str, tmp_path: Path) -> None:
    own = {BROKER: kafka.address, REGISTRY: registry.url, "'topic' = 'payments'": f"'topic' = '{topic}'"}
    assert run(write(tmp_path, "flink/payments.sql", own), rows=2) == _ROWS


def test_writes_under_a_schema_that_is_there(
    kafka: Broker, registry: Served, topic: str, tmp_path: Path
) -> None:
    existing = shown("flink/existing.sql", {REGISTRY: registry.url, "payments-value": f"{topic}-value"})
    schema = re.search(r"schema' = '(.*?)'", existing, re.DOTALL)
    assert schema
    with SchemaRegistryClient({"url": registry.url}) as client:
        client.register_schema(f"{topic}-value", Schema(schema[1]))
        own = {BROKER: kafka.address, _URL: existing, "'topic' = 'payments'": f"'topic' = '{topic}'"}
        assert run(write(tmp_path, "flink/payments.sql", own), rows=2) == _ROWS
        assert client.get_versions(f"{topic}-value") == [1]


@pytest.mark.parametrize("way", WAYS)
def test_logs_in(kafka: Broker, secured: Secured, topic: str, tmp_path: Path, way: str) -> None:
    own = {
        BROKER: kafka.address,
        _URL: integrations.secured("flink/secured.sql", way, secured),
        "'topic' = 'payments'": f"'topic' = '{topic}'",
    }
    assert run(write(tmp_path, "flink/payments.sql", own), rows=2) == _ROWS
