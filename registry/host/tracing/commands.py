"""Spans of commands: from their arrival at a node to the reply, forwarded, and appended to the log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from urllib.parse import urlsplit

from msgspec.structs import replace
from opentelemetry.trace import Span, SpanKind

from registry.domain.commands import Outcome, Refused, Unknown
from registry.domain.pending_command import PendingCommand, Submit

from .contract import Ask
from .spans import Attributes, Spans, context_of, end, traceparent_of

# Commands of one batch whose traces show its append, because the next batch waits until they are recorded.
APPENDS_MAX = 100
_SAMPLED = 1  # bit of the flags at the end of a traceparent


def decided(spans: Spans, submit: Submit, *, from_peer: bool) -> Submit:
    """Return ``submit`` with a span from a command's arrival to its reply."""
    kind = SpanKind.SERVER if from_peer else SpanKind.INTERNAL

    def traced(pending: PendingCommand) -> None:
        span = _begin(spans, f"command {_tag(pending)}", pending, kind)
        reply = pending.reply

        def replied(outcome: Outcome) -> None:
            _end(span, outcome)
            reply(outcome)

        pending.reply = replied
        submit(pending)

    return traced


def sent(spans: Spans, ask: Ask, address: str) -> Ask:
    """Return ``ask`` with a span for each attempt."""
    server = urlsplit(address if "://" in address else f"//{address}")
    where: Attributes = {"server.address": server.hostname or "", "server.port": server.port or 0}

    async def traced(pending: PendingCommand) -> Outcome:
        span = _begin(spans, "forward", pending, SpanKind.CLIENT)
        try:
            outcome = await ask(pending)
        except BaseException as error:
            end(span, where, type(error).__name__)
            raise
        _end(span, outcome, where)
        return outcome

    return traced


@contextmanager
def appended(spans: Spans, commands: Sequence[PendingCommand]) -> Iterator[None]:
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
