"""All secrets are replaced while clients write."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
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
from tests.process.webhooks.test_delivery import signed_by
from tests.support.certificates import replace
from tests.support.receiver import Receiver
from tests.support.running import PATIENT, until
from tests.support.threads import in_threads

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

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder = folder
        self.names = ("peer-secret", "metadata-encoder-secret", "metadata-encoder-old-secret", *names)
        for name in self.names:
            self.give(name, self.text(name, "first"))

    @staticmethod
    def text(name: str, which: str) -> str:
        """Return a secret that is long enough, with the name of a user where one is needed."""
        return f"registrar:the {which} secret of {name}"

    def give(self, name: str, *lines: str) -> None:
        replace(self.folder / name, "\n".join(lines).encode())

    def flags(self) -> list[str]:
        return [word for name in self.names for word in (f"--{name}-file", str(self.folder / name))]


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

    with in_threads(stop, *(partial(write, name) for name in ("a", "b"))):
        yield failures


# A node that still has the former secret sees the keyset change, and logins are refused for a moment.
@pytest.mark.logs_errors("does not open the keyset", "cannot query Kafka for the end")
def test_no_request_fails_while_secrets_are_replaced(tmp_path: Path) -> None:
    broker, secrets = UsersBroker(tmp_path / "kafka"), Secrets(tmp_path, "kafka-sasl-password")
    login = (
        *("--kafka-security-protocol", "SASL_PLAINTEXT", "--kafka-sasl-mechanism", "SCRAM-SHA-512"),
        *("--kafka-sasl-username", USER, "--replication-factor", "1"),
    )
    with broker:
        broker.set_password(Secrets.text("kafka-sasl-password", "first"))
        settings = (*login, *secrets.flags())
        with Cluster(tmp_path, 3, "kafka", settings, kafka=broker.users, front_by="") as cluster:
            with writing(cluster.nodes) as failures:
                secrets.give(
                    "peer-secret", Secrets.text("peer-secret", "second"), Secrets.text("peer-secret", "first")
                )
                until(lambda: all(adopted(each, 1) for each in cluster.nodes), ADOPTED_S, "both secrets")
                secrets.give("peer-secret", Secrets.text("peer-secret", "second"))
                until(lambda: all(adopted(each, 2) for each in cluster.nodes), ADOPTED_S, "the new secret")

                secrets.give("metadata-encoder-old-secret", Secrets.text("metadata-encoder-secret", "first"))
                secrets.give("metadata-encoder-secret", Secrets.text("metadata-encoder-secret", "second"))
                restart(cluster)
                until(lambda: any(map(rewritten, cluster.nodes)), ADOPTED_S, "the keyset to be rewritten")
                secrets.give("metadata-encoder-old-secret", "no longer the first")
                restart(cluster)

                broker.set_password(Secrets.text("kafka-sasl-password", "second"))
                secrets.give("kafka-sasl-password", Secrets.text("kafka-sasl-password", "second"))
                changed = time.monotonic()
                until(lambda: time.monotonic() - changed > 2 * SESSION_S, ADOPTED_S, "the sessions to end")
            assert not failures


def test_no_request_and_no_delivery_fails_while_those_of_zookeeper_and_webhooks_are_replaced(
    tmp_path: Path,
) -> None:
    secrets = Secrets(tmp_path, "zookeeper-auth", "webhooks-secret")
    hooks = ("--webhooks-http", "true", "--webhooks-allow", "localhost")
    settings = ("--replication-factor", "1", *hooks, *secrets.flags())
    with Receiver() as receiver, Cluster(tmp_path, 3, "zookeeper", settings, front_by="") as cluster:
        url = f"{cluster.url}/admin/webhooks/all"
        former = httpx.put(url, json={"url": f"{receiver.url}/hook"}, timeout=PATIENT).json()["secret"]
        with writing(cluster.nodes) as failures:
            for name in ("zookeeper-auth", "webhooks-secret"):
                secrets.give(name, Secrets.text(name, "second"), Secrets.text(name, "first"))
            restart(cluster)
            until_delivered(receiver, 20)
            secret = httpx.post(f"{url}/rotate", timeout=PATIENT).json()["secret"]
            rotated = len(receiver.received)
            until_delivered(receiver, 20)
            for name in ("zookeeper-auth", "webhooks-secret"):
                secrets.give(name, Secrets.text(name, "second"))
            restart(cluster)
            until_delivered(receiver, 20)
        assert not failures
        found = httpx.get(url, timeout=PATIENT).json()
        assert (found["state"], found["failed"]) == ("delivering", 0)
    valid = [{signed_by(each, got) for each in (former, secret)} for got in receiver.received]
    signed = [{*got.headers["webhook-signature"].split()} for got in receiver.received]
    assert all(map(set.intersection, valid, signed))
    assert all(
        signed_by(former, got) in each for got, each in zip(receiver.received, signed[:rotated], strict=False)
    )
    assert signed_by(secret, receiver.received[-1]) in signed[-1]


def until_delivered(receiver: Receiver, more: int) -> None:
    count = len(receiver.received) + more
    until(lambda: len(receiver.received) >= count, ADOPTED_S, f"{more} more deliveries")


def adopted(node: Node, times: int) -> bool:
    return node.output.count("/peer-secret has changed") >= times


def rewritten(node: Node) -> bool:
    return "was rewritten with the new secret" in node.output


def restart(cluster: Cluster) -> None:
    """Restart the secondaries one after another, the primary last."""
    primary = cluster.primary()
    for node in sorted(cluster.nodes, key=lambda node: node is primary):
        node.restart()
