"""The HTTP server of the public port, the same for readers and for a node without readers."""

from __future__ import annotations

from collections.abc import Callable

from registry.api.answers import standing
from registry.api.app import route_of
from registry.api.backend import ApiSettings
from registry.api.cors import Cors
from registry.api.response_headers import ResponseHeaders
from registry.http1.exchange import App
from registry.http1.limits import Limits
from registry.http1.server import Quick, Server
from registry.observe.observed import Observed


def public_server(
    app: App,
    settings: ApiSettings,
    limits: Limits,
    *,
    applied: Callable[[], int],
    observed: Observed,
    quick: Quick = lambda _: None,
) -> Server:
    """Return the server of ``app``; must be called on its event loop.

    ``applied`` returns the offset that answers carry, ``quick`` answers what it can before ``app`` is asked.
    """
    cors, extra = Cors(settings.cors_origins), ResponseHeaders(settings.response_headers)
    return Server(
        app,
        limits=limits,
        quick=quick,
        observe=observed,
        route_of=route_of,
        standing=lambda request: extra.applied((*standing(request, applied()), *cors.headers(request))),
    )
