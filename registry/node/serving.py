"""HTTP API in the node's own process, for hosts without readers; it serves even while the node is starting.

Imported only on such hosts, to save time and memory in nodes whose readers serve the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from registry import VERSION
from registry.api.app import create_app
from registry.api.backend import Backend
from registry.audit.log import AuditLog, recorder
from registry.base.config.settings import Settings
from registry.base.observe.metrics import Tally
from registry.base.processes.sockets import listen_on_all
from registry.feed.hub import Hub
from registry.host.public_server import public_server, start_listening
from registry.host.tracing.contract import NO_TRACING, Tracing
from registry.host.wiring import (
    api_settings,
    configured_gate,
    console,
    limits,
    observing,
    searches,
    server_tls,
)
from registry.http1.server import Server
from registry.security.gate import WatchedGate
from registry.security.policies_file import PoliciesFile
from registry.workers.pool import Pool

Metrics = Callable[[], Awaitable[bytes]]


class Serving:
    """Server for the public port, whose backend can be replaced while it runs."""

    def __init__(
        self,
        settings: Settings,
        policies: PoliciesFile,
        audit: AuditLog | None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._settings = settings
        self._tracing = tracing
        self._audit = audit
        self._of_api = api_settings(settings, VERSION, policies)
        self._observed = observing(settings)
        self._console = console(settings)
        self._server: Server | None = None
        self._gate: WatchedGate | None = None
        self._hub: Hub | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._app: ASGIApp
        self._backend: Backend

    async def over(
        self, backend: Backend, *, metrics: Metrics | None = None, pool: Pool | None = None
    ) -> None:
        """Serve ``backend`` from now on.

        Raises :class:`ListenError` if a port is not free, :class:`FileError` if certificates, or
        a file of users, keys or rules, cannot be used.
        """
        if self._gate is None:
            self._gate = configured_gate(self._settings)
        self._backend = backend
        if self._hub is not None:
            self._hub.stop()
        self._hub = Hub(backend, self._gate, self._of_api.listeners)
        self._app = create_app(
            self._tracing.backend(backend),
            self._of_api,
            metrics=metrics,
            pool=pool,
            gate=self._gate,
            audit=recorder(self._audit),
            console=self._console,
            hub=self._hub,
            searches=searches(self._settings),
        )
        if self._server is None:
            # Keep the server only if it listens, so that the next call tries again after a failure.
            tls = server_tls(self._settings)
            listeners = listen_on_all(self._settings.addresses, shared=True)
            server = public_server(
                self._tracing.app(self._serve),
                self._of_api,
                limits(self._settings),
                applied=self._applied,
                observed=self._observed,
            )
            await start_listening(server, listeners, tls)
            self._server = server
            loop = asyncio.get_running_loop()
            self._watching = [loop.create_task(self._gate.watch())]
            if tls is not None:
                self._watching.append(loop.create_task(tls.watch()))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _applied(self) -> int:
        return self._backend.applied()

    def tally(self) -> Tally:
        """Return the request counts so far."""
        connections = 0 if self._server is None else self._server.connections
        listeners, dropped = (0, 0) if self._hub is None else (self._hub.listeners, self._hub.dropped)
        return self._observed.tally(connections, listeners=listeners, dropped=dropped)

    async def stop(self, grace_s: float) -> None:
        """Stop the server; requests in progress get at most ``grace_s`` seconds to finish."""
        for task in self._watching:
            task.cancel()
        if self._hub is not None:
            self._hub.stop()
        if self._server is not None:
            await self._server.stop(grace_s)
