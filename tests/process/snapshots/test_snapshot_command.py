"""``registrar snapshot build``, ``list`` and ``verify`` as a user runs them, while a node runs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from deploy.local.broker import Broker
from registry.log.embedded.log import EmbeddedLog
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST
from tests.process.snapshots.command_line import registrar
from tests.process.test_reseed import delete, opened
from tests.support.running import ROOT
from tests.support.sample_snapshots import rows_in, version
from tests.unit.random_logs import rows_of_log


def command(data: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "registry", "snapshot", *words, "--data", str(data)]


def run(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return registrar("snapshot", *words, "--data", str(data))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as log:
        log.append([version(f"s{number}", 1, number + 1) for number in range(20)])
    return tmp_path


def test_what_was_built_is_listed_and_sound(data: Path) -> None:
    empty = run(data, "list")
    assert (empty.returncode, empty.stdout) == (
        0,
        "there are no snapshots; registrar snapshot build builds one\n",
    )
    built = run(data, "build")
    assert built.returncode == 0, built.stderr
    assert "writing the parts: 60 of 60" in built.stdout
    [listed] = json.loads(run(data, "list", "--json").stdout)
    assert (listed["state"], listed["offset"], listed["schemas"], listed["rows"]) == ("ready", 20, 20, 60)
    assert listed["id"] in built.stdout
    table = run(data, "list").stdout
    assert table.splitlines()[0].split() == [
        "id", "state", "offset", "time", "versions", "rows", "bytes", "engine", "base",
    ]  # fmt: skip
    assert listed["id"] in table
    sound = run(data, "verify")
    assert sound.returncode == 0, sound.stderr
    assert f"{listed['id']} is sound, as announced: 60 rows, digest {listed['digest']}" in sound.stdout
    manifest = stored.read(Location.parse(data / "snapshots"), listed["id"])
    assert listed["manifest"] == manifest.sha256
    replaced = manifest._replace(created_ms=manifest.created_ms + 1)
    (data / "snapshots" / manifest.id / MANIFEST).write_bytes(replaced.dumps())
    refused = run(data, "verify")
    assert refused.returncode == 1
    assert "is not the one that the catalogue announced" in refused.stderr


def test_a_bare_location_is_listed_and_verified_without_any_cluster(data: Path, tmp_path: Path) -> None:
    assert run(data, "build").returncode == 0
    (data / "snapshots").rename(tmp_path / "elsewhere")
    bare = ("--snapshots", str(tmp_path / "elsewhere"))
    new = tmp_path / "new"
    [listed] = json.loads(run(new, "list", "--json", *bare).stdout)
    assert run(new, "verify", listed["id"], *bare).returncode == 0
    for part in (tmp_path / "elsewhere" / listed["id"]).glob("part-*"):
        part.write_bytes(part.read_bytes()[1:])
    damaged = run(new, "verify", *bare)
    assert damaged.returncode == 1
    assert "part-" in damaged.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["build", "--offset", "21"], "ends at 20"),
        (["build", "--offset", "-1"], "not an offset"),
        (["build", "--snapshots", "ftp://x/y"], "begins with"),
        (["build", "--request", "nobody"], "nobody"),
        (["verify"], "there is no snapshot"),
        (["verify", "../x"], "no snapshot"),
        (["restore", "20200101T000000Z-000000000001-aaaaaa"], "has no manifest of it"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(data: Path, words: list[str], why: str) -> None:
    done = run(data, *words)
    assert done.returncode == 1, done.stdout
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_earlier_state_is_in_no_catalogue_whose_retention_would_take_it(data: Path) -> None:
    assert run(data, "build").returncode == 0
    built = run(data, "build", "--offset", "7")
    assert built.returncode == 0, built.stderr
    known = {path.stem for path in (data / "catalogue").glob("*.json")}
    newest, earlier = json.loads(run(data, "list", "--json").stdout)
    assert (newest["offset"], earlier["offset"]) == (20, 7)
    assert known == {newest["id"]}
    assert run(data, "verify", earlier["id"]).returncode == 0


def test_a_failed_build_leaves_no_entry_that_others_would_try_again(data: Path) -> None:
    (data / "snapshots").write_text("in the way")
    assert run(data, "build").returncode == 1
    (data / "snapshots").unlink()
    assert json.loads(run(data, "list", "--json").stdout) == []


def test_a_terminal_sees_a_bar(data: Path) -> None:
    screen, terminal = pty.openpty()
    with subprocess.Popen(
        command(data, "build", "--engine", "local"), cwd=ROOT, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        seen = b""
        while True:
            try:
                more = os.read(screen, 65536)
            except OSError:  # The other end is closed.
                break
            if not more:
                break
            seen += more
    os.close(screen)
    assert process.returncode == 0
    shown = seen[seen.rindex(b"writing the parts") :]
    assert b"60/60" in shown


def test_a_topic_is_built_from_without_any_node(kafka: Broker, tmp_path: Path) -> None:
    topic = f"built-{tmp_path.name.replace('_', '-')}"
    where = ("--kafka", kafka.address, "--topic", topic)
    missing = run(tmp_path, "build", *where)
    assert missing.returncode == 1
    assert f"the topic {topic} does not exist" in missing.stderr
    with closing(opened(kafka, topic)) as log:
        log.claim()
        log.append([version(f"s{number}", 1, number + 1) for number in range(3000)])
        rows = dict(rows_of_log(log).rows())
    for extends in (False, True):
        built = run(tmp_path, "build", *where)
        assert built.returncode == 0, built.stderr
        assert (" extending " in built.stdout) == extends
        location = Location.parse(tmp_path / "snapshots")
        manifest = stored.find(location, "latest")
        assert manifest.log.split("/")[1] == topic
        assert (manifest.offset, manifest.comparable_from) == (3000, 3000)
        assert dict(rows_in(location, manifest)) == rows
    assert len(json.loads(run(tmp_path, "list", "--json", *where).stdout)) == 2
    for each in (topic, f"{topic}_snapshots"):
        delete(kafka, each)
