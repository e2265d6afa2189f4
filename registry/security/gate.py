"""The gate that every request of a client passes: authentication, and the principal's permissions."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from registry.domain.errors import RegistryError
from registry.domain.principal import ANONYMOUS, Principal

from .access import FULL_ACCESS, NO_ACCESS, Access

KIND_OF_METHOD: Final = {"basic": "user", "bearer": "token", "certificate": "cert"}


class Refused(RegistryError):
    """A request that is not admitted, with headers for the answer."""

    def __init__(self, code: int, message: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        super().__init__(code, message)
        self.headers = headers


class NoCredentials(Refused):
    """A request without credentials to a registry that needs them."""


class Credentials(NamedTuple):
    """Credentials of a request and its connection."""

    authorization: bytes = b""  # the value of the header, as sent
    certificate: str = ""  # the principal's name from a verified client certificate
    address: str = ""  # of the client: the connection's, or behind a trusted proxy the forwarded one


class Admission(NamedTuple):
    """An authenticated request's principal and access."""

    principal: Principal
    access: Access
    method: str = ""  # by which the principal authenticated: ``basic``, ``bearer`` or ``certificate``

    @property
    def kind(self) -> str:
        """The kind of the principal, as rules name it; empty without authentication."""
        return KIND_OF_METHOD.get(self.method, "")


EVERYONE: Final = Admission(ANONYMOUS, FULL_ACCESS)
STRANGER: Final = Admission(ANONYMOUS, NO_ACCESS)


class Gate(Protocol):
    """Authenticates requests and finds their access."""

    def known(self, credentials: Credentials) -> Admission | None:
        """Return the admission of credentials that were verified a short time ago.

        ``None`` if they have to be verified. Called for every request, also on the fast path, so it never
        waits and reads at most a few dictionaries. Changed users or rules apply at the next call.
        """
        ...

    async def admit(self, credentials: Credentials) -> Admission:
        """Verify credentials, which may take long (a password's hash, a new signing key).

        Raises :class:`~registry.domain.errors.RegistryError`, mostly :class:`Refused`: 401 for missing
        (:class:`NoCredentials`) or wrong credentials, 429 for a client that has failed too often, 503 if they
        cannot be verified now.
        """
        ...


class WatchedGate(Gate, Protocol):
    """A gate whose users, keys and rules come from files that may change."""

    async def watch(self) -> None:
        """Keep the files' content up to date until cancelled."""
        ...


class _OpenGate:
    """A gate that admits everyone with full access, for a registry without authentication and rules."""

    def known(self, credentials: Credentials) -> Admission | None:
        return EVERYONE

    async def admit(self, credentials: Credentials) -> Admission:
        return EVERYONE

    async def watch(self) -> None:
        """Return at once: there is nothing to watch."""


OPEN_GATE: WatchedGate = _OpenGate()
