"""The HTTP server of the public port, the same for readers and for a node without readers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

from registry.api.answers import common_headers
from registry.api.app import details_of
from registry.api.backend import ApiSettings
from registry.api.browsers import Cors
from registry.api.response_headers import ResponseHeaders
from registry.base.config.addresses import ListenAddress
from registry.base.observe.metrics import Observed
from registry.http1.request import Header, Limits
from registry.http1.server import Server
from registry.http1.service import App, FastPath, Tls


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
        return extra.applied((*common_headers(request, applied()), *cors.headers(request)))

    return Server(
        app,
        limits=limits,
        fast_path=fast_path,
        observe=observed,
        details_of=details_of,
        common_headers=headers,
    )


async def start_listening(
    server: Server, listeners: Iterable[tuple[ListenAddress, socket.socket]], tls: Tls | None
) -> None:
    """Let ``server`` serve all ``listeners``, those with https by ``tls``."""
    for address, listener in listeners:
        await server.start(listener, tls if address.scheme == "https" else None)
