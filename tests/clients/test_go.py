"""The Go programs of docs/integrations.md, and the calls of the client that Redpanda Console uses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.integrations import REGISTRY, write
from tests.support.running import Served

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("go"), reason="Go is not installed"),
]
MODULE = Path(__file__).parent / "go"
CALLS = """\
create: 1
types: [AVRO PROTOBUF JSON]
subjects: true
versions: [1]
latest: [{subject} 1 true true]
by id: true
usages: 1
referenced by: 0
lookup: true
check: [false true]
set level: FULL
level: FULL
level: BACKWARD
reset level: done
set mode: READONLY
mode: READONLY
mode: READWRITE
reset mode: done
delete: [1]
delete permanently: [1]
refused: 404 40401
"""


def run(folder: Path, program: Path, *arguments: str) -> str:
    """Run a Go program with the pinned client, and return what it prints."""
    for name in ("go.mod", "go.sum"):
        shutil.copy(MODULE / name, folder)
    command = ["go", "run", "-mod=readonly", program, *arguments]
    environment = os.environ | {"GOFLAGS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "said"), [("main.go", 'hits-value 1 "string"'), ("confluent.go", '"string"')]
)
def test_the_programs_of_the_page(registry: Served, tmp_path: Path, name: str, said: str) -> None:
    program = write(tmp_path, f"go/{name}", {REGISTRY: registry.url})
    assert run(tmp_path, program) == f"{said}\n"


def test_every_call(registry: Served, topic: str, tmp_path: Path) -> None:
    assert run(tmp_path, MODULE / "calls.go", registry.url, topic) == CALLS.format(subject=topic)
