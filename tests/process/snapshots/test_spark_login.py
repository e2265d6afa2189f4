"""A build by Spark at a broker that asks for tokens: Java's client gets its login from the same settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.certificates import Authority
from tests.support.kafka_topics import make_topic
from tests.support.running import ROOT
from tests.support.secured_broker import SecuredBroker
from tests.support.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint


@pytest.mark.long
def test_spark_logs_in_with_tokens_and_prints_no_secret(tmp_path: Path) -> None:
    with (
        TokenEndpoint(tmp_path / "tokens") as endpoint,
        SecuredBroker(tmp_path / "kafka", Authority(), endpoint) as broker,
    ):
        topic = make_topic(broker.address)
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(10):
            producer.produce(topic, b"1", b'{"keytype":"NOOP","magic":%d}' % number)
        assert producer.flush(30) == 0
        settings = {
            "KAFKA": broker.tokens,
            "TOPIC": topic,
            "REPLICATION_FACTOR": "1",
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
            "KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": endpoint.url,
            "KAFKA_SASL_OAUTHBEARER_CLIENT_ID": CLIENT_ID,
            "KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": CLIENT_SECRET,
            "SNAPSHOTS": str(tmp_path / "snapshots"),
            # Executors on other machines read by Java's client; this is the smallest such cluster.
            "SNAPSHOTS_SPARK_MASTER": "local-cluster[1,1,1024]",
        }
        environment = os.environ | {f"REGISTRAR_{name}": value for name, value in settings.items()}
        command = [sys.executable, "-m", "registry", "snapshot", "build", "--engine", "spark"]
        built = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert built.returncode == 0, built.stdout + built.stderr
        assert CLIENT_SECRET not in built.stdout + built.stderr
        assert list((tmp_path / "snapshots").rglob("manifest*"))
        # One token for the process that begins the build, and at least one for Java.
        assert endpoint.issued >= 2
