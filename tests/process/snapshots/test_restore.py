"""``registrar snapshot restore``: the registry is the same again, and nothing else is touched."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from deploy.local.broker import Broker
from registry.domain import reseed
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import DictView
from registry.log.embedded.log import EmbeddedLog
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST, Manifest
from tests.process.snapshots.command_line import registrar
from tests.process.test_reseed import delete, killed_at_the_first_progress, opened
from tests.support.running import ROOT, Registry
from tests.support.sample_snapshots import build, log_of, rows_in, version
from tests.unit.random_logs import rows_of_log

LATEST = "latest"


@pytest.fixture
def topic(kafka: Broker) -> Iterator[str]:
    name = f"restored-{uuid4().hex[:8]}"
    yield name
    delete(kafka, name)


def command(data: Path, snapshots: Path, *flags: str) -> list[str]:
    where = ("--data", str(data), "--snapshots", str(snapshots))
    return [sys.executable, "-m", "registry", "snapshot", "restore", LATEST, *where, *flags]


def run(data: Path, snapshots: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return registrar(*command(data, snapshots, *flags)[3:])


def made(folder: Path, records: list[Record]) -> tuple[Manifest, DictView]:
    manifest = build(folder, records)
    return manifest, DictView(rows_in(Location.parse(folder / "snapshots"), manifest))


def many(count: int) -> list[Record]:
    return log_of(version(f"subject-{number}", 1, number + 1, f'"{number}"') for number in range(count))


def asked(registry: Registry, path: str) -> Any:
    answer = httpx.get(f"{registry.url}{path}", timeout=60)
    body = answer.json()
    for each in body if isinstance(body, list) else [body]:
        if isinstance(each, dict):
            each.pop("ts", None)  # A version's time is that of its record, which is a new one.
    return answer.status_code, body


def said_by(registry: Registry) -> dict[str, Any]:
    paths = (
        "/subjects?deleted=true", "/subjects", "/contexts", "/config", "/config/a?defaultToGlobal=false",
        "/mode", "/mode/b?defaultToGlobal=false", "/schemas?deleted=true&subjectPrefix=:*:",
        "/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/3", "/subjects/a/versions/2/referencedby",
        "/subjects/b/versions?deleted=true", "/subjects/:.c:d/versions/1",
    )  # fmt: skip
    return {path: asked(registry, path) for path in paths}


def filled(registry: Registry) -> None:
    def do(method: str, path: str, **body: Any) -> None:
        answer = httpx.request(method, f"{registry.url}{path}", json=body or None, timeout=60)
        assert answer.is_success, answer.text

    record = '{"type":"record","name":"R","fields":[]}'
    do("PUT", "/config", compatibility="NONE")
    do("POST", "/subjects/a/versions", schema='"int"')
    do("POST", "/subjects/a/versions", schema=record)
    reference = [{"name": "R", "subject": "a", "version": 2}]
    do("POST", "/subjects/b/versions", schema='{"type":"array","items":"R"}', references=reference)
    do("POST", "/subjects/b/versions", schema='"string"')
    do("POST", "/subjects/:.c:d/versions", schema='"long"')
    do("DELETE", "/subjects/b/versions/2")
    do("POST", "/subjects/gone/versions", schema='"double"')
    do("DELETE", "/subjects/gone")
    do("DELETE", "/subjects/gone?permanent=true")
    do("PUT", "/config/a", compatibility="FULL")
    do("PUT", "/mode/b", mode="READONLY")


def test_a_registry_that_was_restored_says_what_the_first_one_said(tmp_path: Path) -> None:
    first = Registry(tmp_path / "first", "--readers", "1").wait()
    filled(first)
    said, digest = said_by(first), asked(first, "/node")[1]["digest"]
    # The node continues: the snapshot is the state at one offset of its log.
    flags = ("--data", str(first.data), "--snapshots", str(tmp_path / "kept"))
    built = registrar("snapshot", "build", *flags)
    assert built.returncode == 0, built.stderr
    assert first.stop() == 0
    data = tmp_path / "the second's"
    done = run(data, tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    assert "verified: the log has the same" in done.stdout
    printed = [line.strip() for line in done.stdout.splitlines() if line.startswith("  registrar")]
    for internal in ("marker", "fence", "claim", "reseed", "row", "fold", "NOOP", "SCHEMA"):
        assert internal not in done.stdout
    serve, diff = (shlex.split(line) for line in printed)
    assert serve[:2] == ["registrar", "serve"]
    assert sorted(serve[2:]) == sorted(["--data", str(data), "--snapshots", str(tmp_path / "kept")])
    second = Registry(data, "--readers", "1").wait()
    assert said_by(second) == said
    assert asked(second, "/node")[1]["digest"] != digest, "timestamps are new"
    compared = registrar(*diff[1:4], second.url, *diff[5:])
    assert (diff[4], compared.returncode, compared.stdout) == ("http://127.0.0.1:8081", 0, "no differences\n")
    answer = httpx.post(f"{second.url}/subjects/new/versions", json={"schema": '"bytes"'}, timeout=60)
    assert answer.json()["id"] > 5, "no id is given twice, not even that of a schema that is gone"
    assert second.stop() == 0


def test_a_node_that_has_lost_all_but_its_snapshots_begins_with_no_empty_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    known = made(data, many(10))[0]
    lost = Registry(data)
    assert lost.process.wait(60) == 1
    assert f"there is no log in {data / 'log'}, but {data / 'snapshots'} has snapshots of one" in lost.output
    assert (
        f"the newest {known.id}. To continue with it: registrar snapshot restore --data {data}" in lost.output
    )
    assert not (data / "log").exists()
    done = registrar("snapshot", "restore", "--data", str(data))
    assert done.returncode == 0, done.stderr
    restored = Registry(data).wait()
    assert len(asked(restored, "/subjects")[1]) == 10
    assert restored.stop() == 0
    shutil.rmtree(data / "log")
    shutil.rmtree(data / "store")
    (data / "snapshots").rename(tmp_path / "away")
    empty = Registry(data).wait()
    assert asked(empty, "/subjects")[1] == []
    assert empty.stop() == 0


def test_an_older_snapshot_than_a_damaged_one_is_restored_only_by_its_id(tmp_path: Path) -> None:
    older, newer = made(tmp_path, many(10))[0], made(tmp_path, many(20))[0]
    manifest = tmp_path / "snapshots" / newer.id / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:-9])
    where = ("--data", str(tmp_path / "new"), "--snapshots", str(tmp_path / "snapshots"))
    for verb in ("restore", "verify"):
        refused = registrar("snapshot", verb, LATEST, *where)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"the latest snapshot, {newer.id}, cannot be used: its manifest" in refused.stderr
        assert f"give its id: {older.id}" in refused.stderr
    assert not (tmp_path / "new" / "log").exists()
    done = registrar("snapshot", "restore", older.id, *where)
    assert done.returncode == 0, done.stderr


def test_a_newer_snapshot_that_is_not_finished_is_passed_over_and_named(tmp_path: Path) -> None:
    older, newer = made(tmp_path, many(10))[0], made(tmp_path, many(20))[0]
    (tmp_path / "snapshots" / newer.id / MANIFEST).unlink()
    location, skipped = Location.parse(tmp_path / "snapshots"), list[str]()
    assert stored.find(location, LATEST, skipped.append).id == older.id
    assert len(skipped) == 1
    assert skipped[0].startswith(f"{newer.id} is passed over")
    (tmp_path / "snapshots" / older.id / MANIFEST).write_text("{")
    made(tmp_path, many(30))
    assert stored.find(location, LATEST, skipped.append).offset == 30
    assert len(skipped) == 1, "what is older does not matter"


def test_trying_only_writes_nothing(tmp_path: Path) -> None:
    made(tmp_path, many(10))
    tried = run(tmp_path / "new", tmp_path / "snapshots", "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "does not exist; it would be created" in tried.stdout
    assert not (tmp_path / "new" / "log").exists()


def test_an_empty_snapshot_is_only_restored_on_request(tmp_path: Path) -> None:
    made(tmp_path, [])
    refused = run(tmp_path / "new", tmp_path / "snapshots")
    assert refused.returncode == 1
    assert "is empty; to write an empty state nevertheless, give --empty" in refused.stderr
    assert not (tmp_path / "new" / "log").exists()
    done = run(tmp_path / "new", tmp_path / "snapshots", "--empty")
    assert done.returncode == 0, done.stderr


def test_a_snapshot_of_a_former_release_is_restored(tmp_path: Path) -> None:
    manifest, _ = made(tmp_path, many(10))
    location = Location.parse(tmp_path / "snapshots")
    for made_by, status in ((FOLD_VERSION + 1, 1), (FOLD_VERSION - 1, 0)):
        location.write(f"{manifest.id}/{MANIFEST}", manifest._replace(fold=made_by).dumps())
        done = run(tmp_path / "new", tmp_path / "snapshots")
        assert done.returncode == status, done.stderr
    assert "verified: the log has the same" in done.stdout


def test_a_log_that_is_not_empty_is_refused_with_what_clashes(tmp_path: Path) -> None:
    made(tmp_path, many(10))
    with closing(EmbeddedLog(tmp_path / "new" / "log")) as log:
        log.append([version("subject-3", 1, 4, '"other"'), version("elsewhere", 1, 7, '"mine"')])
    for flags in (["--dry-run"], []):
        refused = run(tmp_path / "new", tmp_path / "snapshots", *flags)
        assert refused.returncode == 1
        assert "is not empty" in refused.stderr
        assert "Choose another folder with --data" in refused.stderr
        assert not {"delete", "Move"} & set(refused.stderr.split()), "no advice that could lose data"
        assert "conflict: version 1 of 'subject-3' is another schema there" in refused.stdout
        assert "conflict: id 4 in the context . is another schema there" in refused.stdout
        assert "conflict: id 7 in the context . is another schema there" in refused.stdout
    with closing(EmbeddedLog(tmp_path / "new" / "log")) as log:
        assert log.query_end(1) == 2


def test_a_damaged_snapshot_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    manifest, _ = made(tmp_path, many(10))
    part = tmp_path / "snapshots" / manifest.id / manifest.parts[0].name
    part.write_bytes(part.read_bytes()[:-8])
    refused = run(tmp_path / "new", tmp_path / "snapshots")
    assert refused.returncode == 1
    assert manifest.parts[0].name in refused.stderr
    assert not (tmp_path / "new" / "log").exists()


# In make test, tests/process/test_reseed.py kills what writes to Kafka, and a test below interrupts this.
@pytest.mark.long
def test_it_goes_on_where_it_was_killed_on_kafka(kafka: Broker, topic: str, tmp_path: Path) -> None:
    count = 15_000
    _, rows = made(tmp_path, many(count))
    flags = ("--kafka", kafka.address, "--topic", topic)
    new = tmp_path / "new"
    for _ in range(10):
        killed_at_the_first_progress(command(new, tmp_path / "snapshots", *flags))
        with closing(opened(kafka, topic)) as log:
            there = log.query_end(30)
        if there < count:
            break
        delete(kafka, topic)  # It was finished before the kill.
    assert 0 < there < count
    done = run(new, tmp_path / "snapshots", *flags)
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"holds {there} of these records" in done.stdout
    with closing(opened(kafka, topic)) as log:
        assert log.query_end(30) == count + 1
        assert list(reseed.differences(rows, rows_of_log(log))) == []
    again = run(new, tmp_path / "snapshots", *flags)
    assert again.returncode == 0, again.stderr
    assert "already holds all of it" in again.stdout
    assert not {each.name for each in new.iterdir()} & {"restoring", "log"}


def test_a_topic_that_is_not_empty_is_left_as_it_is(kafka: Broker, topic: str, tmp_path: Path) -> None:
    made(tmp_path, many(10))
    with closing(opened(kafka, topic)) as log:
        log.claim()
        log.append([version("elsewhere", 1, 7, '"mine"')])
        end = log.query_end(30)
        refused = run(tmp_path / "new", tmp_path / "snapshots", "--kafka", kafka.address, "--topic", topic)
        assert refused.returncode == 1
        assert "conflict: id 7 in the context . is another schema there" in refused.stdout
        assert "Choose another topic with --topic" in refused.stderr
        assert "elete" not in refused.stderr, "no advice that could lose data"
        assert log.query_end(30) == end


def test_interrupted_it_says_how_to_go_on(tmp_path: Path) -> None:
    made(tmp_path, many(3000))
    for turn in range(10):
        with subprocess.Popen(
            command(tmp_path / f"new{turn}", tmp_path / "snapshots"),
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("snapshot "):
                    os.kill(process.pid, signal.SIGINT)
                    break
            _, said = process.communicate(timeout=60)
        if process.returncode:
            break  # Otherwise it was finished before the signal.
    assert process.returncode == 130
    assert "interrupted; run the same command again" in said
