"""Checks for settings that conflict with each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .addresses import ENDPOINT_URL, is_http_url
from .settings import Loaded, Setting, Settings, table

_PEER_TLS = ("peer_tls_certificate", "peer_tls_key", "peer_tls_ca")
_FOR_SSL = (
    "kafka_ssl_ca_location",
    "kafka_ssl_certificate_location",
    "kafka_ssl_key_location",
    "kafka_ssl_key_password",
)
_FOR_PASSWORDS = ("kafka_sasl_username", "kafka_sasl_password")
_TOKEN_CLIENT = (
    "kafka_sasl_oauthbearer_token_endpoint_url",
    "kafka_sasl_oauthbearer_client_id",
    "kafka_sasl_oauthbearer_client_secret",
)
_FOR_TOKENS = (
    *_TOKEN_CLIENT,
    "kafka_sasl_oauthbearer_scope",
    "kafka_sasl_oauthbearer_extensions",
    "kafka_https_ca_location",
)
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Settings of some mechanisms, and those that these mechanisms cannot do without.
_FOR_MECHANISMS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (_PASSWORD_MECHANISMS, _FOR_PASSWORDS, _FOR_PASSWORDS),
    (("OAUTHBEARER",), _FOR_TOKENS, _TOKEN_CLIENT),
    (("AWS_MSK_IAM",), ("kafka_sasl_aws_region",), ()),
    (("GSSAPI",), ("kafka_sasl_kerberos_service_name",), ()),
)
_FOR_SASL = ("kafka_sasl_mechanism", *(name for _, names, _ in _FOR_MECHANISMS for name in names))
_TLS_FILES = ("tls_certificate", "tls_key", "tls_keystore", "tls_client_ca")
_KAFKA_FILES = (
    "kafka_https_ca_location",
    "kafka_ssl_ca_location",
    "kafka_ssl_certificate_location",
    "kafka_ssl_key_location",
)
_ZOOKEEPER_FILES = ("zookeeper_tls_ca", "zookeeper_tls_certificate", "zookeeper_tls_key")
_FILES = (*_PEER_TLS, *_TLS_FILES, "jwt_jwks", "rules", *_ZOOKEEPER_FILES, *_KAFKA_FILES, "webhooks_ca_file")


def disagreements(loaded: Loaded) -> list[str]:
    """Return a sentence for each setting that conflicts with another or names an unreadable file."""
    given = _GivenSettings(loaded)
    checks = _WITH_KAFKA if given.settings.kafka else _WITHOUT_KAFKA
    return [problem for check in checks for problem in check(given)]


class _GivenSettings:
    """The settings with their origins."""

    def __init__(self, loaded: Loaded) -> None:
        self.settings: Settings = loaded.settings
        self._origins = loaded.origins
        self._known: dict[str, Setting] = {setting.name: setting for setting in table()}

    def is_given(self, name: str) -> bool:
        """Return whether the setting was given; a default that a file repeats does not count."""
        setting, value = self._known[name], getattr(self.settings, name)
        origin = self._origins[name]
        repeated = origin.startswith("file ") and setting.kind.show(value) == setting.default
        return origin != "default" and not repeated

    def all_chosen(self, names: Sequence[str]) -> Iterator[str]:
        """Return the names among ``names`` that were given."""
        return filter(self.is_given, names)

    def describe(self, name: str) -> str:
        """Return the setting as it was given, with its origin; secrets are hidden."""
        value: Any = getattr(self.settings, name)
        return f"{name} = {self._known[name].kind.show(value)} ({self._origins[name]})"


def _cluster_needs_kafka(given: _GivenSettings) -> Iterator[str]:
    cluster = [setting.name for setting in table() if setting.group in ("cluster", "security")]
    for name in given.all_chosen(cluster):
        yield f"{given.describe(name)} is for several nodes on a Kafka topic and needs kafka = HOST:PORT"


def _encoder(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if settings.metadata_encoder_old_secret and not settings.metadata_encoder_secret:
        old = given.describe("metadata_encoder_old_secret")
        yield f"{old} also needs metadata_encoder_secret, the new one"
    if settings.metadata_encoder_topic == settings.topic:
        yield f"{given.describe('metadata_encoder_topic')} is the topic of the log: choose another one"


def _snapshots(given: _GivenSettings) -> Iterator[str]:
    if given.settings.snapshots_old_key and not given.settings.snapshots_key:
        yield f"{given.describe('snapshots_old_key')} also needs snapshots_key, the one that signs"


def _census(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if settings.census_every_s and settings.census_topics and not settings.kafka:
        yield f'{given.describe("census_every_s")} needs kafka, or census_topics = "" to count only files'


def _election(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if settings.election == "zookeeper" and not settings.zookeeper:
        yield f"{given.describe('election')} needs zookeeper = HOST:PORT/path"
    if settings.zookeeper and settings.election != "zookeeper":
        yield f"{given.describe('zookeeper')} is used only with election = zookeeper"
    if settings.zookeeper_auth and settings.election != "zookeeper":
        yield f"{given.describe('zookeeper_auth')} is used only with election = zookeeper"
    logins = settings.zookeeper_auth.split("\n") if settings.zookeeper_auth else []
    if not all(all(each.partition(":")) for each in logins):
        yield f"{given.describe('zookeeper_auth')} must be USER:PASSWORD"
    yield from _zookeeper_tls(given)
    if settings.primary and settings.election != "static":
        yield f"{given.describe('primary')} is used only with election = static"
    if settings.election == "static" and not settings.primary and not settings.eligible:
        yield f"{given.describe('eligible')} with election = static needs primary = URL to have a primary"


def _zookeeper_tls(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if settings.zookeeper_tls and settings.election != "zookeeper":
        yield f"{given.describe('zookeeper_tls')} is used only with election = zookeeper"
    if not settings.zookeeper_tls:
        for name in given.all_chosen(_ZOOKEEPER_FILES):
            yield f"{given.describe(name)} is used only with zookeeper_tls = true"
    elif settings.zookeeper_tls_key and not settings.zookeeper_tls_certificate:
        yield f"{given.describe('zookeeper_tls_key')} also needs zookeeper_tls_certificate"


def _peer_endpoint(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if settings.peer_address in [each[1:] for each in settings.addresses]:
        yield f"{given.describe('peer_listen')} is the address of the HTTP API: choose another port"
    missing = [name for name in _PEER_TLS if not getattr(settings, name)]
    if 0 < len(missing) < len(_PEER_TLS):
        there = next(name for name in _PEER_TLS if name not in missing)
        yield f"{given.describe(there)} also needs {' and '.join(missing)}: nodes authenticate each other"


def _listeners(given: _GivenSettings) -> Iterator[str]:
    if given.is_given("listen") and given.settings.listeners:
        yield f"{given.describe('listen')} and {given.describe('listeners')}: give only one of them"


def _tls(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    chosen = [setting.name for setting in table() if setting.group == "tls" and given.is_given(setting.name)]
    if not settings.https:
        for name in chosen:
            yield f"{given.describe(name)} needs an https listener, as in listeners = https://0.0.0.0:8443"
        return
    https = given.describe("listeners")
    if settings.tls_keystore:
        for name in ("tls_certificate", "tls_key", "tls_key_password"):
            if getattr(settings, name):
                yield f"{given.describe(name)} and {given.describe('tls_keystore')}: give only one of them"
    elif not (settings.tls_certificate and settings.tls_key):
        yield f"{https} also needs tls_certificate and tls_key, or tls_keystore"
    if settings.tls_keystore_password and not settings.tls_keystore:
        yield f"{given.describe('tls_keystore_password')} is only for tls_keystore"
    if settings.tls_client_auth != "none" and not settings.tls_client_ca:
        yield f"{given.describe('tls_client_auth')} also needs tls_client_ca, the CA of the clients"
    if settings.tls_client_auth == "none":
        for name in ("tls_client_ca", "tls_principal_rules"):
            if given.is_given(name):
                yield f"{given.describe(name)} is used only with tls_client_auth = wanted or required"


def _tokens(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if settings.rules and not (settings.users or settings.jwt_jwks) and settings.tls_client_auth == "none":
        yield f"{given.describe('rules')} needs clients with names: set users, jwt_jwks or tls_client_auth"
    if settings.jwt_jwks:
        missing = [name for name in ("jwt_issuer", "jwt_audience") if not getattr(settings, name)]
        if missing:
            shown = given.describe("jwt_jwks")
            yield f"{shown} also needs {' and '.join(missing)}, or tokens for others would be valid here"
        return
    for name in given.all_chosen([setting.name for setting in table() if setting.name.startswith("jwt_")]):
        yield f"{given.describe(name)} is used only with jwt_jwks"


def _is_endpoint(url: str) -> bool:
    try:
        return bool(ENDPOINT_URL.read(url))
    except ValueError:
        return False


def _console(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if not settings.console_oidc_client_id:
        others = [setting.name for setting in table() if setting.name.startswith("console_oidc_")]
        for name in given.all_chosen(others):
            yield f"{given.describe(name)} is used only with console_oidc_client_id"
        return
    shown = given.describe("console_oidc_client_id")
    if not settings.jwt_jwks:
        yield f"{shown} also needs jwt_jwks, the issuer's keys, or its tokens would not be accepted"
    elif not (settings.console_oidc_issuer or _is_endpoint(settings.jwt_issuer)):
        yield f"{shown} also needs console_oidc_issuer, because jwt_issuer is not a URL"
    if "openid" not in settings.console_oidc_scopes.split():
        yield f"{given.describe('console_oidc_scopes')} must contain openid"
    if "*" in settings.console_oidc_origins:
        yield f"{given.describe('console_oidc_origins')} must name the origins"


def _kafka_security(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    protocol = settings.kafka_security_protocol
    if not protocol.endswith("SSL"):
        for name in given.all_chosen(_FOR_SSL):
            yield f"{given.describe(name)} is only for kafka_security_protocol = SSL or SASL_SSL"
    if not protocol.startswith("SASL"):
        for name in given.all_chosen(_FOR_SASL):
            yield f"{given.describe(name)} is only for kafka_security_protocol = SASL_SSL or SASL_PLAINTEXT"
    else:
        yield from _sasl(given)
    if settings.kafka_ssl_key_location and not settings.kafka_ssl_certificate_location:
        yield f"{given.describe('kafka_ssl_key_location')} also needs kafka_ssl_certificate_location"


def _sasl(given: _GivenSettings) -> Iterator[str]:
    settings = given.settings
    if not settings.kafka_sasl_mechanism:
        yield f"{given.describe('kafka_security_protocol')} also needs kafka_sasl_mechanism"
        return
    for mechanisms, names, needed in _FOR_MECHANISMS:
        if settings.kafka_sasl_mechanism in mechanisms:
            missing = [name for name in needed if not getattr(settings, name)]
            if missing:
                yield f"{given.describe('kafka_sasl_mechanism')} also needs {' and '.join(missing)}"
        else:
            for name in given.all_chosen(names):
                yield f"{given.describe(name)} is only for kafka_sasl_mechanism = {' or '.join(mechanisms)}"


def _audit(given: _GivenSettings) -> Iterator[str]:
    destination = given.settings.audit_log
    if given.settings.audit_required and (not destination or destination.startswith("kafka:")):
        yield f"{given.describe('audit_required')} needs an audit_log that is a file or stdout"


def _files_are_there(given: _GivenSettings) -> Iterator[str]:
    for name in _FILES:
        file = getattr(given.settings, name)
        if not file or is_http_url(file):
            continue
        if not Path(file).is_file():
            yield f"{given.describe(name)} is not a file"
        elif not os.access(file, os.R_OK):
            yield f"{given.describe(name)} cannot be read by this user"


_Check = Callable[[_GivenSettings], Iterator[str]]
_FOR_ALL: tuple[_Check, ...] = (
    *(_listeners, _tls, _tokens, _console, _encoder, _snapshots, _census, _audit),
    _files_are_there,
)
_WITHOUT_KAFKA = (_cluster_needs_kafka, *_FOR_ALL)
_WITH_KAFKA = (_election, _peer_endpoint, _kafka_security, *_FOR_ALL)
