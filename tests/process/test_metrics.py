"""``/metrics`` sums up the counts of all processes of the host; ``/health`` reports the node's state."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.local.process import freeze
from registry.base.observe import prometheus
from registry.base.observe.metric_table import HISTOGRAM, METRICS
from tests.process.raw import RawClient
from tests.process.test_lifecycle import alive, children
from tests.support.running import PATIENT, Registry, until

MEASURED = {each.name for each in METRICS if each.labels == ("process",)}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Run a registry for tests that do not count what others request."""
    running = Registry(tmp_path_factory.mktemp("metrics") / "data", "--readers", "2").wait()
    yield running
    running.stop()


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Registry]:
    """Run a registry that nobody has asked for anything."""
    running = Registry(tmp_path / "data", "--readers", "2").wait()
    yield running
    running.stop()


def samples(registry: Registry) -> dict[str, float]:
    """Return every sample by its name and labels."""
    answer = httpx.get(f"{registry.url}/metrics", timeout=PATIENT)
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def register(registry: Registry, subject: str) -> None:
    url = f"{registry.url}/subjects/{subject}/versions"
    httpx.post(url, json={"schema": '"string"'}, timeout=PATIENT).raise_for_status()


def test_requests_of_all_processes_are_counted(new: Registry) -> None:
    register(new, "a")
    for _ in range(20):  # Each on a separate connection, so that both readers get some.
        httpx.get(f"{new.url}/schemas/ids/1", timeout=PATIENT).raise_for_status()
        httpx.get(f"{new.url}/schemas/ids/2", timeout=PATIENT)
    with RawClient(new.port) as client:
        assert client.send(b"broken\r\n\r\n").reply().status == 400

    def all_counted() -> bool:
        found = samples(new)
        return (
            found.get("registrar_http_requests_total GET /schemas/ids/{id} 200") == 20
            and found.get("registrar_http_requests_total GET /schemas/ids/{id} 404") == 20
            and found.get("registrar_http_request_seconds_count GET /schemas/ids/{id}") == 40
            and found.get("registrar_http_requests_total none none 400") == 1
        )

    until(all_counted, 60, "the counts of both readers")


def test_the_state_of_log_and_store_is_reported(new: Registry) -> None:
    register(new, "a")
    register(new, "b")
    httpx.delete(f"{new.url}/subjects/b", timeout=PATIENT).raise_for_status()
    found = samples(new)
    node = httpx.get(f"{new.url}/node", timeout=PATIENT).json()
    assert found["registrar_log_end_offset"] == found["registrar_applied_offset"] == node["applied"] > 3
    assert found["registrar_quarantined_records"] == 0
    assert found["registrar_schemas_registered_total"] == 2
    assert found["registrar_versions live AVRO"] == found["registrar_versions soft_deleted AVRO"] == 1
    assert found["registrar_versions live JSON"] == 0
    assert found["registrar_subjects live"] == found["registrar_subjects soft_deleted"] == 1
    assert found["registrar_nodes"] == found["registrar_role primary"] == 1
    assert found["kafka_schema_registry_registered_count"] == 1
    assert found["kafka_schema_registry_deleted_count"] == 1
    assert found["kafka_schema_registry_avro_schemas_created"] == 2
    assert found["karapace_schema_reader_subjects"] == 2
    assert found["kafka_schema_registry_master_slave_role"] == 1
    assert found["registrar_store_rows"] > 4
    assert 0 < found["registrar_store_bytes"] < found["registrar_store_map_bytes"]
    assert found["registrar_writer_commands_total"] == 3
    assert found["registrar_restarts_total node"] == 0
    lags = {name for name in found if name.startswith("registrar_event_loop_lag_seconds")}
    assert lags == {f"registrar_event_loop_lag_seconds {loop}" for loop in ("node", "readers")}
    assert "registrar_heartbeat_age_seconds" not in found, "nobody else is in a group with it"


