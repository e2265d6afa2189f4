"""Asking running nodes for what ``registrar doctor`` examines."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from registry.cli.client.client import RegistryClient
from registry.cli.client.connect import Connection
from registry.cli.client.resources import ErrorAnswer, Node, RegistryError
from registry.cli.doctor import Finding
from registry.cli.doctor.servers import Seen, at_one_offset, examine_servers

# Rounds in which nodes are asked again until they are at one offset.
_ROUNDS = 10
_TIMEOUT_S = 5.0


def examine(connection: Connection, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is found at all addresses of the connection."""
    with ExitStack() as opened:
        clients = [opened.enter_context(each) for each in connection.open_each(environment)]
        nodes = [_node(client) for client in clients]
        for _ in range(_ROUNDS):
            if at_one_offset([each.node for each in nodes if each.node]):
                break
            nodes = [_node(client) for client in clients]
        servers = [_more(seen, client) for seen, client in zip(nodes, clients, strict=True)]
    yield from examine_servers(servers, dt.datetime.now(dt.UTC))


def _node(client: RegistryClient) -> Seen:
    try:
        found = client.get("/node", Node)
    except ErrorAnswer as error:
        is_up = error.is_unknown_resource or error.status in (401, 403)
        return Seen(client.url, failure=str(error), is_up=is_up)
    except RegistryError as error:
        return Seen(client.url, failure=str(error))
    return Seen(client.url, node=found)


def _more(seen: Seen, client: RegistryClient) -> Seen:
    """Return the answers with the version, the quarantine and the certificate."""
    seen = seen._replace(certificate_ends=_certificate_ends(client.url))
    if seen.node is None:
        return seen
    version = _answer(client, "/v1/metadata/version", dict[str, Any]) or {}
    quarantine = _answer(client, "/quarantine", list[dict[str, Any]], clashes=True)
    return seen._replace(version=str(version.get("version", "")), quarantine=quarantine)


def _answer(client: RegistryClient, path: str, kind: Any, **params: Any) -> Any:
    try:
        return client.get(path, kind, **params)
    except RegistryError:
        return None


def _certificate_ends(url: str) -> dt.datetime | None:
    """Return when the certificate that a server shows expires; ``None`` without TLS."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        return None
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent; an expired certificate is what is looked for
    try:
        address = parts.hostname, parts.port or 443
        with (
            socket.create_connection(address, timeout=_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secure,
        ):
            raw = secure.getpeercert(binary_form=True)
        return None if raw is None else x509.load_der_x509_certificate(raw).not_valid_after_utc
    except (OSError, ValueError):
        return None
