"""Nodes that log in with tickets of a real Kerberos KDC, and the settings that refused logins name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deploy.local.node import Node
from tests.support.kerberos import HOST, KerberosBroker, Realm
from tests.support.running import PATIENT, until

pytestmark = pytest.mark.long
SCHEMA = {"schema": '"string"'}
ADVICE = "see kafka_sasl_kerberos_service_name, and the ticket (kinit) or keytab (KRB5_CLIENT_KTNAME)"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    with KerberosBroker(tmp_path_factory.mktemp("kafka"), realm) as running:
        yield running


@contextmanager
def started(
    folder: Path, broker: KerberosBroker, realm: Realm, keytab: Path | None, service: str = "kafka"
) -> Iterator[Node]:
    """Start a node that logs in with this keytab."""
    flags = ("--kafka", broker.kerberos, "--kafka-security-protocol", "SASL_PLAINTEXT")
    flags += ("--kafka-sasl-mechanism", "GSSAPI", "--kafka-sasl-kerberos-service-name", service)
    node = Node(folder / "node", [*flags, "--readers", "1"])
    assert node.environment is not None
    node.environment = {**node.environment, **realm.client(folder, keytab)}
    try:
        yield node.start()
    finally:
        node.kill()


def test_a_node_writes_and_reads_on_while_its_tickets_expire(
    realm: Realm, broker: KerberosBroker, tmp_path: Path
) -> None:
    with (
        started(tmp_path, broker, realm, realm.keytab("registrar")) as node,
        httpx.Client(base_url=node.wait().url, timeout=PATIENT) as client,
    ):
        logins, versions = realm.logins("registrar"), 0

        def renewed() -> bool:
            """Write once, which must succeed."""
            nonlocal versions
            answer = client.post(f"/subjects/s{versions}/versions", json=SCHEMA)
            assert answer.status_code == 200, answer.text
            versions += 1
            return realm.logins("registrar") >= logins + 3

        until(renewed, 60, "its tickets to be renewed")
        assert client.get(f"/subjects/s{versions - 1}/versions/latest").json()["version"] == 1
        assert len(client.get("/subjects").json()) == versions


REFUSALS = {
    "a service that the KDC does not know": ("registrar-1", "unknown", "not found in Kerberos database"),
    "a service that is not the broker": ("registrar-2", "other", "Authentication failed"),
    "a principal that was removed": ("removed", "kafka", "not found in Kerberos database"),
    "no keytab and no ticket": ("", "kafka", "No Kerberos credentials available"),
}


@pytest.mark.logs_errors("nothing is served until the log is available")
@pytest.mark.parametrize("case", REFUSALS)
def test_a_refused_login_names_its_settings(
    realm: Realm, broker: KerberosBroker, tmp_path: Path, case: str
) -> None:
    principal, service, reason = REFUSALS[case]
    keytab = realm.keytab(principal) if principal else None
    if principal == "removed":
        realm.remove(principal)
    if service == "other":
        realm.keytab(f"other/{HOST}")
    with started(tmp_path, broker, realm, keytab, service) as node:
        until(lambda: ADVICE in node.output, 60, f"the advice\n{node.output}")
        line = next(line for line in node.output.splitlines() if ADVICE in line)
        assert reason in line
        assert "Major" not in line
