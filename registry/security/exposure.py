"""Warnings about ports that other machines can reach without TLS, authentication or rules."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from registry.base.config.settings import Settings

_ENCRYPT = "http is not encrypted (set listeners to https, tls_certificate and tls_key)"
_AUTHENTICATE = (
    "anyone who connects may do everything (set users, jwt_jwks or tls_client_auth = required; and rules)"
)
_AUTHORISE = "everyone who authenticates may do everything (set rules)"
_PEERS = (
    "anyone who connects may write (set peer_secret, or peer_tls_certificate, peer_tls_key and peer_tls_ca)"
)


def is_loopback(host: str) -> bool:
    """Return true if only this machine can reach ``host``; an IPv6 host has no brackets."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def warnings(settings: Settings) -> list[str]:
    """Return a sentence each for the HTTP API and the peer endpoint, if they are reachable unprotected."""
    return [*_api(settings), *_peers(settings)]


def _api(settings: Settings) -> Iterator[str]:
    reachable = [each for each in settings.addresses if not is_loopback(each.host)]
    missing = []
    if any(each.scheme == "http" for each in reachable):
        missing.append(_ENCRYPT)
    if not settings.authenticates:
        missing.append(_AUTHENTICATE)
    elif not settings.rules:
        missing.append(_AUTHORISE)
    if reachable and missing:
        shown = " and ".join(map(str, reachable))
        yield f"other machines can reach {shown}: {'; '.join(missing)}"


def _peers(settings: Settings) -> Iterator[str]:
    host, _ = settings.peer_address
    protected = settings.peer_secret or settings.peer_tls_certificate
    if settings.kafka and not protected and not is_loopback(host):
        yield f"other machines can reach the peer endpoint on {host}: {_PEERS}"
