"""Verbs that print what changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import jsonschema
import pytest

from tests.process.cli.folder.places import Place
from tests.process.cli.running_verbs import verb, verb_process
from tests.process.security.test_authentication import SECRET
from tests.support.running import ROOT, Registry

SHAPES = ROOT / "docs" / "json"
INT, LONG = '"int"', '"long"'


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    running = Registry(tmp_path_factory.mktemp("changes") / "data", "--readers", "1").wait()
    with Place(running.url).http as http:
        for text in (INT, LONG):
            answer = http.put("/config/a", json={"compatibility": "NONE"})
            assert answer.is_success
            assert http.post("/subjects/a/versions", json={"schema": text}).is_success
        assert http.post("/subjects/b/versions", json={"schema": INT}).is_success
        assert http.delete("/subjects/a/versions/1").is_success
    yield running
    running.kill()


def checked(name: str, found: object) -> object:
    jsonschema.validate(found, json.loads((SHAPES / f"{name}.schema.json").read_text(encoding="utf-8")))
    return found


def test_changes_are_printed_from_the_beginning_to_the_end(registry: Registry) -> None:
    done = verb("changes", "--json", "--prefix", "a", "--url", registry.url)
    assert (done.status, done.err) == (0, "")
    found = [json.loads(line) for line in done.out.splitlines()]
    for each in found:
        checked("changes", each)
    kinds = ["config_set", "version_registered", "config_set", "version_registered", "version_soft_deleted"]
    assert [each["kind"] for each in found] == kinds
    only = verb("changes", "--json", "--kind", "version_soft_deleted", "--url", registry.url)
    assert [json.loads(line) for line in only.out.splitlines()] == found[-1:]
    rest = verb("changes", "--after", str(found[-2]["offset"]), "--prefix", "a", "--url", registry.url)
    [line] = rest.out.splitlines()
    assert line.split()[0] == str(found[-1]["offset"])
    assert "version_soft_deleted  a  version=1" in line
    # Zero is an offset, too.
    assert "version_registered  b" in verb("changes", "--after", "0", "--url", registry.url).out


def test_changes_that_cannot_be_had_are_reported(registry: Registry) -> None:
    unknown = verb("changes", "--kind", "nonsense", "--url", registry.url)
    assert (unknown.status, "unknown kind of event" in unknown.err) == (2, True)
    assert verb("history", "none", "--url", registry.url).status == 1


def test_the_history_of_a_subject_is_printed(registry: Registry) -> None:
    found = checked("history", verb("history", "a", "--json", "--url", registry.url).json)
    assert isinstance(found, dict)
    assert found["events"][0]["kind"] == "version_soft_deleted"
    shown = verb("history", "a", "--oldest", "--limit", "2", "--url", registry.url)
    assert [line.split()[3] for line in shown.out.splitlines()] == ["config_set", "version_registered"]
    assert "more than 2 events" in shown.err


@pytest.mark.parametrize(("recorded", "said"), [("true", "zoë"), ("false", None)])
def test_changes_and_histories_name_who_made_a_change_if_that_is_recorded(
    tmp_path: Path, recorded: str, said: str | None
) -> None:
    users = tmp_path / "users"
    users.write_text(f"zoë:{SECRET}\n")
    flags = ("--readers", "1", "--users", str(users), "--record-principals", recorded)
    running = Registry(tmp_path / "data", *flags).wait()
    try:
        body = {"schema": INT}
        login = ("zoë".encode(), b"secret")
        httpx.post(f"{running.url}/subjects/a/versions", json=body, auth=login).raise_for_status()
        own = {"REGISTRAR_URL": running.url, "REGISTRAR_USER": "zoë:secret"}
        (line,) = verb_process("changes", "--json", "--prefix", "a", **own).out.splitlines()
        assert json.loads(line).get("principal") == said
        (event,) = verb_process("history", "a", "--json", **own).json["events"]
        assert event.get("principal") == said
        assert ("principal=zoë" in verb_process("history", "a", **own).out) == (said is not None)
    finally:
        running.kill()


def test_changes_are_followed_over_a_restart(registry: Registry, tmp_path: Path) -> None:
    """Last in this module: it restarts the registry."""
    words = ("changes", "--follow", "--after", "-1", "--prefix", "later", "--url", registry.url)
    with subprocess.Popen(
        [sys.executable, "-m", "registry", *words], cwd=ROOT, env=dict(os.environ),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        with Place(registry.url).http as http:
            assert http.post("/subjects/later-1/versions", json={"schema": INT}).is_success
        assert "version_registered  later-1" in process.stdout.readline()
        registry.stop()
        assert "retrying" in process.stderr.readline()
        again = Registry(registry.data, "--readers", "1", port=registry.port).wait()
        try:
            with Place(again.url).http as http:
                assert http.post("/subjects/later-2/versions", json={"schema": INT}).is_success
            assert "version_registered  later-2" in process.stdout.readline()
        finally:
            process.terminate()
            again.kill()
