"""A node in place of Confluent's Schema Registry: started with its settings, on its topic."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
from confluent_kafka import Producer

from deploy.local.broker import Broker
from tests.support.kafka_topics import make_topic
from tests.support.running import PATIENT, ROOT, Registry, free_port

SCHEMA = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
WIDER = SCHEMA.replace("]", ',{"name":"note","type":"string","default":""}]')


def records() -> list[tuple[str, str | None]]:
    """Return keys and values as Confluent's server writes them."""

    def key(kind: str, magic: int, **fields: object) -> str:
        return json.dumps({"keytype": kind, **fields, "magic": magic}, separators=(",", ":"))

    def version(number: int, text: str) -> tuple[str, str]:
        value = {
            "subject": "orders-value",
            "version": number,
            "id": 100 + number,
            "schema": text,
            "deleted": False,
        }
        return key("SCHEMA", 1, subject="orders-value", version=number), json.dumps(
            value, separators=(",", ":")
        )

    return [
        (key("NOOP", 0), None),
        (key("CONFIG", 0, subject=None), '{"compatibilityLevel":"FULL"}'),
        version(1, SCHEMA),
        version(2, WIDER),
    ]


def confluent_topic(kafka: Broker) -> str:
    topic = make_topic(kafka.address)
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for key, value in records():
        producer.produce(
            topic, key=key.encode(), value=None if value is None else value.encode(), partition=0
        )
    assert producer.flush(30) == 0
    return topic


def test_a_node_takes_over_with_the_properties_file_and_the_topic(kafka: Broker, tmp_path: Path) -> None:
    topic, port = confluent_topic(kafka), free_port()
    file = tmp_path / "schema-registry.properties"
    file.write_text(
        f"# Confluent's file\nlisteners=http://127.0.0.1:{port}\nhost.name=127.0.0.1\n"
        f"kafkastore.bootstrap.servers=PLAINTEXT://{kafka.address},\\\n    SSL://127.0.0.1:1\n"
        "kafkastore.topic=overridden\nkafkastore.topic.replication.factor=1\n"
        f"schema.registry.group.id={topic}\nschema.compatability.level=none\ndebug=true\n"
    )
    environment = {"SCHEMA_REGISTRY_KAFKASTORE_TOPIC": topic, "SCHEMA_REGISTRY_HEAP_OPTS": "-Xmx1g"}
    flags = ("--properties", str(file), "--readers", "1")
    node = Registry(tmp_path / "data", *flags, port=port, environment=environment).wait()
    try:
        with httpx.Client(base_url=node.url, timeout=PATIENT) as client:
            assert client.get("/subjects").json() == ["orders-value"]
            assert client.get("/schemas/ids/102").json()["schema"] == WIDER
            assert client.get("/config").json() == {"compatibilityLevel": "FULL"}
            assert client.get("/quarantine").json() == []
            assert (
                client.get("/v1/metadata/id").json()["scope"]["clusters"]["schema-registry-cluster"] == topic
            )
            found = client.post("/subjects/orders-value", json={"schema": SCHEMA}).json()
            assert (found["id"], found["version"]) == (101, 1)
            new = client.post("/subjects/payments-value/versions", json={"schema": '"string"'}).json()
            assert new["id"] == 103, "above the highest id in the topic"
        assert "did you mean schema.compatibility.level?" in node.output
        assert "no counterpart and are ignored: debug, heap.opts" in node.output
        assert f"kafkastore.topic (file {file}) is overridden" in node.output
    finally:
        assert node.stop() == 0, node.output


def test_no_unprotected_or_empty_registry_starts_in_place_of_another_one(tmp_path: Path) -> None:
    file = tmp_path / "schema-registry.properties"
    file.write_text("listeners=http://127.0.0.1:8081\nauthentication.method=BASIC\n")
    command = [
        sys.executable,
        "-m",
        "registry",
        "serve",
        "--properties",
        str(file),
        "--data",
        str(tmp_path / "data"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert f"registrar: authentication.method (file {file}) asks for passwords: set users" in done.stderr
    assert not (tmp_path / "data").exists()
    file.write_text("listeners=http://127.0.0.1:8081\n")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert "a new, empty registry would start" in done.stderr