def test_the_table_of_metrics_is_what_is_served(registry: Registry) -> None:
    register(registry, "a")

    def counted() -> str:
        # The other reader reports its requests once a second; the search index is opened after the start.
        text = httpx.get(f"{registry.url}/metrics", timeout=PATIENT).text
        late = ("registrar_http_requests_total{", "registrar_search_lag_records")
        return text if all(each in text for each in late) else ""

    text = until(counted, 30, "a request to be counted")
    served = {
        family.name: (
            family.type,
            family.documentation,
            {name for each in family.samples for name in each.labels},
        )
        for family in text_string_to_metric_families(text)
    }
    expected = {
        each.name: (each.kind, each.help, {*each.labels, *(("le",) if each.kind == HISTOGRAM else ())})
        for each in METRICS
        if each.when in ("", "on Linux", "if searches are on")
    }
    assert served == expected


def test_all_processes_are_measured(registry: Registry) -> None:
    found = samples(registry)
    modules = [*children(registry).values()]
    assert found["registrar_processes node"] == modules.count("registry-node") == 1
    assert found.get("registrar_processes reader", 0) == modules.count("registry-reader")
    for kind in ("supervisor", "node"):
        assert found[f"process_resident_memory_bytes {kind}"] > 2**20
        assert found[f"process_cpu_seconds_total {kind}"] > 0
        assert 0 < found[f"process_open_fds {kind}"] < found[f"process_max_fds {kind}"]


def test_api_requests_are_counted_for_dashboards_of_others(registry: Registry) -> None:
    httpx.get(f"{registry.url}/schemas/ids/7", timeout=PATIENT)
    batch = {"requests": [{"resourceId": "none"}, {"resourceId": "none"}, {}]}
    httpx.post(f"{registry.url}/associations:batchGet", json=batch, timeout=PATIENT).raise_for_status()
    batches = "kafka_schema_registry_association_batch_"
    until(lambda: samples(registry)[f"{batches}get_failure_count"] == 1, 60, "the failure in the batch")
    by_route = "karapace_http_requests_total GET /schemas/ids/{id} 404"  # perhaps of another reader
    until(lambda: samples(registry).get(by_route) == 1, 60, "the missing id")
    found = samples(registry)
    assert found["kafka_schema_registry_api_failure_count"] >= 1
    assert found[f"{batches}get_success_count"] == 2
    assert found[f"{batches}mutate_success_count"] == found[f"{batches}mutate_failure_count"] == 0
    assert found["kafka_schema_registry_api_success_count"] > 0


@pytest.mark.logs_errors(r"the reader ended \(SIGKILL\)")
def test_counts_outlive_the_reader_that_counted(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data", "--readers", "1").wait()
    try:
        httpx.get(f"{registry.url}/schemas/ids/7", timeout=PATIENT)
        name = "registrar_http_requests_total GET /schemas/ids/{id} 404"
        until(lambda: samples(registry).get(name) == 1, 60, "the count")
        (reader,) = (pid for pid, module in children(registry).items() if module == "registry-reader")
        os.kill(reader, signal.SIGKILL)
        until(lambda: not alive(reader), 60, "the reader to end")
        until(registry.ready, 60, "the new reader")
        assert samples(registry)[name] == 1
    finally:
        registry.stop()


def test_a_node_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data", "--readers", "1").wait()
    (node,) = (pid for pid, module in children(registry).items() if module == "registry-node")
    freeze(node)
    try:
        answer = httpx.get(f"{registry.url}/health/ready", timeout=PATIENT)
        assert answer.status_code == 503
        assert ["the node does not answer" in reason for reason in answer.json()["reasons"]] == [True]
        assert httpx.get(f"{registry.url}/health/live", timeout=PATIENT).status_code == 200
        answer = httpx.get(f"{registry.url}/metrics", timeout=PATIENT)
        assert (answer.status_code, answer.json()["message"]) == (503, "This host's node does not answer")
    finally:
        os.kill(node, signal.SIGCONT)
    until(registry.ready, 60, "the node to answer")
    assert registry.stop() == 0


def test_processes_that_end_while_they_are_measured_are_left_out() -> None:
    """A page of metrics was lost when a worker ended between two looks at its folder in /proc."""
    for _ in range(100):
        ending = subprocess.Popen(("true",))
        waiting = threading.Thread(target=ending.wait)
        waiting.start()
        while ending.returncode is None:
            assert {each.name for each in prometheus.samples(ending.pid)} <= MEASURED
        waiting.join()
        assert list(prometheus.samples(ending.pid)) == []


def test_log_lines_report_a_start(registry: Registry) -> None:
    assert re.search(r"info +node +log and store opened in [\d.]+ s: log at 0, store at 0", registry.output)
