"""``deploy/copy.sh`` copies a registry through its API: a real one into another real one."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.running import ROOT, Registry, Served

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="copy.sh needs jq")

COPY = ROOT / "deploy" / "copy.sh"
PERSON = {"type": "record", "name": "Person", "fields": [{"name": "id", "type": "long"}]}
TEAM = {"type": "record", "name": "Team", "fields": [{"name": "lead", "type": "Person"}]}
POINT = {"type": "object", "properties": {"x": {"type": "number"}}}
PROTO = 'syntax = "proto3";\npackage p;\n\nmessage M {\n  int32 a = 1;\n}\n'
PLACE = ("id", "subject", "version", "deleted", "guid")


def ask(server: Served, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"})
    request.method = method
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def register(server: Served, subject: str, schema: object, **more: Any) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    ask(server, "POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text} | more)


def versions(server: Served) -> list[dict[str, Any]]:
    found = ask(server, "GET", "/schemas?deleted=true&subjectPrefix=:*:")
    return [{name: each[name] for name in PLACE} for each in found]


def copy(source: Served, target: Served) -> subprocess.CompletedProcess[str]:
    command = [str(COPY), f"{source.url}/", target.url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@contextmanager
def running(data: Path) -> Iterator[Registry]:
    """Start a separate registry, empty at first."""
    registry = Registry(data, "--readers", "1", "--snapshots-builder", "none")
    try:
        yield registry.wait()
    finally:
        registry.stop()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running(tmp_path_factory.mktemp("source") / "data") as source:
        # The schema that refers sorts before the one that it refers to, by name and by time of its last
        # version.
        register(source, "z/person \u00fc", PERSON)
        refers = [{"name": "Person", "subject": "z/person \u00fc", "version": 1}]
        register(source, "a-team", TEAM, references=refers)
        register(source, "point", POINT, schemaType="JSON")
        register(source, "proto", PROTO, schemaType="PROTOBUF")
        register(source, ":.other:point", POINT, schemaType="JSON")
        for text in ('"int"', '"long"', '"double"'):
            register(source, "numbers", text)
        ask(source, "DELETE", "/subjects/numbers/versions/2")
        register(source, "gone", '"string"')
        ask(source, "DELETE", "/subjects/gone")
        ask(source, "PUT", "/config", {"compatibility": "FULL"})
        ask(source, "PUT", "/config/point", {"compatibility": "NONE"})
        yield source


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Registry]:
    with running(tmp_path / "data") as target:
        yield target


def test_ids_versions_references_deletions_and_levels_are_copied(source: Registry, target: Registry) -> None:
    done = copy(source, target)
    assert done.returncode == 0, done.stderr
    assert "9 versions of 7 subjects copied" in done.stdout
    assert versions(target) == versions(source)
    assert ask(target, "GET", "/config") == {"compatibilityLevel": "FULL"}
    assert ask(target, "GET", "/config/point") == {"compatibilityLevel": "NONE"}
    assert ask(target, "GET", "/mode") == {"mode": "READWRITE"}


def test_a_registry_that_is_not_empty_is_left_alone(source: Registry, target: Registry) -> None:
    register(target, "own", '"int"')
    before = versions(target)
    done = copy(source, target)
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert (versions(target), ask(target, "GET", "/mode")) == (before, {"mode": "READWRITE"})
