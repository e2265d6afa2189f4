"""The Kafka client's TLS and SASL settings, and the TLS context made from them."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from registry.base.config.sources import current_secret
from registry.base.processes.tls_connections import client_context
from registry.log.contract import LogError

OAUTHBEARER, AWS_MSK_IAM, GSSAPI = "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"
_TLS = {"SSL", "SASL_SSL"}
_SASL = {"SASL_PLAINTEXT", "SASL_SSL"}
_Stamp = tuple[tuple[int, int, int], ...]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Security:
    """Kafka's client settings for TLS and SASL, with underscores for dots.

    Certificates and keys are PEM files. An empty string means unset. A secret that has a file is read from it
    at each use, see :meth:`secret`.
    """

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = ""
    sasl_password_file: str = ""
    sasl_oauthbearer_token_endpoint_url: str = ""
    sasl_oauthbearer_client_id: str = ""
    sasl_oauthbearer_client_secret: str = ""
    sasl_oauthbearer_client_secret_file: str = ""
    sasl_oauthbearer_scope: str = ""
    # KEY=VALUE,… that are sent to the broker with the token.
    sasl_oauthbearer_extensions: str = ""
    # CA certificates of the token endpoint.
    https_ca_location: str = ""
    sasl_aws_region: str = ""
    sasl_kerberos_service_name: str = "kafka"
    ssl_ca_location: str = ""
    ssl_certificate_location: str = ""
    ssl_key_location: str = ""
    ssl_key_password: str = ""
    ssl_key_password_file: str = ""
    ssl_endpoint_identification_algorithm: str = "https"
    client_id: str = "registrar"

    def __repr__(self) -> str:
        return f"Security({self.security_protocol})"

    def secret(self, name: str) -> str:
        """Return the secret of this name as it is now."""
        return current_secret(getattr(self, name), getattr(self, f"{name}_file"))

    @property
    def tls(self) -> bool:
        """True if connections use TLS."""
        return self.security_protocol in _TLS

    @property
    def mechanism(self) -> str:
        """The SASL mechanism; empty without SASL."""
        return (self.sasl_mechanism or "PLAIN") if self.security_protocol in _SASL else ""

    @property
    def extensions(self) -> dict[str, str]:
        """The SASL extensions, by their names."""
        pairs = [pair.partition("=") for pair in self.sasl_oauthbearer_extensions.split(",") if pair.strip()]
        return {name.strip(): value.strip() for name, _, value in pairs}


class TlsContext:
    """The TLS context for new connections. Files that have changed are read again for the next connection.

    Raises :class:`.contract.LogError` for unusable files; once there is a context, it stays in use until the
    changed files are complete, and the problem is logged.
    """

    def __init__(self, security: Security) -> None:
        self._security = security
        self._files = [
            file
            for file in (
                security.ssl_ca_location,
                security.ssl_certificate_location,
                security.ssl_key_location,
                security.ssl_key_password_file,
            )
            if file
        ]
        self._stamp: _Stamp = ()
        self._context: ssl.SSLContext | None = None
        if security.tls:
            self._stamp = self._stamp_now()
            self._context = self._read()

    def current(self) -> ssl.SSLContext | None:
        """Return the context; ``None`` without TLS."""
        if self._context is not None and self._files:
            # Taken before the files are read: a change in between is seen next time.
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._context = self._read()
                    _log.info("the TLS files for Kafka have changed; new connections use them")
                except LogError as error:
                    _log.error("%s; new connections use the previous ones", error)
        return self._context

    def _stamp_now(self) -> _Stamp:
        return tuple(map(_stamp_of, self._files))

    def _read(self) -> ssl.SSLContext:
        security = self._security
        try:
            context = client_context(security.ssl_ca_location)
            context.check_hostname = bool(security.ssl_endpoint_identification_algorithm)
            if security.ssl_certificate_location:
                context.load_cert_chain(
                    security.ssl_certificate_location,
                    security.ssl_key_location or None,
                    # Without a password, OpenSSL would ask for one on the terminal.
                    lambda: security.secret("ssl_key_password"),
                )
        except (OSError, ValueError) as error:
            raise LogError(
                f"the TLS files for Kafka (kafka_ssl_ca_location {security.ssl_ca_location!r}, "
                f"kafka_ssl_certificate_location {security.ssl_certificate_location!r}, "
                f"kafka_ssl_key_location {security.ssl_key_location!r}) cannot be used: {error}"
            ) from error
        return context


def _stamp_of(file: str) -> tuple[int, int, int]:
    try:
        found = Path(file).stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
