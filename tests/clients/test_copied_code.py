"""The commands and programs that the console offers to copy, run as they are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from deploy.local.jars import java
from tests.clients.java_client import client_jars
from tests.support.running import ROOT, Served

pytestmark = pytest.mark.long

PRINTS = ROOT / "tests" / "console" / "copied_code.mjs"
PACKED = "org.apache.flink.avro.registry.confluent.shaded"
MODULES = Path(__file__).parent
SCHEMA = '{"type":"record","name":"It","fields":[{"name":"s","type":"string","doc":"it\'s \\"$(x)\\" é"}]}'
SUBJECT = "copied \"$(date)\" `x` 'y' \\ \u202e-value"


def texts(what: dict[str, object], url: str) -> dict[str, str]:
    command = ["node", PRINTS, json.dumps(what), url]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return {each["id"]: each["text"] for each in json.loads(found)}


def shell(text: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return run(["bash", "-c", text], ROOT, {"PATH": path})


def run(command: list[str | Path], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | (environment or {}), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_copied_runs_in_every_language(registry: Served, tmp_path: Path) -> None:
    body = {"schema": SCHEMA, "schemaType": "AVRO"}
    draft = texts({"kind": "draft", "subject": SUBJECT, "body": body}, registry.url)
    schema_id = json.loads(shell(draft["curl"]))["id"]
    assert "1" in shell(draft["command"])
    found = httpx.get(f"{registry.url}/schemas/ids/{schema_id}/versions").json()
    assert found == [{"subject": SUBJECT, "version": 1}]
    by_id = texts({"kind": "id", "id": schema_id, "context": "."}, registry.url)
    assert json.loads(shell(by_id["curl"]))["schema"] == SCHEMA
    assert json.loads(shell(f"{by_id['command']} --raw")) == json.loads(SCHEMA)
    code = texts({"kind": "version", "subject": SUBJECT, "version": 1}, registry.url)
    assert json.loads(shell(code["curl"]))["id"] == schema_id
    assert json.loads(shell(f"{code['command']} --raw")) == json.loads(SCHEMA)
    printed = f"{schema_id} {SCHEMA}\n"
    assert run([sys.executable, "-c", code["python"]], tmp_path) == printed
    # Not all clients escape such names in addresses.
    httpx.post(f"{registry.url}/subjects/copied-value/versions", json=body).raise_for_status()
    code = texts({"kind": "version", "subject": "copied-value", "version": 1}, registry.url)
    source = tmp_path / "Example.java"
    # The tests have Confluent's client as Flink packs it.
    source.write_text(code["java"].replace("import io.", f"import {PACKED}.io."), encoding="utf-8")
    path = os.pathsep.join(map(str, client_jars()))
    assert (
        run([java(), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", path, source], tmp_path)
        == printed
    )
    node_path = {"NODE_PATH": str(MODULES / "js" / "node_modules")}
    assert run(["node", "-e", code["javascript"]], tmp_path, node_path) == printed
    assert run_go(code["go"], tmp_path) == printed


def run_go(program: str, folder: Path) -> str:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    (folder / "main.go").write_text(program, encoding="utf-8")
    for name in ("go.mod", "go.sum"):
        shutil.copy(MODULES / "go" / name, folder)
    return run(["go", "run", "-mod=readonly", "main.go"], folder, {"GOFLAGS": ""})


def test_writes_that_are_copied_are_done(registry: Served, tmp_path: Path) -> None:
    with httpx.Client(base_url=registry.url) as client:
        client.post("/subjects/copied-base/versions", json={"schema": SCHEMA}).raise_for_status()
        for number, way in enumerate(("curl", "command")):
            for scope in (SUBJECT, ":.copied:"):
                level = {"compatibility": ("FULL", "FORWARD")[number]}
                shell(texts({"kind": "config", "scope": scope, "body": level}, registry.url)[way])
                more = {"normalize": None, "compatibilityGroup": "it's"}
                shell(texts({"kind": "config", "scope": scope, "body": more}, registry.url)[way])
                stored = client.get(f"/config/{quote(scope, safe='')}").json()
                assert (stored["compatibilityLevel"], stored["compatibilityGroup"]) == (
                    level["compatibility"], "it's",
                )  # fmt: skip
                mode = {"mode": ("READWRITE", "READONLY")[number]}
                shell(texts({"kind": "mode", "scope": scope, "body": mode}, registry.url)[way])
                assert client.get(f"/mode/{quote(scope, safe='')}").json() == mode
    user = '{"type":"record","name":"User","fields":[{"name":"it","type":"It"}]}'
    references = [{"name": "It", "subject": "copied-base", "version": 1}]
    node_path = {"NODE_PATH": str(MODULES / "js" / "node_modules")}

    def draft(subject: str, way: str) -> str:
        body = {"schema": user, "schemaType": "AVRO", "references": references}
        return texts({"kind": "draft", "subject": subject, "body": body}, registry.url)[way]

    def deletion(subject: str, version: int | None, way: str, *, permanent: bool = False) -> str:
        what = {"kind": "deletion", "subject": subject, "version": version, "permanent": permanent}
        return texts(what, registry.url)[way]

    given = run([sys.executable, "-c", draft("copied-python", "python")], tmp_path)
    assert run(["node", "-e", draft("copied-js", "javascript")], tmp_path, node_path) == given
    listed = httpx.get(f"{registry.url}/schemas/ids/{int(given)}/versions").json()
    assert {each["subject"] for each in listed} == {"copied-js", "copied-python"}
    assert run([sys.executable, "-c", deletion("copied-python", 1, "python")], tmp_path) == "1\n"
    permanent = deletion("copied-python", None, "command", permanent=True)
    assert shell(f"{permanent} --yes")
    assert run(["node", "-e", deletion("copied-js", 1, "javascript")], tmp_path, node_path) == "1\n"
    assert json.loads(shell(deletion("copied-js", None, "curl", permanent=True))) == [1]
    assert httpx.get(f"{registry.url}/schemas/ids/{int(given)}").status_code == httpx.codes.NOT_FOUND
    assert int(run_go(draft("copied-go", "go"), tmp_path)) > 0
