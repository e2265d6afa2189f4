"""Addresses of clients, also behind trusted proxies, and the networks by which clients are counted."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_HEADER = b"x-forwarded-for"
_HOPS_MAX = 20
_IPV6_PREFIX = 64  # of a network that one client can have for itself
# Of networks that one organization or provider gives to many clients, or one attacker can rent.
_WIDE_PREFIXES = {4: 24, 6: 56}


class TrustedProxies:
    """Proxies whose ``X-Forwarded-For`` is believed: anyone else can write anything into it."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """``networks``: addresses, or networks such as ``10.0.0.0/8``."""
        self._networks = [ipaddress.ip_network(each, strict=False) for each in networks]

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the address of the client whose request came from ``peer``, by this request's headers.

        Each proxy appends the address from which it was reached, so the client is the last one that is no
        trusted proxy.
        """
        if not self._trusts(peer):
            return peer
        hops = b",".join(value for name, value in headers if name == _HEADER).decode("latin-1").split(",")
        found = peer
        for hop in reversed(hops[-_HOPS_MAX:]):
            address = _address(hop)
            if not address:
                return found
            found = address
            if not self._trusts(found):
                return found
        return found

    def _trusts(self, address: str) -> bool:
        if not self._networks:
            return False
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._networks)


def client_network(address: str) -> str:
    """Return the address, or the network that one client with an IPv6 address can have."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, _IPV6_PREFIX), strict=False).network_address)


def wide_network(address: str) -> str:
    """Return the network (/24, or /56 of IPv6) by which clients take turns; other texts as they are."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(ipaddress.ip_network((found, _WIDE_PREFIXES[found.version]), strict=False))


def _address(hop: str) -> str:
    """Return the address in one part of the header, without its port; empty if it is none."""
    text = hop.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    # A zone, as in fe80::1%eth0, means nothing here, and may be any text.
    text = text.partition("%")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
