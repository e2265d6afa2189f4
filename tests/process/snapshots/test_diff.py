"""``registrar snapshot diff``: additions, removals and changes between snapshots and running registries."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from registry.cli.client.connect import Connection
from registry.cli.client.resources import Unreachable
from registry.cli.promotion.streams import RegistryStreams
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import Entry
from registry.domain.model import TOP, Subject
from registry.domain.queries.scope import Defaults
from snapshots.backup.diff import Difference
from snapshots.backup.diff_sources import LiveSide
from snapshots.backup.verbs import print_json_array
from snapshots.format.manifest import Manifest
from snapshots.format.stored import UnusableSnapshot
from tests.process.as_confluent import as_confluent
from tests.process.snapshots.command_line import registrar
from tests.process.test_reseed import register
from tests.support.running import Registry, free_port
from tests.support.sample_snapshots import build, log_of, version


def run(data: Path, *words: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return registrar("snapshot", "diff", *words, "--data", str(data), *options)


def found(data: Path, *words: str) -> list[dict[str, Any]]:
    done = run(data, *words, options=["--json"])
    assert done.returncode in (0, 1), done.stderr
    listed = json.loads(done.stdout)
    assert bool(listed) == bool(done.returncode)
    return list(listed)


def config(name: str, level: str) -> Entry:
    scope = Subject.parse(name)
    return Entry(records.config_key(scope), subject_values.config_value(scope, {"compatibilityLevel": level}))


def mode(name: str, mode: str) -> Entry:
    scope = Subject.parse(name)
    return Entry(records.mode_key(scope), subject_values.mode_value(scope, mode))


def delete_mark(name: str, upto: int) -> Entry:
    scope = Subject.parse(name)
    return Entry(records.delete_subject_key(scope), values.delete_subject_value(scope, upto))


OLD = [
    version("kept", 1, 1),
    version("kept", 2, 2, '"long"'),
    version("deleted", 1, 3),
    version("gone", 1, 4),
    version("gone", 2, 5, '"long"'),
    version("other", 1, 6),
    version("d", 1, 1, context=".c"),
    config("kept", "FULL"),
    config("gone", "NONE"),
    mode("kept", "READONLY"),
]
NEW = [
    delete_mark("deleted", 1),
    Entry(records.schema_key(Subject.parse("gone"), 1), None),
    Entry(records.schema_key(Subject.parse("gone"), 2), None),
    Entry(records.config_key(Subject.parse("gone")), None),
    version("kept", 3, 7, '"double"'),
    version("added", 1, 8),
    version("other", 1, 6, '"string"'),
    config("kept", "BACKWARD"),
    mode("", "READONLY"),
]


def snapshots(data: Path) -> tuple[Manifest, Manifest]:
    log = log_of([*OLD, *NEW])
    return build(data, log, len(OLD)), build(data, log)


def test_what_differs_is_reported(tmp_path: Path) -> None:
    old, new = snapshots(tmp_path)
    told = {
        (each["change"], each["what"], each["name"], each.get("version"))
        for each in found(tmp_path, old.id, "latest")
    }
    assert told == {
        ("changed", "config", "kept", None),
        ("removed", "config", "gone", None),
        ("added", "mode", "", None),
        ("added", "subject", "added", None),
        ("added", "version", "added", 1),
        ("added", "version", "kept", 3),
        ("removed", "subject", "gone", None),
        ("removed", "version", "gone", 1),
        ("removed", "version", "gone", 2),
        ("changed", "version", "deleted", 1),
        ("changed", "version", "other", 1),
    }
    told_back = {(each["change"], each["name"]) for each in found(tmp_path, new.id, old.id)}
    assert ("removed", "added") in told_back
    assert ("added", "gone") in told_back


def test_it_is_reported_in_words(tmp_path: Path) -> None:
    old, new = snapshots(tmp_path)
    done = run(tmp_path, old.id, new.id)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert '~ kept config: compatibilityLevel "FULL" → "BACKWARD"' in lines
    assert "~ deleted version 1: deleted false → true" in lines
    assert "- gone: versions 2" in lines
    assert '+ (top level) mode: mode "READONLY"' in lines
    same = run(tmp_path, new.id, new.id)
    assert (same.returncode, same.stdout) == (0, "no differences\n")


def test_other_offsets_and_times_are_no_difference(tmp_path: Path) -> None:
    old = build(tmp_path, log_of([*OLD, *NEW]))
    again = build(tmp_path, log_of([OLD[0], *OLD, *NEW]))
    assert found(tmp_path, old.id, again.id) == []


def test_defaults_that_are_spelled_out_are_no_difference(tmp_path: Path) -> None:
    old = build(tmp_path, log_of(OLD))
    spelled = build(tmp_path, log_of([*OLD, config("", "BACKWARD"), mode("", "READWRITE")]))
    assert TOP == Subject.parse("")
    assert found(tmp_path, old.id, spelled.id) == []


@pytest.mark.parametrize("words", [("latest", "latest"), ("20200101T000000Z-000000000001-aaaaaa", "latest")])
def test_what_cannot_be_compared_has_an_exit_code_of_its_own(tmp_path: Path, words: tuple[str, str]) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert "snapshot" in done.stderr


def test_a_damaged_snapshot_is_not_compared(tmp_path: Path) -> None:
    old, new = snapshots(tmp_path)
    (tmp_path / "snapshots" / new.id / new.parts[0].name).write_bytes(b"")
    done = run(tmp_path, old.id, new.id, options=["--json"])
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["status"] == 2


def test_json_is_whole_or_an_error_also_if_the_last_difference_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*, damaged: bool) -> Iterator[Difference]:
        yield from (Difference("added", "subject", name, None, None, None) for name in ("a", "b"))
        if damaged:
            raise UnusableSnapshot("a row cannot be read")

    with pytest.raises(UnusableSnapshot):
        print_json_array(read(damaged=True), tmp_path)
    assert capsys.readouterr().out == ""
    assert print_json_array(read(damaged=False), tmp_path) == 2
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["a", "b"]


def test_a_registry_that_cannot_be_read_leaves_nothing_open(tmp_path: Path) -> None:
    with Connection(f"http://127.0.0.1:{free_port()}").open({}) as client:
        for _ in range(2):  # a file can be open only once in a process
            with pytest.raises(Unreachable):
                LiveSide(RegistryStreams(client), tmp_path, Defaults())


def test_a_registry_that_runs_is_compared_too(tmp_path: Path) -> None:
    running = Registry(tmp_path / "data", "--readers", "1").wait()
    names = [f"s{number}" for number in range(3)]
    for name in (*names, "a/b ö", ":.c:d"):
        register(running, quote(name, safe=""), '"int"')
    httpx.put(f"{running.url}/config/s1", json={"compatibility": "FULL"}, timeout=60).raise_for_status()
    httpx.put(f"{running.url}/config/:.c:", json={"compatibility": "NONE"}, timeout=60).raise_for_status()
    httpx.delete(f"{running.url}/subjects/s2", timeout=60).raise_for_status()
    built = registrar("snapshot", "build", "--data", str(running.data))
    assert built.returncode == 0, built.stderr
    assert found(running.data, "latest", running.url) == []
    asked = httpx.get(f"{running.url}/metrics", timeout=60).text
    assert 'method="GET",route="/admin/configs"' in asked
    assert 'method="GET",route="/config/{subject}"' not in asked, "not one request for each subject"
    with as_confluent(running.url) as proxied:
        assert found(running.data, "latest", proxied.url) == [], "Confluent's has no lists of configs"
    register(running, "s0", '"int"')
    register(running, "new", '"string"')
    httpx.delete(f"{running.url}/subjects/a%2Fb%20%C3%B6", timeout=60).raise_for_status()
    httpx.delete(f"{running.url}/config/s1", timeout=60).raise_for_status()
    told = {
        (each["change"], each["what"], each["name"]) for each in found(running.data, "latest", running.url)
    }
    assert told == {
        ("removed", "config", "s1"),
        ("added", "subject", "new"),
        ("added", "version", "new"),
        ("changed", "version", "a/b ö"),
    }
    assert running.stop() == 0
    gone = run(running.data, "latest", running.url)
    assert gone.returncode == 2
    assert "nothing listens at" in gone.stderr
