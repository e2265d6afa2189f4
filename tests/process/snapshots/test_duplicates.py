"""``registrar duplicates``: equal schemas of a snapshot, and of a running registry."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.process.as_confluent import as_confluent
from tests.process.snapshots.command_line import registrar
from tests.support.running import Registry
from tests.support.sample_snapshots import build, log_of, version

ONE = '{"type":"array","items":"int","x":1,"y":1}'
OTHER = '{"type":"array","items":"int","y":1,"x":1}'


def duplicates(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return registrar("duplicates", *words, "--data", str(data))


def found(data: Path, *words: str) -> list[dict[str, Any]]:
    done = duplicates(data, *words, "--json")
    groups: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == (1 if groups else 0), done.stderr
    return groups


def places(groups: list[dict[str, Any]]) -> set[frozenset[str]]:
    return {
        frozenset(f"{at['subject']} {at['version']}" for each in group["contents"] for at in each["versions"])
        for group in groups
    }


def test_a_snapshot_is_searched(tmp_path: Path) -> None:
    entries = [
        version("a", 1, 1, ONE),
        version("b", 1, 2, OTHER),
        version("c", 1, 1, ONE),
        version("d", 1, 3),
    ]
    build(tmp_path, log_of(entries))
    assert places(found(tmp_path)) == {frozenset({"a 1", "b 1", "c 1"})}
    done = duplicates(tmp_path, "latest")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert lines[0] == ["group", "type", "guid", "id", "subject", "version"]
    assert {(*line[:2], *line[3:]) for line in lines[1:]} == {
        ("1", "AVRO", "1", "a", "1"), ("1", "AVRO", "1", "c", "1"), ("1", "AVRO", "2", "b", "1"),
    }  # fmt: skip
    assert done.stderr == ""  # bars are for terminals


def test_without_duplicates_the_exit_status_is_0(tmp_path: Path) -> None:
    build(tmp_path, log_of([version("a", 1, 1, ONE), version("b", 1, 1, ONE)]))
    done = duplicates(tmp_path)
    assert (done.returncode, done.stdout) == (0, "there are no duplicates\n")
    assert found(tmp_path) == []


def test_a_failed_search_has_exit_status_2(tmp_path: Path) -> None:
    manifest = build(tmp_path, log_of([version("a", 1, 1, ONE)]))
    assert "nothing listens at" in (gone := duplicates(tmp_path, "http://127.0.0.1:1")).stderr
    (tmp_path / "snapshots" / manifest.id / manifest.parts[0].name).write_bytes(b"")
    assert [each.returncode for each in (gone, duplicates(tmp_path))] == [2, 2]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Registry]:
    running = Registry(tmp_path / "data", "--readers", "1").wait()
    listed = [{"name": "E", "subject": "base", "version": 1}]
    json_texts = ('{"type":"string","title":"t"}', '{"title":"t","type":"string"}')
    using = [text.replace('"int"', '"E"') for text in (ONE, OTHER)]
    for subject, body in {
        "base": {"schema": '{"type":"enum","name":"E","symbols":["A"]}'},
        "a": {"schema": using[0], "references": listed},
        "b": {"schema": using[1], "references": listed},
        "tagged": {"schema": ONE, "metadata": {"properties": {"k": "v"}}},
        "plain": {"schema": OTHER},
        ":.x:one": {"schemaType": "JSON", "schema": json_texts[0]},
        ":.x:other": {"schemaType": "JSON", "schema": json_texts[1]},
        "deleted": {"schemaType": "JSON", "schema": json_texts[1]},
    }.items():
        url = f"{running.url}/subjects/{subject}/versions"
        httpx.post(url, json=body, timeout=60).raise_for_status()
    httpx.delete(f"{running.url}/subjects/deleted", timeout=60).raise_for_status()
    yield running
    assert running.stop() == 0, running.output


def test_a_running_registry_is_searched_and_answers_as_its_snapshot(served: Registry, tmp_path: Path) -> None:
    work = tmp_path / "work"
    in_x = frozenset({":.x:one 1", ":.x:other 1"})
    assert places(live := found(work, served.url)) == {frozenset({"a 1", "b 1"}), in_x}
    assert registrar("snapshot", "build", "--data", str(served.data)).returncode == 0
    assert found(served.data) == live
    with as_confluent(served.url, guids=False) as proxied:
        assert found(work, proxied.url) == live
    assert places(found(work, served.url, "--subject-prefix", "a")) == set()
    assert places(found(work, served.url, "--subject-prefix", ":.x:")) == {in_x}
    assert in_x | {"deleted 1"} in places(found(work, served.url, "--deleted"))
