"""Where webhooks may be sent: the public internet, and what the settings allow beyond that.

The addresses are checked to which a connection is really made, after names were resolved. So neither another
spelling of an address nor a name that resolves differently the next time leads into the network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Addresses that a gateway translates to the IPv4 address in their last bytes.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Taken for public by some versions of Python.
_NEVER_PUBLIC = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    # Site-local: deprecated, but still private where it is used.
    ipaddress.IPv6Network("fec0::/10"),
    # For documentation.
    ipaddress.IPv6Network("3fff::/20"),
)


class NotAllowed(Exception):
    """Raised for a destination that the settings do not allow; the text says which and why."""


class Destinations:
    """The rule for URLs and addresses.

    ``allowed`` lists networks (``10.0.0.0/8``), addresses, host names, and ``*.`` with the end of host names.
    With ``plain_http`` URLs may begin with ``http://``.
    """

    def __init__(self, allowed: Iterable[str], *, plain_http: bool) -> None:
        self._plain_http = plain_http
        self._networks = []
        self._names = set()
        for each in allowed:
            try:
                self._networks.append(ipaddress.ip_network(each, strict=False))
            except ValueError:
                self._names.add(each.lower())

    def check_url(self, url: str) -> None:
        """Check what the text of a URL shows. Raises :class:`NotAllowed`."""
        parts = urlsplit(url)
        if parts.scheme == "http" and not self._plain_http:
            raise NotAllowed("http is not allowed: use https, or set webhooks_http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotAllowed("it is not an http or https URL")
        try:
            address = ipaddress.ip_address(parts.hostname)
        except ValueError:
            return
        self.check_address(parts.hostname, str(address))

    def check_address(self, host: str, address: str) -> None:
        """Check an address to which ``host`` was resolved. Raises :class:`NotAllowed`."""
        if self._is_named(host):
            return
        found = ipaddress.ip_address(address.partition("%")[0])
        if not any(self._is_within(each) for each in _meanings(found)):
            return
        shown = address if host == address else f"{host} ({address})"
        raise NotAllowed(f"{shown} is not a public address, and webhooks_allow does not list it")

    def _is_named(self, host: str) -> bool:
        name = host.lower().rstrip(".")
        labels = name.split(".")
        ends = ("*." + ".".join(labels[start:]) for start in range(1, len(labels)))
        return name in self._names or any(each in self._names for each in ends)

    def _is_within(self, address: Address) -> bool:
        """Return true if an address is neither public nor in an allowed network."""
        if any(address.version == each.version and address in each for each in self._networks):
            return False
        known = address.is_global and not (address.is_multicast or address.is_reserved)
        return not known or any(address in each for each in _NEVER_PUBLIC)


def _meanings(address: Address) -> list[Address]:
    """Return an address and the IPv4 addresses that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address, *(address.teredo or ()), *filter(None, (address.sixtofour,))]
