"""``make cluster``: its output is correct, it tells who died, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.running import ROOT, until


def test_urls_answer_a_killed_node_is_reported_and_brought_back_and_ctrl_c_stops_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deploy.local.cluster", "--nodes", "2", "--election", "zookeeper"]
    settings = ["--queue-max", "700", "--confirm-timeout-s", "10"]
    told = tmp_path / "told.txt"
    with told.open("wb") as output:
        running = subprocess.Popen(
            [*command, "--data", str(tmp_path / "data"), "--", *settings],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until(
            lambda: running.poll() is not None or "Ctrl-C" in told.read_text(), 120, "the cluster to be told"
        )
        text = told.read_text()
        front, *nodes = re.findall(r"http://127\.0\.0\.1:\d+", text)
        assert len(nodes) == 2, text
        assert re.findall(r"process \d+, (\w+)", text).count("primary") == 1
        registered = httpx.post(f"{front}/subjects/a/versions", json={"schema": '"string"'}, timeout=60)
        assert registered.json()["id"] == 1
        for node in nodes:
            assert httpx.get(f"{node}/schemas/ids/1", timeout=60).json()["schema"] == '"string"'
        (primary,) = re.findall(r"(node-\d), process \d+, primary", text)
        (pid,) = re.findall(rf"{primary}, process (\d+)", text)
        os.kill(int(pid), signal.SIGKILL)
        ended = f"{primary} has ended (SIGKILL). To bring it back, type: start {primary}"
        until(lambda: ended in told.read_text(), 60, "the end to be told")
        until(lambda: "is the primary now" in told.read_text(), 60, "the next primary to be told")
        running.stdin.write(f"start {primary}\n".encode())
        running.stdin.flush()
        until(lambda: re.search(rf"{primary} runs .* again", told.read_text()), 60, "the node to be back")
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 0, told.read_text()
        running.stdin.close()
    assert not processes_with(tmp_path)
    assert [part.name for part in sorted((tmp_path / "data").iterdir())] == [
        *("kafka", "nginx", "node-1", "node-2", "zookeeper"),
    ]


def processes_with(folder: Path) -> list[str]:
    """Return the command lines of all processes that name ``folder``."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if str(folder) in line]
