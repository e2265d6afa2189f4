"""Admission of requests: their credentials, and the paths that are open to everyone."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope

from registry.security.client_address import TrustedProxies
from registry.security.gate import OPEN_GATE, STRANGER, Admission, Credentials, Gate, NoCredentials, Refused

# For load balancers, monitoring and tools that read the API's description, by their segments.
OPEN_PATHS = frozenset({
    ("health", "live"), ("health", "started"), ("health", "ready"), ("_health",), ("master_available",),
    ("metrics",), ("openapi.json",),
})  # fmt: skip

# Says to clients without credentials how to authenticate; wrong credentials are refused here too.
WELCOME_PATH = ("me",)


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
        credentials = _credentials_of(scope)
        known = self._gate.known(credentials)
        if known is not None:
            return known
        try:
            return await self._gate.admit(self.credentials(scope))
        except Refused as error:
            if isinstance(error, NoCredentials) and segments == WELCOME_PATH:
                return STRANGER
            raise _for_pages(error) if _from_script(scope["headers"]) else error from None

    def credentials(self, scope: Scope) -> Credentials:
        """Return the credentials of a request, with its client's address."""
        return _credentials_of(scope)._replace(address=self.address(scope))


def _credentials_of(scope: Scope) -> Credentials:
    headers, client, tls = scope["headers"], scope.get("client"), scope.get("extensions", {}).get("tls", {})
    # Two headers are no valid one: proxies and this server could disagree about which of them counts.
    authorization = b", ".join([value for name, value in headers if name == b"authorization"])
    return Credentials(authorization, tls.get("principal", ""), client[0] if client else "")


def _from_script(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"x-requested-with" for name, _ in headers)


def _for_pages(refused: Refused) -> Refused:
    """Return a refusal at which browsers open no dialog of their own, for pages that ask for passwords."""
    headers = tuple((name, value.replace(b"Basic ", b"X-Basic ", 1)) for name, value in refused.headers)
    return Refused(refused.code, refused.message, headers)
