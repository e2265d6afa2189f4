"""The registry's HTTP API as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.domain.errors import NOT_FOUND, RegistryError
from registry.duplicates.contract import Searches
from registry.feed.hub import Hub
from registry.security.client_address import TrustedProxies
from registry.security.gate import OPEN_GATE, Gate, Refused
from registry.ui.console import ROUTE, Console
from registry.workers.pool import Pool

from . import auditing, request_target
from .admission import Entrance
from .answers import STANDARD_HEADERS, Answer, Disconnected, error_body, refusal, request_id, send_answer
from .auditing import ERROR_CODE, Audit
from .backend import ApiSettings, Backend
from .browsers import Cors, PageGuard, ResponseHeaders
from .list_slices import Lists
from .resource import STATE, Resource
from .routes import operations
from .worker_queries import WorkerQueries

Metrics = Callable[[], Awaitable[bytes]]

_log = logging.getLogger(__name__)


def create_app(
    backend: Backend,
    settings: ApiSettings | None = None,
    *,
    metrics: Metrics | None = None,
    gate: Gate = OPEN_GATE,
    audit: Audit | None = None,
    console: Console | None = None,
    hub: Hub | None = None,
    searches: Searches | None = None,
) -> ASGIApp:
    """The whole API over ``backend``; ``metrics`` prints Prometheus' text for ``/metrics``.

    ``gate`` admits requests. ``audit`` takes the entries of writes and refusals. ``console`` is served at
    ``/ui``. ``hub`` serves the listeners of the change feed; by default it is one of its own. ``searches``
    finds duplicates.
    """
    settings = settings or ApiSettings()
    hub = hub or Hub(backend, gate, settings.listeners)
    worker_queries = WorkerQueries(Pool(settings.compatibility_budget_s))
    table = sorted(operations(settings.version, metrics, hub, searches), key=lambda each: each.path)
    cors = Cors(settings.cors_origins)
    lists = Lists(backend, settings.slicing)
    resources = [
        Resource(path, each, backend, settings, worker_queries, lists)
        for path, each in groupby(table, lambda each: each.path)
    ]
    guard = PageGuard(settings.allowed_hosts, settings.cors_origins)
    extra = ResponseHeaders(settings.response_headers)
    proxies = TrustedProxies(settings.trusted_proxies)
    entrance = Entrance(gate, open_paths=settings.open_paths, proxies=proxies)
    return Gateway(
        Router(resources),
        backend=backend,
        cors=cors,
        guard=guard,
        extra=extra,
        entrance=entrance,
        audit=audit,
        console=console,
    )


def details_of(scope: Mapping[str, Any]) -> tuple[str, bytes, str]:
    """Return the path's template, the request id and the principal of a request that was served."""
    state = scope.get(STATE, {})
    admission = state.get("admission")
    principal = "" if admission is None else admission.principal.name
    return state.get("route", ""), state.get("request_id", "").encode("latin-1"), principal


