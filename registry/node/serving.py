"""The HTTP API in the node's own process, for hosts without readers: from before there is a node.

This is loaded only there: what serves is not worth its time and memory where readers do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from registry import VERSION
from registry.api.answers import standing
from registry.api.app import create_app
from registry.api.backend import Backend
from registry.api.cors import Cors
from registry.api.response_headers import ResponseHeaders
from registry.aside.pool import Pool
from registry.config import Settings
from registry.listening import listen
from registry.observe.observed import Observed
from registry.observe.requests import Tally

from .given import api_settings, origins
from .public import Public

Metrics = Callable[[], Awaitable[bytes]]


class Serving:
    """One port, over one backend after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cors = Cors(origins(settings))
        self._observed = Observed(access_log=settings.access_log)
        self._public: Public | None = None
        self._app: ASGIApp
        self._backend: Backend

    async def over(
        self, backend: Backend, *, metrics: Metrics | None = None, pool: Pool | None = None
    ) -> None:
        """Serve this one from now on. Raises :class:`OSError` when the port cannot be had."""
        self._backend = backend
        settings = api_settings(self._settings, VERSION)
        self._app = create_app(backend, settings, metrics=metrics, pool=pool)
        if self._public is None:
            extra = ResponseHeaders(settings.response_headers)
            self._public = Public(
                self._serve,
                self._settings,
                observed=self._observed,
                standing=lambda headers: extra.applied(
                    (*standing(headers, self._backend.applied()), *self._cors.headers(headers))
                ),
            )
            await self._public.start(listen(self._settings.host, self._settings.port, shared=True))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def tally(self) -> Tally:
        """What was counted."""
        return self._observed.tally(0 if self._public is None else self._public.connections)

    async def stop(self, grace_s: float) -> None:
        """Finish what is under way for at most ``grace_s``."""
        if self._public is not None:
            await self._public.stop(grace_s)
