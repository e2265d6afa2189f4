"""TLS of the public port: the current context, and the principals of client certificates."""

from __future__ import annotations

import logging
import ssl
from functools import partial

from cryptography import x509

from registry.base.config.secret_files import current_secret
from registry.base.config.settings import Settings
from registry.base.observe.logs import Throttled
from registry.base.processes.client_certificates import Verified
from registry.security.watched_file import FileError

from .contexts import CLIENT_AUTH, TrustedContexts, expiry, server_context
from .key_material import KeyMaterial
from .principal_rules import PrincipalRules
from .subject_name import subject_name
from .tls_files import Authorities, FileSetting, TlsFiles, TlsSettings

_unnamed = Throttled(logging.getLogger(__name__))


class ServerTls:
    """TLS state that the https listeners of a process share. ``context`` is replaced when files change."""

    context: ssl.SSLContext

    def __init__(self, settings: Settings, *, allow_expired: bool = False) -> None:
        """Raises :class:`FileError`. ``allow_expired``: only log a certificate that has expired."""
        self._trusted = TrustedContexts()
        self._authorities: Authorities = ()
        self._client_auth = CLIENT_AUTH[settings.tls_client_auth]
        try:
            self._rules = PrincipalRules(settings.tls_principal_rules)
        except ValueError as error:
            raise FileError(f"tls_principal_rules: {error}") from None
        files = TlsFiles(tls_settings(settings), self._use, allow_expired=allow_expired)
        self.watch = files.watch

    def _use(self, material: KeyMaterial, authorities: Authorities) -> None:
        context = server_context(material, authorities, client_auth=self._client_auth)
        self._trusted.replaced(context, authorities=authorities)
        self._authorities = authorities
        self.context = context

    @property
    def revision(self) -> int:
        """Increases whenever an authority of clients has been removed."""
        return self._trusted.revision

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        return self._trusted.trusts(context)

    def verified(self, certificate: bytes) -> Verified:
        """Return principal and expiry of a verified certificate in DER."""
        try:
            found = x509.load_der_x509_certificate(certificate)
            subject, expires = subject_name(found), expiry(found, self._authorities)
        except ValueError as error:
            _unnamed.warning("a client's certificate cannot be read: %a", str(error))
            return Verified()
        return Verified(self._principal(subject), expires)

    def _principal(self, subject: str) -> str:
        """Return the principal's name; empty if no rule applies, or if it holds what does not print."""
        name = self._rules.principal(subject)
        if not name:
            _unnamed.warning("no rule of tls_principal_rules applies to the client certificate %a", subject)
        elif not name.isprintable():
            # It would reach logs, the audit and headers of proxies.
            _unnamed.warning("the client certificate %a names what does not print", subject)
            return ""
        return name


def tls_settings(settings: Settings) -> TlsSettings:
    """Return the files of the public port."""
    return TlsSettings(
        FileSetting("tls_certificate", settings.tls_certificate),
        FileSetting("tls_key", settings.tls_key),
        partial(current_secret, settings.tls_key_password, settings.tls_key_password_file),
        FileSetting("tls_keystore", settings.tls_keystore),
        partial(current_secret, settings.tls_keystore_password, settings.tls_keystore_password_file),
        FileSetting("tls_client_ca", settings.tls_client_ca),
    )
