"""A registry that is stopped while its log, its clients, or the takers of its entries are slow."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from deploy.local.broker import Broker
from tests.process.raw import RawClient
from tests.support.narrow_pipe import drain, narrow_pipe
from tests.support.receiver import Receiver, Reply
from tests.support.running import PATIENT, Registry, until
from tests.support.trace_collector import TraceCollector

# Less than a reader has for entries and traces after its requests.
SLOW_S = 0.8
# A machine that freezes for a second can spoil a try, but hardly all of them.
TRIES = 3
SUBJECTS = [f"{'s' * 1000}{number}" for number in range(12)]


@pytest.mark.logs_errors("cannot query Kafka for the end", "the log (is|was) closed")
def test_writes_that_wait_for_a_log_that_stands_still_are_answered_before_the_node_ends(
    kafka: Broker, tmp_path: Path
) -> None:
    node = Registry(
        tmp_path / "node",
        *("--kafka", kafka.address, "--topic", "stopping", "--election", "static"),
        *("--readers", "1"),
    )
    asked: list[HTTPConnection] = []

    def ask() -> HTTPConnection:
        """Send a write, and do not wait for the answer."""
        schema = f'{{"type":"record","name":"R","doc":"{len(asked)}","fields":[]}}'
        connection = HTTPConnection("127.0.0.1", node.port, timeout=30)
        asked.append(connection)
        connection.request("POST", f"/subjects/s{len(asked)}/versions", body=json.dumps({"schema": schema}))
        return connection

    def waiting() -> bool:
        """Send one more write; return true if several wait: one may be the next that the writer takes."""
        ask()
        text = httpx.get(f"{node.url}/metrics", timeout=30).text
        (line,) = (line for line in text.splitlines() if line.startswith("registrar_writes_waiting "))
        return float(line.split()[1]) > 1

    try:
        node.wait()
        with closing(ask()) as connection:
            assert connection.getresponse().status == 200
        asked.clear()
        kafka.freeze()
        until(waiting, 30, "writes to wait behind one that the log does not answer")
        node.process.terminate()
        for connection in asked:
            reply = connection.getresponse()
            said = reply.read()
            assert reply.status in (500, 503), said
            assert json.loads(said)["error_code"] in (50002, 50003), said
        node.process.wait(15)
    finally:
        kafka.thaw()
        node.kill()
        for connection in asked:
            connection.close()


@pytest.mark.logs_errors("has accepted no audit entry", "audit entries before the process ended")
def test_a_busy_stop_loses_nothing_though_all_that_is_left_goes_to_slow_places(tmp_path: Path) -> None:
    """A request holds a reader for as long as it may; then the audit log and the collector are slow.

    A receiver of webhooks answers only after the stop.
    """
    assert any(_nothing_is_lost(tmp_path / str(number)) for number in range(TRIES))


def _nothing_is_lost(folder: Path) -> bool:
    folder.mkdir()
    entries, delivered = folder / "entries", threading.Event()
    reading = narrow_pipe(entries)
    webhooks = {
        "REGISTRAR_WEBHOOKS_SECRET": "a secret of this test only, long enough",
        "REGISTRAR_WEBHOOKS_HTTP": "true", "REGISTRAR_WEBHOOKS_ALLOW": "localhost",
    }  # fmt: skip
    with TraceCollector(folder / "collector") as collector, Receiver() as receiver:
        receiver.usual = Reply(gate=delivered)
        at_the_end = collector.environment_of_senders | {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
        registry = Registry(
            folder / "data", "--audit-log", str(entries), environment=at_the_end | webhooks
        ).wait()
        try:
            with httpx.Client(base_url=registry.url, timeout=PATIENT) as http:
                http.put("/admin/webhooks/slow", json={"url": receiver.url}).raise_for_status()
                for subject in SUBJECTS:
                    http.post(f"/subjects/{subject}/versions", json={"schema": '"int"'}).raise_for_status()
            until(lambda: receiver.received, 30, "a delivery")
            collector.freeze()
            _stop_held_by_a_request(registry)
            threading.Event().wait(SLOW_S)
            collector.thaw()
            received = bytearray()
            while registry.process.poll() is None:
                received += drain(reading)
            received += drain(reading)
        finally:
            registry.kill()
            delivered.set()
            os.close(reading)
        recorded = [json.loads(line).get("subject") for line in received.splitlines()]
        spans = [each.name for each in collector.spans()]
        again = Registry(folder / "data", environment=webhooks).wait()
        until(lambda: {*SUBJECTS} <= {*receiver.subjects}, 30, "all events")
        assert again.stop() == 0
    writes = spans.count("POST /subjects/{subject}/versions"), spans.count("command Register")
    return {*SUBJECTS} <= {*recorded} and min(writes) >= len(SUBJECTS)


def _stop_held_by_a_request(registry: Registry) -> None:
    """Stop a registry; return when it has given up a request whose body does not arrive."""
    head = b"POST /subjects/x/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    with RawClient(registry.port) as client:
        assert client.send(head + b"Expect: 100-continue\r\n\r\n").reply().status == 100
        registry.process.send_signal(signal.SIGTERM)
        with suppress(OSError):
            assert client.rest() == b""
