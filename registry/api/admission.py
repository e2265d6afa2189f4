"""Admission of requests: their credentials, and the paths that are open to everyone."""

from __future__ import annotations

from starlette.types import Scope

from registry.security.client_address import TrustedProxies
from registry.security.gate import OPEN_GATE, Admission, Credentials, Gate

# For load balancers, monitoring and tools that read the API's description, by their segments.
OPEN_PATHS = frozenset({
    ("health", "live"), ("health", "started"), ("health", "ready"), ("_health",), ("master_available",),
    ("metrics",), ("openapi.json",),
})  # fmt: skip


class Entrance:
    """Admits requests by the gate, unless their path is open."""

    def __init__(self, gate: Gate, *, open_paths: bool, proxies: TrustedProxies) -> None:
        self._gate = gate
        self._open = OPEN_PATHS if open_paths else frozenset()
        self._proxies = proxies

    def address(self, scope: Scope) -> str:
        """Return the client's address, as trusted proxies name it; empty if it has none."""
        client = scope.get("client")
        return self._proxies.client(client[0], scope["headers"]) if client else ""

    async def admit(self, scope: Scope, segments: tuple[str, ...]) -> Admission:
        """Return the admission of a request. Raises :class:`~registry.domain.errors.RegistryError`."""
        if segments in self._open:
            return await OPEN_GATE.admit(Credentials())
        headers, client, tls = (
            scope["headers"],
            scope.get("client"),
            scope.get("extensions", {}).get("tls", {}),
        )
        # Two headers are no valid one: proxies and this server could disagree about which of them counts.
        authorization = b", ".join([value for name, value in headers if name == b"authorization"])
        peer = client[0] if client else ""
        credentials = Credentials(authorization, tls.get("principal", ""), peer)
        known = self._gate.known(credentials)
        if known is not None:
            return known
        address = self._proxies.client(peer, headers)
        return await self._gate.admit(credentials._replace(address=address))
