"""The short snippets of docs/integrations.md, and requests of tools that cannot be run here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from deploy.local.broker import Broker
from tests.clients.integrations import BROKER, JAVA, PAGE, REGISTRY, commands, write
from tests.clients.javascript import SCRIPTS
from tests.clients.samples import ADA, USER_TEXT, USER_WITH_AGE_TEXT
from tests.support.running import PATIENT, Served

GO_MODULE = Path(__file__).parent / "go" / "go.mod"


def run(folder: Path, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, which finds ``registrar``, and return what it printed."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": programs} | environment,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(("script", "record"), [("visits.js", "View"), ("kafkajs.js", "Scroll")])
def test_the_javascript_of_the_page(registry: Served, tmp_path: Path, script: str, record: str) -> None:
    file = write(tmp_path, f"js/{script}", {REGISTRY: registry.url})
    done = run(tmp_path, "node", file, NODE_PATH=str(SCRIPTS / "node_modules"))
    assert (done.stdout, done.stderr) == (f"{record} {{ page: '/home' }}\n", "")


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_what_kcat_fetches_is_decoded(kafka: Broker, registry: Served, topic: str, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": kafka.address})
    with SchemaRegistryClient({"url": registry.url}) as client:
        value = SerializationContext(topic, MessageField.VALUE)
        producer.produce(topic, AvroSerializer(client, USER_TEXT)(ADA, value))
    assert producer.flush(60) == 0
    own = {BROKER: kafka.address, REGISTRY: registry.url, "greetings": topic}
    done = run(tmp_path, "bash", "-euc", commands("kcat", own))
    assert done.stdout == '{"id":7,"name":"Ada Lovelace"}\n', done.stderr


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_debians_kcat_knows_no_avro(tmp_path: Path) -> None:
    """The page quotes its message."""
    told = run(tmp_path, "kcat", "-V")
    if "Avro" in told.stdout + told.stderr:
        pytest.skip("this kcat is built with Avro")
    done = run(tmp_path, "kcat", "-C", "-b", BROKER, "-t", "any", "-s", "value=avro", "-r", REGISTRY)
    message = done.stderr.strip().removeprefix("% ERROR: ")
    assert message in PAGE.read_text(encoding="utf-8").replace("\n", " ")


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("terraform"), reason="Terraform is not installed")
def test_terraform_applies_the_folder_and_fails_where_it_is_refused(
    registry: Served, topic: str, tmp_path: Path
) -> None:
    write(tmp_path, "terraform/main.tf", {REGISTRY: registry.url})
    schema = tmp_path / "schemas" / f"{topic}.avsc"
    schema.parent.mkdir()
    offline = {"CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": os.devnull}
    assert run(tmp_path, "terraform", "init", **offline).returncode == 0
    for text, status, said in (
        (USER_TEXT, 0, "1 added, 0 changed"),
        (USER_TEXT, 0, "No changes."),
        (USER_WITH_AGE_TEXT, 1, "local-exec provisioner error"),
    ):
        schema.write_text(text)
        done = run(tmp_path, "terraform", "apply", "-auto-approve", "-no-color", **offline)
        assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done
        assert httpx.get(f"{registry.url}/subjects/{topic}/versions", timeout=PATIENT).json() == [1]


def test_the_page_names_the_versions_that_the_tests_pin() -> None:
    page = PAGE.read_text(encoding="utf-8")
    ivy = "".join(file.read_text(encoding="utf-8") for file in JAVA.glob("*.ivy.xml"))
    pinned = dict(re.findall(r'name="([\w.-]+)" rev="([^"]+)"', ivy))
    packages = json.loads((SCRIPTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    go = GO_MODULE.read_text(encoding="utf-8")
    for said in (
        f"in Connect {pinned['connect-runtime']},",
        f"Debezium {pinned['debezium-connector-postgres']} ",
        f"Flink {pinned['flink-clients']},",
        f"Spark {version('pyspark')},",
        f"confluent-kafka {version('confluent-kafka')},",
        f"python-schema-registry-client {version('python-schema-registry-client')} ",
        *(f"{name} {release}" for name, release in packages.items()),
        *(" ".join(pin) for pin in re.findall(r"(github.com/(?:twmb|confluentinc)\S+) (v\S+)", go)),
    ):
        assert said in page, said


# Requests of Kafbat UI's client, and what its contract (kafka-sr-api.yaml) requires in the answers.
KAFBAT: tuple[tuple[str, str, Any, tuple[str, ...] | type], ...] = (
    ("POST", "/subjects/{s}/versions", {"schema": USER_TEXT, "schemaType": "AVRO"}, ("id",)),
    ("GET", "/subjects?subjectPrefix={s}&deleted=false", None, list),
    ("GET", "/subjects/{s}/versions", None, list),
    ("GET", "/subjects/{s}/versions/latest", None, ("id", "subject", "version", "schema", "schemaType")),
    ("GET", "/config", None, ("compatibilityLevel",)),
    ("GET", "/config/{s}?defaultToGlobal=true", None, ("compatibilityLevel",)),
    ("PUT", "/config/{s}", {"compatibility": "FULL"}, ("compatibility",)),
    (
        "POST",
        "/compatibility/subjects/{s}/versions/latest?verbose=true",
        {"schema": USER_WITH_AGE_TEXT, "schemaType": "AVRO"},
        ("is_compatible",),
    ),
    ("DELETE", "/config/{s}", None, ()),
    ("DELETE", "/subjects/{s}/versions/latest?permanent=false", None, int),
    ("DELETE", "/subjects/{s}?permanent=true", None, list),
)


def test_kafbats_requests_get_what_its_contract_requires(registry: Served, topic: str) -> None:
    with httpx.Client(base_url=registry.url, timeout=PATIENT) as client:
        for method, path, body, required in KAFBAT:
            answer = client.request(method, path.format(s=topic), json=body)
            assert answer.status_code == httpx.codes.OK, (method, path, answer.text)
            got = answer.json()
            if isinstance(required, tuple):
                assert set(required) <= set(got), (method, path, got)
            else:
                assert isinstance(got, required), (method, path, got)
