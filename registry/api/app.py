"""The registry's HTTP API as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.domain.errors import NOT_FOUND, RegistryError
from registry.domain.parsing.parser import Parser
from registry.duplicates.contract import Searches
from registry.feed.hub import Hub
from registry.security.client_address import TrustedProxies
from registry.security.gate import OPEN_GATE, Gate, NotAdmitted
from registry.ui.console import ROUTE, Console
from registry.workers.pool import Pool

from . import auditing, request_target
from .admission import Entrance
from .answers import (
    Answer,
    Disconnected,
    Header,
    compress,
    error_body,
    refusal,
    send_answer,
    with_standard,
)
from .auditing import Audit
from .backend import ApiSettings, Backend
from .browsers import Cors, PageGuard, ResponseHeaders
from .list_slices import Lists
from .media_types import PRODUCED
from .request_context import STATE, RequestContext
from .resource import OnResults, Resource
from .routes import operations
from .search import Words
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
    index: Words | None = None,
    on_results: OnResults | None = None,
) -> Gateway:
    """The whole API over ``backend``; ``metrics`` prints Prometheus' text for ``/metrics``.

    ``gate`` admits requests. ``audit`` takes the entries of writes and refusals. ``console`` is served at
    ``/ui``. ``hub`` serves the listeners of the change feed; by default it is one of its own. ``searches``
    finds duplicates. ``index`` has the words of searches. ``on_results`` counts the results of batches.
    """
    settings = settings or ApiSettings()
    hub = hub or Hub(backend, gate, settings.listeners)
    worker_queries = WorkerQueries(Pool(settings.compatibility_budget_s))
    table = sorted(operations(settings.version, metrics, hub, searches, index), key=lambda each: each.path)
    cors = Cors(settings.cors_origins)
    lists = Lists(backend, settings.slicing)
    resources = [
        Resource(path, each, backend, settings, worker_queries, lists, on_results)
        for path, each in groupby(table, lambda each: each.path)
    ]
    guard = PageGuard(settings.allowed_hosts, settings.cors_origins)
    extra = ResponseHeaders(settings.response_headers)
    router = Router(resources)
    return Gateway(
        router,
        backend=backend,
        cors=cors,
        guard=guard,
        extra=extra,
        entrance=Entrance(gate, open_paths=settings.open_paths, sessions=settings.sessions),
        proxies=TrustedProxies(settings.trusted_proxies),
        audit=audit,
        console=console,
        router=router,
        parser=worker_queries.parser,
    )


def details_of(scope: Mapping[str, Any]) -> tuple[str, bytes, str, str]:
    """Return what is known of a request that was served.

    That is the path's template, the request id, the principal and its kind.
    """
    context: RequestContext | None = scope.get(STATE)
    if context is None:
        return "", b"", "", ""
    return context.route, context.request_id, context.principal, context.kind


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
        proxies: TrustedProxies,
        audit: Audit | None,
        console: Console | None = None,
        router: Router | None = None,
        parser: Parser | None = None,
    ) -> None:
        """Serve ``app``; ``router`` answers what the fast path hands over, and ``parser`` parses for it."""
        self.parser = parser
        self._app = app
        self._router = router
        self._proxies = proxies
        self._console = console
        self._extra = extra
        self._backend = backend
        self._cors = cors
        self._guard = guard
        self._entrance = entrance
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        context = RequestContext.of(scope, self._proxies)
        cors = self._cors.headers(context.fields, options=context.method == "OPTIONS")
        sender = _Sender(context, self._backend, cors, self._extra, send, partial(self._record, context))
        try:
            await self._serve(context, scope, receive, sender)
        except Disconnected:
            return
        except Exception:
            _log.exception("unexpected error in %s %s", scope["method"], scope.get("path"))
            if sender.started:
                raise
            await send_answer(_INTERNAL_ERROR, scope, sender)
        finally:
            if not sender.started:
                self._record(context, 0)

    async def answer(self, resource: Resource, context: RequestContext) -> Answer:
        """Return the answer to a request that the fast path has parsed, admitted and routed (:meth:`find`).

        It is whole, and lacks the headers that every answer has.
        """
        try:
            answer = await compress(await resource.answer(context), context.fields)
        except Exception:
            _log.exception("unexpected error in %s %s", context.method, context.shown_path)
            answer = _INTERNAL_ERROR
        # Before the answer is sent, so that no acknowledged write lacks its entry.
        if (recorded := self._record(context, answer.status)) is not None:
            await recorded
        return answer

    def find(self, method: str, segments: Sequence[str]) -> Route | None:
        """Return what answers a request of the fast path; ``None`` if only the application can."""
        route = None if self._router is None else self._router.find(segments)
        return route if route is not None and route.resource.takes(method) else None

    def _record(self, context: RequestContext, status: int) -> Awaitable[None] | None:
        if self._audit is None:
            return None
        found = auditing.entries(context, status)
        return self._audit(found) if found else None

    async def _serve(self, context: RequestContext, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._guard.check(context.method, context.fields)
            wanted = request_target.parse(context.raw_path, context.query)
            if self._console is not None and self._console.serves(scope, wanted.segments):
                context.route = ROUTE
                await self._console.serve(scope, wanted.segments, send)
                return
            context.target = request_target.in_context(context.method, wanted)
            if context.method != "OPTIONS":  # browsers send no credentials with a preflight
                context.admission = await self._entrance.admit(context, wanted.segments)
        except RegistryError as error:
            context.error_code = error.code
            headers = error.headers if isinstance(error, NotAdmitted) else ()
            await send_answer(refusal(error, headers), scope, send)
            return
        await self._app(scope, receive, send)


_INTERNAL_ERROR = Answer(error_body(500, "Internal Server Error"), 500, media_type=PRODUCED[0])


class _Sender:
    """Adds the headers that every answer has, and has its status recorded before it is sent."""

    def __init__(
        self,
        context: RequestContext,
        backend: Backend,
        cors: tuple[Header, ...],
        extra: ResponseHeaders,
        send: Send,
        record: Callable[[int], Awaitable[None] | None],
    ) -> None:
        self.started = False
        self._record = record
        self._extra = extra
        self._send = send
        self._backend = backend
        self._context = context
        self._cors = cors

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # Before the answer is sent, so that no acknowledged write lacks its entry.
            recorded = self._record(message["status"])
            self.started = True
            if recorded is not None:
                await recorded
            # Read after the rows: clients may require later answers to include the log up to this offset.
            offset = self._context.offset
            offset = self._backend.applied() if offset is None else offset
            headers = with_standard(message["headers"], self._context.request_id, offset)
            message = {**message, "headers": self._extra.apply([*headers, *self._cors])}
        try:
            await self._send(message)
        except OSError as error:  # raised by ASGI servers if the client has disconnected
            raise Disconnected from error


class _Leaf(NamedTuple):
    resource: Resource
    names: tuple[str, ...]  # of the path's parameters, in order


class Route(NamedTuple):
    """The resource that a path leads to, and the parameters in the path."""

    resource: Resource
    path: dict[str, str]


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
        """Call the resource."""
        context: RequestContext = scope[STATE]
        assert context.target is not None
        route = self.find(context.target.segments)
        if route is None:
            await send_answer(refusal(NOT_FOUND()), scope, send)
            return
        context.path = route.path
        await route.resource(context, scope, receive, send)

    def find(self, segments: Sequence[str]) -> Route | None:
        """Return the resource; a fixed segment takes precedence over a parameter."""
        node, values = self._tree, []
        for segment in segments:
            child = node.get(segment)
            if child is None:
                child = node.get(_VARIABLE, {})
                values.append(segment)
            node = child
        leaf = node.get(_END)
        return None if leaf is None else Route(leaf.resource, dict(zip(leaf.names, values, strict=True)))
