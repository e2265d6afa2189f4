"""A node that is stopped while its log does not answer: waiting writes are answered before it ends."""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx

from deploy.local.broker import Broker
from tests.support.running import Registry, until


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
