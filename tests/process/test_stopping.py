"""A node that is stopped while its log does not answer: who waits for a write is told before it ends."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import httpx
import pytest

from deploy.local.broker import Broker
from tests.running import Registry, until


@pytest.mark.parametrize("readers", ["0", "1"])
def test_writes_that_wait_for_a_log_that_stands_still_are_answered_before_the_node_ends(
    kafka: Broker, tmp_path: Path, readers: str
) -> None:
    node = Registry(
        tmp_path / "node",
        *("--kafka", kafka.address, "--topic", f"stopping-{readers}", "--election", "static"),
        *("--readers", readers),
    )
    replies: list[httpx.Response] = []
    writers: list[threading.Thread] = []

    def write(number: int) -> None:
        body = {"schema": f'{{"type":"record","name":"R","doc":"{number}","fields":[]}}'}
        # Whoever came last may find that nobody listens any more.
        with contextlib.suppress(httpx.TransportError):
            replies.append(httpx.post(f"{node.url}/subjects/s{number}/versions", json=body, timeout=30))

    def waiting() -> int:
        writers.append(threading.Thread(target=write, args=(len(writers),)))
        writers[-1].start()
        text = httpx.get(f"{node.url}/metrics", timeout=30).text
        lines = [line for line in text.splitlines() if line.startswith("registrar_writes_waiting ")]
        return int(float(lines[0].split()[1])) if lines else 0

    try:
        node.wait()
        write(-1)
        assert replies.pop().status_code == 200
        kafka.freeze()
        told_of = until(waiting, 30, "writes to wait behind one that the log does not answer")
        node.process.terminate()
        for each in writers:
            each.join(30)
        node.process.wait(15)
    finally:
        kafka.thaw()
        node.kill()
    assert len(replies) > told_of, "one is with the log, and the others wait behind it"
    assert len(replies) >= len(writers) - 1
    for reply in replies:
        assert reply.status_code in (500, 503), reply.text
        assert reply.json()["error_code"] in (50002, 50003), reply.text
