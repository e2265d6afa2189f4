"""Conversion of settings into the options of components that do not know the settings."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from registry.api.backend import ApiSettings
from registry.api.browsers import hosts_of
from registry.base.config.response_headers import parse
from registry.base.config.settings import Settings
from registry.base.observe.metrics import Observed
from registry.domain.queries.association_rules import ASSOCIATION_RULES
from registry.domain.queries.scope import Defaults
from registry.domain.schemas import described
from registry.duplicates.contract import Searches
from registry.duplicates.search_process import SearchProcesses
from registry.feed.quota import Bounds
from registry.host.tracing.configured import is_wanted, obstacle
from registry.host.tracing.contract import NO_TRACING, Tracing
from registry.http1.request import Limits
from registry.security.client_address import TrustedProxies
from registry.security.exposure import warnings
from registry.security.gate import OPEN_GATE, WatchedGate
from registry.security.policies_file import PoliciesFile
from registry.security.setting_files import FileChecks, names_files
from registry.security.sign_in import Oidc, SignIn
from registry.ui.console import Console
from registry.webhooks.destinations import Destinations
from registry.webhooks.signing import Signer

if TYPE_CHECKING:
    from registry.security.tls.expiry import ExpiryGauges
    from registry.security.tls.server_tls import ServerTls

_log = logging.getLogger(__name__)


def defaults(settings: Settings) -> Defaults:
    """Return the defaults for subjects and contexts without a config."""
    return Defaults(
        compatibility=settings.compatibility,
        validate_fields=settings.validate_fields,
        validate_new_schemas=settings.validate_new_schemas,
        mode_mutability=settings.mode_mutability,
        reject_empty_subject=settings.reject_empty_subject,
        association_rules=ASSOCIATION_RULES[settings.associations_rules],
    )


def api_settings(settings: Settings, version: str, policies: PoliciesFile) -> ApiSettings:
    """Return the options of the API."""
    return ApiSettings(
        defaults=defaults(settings),
        request_timeout_s=settings.request_timeout_s,
        compatibility_budget_s=settings.compatibility_budget_s,
        cluster_id=settings.cluster_id,
        version=version,
        cache_max_age_s=settings.cache_max_age_s,
        cluster=bool(settings.kafka),
        local_reads=settings.reads == "local",
        # The other half of the connections is left to requests.
        listeners=Bounds(max(1, settings.connections_max // 2), settings.changes_per_principal_max),
        cors_origins=_words(settings.cors_origins),
        incompatible_error_code=settings.incompatible_error_code,
        keep_rule_sets=settings.keep_rule_sets,
        response_headers=tuple(parse(settings.response_http_headers_config)),
        allowed_hosts=hosts_of(
            _words(settings.allowed_hosts), [each.host for each in settings.addresses], settings.advertise
        ),
        open_paths=settings.open_paths,
        warnings=tuple(warnings(settings)),
        trusted_proxies=_words(settings.trusted_proxies),
        sign_in=SignIn(
            required=settings.authenticates,
            basic=bool(settings.users),
            bearer=bool(settings.jwt_jwks),
            certificate=settings.tls_client_auth != "none",
            oidc=_oidc(settings),
        ),
        policies=policies.current,
        webhook_signer=Signer(settings.webhooks_secret) if settings.webhooks_secret else None,
        destinations=destinations(settings),
        history=settings.history,
    )


def destinations(settings: Settings) -> Destinations:
    """Return where webhooks may be sent."""
    return Destinations(_words(settings.webhooks_allow), plain_http=settings.webhooks_http)


def searches(settings: Settings) -> Searches:
    """Return the searches for duplicates of this host."""
    return SearchProcesses(settings)


def console(settings: Settings) -> Console | None:
    """Return what serves the console, ``None`` if it is off."""
    return Console(_origins(settings), formats=described()) if settings.console == "on" else None


def _oidc(settings: Settings) -> Oidc | None:
    if not settings.console_oidc_client_id:
        return None
    return Oidc(
        settings.console_oidc_issuer or settings.jwt_issuer,
        settings.console_oidc_client_id,
        settings.console_oidc_scopes,
        settings.console_oidc_audience,
        settings.console_oidc_token,
    )


def _origins(settings: Settings) -> tuple[str, ...]:
    """Return the origins of the issuer at which users of the console sign in."""
    oidc = _oidc(settings)
    if oidc is None:
        return ()
    parts = urlsplit(oidc.issuer)
    return (f"{parts.scheme}://{parts.netloc}", *_words(settings.console_oidc_origins))


def server_tls(settings: Settings) -> ServerTls | None:
    """Return the TLS of the https listeners, ``None`` without any. Raises :class:`FileError`.

    A certificate that has expired since the start is only logged: plain listeners and clients that do not
    check it are still served.
    """
    if not settings.https:
        return None
    from registry.security.tls.server_tls import ServerTls  # noqa: PLC0415 (its library costs time and memory)

    return ServerTls(settings, allow_expired=True)


def configured_gate(settings: Settings) -> WatchedGate:
    """Return the gate of the API. Raises :class:`FileError` if a file of users or keys cannot be used."""
    if not settings.authenticates:
        return OPEN_GATE
    from registry.security.configured_gate import ConfiguredGate  # noqa: PLC0415 (its libraries cost time and memory)

    return ConfiguredGate(settings)


def certificate_gauges(settings: Settings) -> ExpiryGauges | None:
    """Return the gauges of certificates; ``None`` if no setting names any."""
    named = (
        *(settings.https, settings.peer_tls_certificate),
        *(settings.kafka_ssl_certificate_location, settings.kafka_ssl_ca_location),
        *(settings.zookeeper_tls_certificate, settings.zookeeper_tls_ca),
    )
    if not any(named):
        return None
    from registry.security.tls.expiry import ExpiryGauges  # noqa: PLC0415 (its library costs time and memory)

    return ExpiryGauges(settings)


def file_checks(settings: Settings) -> FileChecks | None:
    """Return the checks of the files that settings name; ``None`` if they name none."""
    return FileChecks(settings) if names_files(settings) else None


def observing(settings: Settings) -> Observed:
    """Return what counts requests and writes the access log."""
    proxies = TrustedProxies(_words(settings.trusted_proxies))
    return Observed(access_log=settings.access_log, address_of=proxies.client)


def tracing(settings: Settings, process: str) -> Tracing:
    """Return the tracing of this process, ``node`` or ``reader``.

    What prevents it is logged, because the parent has refused to start if traces are required.
    """
    # The parent has logged an obstacle.
    if not is_wanted(settings.traces, os.environ) or obstacle(os.environ):
        return NO_TRACING
    from registry.host.tracing.exporter import open_tracing  # noqa: PLC0415 (an extra, and its import costs time)

    try:
        return open_tracing(process)
    except ValueError as error:
        _log.error("traces are not exported: %s; correct the variables that begin with OTEL_", error)
        return NO_TRACING


def _words(listed: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in listed.split(",") if each.strip())


def limits(settings: Settings) -> Limits:
    """Return the limits of the HTTP server."""
    # Bodies that all processes hold in memory must fit into the node's queue.
    bodies = min(Limits().bodies_bytes_max, settings.queue_bytes_max // max(1, settings.readers))
    return Limits(
        body_bytes_max=settings.request_bytes_max,
        bodies_bytes_max=max(bodies, 4 * settings.request_bytes_max),
        unread_bytes_max=max(256 << 20, 4 * settings.request_bytes_max),
        connections_max=settings.connections_max,
        header_timeout_s=settings.header_timeout_s,
        body_timeout_s=settings.body_timeout_s,
        idle_timeout_s=settings.idle_timeout_s,
    )
