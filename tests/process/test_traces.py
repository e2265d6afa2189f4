"""Traces of one host: their export at a stop, dead collectors, and what prevents traces."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from tests.support.running import PATIENT, Registry, free_port
from tests.support.trace_collector import TraceCollector

KIND = "application/vnd.schemaregistry.v1+json"
WRITE = "POST /subjects/{subject}/versions"
BY_ID = "GET /schemas/ids/{id}"
MISSING = "install the extra kafka-registrar[otel]"


def register(node: Registry, subject: str = "traced") -> None:
    url, body = f"{node.url}/subjects/{subject}/versions", {"schema": '"string"'}
    httpx.post(url, json=body, headers={"content-type": KIND}, timeout=PATIENT).raise_for_status()


def without_packages(folder: Path) -> dict[str, str]:
    """Return an environment in which OpenTelemetry is not installed."""
    (folder / "opentelemetry.py").write_text("")
    return {"PYTHONPATH": str(folder)}


def test_what_was_traced_is_exported_before_a_registry_has_stopped(tmp_path: Path) -> None:
    hour = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    with TraceCollector(tmp_path / "collector") as collector:
        environment = collector.environment_of_senders | hour
        node = Registry(tmp_path / "data", "--readers", "1", environment=environment).wait()
        register(node)
        odd = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "a client's own, without sense"}
        httpx.get(f"{node.url}/schemas/ids/1", headers=odd, timeout=PATIENT).raise_for_status()
        for probed in ("/health/live", "/health/ready?for=writes", "/_health", "/metrics"):
            httpx.get(node.url + probed, timeout=PATIENT).raise_for_status()
        assert collector.spans() == []
        assert node.stop() == 0
        spans = {each.name: each for each in collector.spans()}
        assert not [name for name in spans if "health" in name or "metrics" in name]
        request, command, append = spans[WRITE], spans["command Register"], spans["log.append"]
        assert (request.parent, command.parent, append.parent) == ("", request.id, command.id)
        assert request.process["service.name"] == "registrar"
        assert [each.process["registrar.process"] for each in (request, command)] == ["reader", "node"]
        assert spans[BY_ID].trace == "a" * 32
    assert "traces may be lost" not in node.output, node.output


@pytest.mark.logs_errors("traces may be lost")
@pytest.mark.parametrize("collector", [pytest.param("gone", marks=pytest.mark.long), "silent"])
def test_a_dead_collector_harms_nothing(tmp_path: Path, collector: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        port = silent.getsockname()[1] if collector == "silent" else free_port()
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "OTEL_BSP_MAX_QUEUE_SIZE": "4",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
        }
        node = Registry(tmp_path / "data", "--readers", "1", environment=environment).wait()
        for number in range(20):
            register(node, f"s{number}")
        assert node.ready()
        assert node.stop() == 0
    # A line a minute for each process, however many spans are lost.
    assert 1 <= node.output.count("traces may be lost, requests are served: ") <= 6


def test_required_traces_that_cannot_be_exported_prevent_the_start(tmp_path: Path) -> None:
    node = Registry(tmp_path / "data", "--traces", "otlp", environment=without_packages(tmp_path))
    assert node.process.wait(60) == 1
    assert MISSING in node.output


def test_traces_of_the_environment_that_cannot_be_exported_are_only_missed(tmp_path: Path) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    environment = without_packages(tmp_path) | endpoint
    node = Registry(tmp_path / "data", "--readers", "1", environment=environment).wait()
    register(node)
    assert node.stop() == 0
    assert "no traces are exported: " in node.output
    assert MISSING in node.output
