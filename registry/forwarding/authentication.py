"""Authentication of peers: by a shared secret, by certificates of one authority, by both, or not at all."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from .signing import Signing

_ALPN = ["h2"]


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

    def serving(self) -> ssl.SSLContext | None:
        """Return the endpoint's TLS context, which requires client certificates. Raises :class:`OSError`."""
        return self._context(ssl.PROTOCOL_TLS_SERVER)

    def asking(self) -> ssl.SSLContext | None:
        """Return the client's TLS context. Raises as :meth:`serving`."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, protocol: int) -> ssl.SSLContext | None:
        if not self.certificate:
            return None
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.authority)
        context.load_cert_chain(self.certificate, self.key)
        context.set_alpn_protocols(_ALPN)
        return context
