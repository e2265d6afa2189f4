"""The files of TLS connections to Kafka, token endpoints, ZooKeeper and webhooks, as OpenSSL reads them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from registry.base.config.secret_files import current_secret
from registry.base.config.settings import Settings
from registry.security.watched_file import FileError

from .tls_files import FileSetting

_Check = Callable[[bytes], None]


class ClientFiles(NamedTuple):
    """The files of connections to one kind of server. The key may be in the file of the certificate."""

    authorities: FileSetting
    certificate: FileSetting = FileSetting()
    key: FileSetting = FileSetting()
    key_password: Callable[[], str] = str

    def parsers(self) -> Iterator[tuple[FileSetting, _Check]]:
        """Yield every file with the function that checks it, which raises :class:`FileError`."""
        for each in (self.authorities, self.certificate):
            if each.path:
                yield each, partial(_check_certificates, each.path)
        if self.certificate.path:
            yield (self.key if self.key.path else self.certificate), self._check_key

    def _check_key(self, _: bytes) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(
                self.certificate.path,
                self.key.path or None,
                # Without a password, OpenSSL would ask for one on the terminal.
                self.key_password,
            )
        except (OSError, ValueError):
            key = f"the private key of {self.certificate.name}"
            raise FileError(f"does not hold {key}, or its password is wrong") from None


def client_files(settings: Settings) -> Iterator[ClientFiles]:
    """Yield the files of each kind of server."""

    def named(name: str) -> FileSetting:
        return FileSetting(name, str(getattr(settings, name)))

    yield ClientFiles(
        named("kafka_ssl_ca_location"),
        named("kafka_ssl_certificate_location"),
        named("kafka_ssl_key_location"),
        partial(current_secret, settings.kafka_ssl_key_password, settings.kafka_ssl_key_password_file),
    )
    yield ClientFiles(
        named("zookeeper_tls_ca"), named("zookeeper_tls_certificate"), named("zookeeper_tls_key")
    )
    yield ClientFiles(named("kafka_https_ca_location"))
    yield ClientFiles(named("webhooks_ca_file"))


def _check_certificates(path: str, _: bytes) -> None:
    """Read the file by its path: OpenSSL takes comments in any encoding only from a file."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError:
        raise FileError("holds no valid certificates in PEM") from None
