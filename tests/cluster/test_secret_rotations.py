"""The secrets of Kafka, of sensitive metadata and of the nodes are replaced while clients write."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.node import Node
from deploy.local.process import free_port
from tests.support.certificates import replace
from tests.support.running import PATIENT, until

pytestmark = pytest.mark.long

USER = "registrar"
ADOPTED_S = 60.0
SESSION_S = 3.0
METADATA = {"properties": {"owner": "bob", "pw": "sensitive"}, "sensitive": ["pw"]}


class UsersBroker(Broker):
    """A broker whose address ``users`` takes SCRAM logins and has them repeated every :data:`SESSION_S`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.users = f"127.0.0.1:{free_port()}"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required ;"
        ours = f"PLAINTEXT://{self.address},USERS://{self.users}"
        self.settings = {
            "listeners": f"{ours},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": ours,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "listener.name.users.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.users.scram-sha-512.sasl.jaas.config": module,
            "listener.name.users.scram-sha-512.connections.max.reauth.ms": str(round(SESSION_S * 1000)),
        }

    def set_password(self, password: str) -> None:
        """Replace the password of the only user."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(USER, info, password.encode())
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.alter_user_scram_credentials([change])[USER].result(30)


class Secrets:
    """Files of all secrets, and the flags that name them."""

    NAMES = ("peer-secret", "kafka-sasl-password", "metadata-encoder-secret", "metadata-encoder-old-secret")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in self.NAMES:
            self.give(name, f"the first {name}")

    def give(self, name: str, *lines: str) -> None:
        replace(self.folder / name, "\n".join(lines).encode())

    def flags(self) -> list[str]:
        return [word for name in self.NAMES for word in (f"--{name}-file", str(self.folder / name))]


@contextmanager
def writing(nodes: list[Node]) -> Iterator[list[str]]:
    """Register schemas with sensitive metadata and read them through all nodes that serve; yield failures."""
    failures: list[str] = []
    stop = threading.Event()

    def write(name: str) -> None:
        number = 0
        with httpx.Client(timeout=PATIENT) as client:
            while not stop.is_set():
                number += 1
                body = {"schema": json.dumps({"type": "fixed", "name": f"F{number}", "size": 8})}
                for node in filter(Node.ready, nodes):
                    try:
                        url = f"{node.url}/subjects/{name}-{number}/versions"
                        answer = client.post(url, json=body | {"metadata": METADATA})
                        read = client.get(f"{url}/1")
                    except httpx.TransportError:
                        continue  # the load balancer asks another node when one stops
                    if answer.status_code != 200 or read.json().get("metadata") != METADATA:
                        failures.append(f"{answer.text} {read.text}")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_no_request_fails_while_secrets_are_replaced(tmp_path: Path) -> None:
    broker, secrets = UsersBroker(tmp_path / "kafka"), Secrets(tmp_path)
    login = (
        *("--kafka-security-protocol", "SASL_PLAINTEXT", "--kafka-sasl-mechanism", "SCRAM-SHA-512"),
        *("--kafka-sasl-username", USER, "--replication-factor", "1"),
    )
    with broker:
        broker.set_password("the first kafka-sasl-password")
        settings = (*login, *secrets.flags())
        with Cluster(tmp_path, 3, "kafka", settings, kafka=broker.users, front_by="") as cluster:
            with writing(cluster.nodes) as failures:
                secrets.give("peer-secret", "the second peer-secret", "the first peer-secret")
                until(lambda: all(adopted(each, 1) for each in cluster.nodes), ADOPTED_S, "both secrets")
                secrets.give("peer-secret", "the second peer-secret")
                until(lambda: all(adopted(each, 2) for each in cluster.nodes), ADOPTED_S, "the new secret")

                secrets.give("metadata-encoder-old-secret", "the first metadata-encoder-secret")
                secrets.give("metadata-encoder-secret", "the second metadata-encoder-secret")
                restart(cluster)
                until(lambda: any(map(rewritten, cluster.nodes)), ADOPTED_S, "the keyset to be rewritten")
                secrets.give("metadata-encoder-old-secret", "no longer the first")
                restart(cluster)

                broker.set_password("the second kafka-sasl-password")
                secrets.give("kafka-sasl-password", "the second kafka-sasl-password")
                changed = time.monotonic()
                until(lambda: time.monotonic() - changed > 2 * SESSION_S, ADOPTED_S, "the sessions to end")
            assert not failures


def adopted(node: Node, times: int) -> bool:
    return node.output.count("/peer-secret has changed") >= times


def rewritten(node: Node) -> bool:
    return "was rewritten with the new secret" in node.output


def restart(cluster: Cluster) -> None:
    """Restart the secondaries one after another, the primary last."""
    primary = cluster.primary()
    for node in sorted(cluster.nodes, key=lambda node: node is primary):
        node.restart()
