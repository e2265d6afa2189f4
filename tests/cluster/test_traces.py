"""Traces over two nodes: one for each request, through every process that it passes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple

import httpx
import pytest

from deploy.local.broker import Broker
from tests.support.running import PATIENT, Registry
from tests.support.trace_collector import Span, TraceCollector

KIND = "application/vnd.schemaregistry.v1+json"
WRITE = "POST /subjects/{subject}/versions"
FORWARDED = (WRITE, "command Register", "forward", "command Register", "log.append")
LATEST = "GET /subjects/{subject}/versions/{version}"


class Pair(NamedTuple):
    """Two nodes with a reader each, and the collector of their traces."""

    primary: Registry
    secondary: Registry
    collector: TraceCollector


@pytest.fixture(scope="module")
def pair(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("traces")
    flags = (
        *("--kafka", kafka.address, "--topic", "traces", "--group", "traces", "--replication-factor", "1"),
        *("--readers", "1", "--peer-secret", "peers of this test only", "--confirm-timeout-s", "10"),
    )
    with TraceCollector(folder / "collector") as collector:
        environment = collector.environment_of_senders | {"OTEL_SERVICE_NAME": "schemas"}
        nodes: list[Registry] = []
        try:
            for name in ("primary", "secondary"):  # the first is primary before the second joins
                node = Registry(folder / name, *flags, environment=environment)
                nodes.append(node)
                node.wait()
            yield Pair(nodes[0], nodes[1], collector)
        finally:
            for node in nodes:
                node.stop()


class Trace(NamedTuple):
    """The context of a client's span."""

    id: str
    span: str

    def headers(self, flags: str = "01") -> dict[str, str]:
        return {"traceparent": f"00-{self.id}-{self.span}-{flags}", "content-type": KIND}


def new_trace() -> Trace:
    return Trace(os.urandom(16).hex(), os.urandom(8).hex())


def register(node: Registry, subject: str, trace: Trace, flags: str = "01") -> httpx.Response:
    url = f"{node.url}/subjects/{subject}/versions"
    answer = httpx.post(url, json={"schema": '"string"'}, headers=trace.headers(flags), timeout=PATIENT)
    return answer.raise_for_status()


def process(span: Span) -> tuple[str, int]:
    return span.process["registrar.process"], span.process["process.pid"]


def test_a_write_through_a_secondary_is_one_trace_over_all_processes(pair: Pair) -> None:
    trace = new_trace()
    answer = register(pair.secondary, "forwarded", trace)
    found = pair.collector.named(trace.id, FORWARDED)
    (request,), (forward,), (append,) = found[WRITE], found["forward"], found["log.append"]
    here, there = found["command Register"]
    assert request.parent == trace.span
    assert here.parent == request.id
    assert forward.parent == here.id
    assert there.parent == forward.id
    assert append.parent == there.id
    kinds = ["SERVER", "INTERNAL", "CLIENT", "SERVER", "INTERNAL"]
    assert [each.kind for each in (request, here, forward, there, append)] == kinds
    assert [process(each)[0] for each in (request, here, there)] == ["reader", "node", "node"]
    assert process(here) == process(forward) != process(there) == process(append)
    assert len({each.process["service.instance.id"] for each in (request, here, there)}) == 3
    assert {each.process["service.name"] for each in (request, here, there)} == {"schemas"}
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/subjects/{subject}/versions",
        "http.response.status_code": 200,
        "registrar.request_id": answer.headers["x-request-id"],
    }
    assert forward.attributes["server.address"] == "127.0.0.1"
    assert {each.attributes["registrar.outcome"] for each in (here, forward, there)} == {"Done"}
    assert there.began <= append.began < append.ended <= there.ended
    assert "forwarded" not in json.dumps([each.attributes for each in pair.collector.spans(trace.id)])


def test_a_write_through_the_primary_is_appended_within_its_own_trace(pair: Pair) -> None:
    trace = new_trace()
    register(pair.primary, "direct", trace)
    found = pair.collector.named(trace.id, [WRITE, "command Register", "log.append"])
    (request,), (command,), (append,) = (found[name] for name in (WRITE, "command Register", "log.append"))
    assert (request.parent, command.parent, append.parent) == (trace.span, request.id, command.id)
    assert "forward" not in found


def test_reads_show_their_wait_at_the_read_barrier(pair: Pair) -> None:
    register(pair.primary, "waited", new_trace())
    # The first is answered by a short cut, the second by the application.
    for path, name in (
        ("/subjects/waited/versions/latest", LATEST),
        ("/subjects/waited/versions", "GET /subjects/{subject}/versions"),
    ):
        trace = new_trace()
        httpx.get(pair.secondary.url + path, headers=trace.headers(), timeout=PATIENT).raise_for_status()
        found = pair.collector.named(trace.id, [name, "read barrier"])
        (request,), (barrier,) = found[name], found["read barrier"]
        assert (request.parent, barrier.parent) == (trace.span, request.id)
        assert request.began <= barrier.began <= barrier.ended <= request.ended


def test_a_registration_that_is_repeated_is_traced_and_reaches_no_node(pair: Pair) -> None:
    register(pair.secondary, "repeated", new_trace())
    trace = new_trace()
    register(pair.secondary, "repeated", trace)
    pair.collector.named(trace.id, [WRITE, "read barrier"])
    assert {each.name for each in pair.collector.spans(trace.id)} == {WRITE, "read barrier"}


def test_a_client_that_does_not_sample_its_trace_leaves_none(pair: Pair) -> None:
    unsampled, sampled = new_trace(), new_trace()
    register(pair.secondary, "unsampled", unsampled, flags="00")
    register(pair.secondary, "sampled", sampled)
    # Every process exports its spans in their order.
    pair.collector.named(sampled.id, FORWARDED)
    assert pair.collector.spans(unsampled.id) == []
