"""Authentication of peers: by a shared secret, by certificates of one authority, by both, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .signing import Signing

if TYPE_CHECKING:
    from registry.security.tls.peer_tls import PeerTls


@dataclass(frozen=True)
class Security:
    """The credentials of a cluster's nodes. The three files are all set or all empty."""

    secret: str = ""
    # Path, PEM; used with key both for serving and as a client.
    certificate: str = ""
    key: str = ""
    # Path, PEM: the authority of the nodes' certificates. Any holder of such a certificate is a peer.
    authority: str = ""

    def signing(self) -> Signing:
        """Return the signer for the secret."""
        return Signing(self.secret)

    def tls(self) -> PeerTls | None:
        """Return the TLS of the node's connections; ``None`` without certificates. Raises :class:`FileError`.

        An expired certificate is only logged: the other nodes refuse it, but this one still serves reads.
        """
        if not self.certificate:
            return None
        from registry.security.tls.peer_tls import PeerTls, peer_tls_settings  # noqa: PLC0415 (takes memory)

        settings = peer_tls_settings(self.certificate, self.key, self.authority)
        return PeerTls(settings, allow_expired=True)
