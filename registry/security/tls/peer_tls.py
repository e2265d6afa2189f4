"""TLS between nodes: both sides show a certificate of the cluster's authority."""

from __future__ import annotations

import ssl

from cryptography import x509

from registry.base.processes.client_certificates import Verified

from .contexts import TrustedContexts, client_context, expiry, server_context
from .key_material import KeyMaterial
from .tls_files import Authorities, FileSetting, TlsFiles, TlsSettings

_PROTOCOL = "h2"


class PeerTls:
    """The contexts of one node; they are replaced when files change, for connections from then on."""

    context: ssl.SSLContext  # of its endpoint
    client: ssl.SSLContext  # of its connections to other nodes

    def __init__(self, settings: TlsSettings, *, allow_expired: bool = False) -> None:
        """Raises :class:`.FileError`. ``allow_expired``: only log a certificate that has expired."""
        self._trusted = TrustedContexts()
        self._authorities: Authorities = ()
        self.watch = TlsFiles(settings, self._use, allow_expired=allow_expired).watch

    def _use(self, material: KeyMaterial, authorities: Authorities) -> None:
        client = client_context(material, authorities, protocol=_PROTOCOL)
        server = server_context(material, authorities, client_auth=ssl.CERT_REQUIRED, protocol=_PROTOCOL)
        self._trusted.replaced(server, client, authorities=authorities)
        self._authorities = authorities
        self.context, self.client = server, client

    @property
    def revision(self) -> int:
        """Increases whenever an authority of nodes has been removed."""
        return self._trusted.revision

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        return self._trusted.trusts(context)

    def verified(self, certificate: bytes) -> Verified:
        """Return the expiry of another node's certificate."""
        return Verified(expires=expiry(x509.load_der_x509_certificate(certificate), self._authorities))


def peer_tls_settings(certificate: str, key: str, authorities: str) -> TlsSettings:
    """Return the files of a node, given by their paths."""
    return TlsSettings(
        FileSetting("peer_tls_certificate", certificate),
        FileSetting("peer_tls_key", key),
        authorities=FileSetting("peer_tls_ca", authorities),
    )
