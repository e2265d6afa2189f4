from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from registry.domain.commands import DeleteSubject, Done, Outcome, Refused, Unknown
from registry.domain.pending_command import CommandRequest, PendingCommand
from registry.host.tracing.spans import (
    APPENDS_MAX,
    Spans,
    append_span,
    context_of,
    requested_context,
    traceparent_of,
    with_command_spans,
)
from registry.log.contract import Fenced

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Spans.of(provider)


def pending(traceparent: str) -> PendingCommand:
    return PendingCommand(CommandRequest(DeleteSubject("s", False), 1.0, trace=traceparent), 1.0)


def test_a_context_has_the_same_name_in_every_process() -> None:
    span = trace.get_current_span(context_of(PARENT))
    assert traceparent_of(span) == PARENT
    assert traceparent_of(trace.get_current_span(context_of(""))) == ""


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"traceparent", b"")],
        [(b"traceparent", b"nonsense")],
        [(b"traceparent", f"00-{'0' * 32}-{SPAN}-01".encode())],
        [(b"traceparent", PARENT.encode()), (b"traceparent", PARENT.encode())],
        [(b"traceparent", PARENT.encode() + b"-" + b"0" * 300)],
        [(b"traceparent", b"\xff" * 55)],
        [(b"tracestate", b"a=b")],
    ],
)
def test_a_header_that_names_no_span_begins_a_new_trace(headers: list[tuple[bytes, bytes]]) -> None:
    assert not trace.get_current_span(requested_context(headers)).get_span_context().is_valid


def test_a_tracestate_is_kept_if_it_is_short() -> None:
    for state, kept in ((b"vendor=1", "1"), (b"vendor=" + b"1" * 2000, None)):
        headers = [(b"traceparent", PARENT.encode()), (b"tracestate", state)]
        context = trace.get_current_span(requested_context(headers)).get_span_context()
        assert f"{context.trace_id:032x}" == TRACE
        assert context.trace_state.get("vendor") == kept


def test_an_append_is_recorded_in_the_trace_of_each_command(
    spans: Spans, exporter: InMemorySpanExporter
) -> None:
    parents = [f"00-{number:032x}-{SPAN}-01" for number in (1, 2)]
    with append_span(spans, [pending(""), pending(f"00-{3:032x}-{SPAN}-00"), *map(pending, parents)]):
        assert exporter.get_finished_spans() == ()
    found = exporter.get_finished_spans()
    assert [each.context.trace_id for each in found] == [1, 2]
    assert {each.attributes["registrar.batch.commands"] for each in found} == {4}
    assert len({(each.start_time, each.end_time) for each in found}) == 1


def test_an_append_that_fails_is_recorded_as_failed(spans: Spans, exporter: InMemorySpanExporter) -> None:
    with pytest.raises(Fenced), append_span(spans, [pending(PARENT)]):
        raise Fenced("another node has claimed the log")
    (found,) = exporter.get_finished_spans()
    assert (found.status.is_ok, found.status.description) == (False, "Fenced")


def test_a_large_batch_is_recorded_in_a_bounded_number_of_traces(
    spans: Spans, exporter: InMemorySpanExporter
) -> None:
    with append_span(spans, [pending(PARENT)] * (APPENDS_MAX + 50)):
        pass
    assert len(exporter.get_finished_spans()) == APPENDS_MAX


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (Done(b"", 1), None),
        (Refused(42201, "no schema"), None),
        (Refused(50003, "no primary"), "error 50003"),
        (Unknown("lost"), "outcome unknown"),
    ],
)
def test_a_command_is_traced_until_its_reply(
    spans: Spans, exporter: InMemorySpanExporter, outcome: Outcome, failure: str | None
) -> None:
    replies: list[Outcome] = []
    command, taken = pending(PARENT), []
    command.reply = replies.append
    with_command_spans(spans, taken.append, from_peer=False)(command)
    assert taken == [command]
    assert exporter.get_finished_spans() == ()
    command.reply(outcome)
    assert replies == [outcome]
    (found,) = exporter.get_finished_spans()
    assert found.name == "command DeleteSubject"
    assert (found.parent.span_id, found.status.description) == (int(SPAN, 16), failure)
    assert command.request.trace == f"00-{TRACE}-{found.context.span_id:016x}-{found.context.trace_flags:02x}"
