"""The Kafka permissions that deploy/README.md lists are sufficient."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from tests.running import ROOT, free_port

PASSWORD = "registrar's"
KINDS = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """Start a broker that permits nothing to anyone but its administrator; return its address for users."""
    broker = Broker(tmp_path_factory.mktemp("guarded"))
    users = f"127.0.0.1:{free_port()}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker.settings = {
        "listeners": (
            f"PLAINTEXT://{broker.address},USERS://{users},CONTROLLER://127.0.0.1:{broker.controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://{broker.address},USERS://{users}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f'{module} required user_registrar="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with broker:
        yield broker, users


def told() -> list[AclBinding]:
    """Return the permissions that the commands in the README grant."""
    text = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    bindings = []
    for line in re.findall(r"^acls (--.*)$", text, re.MULTILINE):
        (kind, name), *operations = zip(*[iter(shlex.split(line))] * 2, strict=True)
        for _, operation in operations:
            what = OPERATIONS[operation.lower()]
            resource = (KINDS[kind], name, ResourcePatternType.LITERAL)
            bindings.append(AclBinding(*resource, "User:registrar", "*", what, AclPermissionType.ALLOW))
    return bindings


def allow(broker: Broker, bindings: list[AclBinding]) -> None:
    """Grant these permissions and no others."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    for done in admin.delete_acls([everything]).values():
        done.result(30)
    for done in admin.create_acls(bindings).values():
        done.result(30)


def test_a_node_with_the_told_permissions_makes_its_topics_leads_and_writes(
    guarded: tuple[Broker, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    broker, users = guarded
    assert len(told()) == 10
    allow(broker, told())
    login = {
        "--kafka-security-protocol": "SASL_PLAINTEXT",
        "--kafka-sasl-mechanism": "PLAIN",
        "--kafka-sasl-username": "registrar",
        "--kafka-sasl-password": PASSWORD,
        "--snapshots-builder": "local",
    }
    flags = [word for pair in login.items() for word in pair]
    folder = tmp_path_factory.mktemp("allowed")
    with Cluster(folder, 1, settings=flags, kafka=users, front_by="") as cluster:
        body = {"schema": '"string"'}
        answer = httpx.post(f"{cluster.url}/subjects/a/versions", json=body, timeout=60)
        assert answer.json().get("id") == 1, cluster.nodes[0].output
        asked = httpx.post(f"{cluster.url}/admin/snapshots", timeout=60)
        assert asked.status_code == 202, asked.text
        assert PASSWORD not in cluster.nodes[0].output
