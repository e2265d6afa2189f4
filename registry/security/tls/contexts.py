"""TLS contexts, and the TLS of connections between nodes."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from registry.base.processes.tls_connections import Verified

from .tls_files import Authorities, FileSetting, KeyMaterial, TlsFiles, TlsSettings

# Certificates of clients, by the values of the setting tls_client_auth.
CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "wanted": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(
    material: KeyMaterial,
    authorities: Sequence[x509.Certificate] = (),
    *,
    client_auth: ssl.VerifyMode = ssl.CERT_NONE,
    protocol: str = "http/1.1",
) -> ssl.SSLContext:
    """Return the context of a server. Raises :class:`ssl.SSLError` if OpenSSL rejects a certificate or key.

    ``authorities`` verify the clients' certificates; ``protocol`` is offered by ALPN.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, material, authorities, protocol)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = client_auth
    return context


def client_context(
    material: KeyMaterial, authorities: Sequence[x509.Certificate], *, protocol: str
) -> ssl.SSLContext:
    """Return the context of a client that accepts any server whose certificate ``authorities`` verify."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, material, authorities, protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class TrustedContexts:
    """The contexts of an endpoint or a client whose authorities all still count."""

    def __init__(self) -> None:
        self._authorities: frozenset[bytes] = frozenset()
        self._contexts: WeakSet[ssl.SSLContext] = WeakSet()
        # Increases whenever an authority has been removed.
        self.revision = 0

    def replace(self, *contexts: ssl.SSLContext, authorities: Sequence[x509.Certificate]) -> None:
        """Note new contexts, before they are used; without an authority of the former ones, those go."""
        found = frozenset(map(_der, authorities))
        removed = not self._authorities <= found
        # A new set instead of a changed one: this runs in another thread than :meth:`trusts`.
        self._contexts = WeakSet(contexts if removed else (*self._contexts, *contexts))
        self._authorities = found
        self.revision += removed

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        return context in self._contexts


def expiry(certificate: x509.Certificate, authorities: Sequence[x509.Certificate]) -> float:
    """Return when a certificate no longer counts, in seconds since 1970: it or its authority."""
    own = certificate.not_valid_after_utc.timestamp()
    issuers = [each for each in authorities if each.subject == certificate.issuer]
    return min(own, max((each.not_valid_after_utc.timestamp() for each in issuers), default=own))


def _context(
    role: int, material: KeyMaterial, authorities: Sequence[x509.Certificate], protocol: str
) -> ssl.SSLContext:
    context = ssl.SSLContext(role)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    if authorities:
        context.load_verify_locations(cadata=b"".join(map(_der, authorities)))
        # As in Java, every certificate of the file is trusted, also one that another authority has signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with _as_file(material.pem()) as path:
        context.load_cert_chain(path)
    return context


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path from which this process can read ``content``: OpenSSL takes keys from files only.

    The key is never written to a disk where Linux has files in memory; elsewhere nobody else can read it.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("key", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:  # only its owner may read it
            file.write(content)
            file.flush()
            yield file.name


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
        self._trusted.replace(server, client, authorities=authorities)
        self._authorities = authorities
        self.context, self.client = server, client

    @property
    def revision(self) -> int:
        """Increases whenever an authority of nodes has been removed."""
        return self._trusted.revision

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        return self._trusted.trusts(context)

    def verify(self, certificate: bytes) -> Verified:
        """Return the expiry of another node's certificate."""
        return Verified(expires=expiry(x509.load_der_x509_certificate(certificate), self._authorities))


def peer_tls_settings(certificate: str, key: str, authorities: str) -> TlsSettings:
    """Return the files of a node, given by their paths."""
    return TlsSettings(
        FileSetting("peer_tls_certificate", certificate),
        FileSetting("peer_tls_key", key),
        authorities=FileSetting("peer_tls_ca", authorities),
    )
