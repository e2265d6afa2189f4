"""A node's identity: its id and the address it advertises; and the election that the settings ask for."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from election.contract import Election, Identity, Reachable, StaticElection
from registry.base.config.settings import Settings
from registry.base.processes import file_lock


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
            from election.kafka import KafkaElection  # noqa: PLC0415 (as above)
            from registry.log.kafka.broker_connection import login_with  # noqa: PLC0415
            from registry.log.kafka.security import Security  # noqa: PLC0415

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


FILE = "node-id"
ADVERTISED_FILE = "advertised"
_ID = re.compile(r"[0-9a-f]{16}")


def node_id(data: Path) -> str:
    """Return the id stored in the folder ``data``; create it if there is none. Raises :class:`OSError`."""
    path = data / FILE
    try:
        kept = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, ValueError):
        kept = ""
    if _ID.fullmatch(kept):
        return kept
    made = secrets.token_hex(8)
    file_lock.replace(path, f"{made}\n".encode(), path.with_suffix(".new"))
    return made


def advertised_since(data: Path, url: str) -> int:
    """Return the time when the node of the folder ``data`` first advertised ``url``, in ms since the epoch.

    Raises :class:`OSError`.
    """
    path = data / ADVERTISED_FILE
    try:
        kept, _, since_ms = path.read_text(encoding="utf-8").strip().rpartition(" ")
        if kept == url and int(since_ms) > 0:
            return int(since_ms)
    except (FileNotFoundError, ValueError):
        pass
    now_ms = time.time_ns() // 1_000_000
    file_lock.replace(path, f"{url} {now_ms}\n".encode(), path.with_suffix(".new"))
    return now_ms


def identity_of(
    url: str, *, eligible: bool = True, peer: str = "", node: str = "", since_ms: int = 0
) -> Identity:
    """Return the identity of the node at an advertised ``url`` (scheme, host and port)."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Identity(
        parts.scheme, parts.hostname or "", port, eligible, peer=peer, node=node, since_ms=since_ms
    )


def own_identity(settings: Settings, peer: str = "") -> Identity:
    """Return this node's identity; ``peer`` is the ``HOST:PORT`` of its peer endpoint."""
    node = node_id(settings.data)
    if not settings.kafka:
        # No other node needs the address, so skip looking up the host's name, which may take long.
        return Identity(*settings.main_address, eligible=True, node=node)
    url = settings.advertised_url
    since_ms = advertised_since(settings.data, url)
    return identity_of(url, eligible=settings.eligible, peer=peer, node=node, since_ms=since_ms)
