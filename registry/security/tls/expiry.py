"""When certificates expire, and files that cannot be used, for people and for Prometheus."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from registry.base.config.settings import Settings
from registry.base.observe.metrics import Sample
from registry.security.watched_file import FileError, WatchedFile

from .client_files import client_files
from .peer_tls import PeerTls, peer_tls_settings
from .server_tls import ServerTls, tls_settings
from .tls_files import FileSetting, TlsSettings

_SOON = dt.timedelta(days=30)
_READ_EVERY_S = 10.0
_EXPIRING = ("kafka_ssl_ca_location", "zookeeper_tls_ca")


class Expiry(NamedTuple):
    """The first moment at which one of a file's certificates is no longer valid."""

    file: FileSetting
    moment: dt.datetime

    def left(self) -> dt.timedelta:
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
            Sample("registrar_certificate_expiry_seconds", each.left().total_seconds(), (each.file.name,))
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
        f"{each.file}: a certificate {'expires' if each.left() > dt.timedelta() else 'expired'} on "
        f"{each.moment:%Y-%m-%d}"
        for each in expiries(settings)
        if each.left() < _SOON
    ]


def _of_peers(settings: Settings) -> TlsSettings:
    return peer_tls_settings(settings.peer_tls_certificate, settings.peer_tls_key, settings.peer_tls_ca)
