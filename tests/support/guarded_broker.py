"""A broker with an authorizer that permits nothing to anyone but its administrator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from deploy.local.broker import Broker
from tests.support.kafka_topics import admin
from tests.support.running import free_port, until

USER, PASSWORD = "registrar", "registrar's"
# Flags that log a node in at the address for users.
LOGIN = (
    *("--kafka-security-protocol", "SASL_PLAINTEXT", "--kafka-sasl-mechanism", "PLAIN"),
    *("--kafka-sasl-username", USER, "--kafka-sasl-password", PASSWORD),
)


@contextmanager
def guarded_broker(folder: Path) -> Iterator[tuple[Broker, str]]:
    """Start the broker for a block; yield it with its address for users."""
    broker = Broker(folder)
    users = f"127.0.0.1:{free_port()}"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker.settings = {
        "listeners": (
            f"PLAINTEXT://{broker.address},USERS://{users},CONTROLLER://127.0.0.1:{broker.controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://{broker.address},USERS://{users}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f'{module} required user_{USER}="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with broker:
        yield broker, users


def allowed(kind: ResourceType, name: str, *operations: AclOperation) -> list[AclBinding]:
    """Return the permissions of the user for a resource."""
    resource = (kind, name, ResourcePatternType.LITERAL)
    return [AclBinding(*resource, f"User:{USER}", "*", each, AclPermissionType.ALLOW) for each in operations]


def allow(broker: Broker, bindings: list[AclBinding]) -> None:
    """Grant these permissions and no others, and return once the broker enforces them."""
    client = admin(broker.address)
    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    for done in client.delete_acls([everything]).values():
        done.result(30)
    if bindings:
        for done in client.create_acls(bindings).values():
            done.result(30)
    # The controller has answered; the broker learns of it after that.
    until(lambda: len(client.describe_acls(everything).result(30)) == len(bindings), 30, "the permissions")
