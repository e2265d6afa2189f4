"""The registry's HTTP API as an ASGI application."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from itertools import groupby

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.domain.errors import NOT_FOUND, RegistryError
from registry.domain.parsing import Parser

from . import target
from .answers import STANDARD_HEADERS, Answer, error_body, refusal
from .backend import ApiSettings, Backend
from .media import PRODUCED
from .resource import STATE, Disconnected, Resource, send_answer
from .routes import operations

Metrics = Callable[[], Awaitable[bytes]]

_GZIP_BYTES_MIN = 1400  # below this a body fits one packet, and compressing saves nothing
_log = logging.getLogger(__name__)


def create_app(
    backend: Backend, settings: ApiSettings | None = None, *, metrics: Metrics | None = None
) -> Starlette:
    """The whole API over ``backend``; ``metrics`` prints Prometheus' text for ``/metrics``.

    After a request, ``scope["registry"]["route"]`` holds the template of the path that served it, if any.
    """
    settings, parser = settings or ApiSettings(), Parser()
    table = sorted(operations(settings.version, metrics), key=lambda each: each.path)
    resources = [
        Resource(path, each, backend, settings, parser)
        for path, each in groupby(table, lambda each: each.path)
    ]
    # Starlette takes the first route that matches, so fixed words must come before variable parts.
    resources.sort(key=lambda each: [part.startswith("{") for part in each.path.split("/")])
    return Starlette(
        routes=[Route(each.path, each) for each in resources],
        middleware=[
            Middleware(GZipMiddleware, minimum_size=_GZIP_BYTES_MIN, compresslevel=5),
            Middleware(Border, backend=backend),
        ],
        exception_handlers={HTTPException: _framework_error},
    )


def _framework_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = NOT_FOUND.template if error.status_code == 404 else f"HTTP {error.status_code} {error.detail}"
    body = error_body(error.status_code, message)
    return Response(body, error.status_code, media_type=PRODUCED[0].decode())


class Border:
    """Outermost: decodes the target, adds the headers of every answer, and lets no exception out."""

    def __init__(self, app: ASGIApp, backend: Backend) -> None:
        self._app = app
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sender = _Sender(scope, self._backend, send)
        try:
            await self._serve(scope, receive, sender)
        except Disconnected:
            return
        except Exception:
            _log.exception("unexpected error in %s %s", scope["method"], scope.get("path"))
            if sender.started:
                raise
            await send_answer(_INTERNAL_ERROR, PRODUCED[0], scope["method"] == "HEAD", sender)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = scope.get("raw_path") or scope["path"].encode()
        try:
            wanted = target.parse(raw_path.partition(b"?")[0], scope.get("query_string", b""))
            wanted = target.in_context(scope["method"], wanted)
        except RegistryError as error:
            await send_answer(refusal(error), PRODUCED[0], scope["method"] == "HEAD", send)
            return
        scope["path"], scope["root_path"] = wanted.path, ""
        scope[STATE]["query"] = wanted.query
        await self._app(scope, receive, send)


_INTERNAL_ERROR = Answer(error_body(500, "Internal Server Error"), 500)


class _Sender:
    """Adds the headers that every answer has."""

    def __init__(self, scope: Scope, backend: Backend, send: Send) -> None:
        self.started = False
        self._send = send
        self._state = scope[STATE] = {"offset": backend.applied()}
        given = [value.strip() for name, value in scope["headers"] if name == b"x-request-id"]
        alone = len(given) == 1 and given[0]
        self._request_id = given[0] if alone else str(uuid.uuid4()).encode()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = list(message["headers"])
            names = {name for name, _ in headers}
            headers += (each for each in STANDARD_HEADERS if each[0] not in names)
            headers.append((b"x-request-id", self._request_id))
            headers.append((b"x-registry-offset", b"%d" % self._state["offset"]))
            message = {**message, "headers": headers}
        await self._send(message)