class Gateway:
    """Outermost: decodes the target, admits the request, and adds the headers of every answer.

    It lets no exception out.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        backend: Backend,
        cors: Cors,
        guard: PageGuard,
        extra: ResponseHeaders,
        entrance: Entrance,
        audit: Audit | None,
        console: Console | None = None,
    ) -> None:
        self._app = app
        self._console = console
        self._extra = extra
        self._backend = backend
        self._cors = cors
        self._guard = guard
        self._entrance = entrance
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        sender = _Sender(scope, self._backend, self._cors, self._extra, send, partial(self._record, scope))
        try:
            await self._serve(scope, receive, sender)
        except Disconnected:
            return
        except Exception:
            _log.exception("unexpected error in %s %s", scope["method"], scope.get("path"))
            if sender.started:
                raise
            await send_answer(_INTERNAL_ERROR, scope, sender)
        finally:
            if not sender.started:
                self._record(scope, 0)

    def _record(self, scope: Scope, status: int) -> Awaitable[None] | None:
        if self._audit is None:
            return None
        found = auditing.entries(scope, scope[STATE], status, self._entrance.address(scope))
        return self._audit(found) if found else None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = scope.get("raw_path") or scope["path"].encode()
        try:
            self._guard.check(scope["method"], scope["headers"])
            wanted = request_target.parse(raw_path.partition(b"?")[0], scope.get("query_string", b""))
            if self._console is not None and self._console.serves(scope, wanted.segments):
                scope[STATE]["route"] = ROUTE
                await self._console.serve(scope, wanted.segments, send)
                return
            scope[STATE]["credentials"] = partial(self._entrance.credentials, scope)
            scope[STATE]["target"] = request_target.in_context(scope["method"], wanted)
            if scope["method"] != "OPTIONS":  # browsers send no credentials with a preflight
                scope[STATE]["admission"] = await self._entrance.admit(scope, wanted.segments)
        except RegistryError as error:
            scope[STATE][ERROR_CODE] = error.code
            headers = error.headers if isinstance(error, Refused) else ()
            await send_answer(refusal(error, headers), scope, send)
            return
        await self._app(scope, receive, send)


_INTERNAL_ERROR = Answer(error_body(500, "Internal Server Error"), 500)


class _Sender:
    """Adds the headers that every answer has, and has its status recorded before it is sent."""

    def __init__(
        self,
        scope: Scope,
        backend: Backend,
        cors: Cors,
        extra: ResponseHeaders,
        send: Send,
        record: Callable[[int], Awaitable[None] | None],
    ) -> None:
        self.started = False
        self._record = record
        self._extra = extra
        self._send = send
        self._backend = backend
        self._request_id = request_id(scope["headers"])
        self._state = scope[STATE] = {"request_id": self._request_id.decode("latin-1")}
        self._cors = cors.headers(scope["headers"], options=scope["method"] == "OPTIONS")

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # Before the answer is sent, so that no acknowledged write lacks its entry.
            recorded = self._record(message["status"])
            self.started = True
            if recorded is not None:
                await recorded
            headers = list(message["headers"])
            names = {name for name, _ in headers}
            headers += (each for each in STANDARD_HEADERS if each[0] not in names)
            headers.append((b"x-request-id", self._request_id))
            # Read after the rows: clients may require later answers to include the log up to this offset.
            offset = self._state.get("offset")
            offset = self._backend.applied() if offset is None else offset
            headers.append((b"x-registry-offset", b"%d" % offset))
            headers += self._cors
            message = {**message, "headers": self._extra.applied(headers)}
        try:
            await self._send(message)
        except OSError as error:  # raised by ASGI servers if the client has disconnected
            raise Disconnected from error


class _Leaf(NamedTuple):
    resource: Resource
    names: tuple[str, ...]  # of the path's parameters, in order


_VARIABLE, _END = None, ()
# Maps a fixed segment or ``_VARIABLE`` to a subtree, and ``_END`` to a leaf.
_Tree = dict[Any, Any]


class Router:
    """All resources as one ASGI application; unknown paths are 404.

    Routes by decoded segments, because a subject may contain any character, even a slash.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._tree: _Tree = {}
        for resource in resources:
            node, names = self._tree, []
            for part in resource.path.split("/"):
                if part:
                    variable = part.startswith("{")
                    names += [part[1:-1]] if variable else []
                    node = node.setdefault(_VARIABLE if variable else part, {})
            node[_END] = _Leaf(resource, tuple(names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the resource; a fixed segment takes precedence over a parameter."""
        node, values = self._tree, []
        for segment in scope[STATE]["target"].segments:
            child = node.get(segment)
            if child is None:
                child = node.get(_VARIABLE, {})
                values.append(segment)
            node = child
        leaf = node.get(_END)
        if leaf is None:
            await send_answer(refusal(NOT_FOUND()), scope, send)
        else:
            scope["path_params"] = dict(zip(leaf.names, values, strict=True))
            await leaf.resource(scope, receive, send)
