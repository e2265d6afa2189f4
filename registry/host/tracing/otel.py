"""Tracing by OpenTelemetry's SDK: spans of requests, and the wiring of those of commands."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind

from registry.api.app import details_of
from registry.api.backend import Backend
from registry.base.observe.metrics import PROBED
from registry.domain.commands import Outcome, Submitted
from registry.domain.pending_command import NO_ORIGIN, Origin, PendingCommand, Submit
from registry.http1.messages import Answer, Answered, Client, Found, Later, Request, Running
from registry.http1.service import App, FastPath, Message, Receive, Send

from .contract import Ask, Tracing
from .spans import (
    Attributes,
    Spans,
    append_span,
    end,
    requested_context,
    traceparent_of,
    with_command_spans,
    with_forward_spans,
)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OTHER = "_OTHER"  # as OpenTelemetry names methods that clients invent
_BARRIER = "read barrier"


class TracedApp:
    """An ASGI application with a span for each request but those of probes; it is the task's current one."""

    def __init__(self, app: App, spans: Spans) -> None:
        self._app = app
        self._spans = spans

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["path"] in PROBED:
            await self._app(scope, receive, send)
            return
        method = _method(scope["method"])
        span = self._spans.begin(method, requested_context(scope["headers"]), SpanKind.SERVER)
        status = 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                await self._app(scope, receive, note_status)
        finally:
            route, request_id, _, _ = details_of(scope)
            span.update_name(_name(method, route))
            end(span, _attributes(method, route, status, request_id), _failure(status))


class TracedFastPath:
    """A fast path with a span for each answer. What it leaves to the ASGI application is traced there."""

    def __init__(self, fast_path: FastPath, spans: Spans) -> None:
        self._fast_path = fast_path
        self._spans = spans

    def __call__(self, request: Request, client: Client) -> Found:
        """Answer a request, as the fast path does."""
        began = time.time_ns()
        answer = self._fast_path(request, client)
        if answer is None:
            return None
        if isinstance(answer, Answer):
            self._trace(request, answer, began)
            return answer
        if isinstance(answer, Coroutine):
            return self._running(answer, request)
        return self._later(answer, request, began)

    async def _running(self, running: Running, request: Request) -> Answer:
        """Return an answer that the application finds; its span is the task's current one meanwhile."""
        method = _method(request.method.decode("latin-1"))
        span = self._spans.begin(method, requested_context(request.headers), SpanKind.SERVER)
        route, status, request_id = "", 500, b""
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                answer = await running
            route, status, request_id = answer.route, answer.status, answer.request_id
            return answer
        finally:
            span.update_name(_name(method, route))
            end(span, _attributes(method, route, status, request_id), _failure(status))

    def _later(self, later: Later, request: Request, began: int) -> Later:
        def trace_later(answered: Answered) -> None:
            waited = time.time_ns()

            def on_answer(answer: Answer | Running | None) -> None:
                if isinstance(answer, Answer):
                    self._trace(request, answer, began, waited)
                elif answer is not None:
                    answer = self._running(answer, request)
                answered(answer)

            later(on_answer)

        return trace_later

    def _trace(self, request: Request, answer: Answer, began: int, waited: int | None = None) -> None:
        """Record the spans of an answer; ``waited``: since when it has waited at the read barrier."""
        method = _method(request.method.decode("latin-1"))
        parent = requested_context(request.headers)
        span = self._spans.begin(_name(method, answer.route), parent, SpanKind.SERVER, began)
        if waited is not None and span.is_recording():
            within = trace.set_span_in_context(span, Context())
            end(self._spans.begin(_BARRIER, within, began_ns=waited), {})
        end(
            span, _attributes(method, answer.route, answer.status, answer.request_id), _failure(answer.status)
        )


class TracedBackend:
    """A backend with a span for each wait at the read barrier; commands carry the span of their request."""

    def __init__(self, backend: Backend, spans: Spans) -> None:
        self._backend = backend
        self._spans = spans

    async def submit(self, command: Submitted, origin: Origin = NO_ORIGIN) -> Outcome:
        """Have the primary decide a command."""
        return await self._backend.submit(
            command, origin._replace(trace=traceparent_of(trace.get_current_span()))
        )

    async def confirm(self) -> bool:
        """Wait until the rows are as new as the log was at the call."""
        with self._spans.tracer.start_as_current_span(_BARRIER) as span:
            fresh = await self._backend.confirm()
            span.set_attribute("registrar.confirmed", fresh)
            return fresh

    def __getattr__(self, name: str) -> Any:
        # All other calls are the backend's own.
        return getattr(self._backend, name)


def _method(method: str) -> str:
    return method if method in _METHODS else _OTHER


def _name(method: str, route: str) -> str:
    shown = "HTTP" if method == _OTHER else method
    return f"{shown} {route}" if route else shown


def _attributes(method: str, route: str, status: int, request_id: bytes) -> Attributes:
    """Return the attributes of a request: nothing that names a subject, a principal or an address."""
    attributes: dict[str, str | int] = {
        "http.request.method": method, "registrar.request_id": request_id.decode("latin-1"),
    }  # fmt: skip
    if route:
        attributes["http.route"] = route
    if status:
        attributes["http.response.status_code"] = status
    return attributes


def _failure(status: int) -> str:
    return f"status {status}" if status >= 500 else ""


_SERVICE = "service.name"


def exported_by(exporter: SpanExporter, process: Mapping[str, str | int]) -> OtelTracing:
    """Return tracing that exports by ``exporter``; ``process``: attributes of this process.

    Raises :class:`ValueError` for environment variables that exclude one another.
    """
    resource = Resource.create(dict(process))
    if str(resource.attributes.get(_SERVICE, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({_SERVICE: "registrar"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return OtelTracing(provider)


class OtelTracing(Tracing):
    """Tracing that is on, by the spans of ``provider``."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._spans = Spans.of(provider)

    def app(self, app: Any) -> Any:
        """Wrap an ASGI application."""
        return TracedApp(app, self._spans)

    def fast_path(self, fast_path: Any) -> Any:
        """Wrap a fast path."""
        return TracedFastPath(fast_path, self._spans)

    def backend(self, backend: Any) -> Any:
        """Wrap the API's backend."""
        return TracedBackend(backend, self._spans)

    def trace_commands(self, submit: Submit, *, from_peer: bool = False) -> Submit:
        """Wrap what decides or forwards commands."""
        return with_command_spans(self._spans, submit, from_peer=from_peer)

    def trace_sending(self, ask: Ask, address: str) -> Ask:
        """Wrap what sends commands to another node."""
        return with_forward_spans(self._spans, ask, address)

    def trace_append(self, commands: Sequence[PendingCommand]) -> AbstractContextManager[None]:
        """Return a context for an append."""
        return append_span(self._spans, commands)

    async def close(self, timeout_s: float) -> None:
        """Export what is left; a collector that does not answer in time loses it."""
        # The SDK waits for up to 30 s, and a thread of the event loop's pool would keep the process so long.
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, timeout_s)
