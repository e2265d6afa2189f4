"""Settings that must go together: what one of them asks of the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .settings import Loaded, Setting, Settings, table

_PEER_TLS = ("peer_tls_certificate", "peer_tls_key", "peer_tls_ca")
_FOR_SSL = (
    "kafka_ssl_ca_location",
    "kafka_ssl_certificate_location",
    "kafka_ssl_key_location",
    "kafka_ssl_key_password",
)
_FOR_SASL = ("kafka_sasl_mechanism", "kafka_sasl_username", "kafka_sasl_password")
_FILES = (*_PEER_TLS, "kafka_ssl_ca_location", "kafka_ssl_certificate_location", "kafka_ssl_key_location")


def disagreements(loaded: Loaded) -> list[str]:
    """One sentence for each setting that does not go with another, or names a file that cannot be read."""
    given = _Given(loaded)
    checks = _CHECKS if given.settings.kafka else (_cluster_needs_kafka, _encoder)
    return [problem for check in checks for problem in check(given)]


class _Given:
    """The settings, and how to name in a message what somebody gave."""

    def __init__(self, loaded: Loaded) -> None:
        self.settings: Settings = loaded.settings
        self._origins = loaded.origins
        self._known: dict[str, Setting] = {setting.name: setting for setting in table()}

    def chosen(self, name: str) -> bool:
        """Whether somebody chose it: a file may repeat a default, which says nothing."""
        setting, value = self._known[name], getattr(self.settings, name)
        origin = self._origins[name]
        repeated = origin.startswith("file ") and setting.kind.show(value) == setting.default
        return origin != "default" and not repeated

    def all_chosen(self, names: Sequence[str]) -> Iterator[str]:
        """Those of ``names`` that somebody chose."""
        return filter(self.chosen, names)

    def told(self, name: str) -> str:
        """The setting as it was given, with its origin; secrets hidden."""
        value: Any = getattr(self.settings, name)
        return f"{name} = {self._known[name].kind.show(value)} ({self._origins[name]})"


def _cluster_needs_kafka(given: _Given) -> Iterator[str]:
    cluster = [setting.name for setting in table() if setting.group in ("cluster", "security")]
    for name in given.all_chosen(cluster):
        yield f"{given.told(name)} is for several nodes over a Kafka topic: give kafka = HOST:PORT too"


def _encoder(given: _Given) -> Iterator[str]:
    settings = given.settings
    if settings.metadata_encoder_old_secret and not settings.metadata_encoder_secret:
        yield f"{given.told('metadata_encoder_old_secret')} needs metadata_encoder_secret, the new one, too"
    if settings.metadata_encoder_topic == settings.topic:
        yield f"{given.told('metadata_encoder_topic')} is the topic of the log: name another one"


def _election(given: _Given) -> Iterator[str]:
    settings = given.settings
    if settings.election == "zookeeper" and not settings.zookeeper:
        yield f"{given.told('election')} needs zookeeper = HOST:PORT/path"
    if settings.zookeeper and settings.election != "zookeeper":
        yield f"{given.told('zookeeper')} is used only with election = zookeeper"
    if settings.zookeeper_auth and settings.election != "zookeeper":
        yield f"{given.told('zookeeper_auth')} is used only with election = zookeeper"
    if settings.zookeeper_auth and not all(settings.zookeeper_auth.partition(":")):
        yield f"{given.told('zookeeper_auth')} has to be USER:PASSWORD"
    if settings.primary and settings.election != "static":
        yield f"{given.told('primary')} is used only with election = static"
    if settings.election == "static" and not settings.primary and not settings.eligible:
        yield f"{given.told('eligible')} with election = static needs primary = URL: nobody would write"


def _peer_endpoint(given: _Given) -> Iterator[str]:
    settings = given.settings
    if settings.peer_address == (settings.host, settings.port):
        yield f"{given.told('peer_listen')} is the address of the HTTP API: take another port"
    missing = [name for name in _PEER_TLS if not getattr(settings, name)]
    if 0 < len(missing) < len(_PEER_TLS):
        there = next(name for name in _PEER_TLS if name not in missing)
        yield f"{given.told(there)} needs {' and '.join(missing)} too: nodes show certificates to one another"


def _kafka_security(given: _Given) -> Iterator[str]:
    settings = given.settings
    protocol = settings.kafka_security_protocol
    if not protocol.endswith("SSL"):
        for name in given.all_chosen(_FOR_SSL):
            yield f"{given.told(name)} is used only with kafka_security_protocol = SSL or SASL_SSL"
    if not protocol.startswith("SASL"):
        for name in given.all_chosen(_FOR_SASL):
            yield f"{given.told(name)} is used only with kafka_security_protocol = SASL_SSL or SASL_PLAINTEXT"
    else:
        missing = [name for name in _FOR_SASL if not getattr(settings, name)]
        if missing:
            yield f"{given.told('kafka_security_protocol')} needs {' and '.join(missing)} too"
    if settings.kafka_ssl_key_location and not settings.kafka_ssl_certificate_location:
        yield f"{given.told('kafka_ssl_key_location')} needs kafka_ssl_certificate_location too"


def _files_are_there(given: _Given) -> Iterator[str]:
    for name in _FILES:
        file = getattr(given.settings, name)
        if not file:
            continue
        if not Path(file).is_file():
            yield f"{given.told(name)} is no file"
        elif not os.access(file, os.R_OK):
            yield f"{given.told(name)} may not be read by this user"


_CHECKS: tuple[Callable[[_Given], Iterator[str]], ...] = (
    _election,
    _peer_endpoint,
    _kafka_security,
    _encoder,
    _files_are_there,
)
