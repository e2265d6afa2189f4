"""Creation of the election that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable

from election.contract import Election, Identity, Reachable, StaticElection
from election.kafka import KafkaElection
from registry.base.config.settings import Settings
from registry.log.kafka.broker_connection import login_with
from registry.log.kafka.security import Security

from .identity import identity_of


def election_from_settings(
    settings: Settings, own: Identity, reachable: Reachable, *, alive: Callable[[], object]
) -> Election:
    """Create the election of the settings; call on the event loop on which it will run.

    ``alive`` is called there whenever Kafka's group confirms that this node is a member.
    """
    match settings.election:
        case "static":
            return StaticElection(own, identity_of(settings.primary) if settings.primary else None)
        case "zookeeper":
            from election.zookeeper import Tls, ZooKeeperElection  # noqa: PLC0415 (imports kazoo only if needed)

            files = settings.zookeeper_tls_ca, settings.zookeeper_tls_certificate, settings.zookeeper_tls_key

            return ZooKeeperElection(
                settings.zookeeper_hosts,
                settings.zookeeper_chroot,
                own,
                reachable=reachable,
                session_timeout_s=settings.session_timeout_s,
                auth=settings.zookeeper_auth,
                tls=Tls(*files) if settings.zookeeper_tls else None,
            )
        case _:
            return KafkaElection(
                settings.kafka,
                login_with(Security(**settings.security)).connection,
                settings.group,
                own,
                client_id=settings.kafka_client_id,
                reachable=reachable,
                alive=alive,
                session_timeout_s=settings.session_timeout_s,
            )
