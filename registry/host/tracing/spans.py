"""Spans of OpenTelemetry, their contexts as W3C's ``traceparent``, and the spans of commands."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from registry import VERSION
from registry.domain.commands import Outcome, Refused, Unknown
from registry.domain.pending_command import PendingCommand, Submit

from .contract import Ask

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


# Commands of one batch whose traces show its append, because the next batch waits until they are recorded.
APPENDS_MAX = 100
_SAMPLED = 1  # bit of the flags at the end of a traceparent


def with_command_spans(spans: Spans, submit: Submit, *, from_peer: bool) -> Submit:
    """Return ``submit`` with a span from a command's arrival to its reply."""
    kind = SpanKind.SERVER if from_peer else SpanKind.INTERNAL

    def submit_traced(pending: PendingCommand) -> None:
        span = _begin(spans, f"command {_tag(pending)}", pending, kind)
        reply = pending.reply

        def on_reply(outcome: Outcome) -> None:
            _end(span, outcome)
            reply(outcome)

        pending.reply = on_reply
        submit(pending)

    return submit_traced


def with_forward_spans(spans: Spans, ask: Ask, address: str) -> Ask:
    """Return ``ask`` with a span for each attempt."""
    server = urlsplit(address if "://" in address else f"//{address}")
    where: Attributes = {"server.address": server.hostname or "", "server.port": server.port or 0}

    async def ask_traced(pending: PendingCommand) -> Outcome:
        span = _begin(spans, "forward", pending, SpanKind.CLIENT)
        try:
            outcome = await ask(pending)
        except BaseException as error:
            end(span, where, type(error).__name__)
            raise
        _end(span, outcome, where)
        return outcome

    return ask_traced


@contextmanager
def append_span(spans: Spans, commands: Sequence[PendingCommand]) -> Iterator[None]:
    """Record a span of the append within the block, for each of the commands that are traced.

    A span with links to all commands would be cheaper, but a link leads from the append to a command, and who
    looks at a slow request asks for the other direction.
    """
    began, failure = time.time_ns(), ""
    try:
        yield
    except Exception as error:
        failure = type(error).__name__
        raise
    finally:
        ended, attributes = time.time_ns(), {"registrar.batch.commands": len(commands)}
        traces = (each.request.trace for each in commands)
        for traceparent in islice(filter(_is_sampled, traces), APPENDS_MAX):
            span = spans.begin("log.append", context_of(traceparent), began_ns=began)
            end(span, attributes, failure, ended)


def _is_sampled(traceparent: str) -> bool:
    return bool(traceparent) and bool(int(traceparent[-2:], 16) & _SAMPLED)


def _begin(spans: Spans, name: str, pending: PendingCommand, kind: SpanKind) -> Span:
    """Begin a span below the one that the command carries, and let the command carry the new one."""
    request = pending.request
    span = spans.begin(name, context_of(request.trace), kind)
    pending.request = replace(request, trace=traceparent_of(span))
    return span


def _tag(pending: PendingCommand) -> str:
    return str(type(pending.command).__struct_config__.tag)


def _end(span: Span, outcome: Outcome, attributes: Attributes | None = None) -> None:
    found: dict[str, str | int] = {**(attributes or {}), "registrar.outcome": type(outcome).__name__}
    failure = ""
    match outcome:
        case Refused(code, _):
            found["registrar.error_code"] = code
            failure = f"error {code}" if str(code).startswith("5") else ""
        case Unknown():
            failure = "outcome unknown"
    end(span, found, failure)
