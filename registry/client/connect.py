"""Making a client from URLs, flags and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .addresses import Address, parse_addresses
from .client import RegistryClient
from .messages import TlsFiles

# Where "registrar serve" listens unless it is told otherwise.
DEFAULT_URL = "http://127.0.0.1:8081"


class Connection(NamedTuple):
    """The way to a registry; empty members are taken from the environment."""

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
        return self._client(self._addresses(environment, url, side), environment)

    def open_each(self, environment: Mapping[str, str]) -> list[RegistryClient]:
        """Make a client for each address, to ask every one of them."""
        return [self._client([each], environment) for each in self._addresses(environment, "")]

    def _addresses(self, environment: Mapping[str, str], url: str, side: str = "") -> list[Address]:
        given = url or self.url or environment.get("REGISTRAR_URL") or DEFAULT_URL
        return parse_addresses(given, environment, side)

    def _client(self, addresses: list[Address], environment: Mapping[str, str]) -> RegistryClient:
        tls = TlsFiles(
            self.ca or environment.get("REGISTRAR_CA", ""),
            self.certificate or environment.get("REGISTRAR_CERTIFICATE", ""),
            self.key or environment.get("REGISTRAR_KEY", ""),
        )
        return RegistryClient(addresses, tls, self.timeout_s)
