"""Making a client from URLs, flags and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .addresses import Address, is_profile, parse_addresses
from .client import RegistryClient
from .messages import TlsFiles
from .profiles import Profile, find_profile

# Where "registrar serve" listens unless it is told otherwise.
DEFAULT_URL = "http://127.0.0.1:8081"


class Connection(NamedTuple):
    """The way to a registry; empty members are taken from its profile or the environment.

    ``url`` may be a profile: ``@NAME``.
    """

    url: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    timeout_s: float = 30.0

    def open(self, environment: Mapping[str, str], url: str = "", side: str = "") -> RegistryClient:
        """Make a client of the registry at ``url``, by default the one of this connection.

        ``side``: :data:`.addresses.FROM` or :data:`.addresses.TO` if the command names two registries. Raises
        :class:`.errors.BadAddress`.
        """
        way = self._way(environment, url)
        return self._client(way, parse_addresses(way.url, environment, side, way.credentials))

    def open_each(self, environment: Mapping[str, str]) -> list[RegistryClient]:
        """Make a client for each address, to ask every one of them."""
        way = self._way(environment, "")
        addresses = parse_addresses(way.url, environment, own=way.credentials)
        return [self._client(way, [each]) for each in addresses]

    def _way(self, environment: Mapping[str, str], url: str) -> Profile:
        """Return the registry that is meant. Flags come first, then its profile, then the environment."""
        given = url or self.url or environment.get("REGISTRAR_URL") or DEFAULT_URL
        found = find_profile(given, environment) if is_profile(given) else Profile(given)
        # A certificate and its key belong together.
        own = self if self.certificate or self.key else found
        certificate, key = own.certificate, own.key
        if not certificate and not key:
            certificate, key = (environment.get(f"REGISTRAR_{each}", "") for each in ("CERTIFICATE", "KEY"))
        ca = self.ca or found.ca or environment.get("REGISTRAR_CA", "")
        return found._replace(ca=ca, certificate=certificate, key=key)

    def _client(self, way: Profile, addresses: list[Address]) -> RegistryClient:
        return RegistryClient(addresses, TlsFiles(way.ca, way.certificate, way.key), self.timeout_s)
