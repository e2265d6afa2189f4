"""Secrets of the login at Kafka, which Spark's drivers and executors get: none is logged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots.spark.jars import connector_jars
from tests.cluster.snapshots.conftest import HOME
from tests.process.snapshots.test_spark import entry, numbered, produced
from tests.support.certificates import Authority
from tests.support.kafka_topics import make_topic
from tests.support.running import ROOT
from tests.support.secured_broker import PASSWORD, USER, SecuredBroker
from tests.support.token_endpoint import TokenEndpoint

pytestmark = pytest.mark.long

# Spark's own default, at which Kafka logs the configuration of every consumer.
CONF = {"spark.ui.enabled": "false", "spark.log.level": "INFO", "spark.executor.memory": "512m"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured")
    with (
        TokenEndpoint(folder / "tokens") as endpoint,
        SecuredBroker(folder / "kafka", Authority(), endpoint) as running,
    ):
        yield running


def login(broker: SecuredBroker, kind: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return the settings of a login, and what must not be told."""
    if kind == "password":
        user = {"SASL_MECHANISM": "PLAIN", "SASL_USERNAME": USER, "SASL_PASSWORD": PASSWORD}
        return {"": broker.users, "SECURITY_PROTOCOL": "SASL_PLAINTEXT", **user}, [PASSWORD]
    certificate, key = broker.authority.issue().write(folder, "client")
    pem = {"SSL_CERTIFICATE_LOCATION": str(certificate), "SSL_KEY_LOCATION": str(key)}
    tls = {"SECURITY_PROTOCOL": "SSL", "SSL_CA_LOCATION": str(broker.ca), **pem}
    return {"": broker.mutual, **tls}, key.read_text().splitlines()[1:-1]


def command(starter: str, cluster: str, conf: dict[str, str]) -> list[str]:
    if starter == "registrar":
        words = [sys.executable, "-m", "registry", "snapshot", "build", "--engine", "spark"]
        more = " ".join(f"{name}={value}" for name, value in conf.items())
        return [*words, "--snapshots-spark-master", cluster, "--snapshots-spark-conf", more]
    return [
        *(str(HOME / "bin" / "spark-submit"), "--master", cluster),
        *("--jars", ",".join(map(str, connector_jars()))),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        str(ROOT / "snapshots" / "spark" / "submit.py"),
    ]


@pytest.mark.parametrize(("starter", "kind"), [("spark-submit", "key"), ("registrar", "password")])
def test_no_secret_is_in_the_logs_of_driver_and_executor_or_in_spark_s_events(
    tmp_path: Path, cluster: str, broker: SecuredBroker, starter: str, kind: str
) -> None:
    topic, events = make_topic(broker.address), tmp_path / "events"
    produced(broker.address, topic, numbered([entry(number) for number in range(300)]))
    events.mkdir()
    given, secrets = login(broker, kind, tmp_path)
    settings = {f"REGISTRAR_KAFKA_{name}".rstrip("_"): value for name, value in given.items()}
    settings |= {"REGISTRAR_TOPIC": topic, "REGISTRAR_DATA": str(tmp_path / "data")}
    own = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(HOME), "PYTHONPATH": str(ROOT)}
    conf = CONF | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    done = subprocess.run(
        command(starter, cluster, conf),
        cwd=tmp_path, env=os.environ | own | {"SPARK_LOCAL_IP": "127.0.0.1"} | settings,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    written = [each for each in events.rglob("*") if each.is_file() and not each.name.startswith(".")]
    logs = {
        "driver": done.stdout + done.stderr,
        "executor": "".join(each.read_text() for each in (tmp_path / "work").rglob("stderr")),
        "events": "".join(each.read_text() for each in written),
    }
    assert "sasl.jaas.config = " in logs["executor"], "it has logged the configuration of its consumer"
    assert "SparkListenerApplicationEnd" in logs["events"]
    for name, text in logs.items():
        assert not [line for line in text.splitlines() if any(each in line for each in secrets)], name
