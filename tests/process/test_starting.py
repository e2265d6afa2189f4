"""Children that cannot be started, and what a registry says of its start and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.local.node import Node
from tests.support.running import ROOT, Registry, children_of, until

ENDED_S = 30.0


RAISE_LIMIT = """
import resource, sys
from registry.base.processes.sockets import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
print(allow_open_files(1000))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("allowed", "limit", "warned"),
    [
        (4096, 1512, ""),
        (1200, 1200, "a process may open 1200 files, and connections_max = 1000 needs 1512: raise the limit"),
    ],
)
def test_the_limit_of_open_files_is_raised_to_what_connections_need(
    allowed: int, limit: int, warned: str
) -> None:
    words = [sys.executable, "-c", RAISE_LIMIT, str(allowed)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
    warning, raised = done.stdout.splitlines()
    assert int(raised) == limit
    assert warning.startswith(warned)
    assert bool(warning) == bool(warned)


# Runs a registry that can start no process while the file exists that the first argument names.
RUN_WITHOUT_FORKS = """
import errno, os, sys
fork, forbidden = os.fork, sys.argv.pop(1)
def fork_if_allowed():
    if os.path.exists(forbidden):
        raise OSError(errno.EAGAIN, "")
    return fork()
os.fork = fork_if_allowed
from registry.__main__ import main
sys.exit(main())
"""


def node_without_forks(forbidden: Path) -> Node:
    node = Node(forbidden.parent / "node", ["--readers", "1"])
    node.command[1:3] = ["-c", RUN_WITHOUT_FORKS, str(forbidden)]
    return node


def test_a_child_that_cannot_be_started_ends_the_parent_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "forbidden").touch()
    command = node_without_forks(tmp_path / "forbidden").command
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDED_S, check=False, cwd=ROOT)
    assert done.returncode == 1
    message = "registrar: cannot start the node: Resource temporarily unavailable: the limit of processes"
    assert done.stderr.splitlines()[-1].startswith(message)
    assert "Traceback" not in done.stderr


@pytest.mark.logs_errors(r"ended \(SIGKILL\)", "is reached .*; restarting")
def test_a_child_that_cannot_be_started_again_for_a_while_is_reported_and_comes_back(tmp_path: Path) -> None:
    forbidden = tmp_path / "forbidden"
    with node_without_forks(forbidden) as node:
        (reader,) = (pid for pid, name in children_of(node.pid).items() if name == "registry-reader")
        forbidden.touch()
        os.kill(reader, signal.SIGKILL)
        until(lambda: "cannot start the reader: Resource temp" in node.output, ENDED_S, "the message")
        forbidden.unlink()
        until(lambda: node.ask("/subjects") == (200, b"[]"), ENDED_S, "the reader to come back")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the whole output of a registry with logs in JSON and variables of others around it."""
    data = tmp_path_factory.mktemp("json") / "data"
    environment = {"REGISTRAR_METRICS_SERVICE_HOST": "10.0.0.1", "REGISTRAR_1_PORT": "tcp://10.0.0.1:80"}
    registry = Registry(data, "--readers", "1", "--log-format", "json", environment=environment).wait()
    until(lambda: " serves on " in registry.output, ENDED_S, "the registry to say that it serves")
    assert registry.stop() == 0
    return [json.loads(line) for line in registry.output.splitlines()]


def test_logs_in_json_are_json_from_start_to_end(lines: list[dict[str, Any]]) -> None:
    (served,) = (line for line in lines if "urls" in line)
    assert served["message"].endswith(f"serves on {served['urls'][0]}")
    assert {line["process"] for line in lines} >= {"parent", "node"}


def test_the_end_is_reported_in_one_line(lines: list[dict[str, Any]]) -> None:
    assert [line["process"] for line in lines if line["message"] == "stopped"] == ["parent"]
    assert lines[-1]["message"] == "stopped"


def test_variables_that_are_no_settings_are_reported_once(lines: list[dict[str, Any]]) -> None:
    (told,) = (line for line in lines if "ignored environment variables" in line["message"])
    assert told["message"].endswith(": REGISTRAR_1_PORT, REGISTRAR_METRICS_SERVICE_HOST")


@pytest.mark.logs_errors("cannot use the folder")
def test_a_refusal_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    flags = ("--log-format", "json", "--data", str(tmp_path / "file" / "data"))
    refused = Registry(tmp_path / "data", *flags)
    assert refused.process.wait(ENDED_S) == 1
    (line,) = map(json.loads, refused.output.splitlines())
    assert line["message"].startswith("cannot use the folder")
