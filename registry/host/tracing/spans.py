"""Spans of OpenTelemetry, and their contexts as W3C's ``traceparent``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from registry import VERSION

Attributes = Mapping[str, str | int]
# Longer headers are ignored, as invalid ones are.
_PARENT_BYTES_MAX, _STATE_BYTES_MAX = 256, 1024
_propagator = TraceContextTextMapPropagator()


class Spans(NamedTuple):
    """The spans of one process. Any thread may begin and end them."""

    tracer: Tracer

    @classmethod
    def of(cls, provider: TracerProvider) -> Spans:
        """Return the spans that ``provider`` samples and exports."""
        return cls(provider.get_tracer("registrar", VERSION))

    def begin(
        self, name: str, parent: Context, kind: SpanKind = SpanKind.INTERNAL, began_ns: int | None = None
    ) -> Span:
        """Begin a span, now or at ``began_ns`` since the epoch."""
        return self.tracer.start_span(name, parent, kind, start_time=began_ns)


def requested_context(headers: Iterable[tuple[bytes, bytes]]) -> Context:
    """Return the context in a request's headers; empty if there is none, or no valid one."""
    found, state = [], []
    for name, value in headers:
        if name == b"traceparent":
            found.append(value)
        elif name == b"tracestate":
            state.append(value)
    if len(found) != 1 or len(found[0]) > _PARENT_BYTES_MAX:
        return Context()
    more = b",".join(state)
    return context_of(
        found[0].decode("latin-1"), more.decode("latin-1") if len(more) <= _STATE_BYTES_MAX else ""
    )


def context_of(traceparent: str, tracestate: str = "") -> Context:
    """Return a context whose current span is the one that is named."""
    if not traceparent:
        return Context()
    carrier = {"traceparent": traceparent}
    if tracestate:
        carrier["tracestate"] = tracestate
    return _propagator.extract(carrier, Context())


def traceparent_of(span: Span) -> str:
    """Return how other processes name a span; empty if there is none."""
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"


def end(span: Span, attributes: Attributes, failure: str = "", ended_ns: int | None = None) -> None:
    """End a span; ``failure``: why it counts as failed."""
    if span.is_recording():
        span.set_attributes(attributes)
        if failure:
            span.set_status(Status(StatusCode.ERROR, failure))
    span.end(ended_ns)
