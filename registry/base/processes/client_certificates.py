"""Certificates that the other sides of open connections have shown.

One counts until it expires or its authority is removed: TLS verifies a certificate only in the handshake, and
not even there when a client resumes a session.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

_NEVER = float("inf")


class Verified(NamedTuple):
    """Principal and expiry of a certificate."""

    principal: str = ""  # empty if it names none
    expires: float = _NEVER  # in seconds since 1970


class Verifier(Protocol):
    """The authorities of a listener or a client, which may be replaced."""

    @property
    def revision(self) -> int:
        """Increases whenever an authority has been removed."""
        ...

    def verified(self, certificate: bytes) -> Verified:
        """Return what is known of a certificate in DER that a handshake has verified."""
        ...

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        ...


class ConnectionCertificate(NamedTuple):
    """The certificate of the other side of one connection."""

    verified: Verified
    verifier: Verifier
    context: ssl.SSLContext

    def counts(self) -> bool:
        """Return true until it expires or an authority of its handshake is removed."""
        return time.time() < self.verified.expires and self.verifier.trusts(self.context)


def certificate_of(transport: asyncio.BaseTransport, verifier: Verifier) -> ConnectionCertificate | None:
    """Return the certificate of a TLS connection; ``None`` if the other side has shown none."""
    ssl_object: Any = transport.get_extra_info("ssl_object")
    raw = ssl_object.getpeercert(binary_form=True)
    return ConnectionCertificate(verifier.verified(raw), verifier, ssl_object.context) if raw else None


class CertifiedConnections:
    """The open connections with a client certificate, by what ends them; used on one event loop."""

    def __init__(self) -> None:
        self._open: dict[Hashable, tuple[ConnectionCertificate, Callable[[], None]]] = {}
        self._due = _NEVER  # when the first of them expires, in seconds since 1970
        self._revisions: dict[Verifier, int] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open)

    def opened(
        self, connection: Hashable, certificate: ConnectionCertificate, end: Callable[[], None]
    ) -> None:
        """Note a new connection; ``end`` is called once its certificate no longer counts."""
        self._open[connection] = (certificate, end)
        self._due = min(self._due, certificate.verified.expires)
        self._revisions.setdefault(certificate.verifier, certificate.verifier.revision)
        if not certificate.counts():
            self._end(connection)

    def closed(self, connection: Hashable) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)

    def look(self) -> None:
        """End the connections whose certificates no longer count; called again and again."""
        removed = False
        for verifier, revision in self._revisions.items():
            if verifier.revision != revision:
                self._revisions[verifier], removed = verifier.revision, True
        if not removed and time.time() < self._due:
            return
        for connection, (certificate, _) in tuple(self._open.items()):
            if not certificate.counts():
                self._end(connection)
        self._due = min((each.verified.expires for each, _ in self._open.values()), default=_NEVER)

    def _end(self, connection: Hashable) -> None:
        _, end = self._open.pop(connection)
        end()
