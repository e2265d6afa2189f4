"""Waits for Kafka that are told at once: a server that never answers would otherwise look like a hang."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.process import Process
from registry.observe import waiting
from tests.running import ROOT, free_port, until

# Less than the time after which the commands give up, which is told too.
TOLD_S = 25.0


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """Return the address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("snapshot list", "registrar: waiting for Kafka at {}, at most 5 s"),
        ("snapshot build", "registrar: waiting for Kafka at {}, at most 30 s"),
        ("serve --readers 0", "waiting for Kafka at {}; there is no store yet, so nothing is served"),
    ],
)
def test_that_kafka_is_waited_for_is_told(command: str, told: str, silent: str, tmp_path: Path) -> None:
    verb, *flags = command.split(" --")
    words = [*verb.split(), *(word for flag in flags for word in f"--{flag}".split())]
    if verb == "serve":
        words += ["--listen", f"127.0.0.1:{free_port()}"]
    line = [sys.executable, "-m", "registry", *words, "--kafka", silent, "--data", str(tmp_path / "data")]
    process = Process(command, line, tmp_path / "output.txt")
    process.environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    process.start()
    try:
        until(lambda: told.format(silent) in process.output, TOLD_S, "the line")
        assert process.running
        assert "does not answer" not in process.output
    finally:
        process.kill()


def test_it_is_told_in_the_first_second() -> None:
    assert waiting.TELL_AFTER_S < 1
