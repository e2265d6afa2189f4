"""Certificates that settings name, of servers and clients, and when they expire."""

from __future__ import annotations

import datetime as dt
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from registry.base.config.settings import Settings
from registry.base.config.sources import current_secret
from registry.base.observe.metrics import Sample
from registry.security.watched_file import FileError, WatchedFile

from .contexts import PeerTls, peer_tls_settings
from .server_tls import ServerTls, tls_settings
from .tls_files import FileSetting, TlsSettings

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

    def setting(name: str) -> FileSetting:
        return FileSetting(name, str(getattr(settings, name)))

    yield ClientFiles(
        setting("kafka_ssl_ca_location"),
        setting("kafka_ssl_certificate_location"),
        setting("kafka_ssl_key_location"),
        partial(current_secret, settings.kafka_ssl_key_password, settings.kafka_ssl_key_password_file),
    )
    yield ClientFiles(
        setting("zookeeper_tls_ca"), setting("zookeeper_tls_certificate"), setting("zookeeper_tls_key")
    )
    yield ClientFiles(setting("kafka_https_ca_location"))
    yield ClientFiles(setting("webhooks_ca_file"))


def _check_certificates(path: str, _: bytes) -> None:
    """Read the file by its path: OpenSSL takes comments in any encoding only from a file."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError:
        raise FileError("contains no valid PEM certificates") from None


_SOON = dt.timedelta(days=30)
_READ_EVERY_S = 10.0
_EXPIRING = ("kafka_ssl_ca_location", "zookeeper_tls_ca")


class Expiry(NamedTuple):
    """The first moment at which one of a file's certificates is no longer valid."""

    file: FileSetting
    moment: dt.datetime

    def time_left(self) -> dt.timedelta:
        """Return the time until then, negative after it."""
        return self.moment - dt.datetime.now(dt.UTC)


class ExpiryGauges:
    """Gauges of the certificates that settings name; files are read again every few seconds at most."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._expiries: list[Expiry] = []
        self._next_s = float("-inf")

    def samples(self) -> list[Sample]:
        """Return a sample for each file; unreadable files have none."""
        if time.monotonic() >= self._next_s:
            self._expiries = list(expiries(self._settings))
            self._next_s = time.monotonic() + _READ_EVERY_S
        return [
            Sample(
                "registrar_certificate_expiry_seconds", each.time_left().total_seconds(), (each.file.name,)
            )
            for each in self._expiries
        ]


def expiries(settings: Settings) -> Iterator[Expiry]:
    """Yield when each file of certificates expires; unreadable files are left out."""
    # Not of token endpoints and webhooks, whose authorities may be all those of the system and some expired.
    of_servers = (
        TlsSettings(files.certificate, authorities=files.authorities)
        for files in client_files(settings)
        if files.authorities.name in _EXPIRING
    )
    for tls in (*endpoints(settings), *of_servers):
        for file in tls.files():
            try:
                found = WatchedFile(file.path, partial(tls.certificates_in, file)).value
            except FileError:
                continue
            yield Expiry(file, min(each.not_valid_after_utc for each in found))


def endpoints(settings: Settings) -> Iterator[TlsSettings]:
    """Yield the files of each endpoint that serves."""
    if settings.https:
        yield tls_settings(settings)
    yield _of_peers(settings)


def problems(settings: Settings) -> list[str]:
    """Return why certificates, keys and rules cannot be used, each after its setting; empty if all can."""
    found = []
    checks: tuple[tuple[bool, Callable[[], object]], ...] = (
        (settings.https, lambda: ServerTls(settings)),
        (bool(settings.peer_tls_certificate), lambda: PeerTls(_of_peers(settings))),
    )
    for used, check in checks:
        try:
            if used:
                check()
        except FileError as error:
            found.append(str(error))
    return found


def warnings(settings: Settings) -> list[str]:
    """Return a sentence for each file with a certificate that expires soon or has expired."""
    return [
        f"{each.file}: a certificate {'expires' if each.time_left() > dt.timedelta() else 'expired'} on "
        f"{each.moment:%Y-%m-%d}"
        for each in expiries(settings)
        if each.time_left() < _SOON
    ]


def _of_peers(settings: Settings) -> TlsSettings:
    return peer_tls_settings(settings.peer_tls_certificate, settings.peer_tls_key, settings.peer_tls_ca)
