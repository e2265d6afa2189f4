"""The image, without a container: its commands, its environment, its health check, its stages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.process import Process
from tests.support.running import ROOT, free_port, until

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
# The stages by name, with continued lines joined.
_, *_PARTS = re.split(r"^FROM \S+ AS (\S+)\n", DOCKERFILE.replace("\\\n", ""), flags=re.MULTILINE)
STAGES = dict(zip(_PARTS[::2], _PARTS[1::2], strict=True))
PACKAGES = {"registry", "registrar", "election", "snapshots"}


def words(instruction: str, stage: str = "runtime") -> list[str]:
    """Return the words of an instruction in the form of JSON."""
    (found,) = re.findall(rf"^{instruction}.*?(\[.*\])$", STAGES[stage], re.MULTILINE)
    return json.loads(found)


def environment(folder: Path, port: int) -> dict[str, str]:
    """Return the image's environment; folders and port are those of a test."""
    (instruction,) = re.findall(r"^ENV (.*)$", STAGES["runtime"], re.MULTILINE)
    given = dict(word.split("=", 1) for word in instruction.split())
    own = {"PATH": given["PATH"].replace("/opt/registrar/bin", str(Path(sys.executable).parent))}
    own["PATH"] = own["PATH"].replace("$PATH", os.environ["PATH"])
    own["REGISTRAR_DATA"] = str(folder / "data")
    own["REGISTRAR_LISTEN"] = given["REGISTRAR_LISTEN"].replace("8081", str(port))
    return given | own


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Run the image's command with its environment."""
    folder = tmp_path_factory.mktemp("container")
    process = Process("the image's command", words("CMD"), folder / "output.txt")
    process.environment = environment(folder, free_port())
    process.start()
    yield process
    process.stop()


def health(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = words("HEALTHCHECK")
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_health_check_asks_the_port_that_is_set(container: Process) -> None:
    own = dict(container.environment)
    until(lambda: health(own).returncode == 0, 60, "the container to be healthy")
    assert container.running
    assert health(own | {"REGISTRAR_LISTEN": f"0.0.0.0:{free_port()}"}).returncode == 1
    assert all(json.loads(line) for line in container.output.splitlines())


def test_each_image_that_is_for_use_is_not_root_and_holds_the_whole_product() -> None:
    for stage in ("spark", "node"):
        assert re.search(r"^USER [1-9]\d*\s*\Z", STAGES[stage], re.MULTILINE)
        source = "build-spark" if stage == "spark" else "build"
        assert f"COPY --from={source} /opt/registrar /opt/registrar" in STAGES[stage]
        assert re.search(rf"^FROM runtime AS {stage}$", DOCKERFILE, re.MULTILINE)
    copied = re.findall(r"^COPY (.*)$", STAGES["build"], re.MULTILINE)
    assert {name for line in copied for name in line.split()} >= PACKAGES
    assert list(STAGES)[-1] == "node", "the last stage is what is built without --target"


def test_nothing_of_the_image_is_for_one_architecture_only() -> None:
    assert not re.search(r"amd64|x86_64|arm64|aarch64|--platform", "".join(STAGES.values()))


def test_the_connector_of_spark_is_fetched_when_the_image_is_built() -> None:
    """The step of the build prints the jars; here they are in the cache already."""
    (cache, module) = re.findall(r"XDG_CACHE_HOME=(\S+) \S+/python -m (\S+)", STAGES["build-spark"])[0]
    assert f"ENV XDG_CACHE_HOME={cache}\n" in STAGES["spark"]
    done = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.endswith(".jar")]) == 4
