"""The HTTP server of the public port, and what the settings say of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from registry.api.answers import common_headers
from registry.api.app import details_of
from registry.api.backend import ApiSettings
from registry.api.browsers import Cors, ResponseHeaders, hosts_of
from registry.base.config.addresses import ListenAddress
from registry.base.config.setting_types import parse_header_rules
from registry.base.config.settings import Settings
from registry.base.observe.metrics import CountsFor, Observed
from registry.domain.schemas import describe_formats
from registry.duplicates.contract import Searches
from registry.duplicates.search_process import SearchProcesses
from registry.feed.contract import Bounds
from registry.http1.messages import Header, Limits
from registry.http1.server import Server
from registry.http1.service import App, FastPath, Tls
from registry.security.client_address import TrustedProxies
from registry.security.exposure import warnings
from registry.security.gate import OPEN_GATE, Oidc, SignIn, WatchedGate
from registry.security.watched_file import PoliciesFile
from registry.ui.console import Console
from registry.webhooks.message import Signer

from .wiring import defaults, destinations, words

if TYPE_CHECKING:
    from registry.security.tls.server_tls import ServerTls


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


def api_settings(
    settings: Settings, version: str, policies: PoliciesFile, gate: WatchedGate = OPEN_GATE
) -> ApiSettings:
    """Return the options of the API behind a gate."""
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
        cors_origins=words(settings.cors_origins),
        incompatible_error_code=settings.incompatible_error_code,
        keep_rule_sets=settings.keep_rule_sets,
        response_headers=tuple(parse_header_rules(settings.response_http_headers_config)),
        allowed_hosts=hosts_of(
            words(settings.allowed_hosts), [each.host for each in settings.addresses], settings.advertise
        ),
        open_paths=settings.open_paths,
        warnings=tuple(warnings(settings)),
        trusted_proxies=words(settings.trusted_proxies),
        sessions=gate.sessions,
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


def console(settings: Settings) -> Console | None:
    """Return what serves the console, ``None`` if it is off."""
    return Console(_origins(settings), formats=describe_formats()) if settings.console == "on" else None


def searches(settings: Settings) -> Searches:
    """Return the searches for duplicates of this host."""
    return SearchProcesses(settings)


def limits(settings: Settings) -> Limits:
    """Return the limits of the HTTP server."""
    # Bodies that all processes hold in memory must fit into the node's queue.
    bodies = min(Limits().bodies_bytes_max, settings.queue_bytes_max // settings.readers)
    return Limits(
        body_bytes_max=settings.request_bytes_max,
        bodies_bytes_max=max(bodies, 4 * settings.request_bytes_max),
        unread_bytes_max=max(256 << 20, 4 * settings.request_bytes_max),
        connections_max=settings.connections_max,
        header_timeout_s=settings.header_timeout_s,
        body_timeout_s=settings.body_timeout_s,
        idle_timeout_s=settings.idle_timeout_s,
    )


def observing(settings: Settings, counts_for: CountsFor = lambda *_: None) -> Observed:
    """Return what counts requests and writes the access log; ``counts_for``: see :class:`.Observed`."""
    proxies = TrustedProxies(words(settings.trusted_proxies))
    return Observed(access_log=settings.access_log, address_of=proxies.client, counts_for=counts_for)


def public_server(
    app: App,
    settings: ApiSettings,
    limits: Limits,
    *,
    applied: Callable[[], int],
    observed: Observed,
    fast_path: FastPath = lambda *_: None,
) -> Server:
    """Return the server of ``app``; must be called on its event loop.

    ``applied`` returns the offset that answers carry, ``fast_path`` may answer a request instead of ``app``.
    """
    cors, extra = Cors(settings.cors_origins), ResponseHeaders(settings.response_headers)

    def headers(request: Iterable[Header]) -> Iterable[Header]:
        return extra.apply((*common_headers(request, applied()), *cors.headers(request)))

    return Server(
        app,
        limits=limits,
        fast_path=fast_path,
        observe=observed.__call__,  # A bound method is called in less time than an object.
        details_of=details_of,
        common_headers=headers,
    )


async def start_listening(
    server: Server, listeners: Iterable[tuple[ListenAddress, socket.socket]], tls: Tls | None
) -> None:
    """Let ``server`` serve all ``listeners``, those with https by ``tls``."""
    for address, listener in listeners:
        await server.start(listener, tls if address.scheme == "https" else None)


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
    return (f"{parts.scheme}://{parts.netloc}", *words(settings.console_oidc_origins))
