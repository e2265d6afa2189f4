"""Tracing by OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from registry.domain.pending_command import PendingCommand, Submit

from . import commands as command_spans
from .contract import Ask, Tracing
from .requests import TracedApp, TracedBackend, TracedFastPath
from .spans import Spans

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

    def decided(self, submit: Submit, *, from_peer: bool = False) -> Submit:
        """Wrap what decides or forwards commands."""
        return command_spans.decided(self._spans, submit, from_peer=from_peer)

    def sent(self, ask: Ask, address: str) -> Ask:
        """Wrap what sends commands to another node."""
        return command_spans.sent(self._spans, ask, address)

    def appended(self, commands: Sequence[PendingCommand]) -> AbstractContextManager[None]:
        """Return a context for an append."""
        return command_spans.appended(self._spans, commands)

    async def close(self, timeout_s: float) -> None:
        """Export what is left; a collector that does not answer in time loses it."""
        # The SDK waits for up to 30 s, and a thread of the event loop's pool would keep the process so long.
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, timeout_s)
