"""Certificates and the secret of nodes that are replaced while writes are forwarded between them."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.node import Node
from deploy.local.process import free_port
from tests.support.certificates import Authority, replace
from tests.support.running import PATIENT, ROOT, until
from tests.support.threads import in_threads

RENEWED_S = 60.0
# Of a client between two requests: more of them in the same time would show nothing else.
PAUSE_S = 0.02


class Files:
    """The certificates of two nodes, in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = [free_port(), free_port()]
        self.authority = Authority("first")
        self.trust(self.authority)
        self.renew(self.authority)
        for number in range(2):
            self.give_secrets(number, "the first secret of nodes")

    def trust(self, *authorities: Authority) -> None:
        replace(self.folder / "ca.pem", b"".join(each.pem for each in authorities))

    def renew(self, authority: Authority) -> None:
        """Replace the nodes' certificates by those of ``authority``."""
        self.authority = authority
        for number in range(2):
            authority.issue(f"CN=node-{number}").write(self.folder, f"node-{number}")

    def give_secrets(self, number: int, *secrets: str) -> None:
        """Replace the file of a node's secrets."""
        replace(self.folder / f"secret-{number}", "\n".join(secrets).encode())

    def flags(self, number: int) -> list[str]:
        certificate, key = (str(self.folder / f"node-{number}{kind}") for kind in (".pem", ".key"))
        files = ("--peer-tls-certificate", certificate, "--peer-tls-key", key)
        ca = ("--peer-tls-ca", str(self.folder / "ca.pem"))
        secret = ("--peer-secret-file", str(self.folder / f"secret-{number}"))
        return ["--peer-listen", f"127.0.0.1:{self.ports[number]}", *files, *ca, *secret]

    def accepted(self, client: Authority, number: int) -> bytes:
        """Return a node's certificate if it accepts a client with a certificate of ``client``."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(*client.issue("CN=client").write(self.folder, "client"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # the handshake ends with the server's verdict
        try:
            with (
                socket.create_connection(("127.0.0.1", self.ports[number]), timeout=30.0) as plain,
                context.wrap_socket(plain) as secured,
            ):
                return secured.getpeercert(binary_form=True) or b""
        except OSError:
            return b""

    def accepted_by(self, client: Authority) -> int:
        """Return how many nodes accept a client with a certificate of ``client``."""
        return sum(bool(self.accepted(client, number)) for number in range(2))

    def in_use(self, client: Authority) -> bool:
        """Return true if both nodes serve their present certificates and accept those of ``client``."""
        served = [self.accepted(client, number) for number in range(2)]
        own = [(self.folder / f"node-{number}.pem").read_bytes() for number in range(2)]
        return own == [ssl.DER_cert_to_PEM_cert(each).encode() if each else b"" for each in served]


@contextmanager
def forwarded(url: str) -> Iterator[list[str]]:
    """Write through ``url`` by two threads; yield the list of failures."""
    failures: list[str] = []
    stop = threading.Event()

    def write(name: str) -> None:
        number = 0
        with httpx.Client(timeout=PATIENT) as client:
            while not stop.wait(PAUSE_S):
                number += 1
                schema = json.dumps({"type": "fixed", "name": f"F{number}", "size": number})
                answer = client.post(f"{url}/subjects/{name}-{number}/versions", json={"schema": schema})
                if answer.status_code != httpx.codes.OK:
                    failures.append(answer.text)

    with in_threads(stop, *(partial(write, name) for name in ("a", "b"))):
        yield failures


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def cluster(files: Files, tmp_path_factory: pytest.TempPathFactory, kafka: Broker) -> Iterator[Cluster]:
    topic = ("--topic", "peer-tls", "--group", "peer-tls", "--replication-factor", "1")
    settings = (*topic, "--confirm-timeout-s", "10")
    each = [files.flags(number) for number in range(2)]
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, 2, "kafka", settings, each=each, kafka=kafka.address, front_by="") as running:
        yield running


def by_role(cluster: Cluster) -> tuple[Node, Node]:
    """Return the primary and the secondary."""
    primary = cluster.primary()
    secondary = next(each for each in cluster.nodes if each is not primary)
    until(lambda: secondary.role == "secondary", RENEWED_S, "the other one to know the primary")
    return primary, secondary


def test_forwarded_writes_survive_a_change_of_the_secret(files: Files, cluster: Cluster) -> None:
    primary, secondary = by_role(cluster)
    second = "the second secret of nodes"

    def uses(node: Node, times: int) -> bool:
        return node.output.count("secret-") == times

    with forwarded(secondary.url) as failures:
        for number, node in enumerate(cluster.nodes):
            files.give_secrets(number, second, "the first secret of nodes")
            until(lambda: uses(node, 1), RENEWED_S, "the new secret")  # noqa: B023
        for number, node in enumerate(cluster.nodes):
            files.give_secrets(number, second)
            until(lambda: uses(node, 2), RENEWED_S, "the new secret alone")  # noqa: B023
    assert not failures
    # A node that was forgotten, and the one that refuses it, say so.
    at = cluster.nodes.index(primary)
    files.give_secrets(at, "a third secret of nodes")
    until(lambda: primary.status()["peer_problems"], RENEWED_S, "the secondary to be refused")
    until(lambda: secondary.status()["peer_problems"], RENEWED_S, "the secondary to notice")
    command = [sys.executable, "-m", "registry", "status", "--url", f"{primary.url},{secondary.url}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert "127.0.0.1 was refused as a peer" in said.stderr
    assert "the secrets differ" in said.stderr
    assert "\nregistrar_peer_problems 1.0\n" in httpx.get(f"{primary.url}/metrics").text
    files.give_secrets(at, second)
    until(lambda: not secondary.status()["peer_problems"], RENEWED_S, "the secondary to be accepted")


# In make test, the test above changes the secret, and tests/process/forwarding/ the certificates.
@pytest.mark.long
def test_forwarded_writes_survive_a_change_of_all_certificates(files: Files, cluster: Cluster) -> None:
    primary, secondary = by_role(cluster)
    first, second = files.authority, Authority("second")
    assert files.in_use(first)
    assert not files.accepted(second, 0)
    with forwarded(secondary.url) as failures:
        files.trust(first, second)
        until(lambda: files.accepted_by(second) == 2, RENEWED_S, "trust in both")
        files.renew(second)
        until(lambda: files.in_use(second), RENEWED_S, "the new certificates")
        files.trust(second)
        until(lambda: files.accepted_by(first) == 0, RENEWED_S, "the old one to be refused")
        primary.restart()  # so that they connect by the new certificates alone
        assert files.in_use(second)
    assert not failures
    assert "Traceback" not in primary.output + secondary.output
