"""Nodes that start from snapshots: their reports, the snapshots they reject, and their rows."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import httpx
import msgspec
import pytest

from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.node.startup.progress import StartProgress, Stopped
from registry.node.startup.snapshot_loader import load_in_child
from snapshots.building.builder import build_now
from snapshots.building.task import silent
from snapshots.catalogue.open import open_catalogue
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST, Manifest, new_id
from tests.cluster.test_log_trouble import FORGETFUL, get, keys, register, status
from tests.process.node.stations import on_kafka
from tests.process.test_lifecycle import children
from tests.support.kafka_topics import make_topic
from tests.support.running import Registry, until
from tests.support.sample_snapshots import DAY_MS, about, sealed, version

WAIT_S = 60.0
ALWAYS = ("--snapshots-load-ahead", "1")
Filled = tuple[list[Manifest], tuple[int, str]]


def start(data: Path, *flags: str, readers: int = 1, port: int | None = None) -> Registry:
    return Registry(data, "--readers", str(readers), *ALWAYS, *flags, port=port)


def built(settings: Settings) -> Manifest:
    """Build a snapshot of the current log."""
    with closing(open_catalogue(settings)) as catalogue:
        return build_now(settings, catalogue, "local", silent)


def told(registry: Registry) -> dict[str, Any]:
    """Return the part of ``/health/started`` about snapshots."""
    found: dict[str, Any] = get(registry, "/health/started").json()
    return found.get("snapshot") or {}


def rows(registry: Registry) -> tuple[int, str]:
    """Return the offset and the digest of all rows."""
    found = status(registry)
    return found["applied"], found["digest"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Filled]:
    """Return a folder with a log, two snapshots of it, a tail and no store; and the right rows."""
    data = tmp_path_factory.mktemp("pattern") / "data"
    registry = start(data).wait()
    manifests = []
    for part in ("a", "b", "c"):
        for number in range(5):
            assert register(registry, f"{part}{number}").status_code == 200
        if part != "c":
            manifests.append(built(Settings(data=data)))
    wanted = rows(registry)
    assert registry.stop() == 0, registry.output
    shutil.rmtree(data / "store")
    return data, (manifests, wanted)


@pytest.fixture
def filled(pattern: tuple[Path, Filled], data: Path) -> Filled:
    """Return a copy of it for one test."""
    original, filled = pattern
    shutil.copytree(original, data)
    return filled


def test_a_node_without_a_store_starts_from_the_newest_snapshot_and_follows(
    data: Path, filled: Filled
) -> None:
    (_, newest), wanted = filled
    registry = start(data).wait()
    try:
        assert rows(registry) == wanted
        found = told(registry)
        assert (found["id"], found["loaded"], found["refused"]) == (newest.id, True, [])
        assert (found["rows_done"], found["bytes_done"]) == (newest.rows, newest.size)
        assert f"the snapshot {newest.id} was loaded in" in registry.output
        assert status(registry)["start"] == found
        until(
            lambda: f"the rows of the snapshot {newest.id} give its digest" in registry.output,
            WAIT_S,
            "proof",
        )
        assert register(registry, "later").json()["id"] > 15
        wanted = rows(registry)
        assert registry.stop() == 0, registry.output
        registry = start(data, port=registry.port).wait()
        assert rows(registry) == wanted
        assert told(registry) == {}, "a store that was kept needs none"
    finally:
        registry.stop()


def test_what_does_not_fit_is_said_and_the_next_older_one_taken(data: Path, filled: Filled) -> None:
    (older, newest), wanted = filled
    folder = data / "snapshots"
    location = Location.parse(folder)
    part = folder / newest.id / newest.parts[0].name
    part.write_bytes(part.read_bytes()[:-1])
    foreign = sealed(location, [(b"V", b"another log's")], newest.offset + 1)
    (folder / new_id(newest.offset + 2, about().created_ms, 1)).mkdir()
    registry = start(data).wait()
    try:
        assert rows(registry) == wanted
        found = told(registry)
        assert (found["id"], found["loaded"]) == (older.id, True)
        assert len(found["refused"]) == 1, "what the catalogue knows comes first"
        assert newest.id in found["refused"][0]
        assert "bytes, but its manifest says" in found["refused"][0]
        assert registry.stop() == 0, registry.output
        shutil.rmtree(data / "store")
        location.delete(older.id)
        registry = start(data, port=registry.port).wait()
        assert rows(registry) == wanted
        refused = told(registry)["refused"]
        for name, why in (
            (newest.id, "bytes, but"), (older.id, "has no manifest"), (foreign.id, "of another log"),
            (f"{newest.offset + 2:012d}", "has no manifest"),
        ):  # fmt: skip
            (sentence,) = [each for each in refused if name in each]
            assert why in sentence
            assert registry.output.count(sentence) >= 1
        assert told(registry)["id"] == ""
        assert "reading the log instead" in registry.output
        assert registry.stop() == 0, registry.output
        shutil.rmtree(data / "store")
        before = registry.output.count("is not used")
        registry = start(data, "--snapshots-load", "off", port=registry.port).wait()
        assert rows(registry) == wanted
        assert registry.output.count("is not used") == before
    finally:
        registry.stop()


def test_a_loading_process_that_dies_means_the_next_older_snapshot(data: Path, filled: Filled) -> None:
    """Such as one that the system ends for lack of memory."""
    (older, newest), _ = filled
    part = data / "snapshots" / newest.id / newest.parts[0].name
    part.unlink()
    os.mkfifo(part)  # Reading it never ends.

    class Killing(StartProgress):
        def loading(self, kill: Callable[[], None]) -> AbstractContextManager[None]:
            self.kill = kill
            return super().loading(kill)

        def on_report(self, report: dict[str, Any]) -> None:
            super().on_report(report)
            if report.get("chosen") == newest.id:
                self.kill()

    starting, folder = Killing(), data / "store" / "store-1"
    folder.parent.mkdir()
    with closing(EmbeddedLog(data / "log")) as log:
        assert load_in_child(Settings(data=data, snapshots_load_ahead=1), log, folder, 0, starting)
    assert starting.snapshot is not None
    assert (starting.snapshot.id, starting.snapshot.loaded) == (older.id, True)
    (sentence,) = starting.snapshot.refused
    assert sentence == (f"The snapshot {newest.id} is not used: the process that loaded it ended (SIGKILL)")


def test_a_node_that_starts_from_a_snapshot_says_from_where_its_history_is_complete(data: Path) -> None:
    """From there on it lists what a node lists that saw all records; compaction removed the others."""
    registry = start(data).wait()
    try:
        assert register(registry, "a").status_code == 200
        for level in ("FULL", "BACKWARD", "FULL"):
            assert httpx.put(f"{registry.url}/config/a", json={"compatibility": level}).status_code == 200
        built(Settings(data=data))
        assert register(registry, "b").status_code == 200
        assert status(registry)["history_from"] == 0
        before = events(registry, "a")
        assert registry.stop() == 0, registry.output
        with closing(EmbeddedLog(data / "log")) as log:
            while log.compact(now_ms() + DAY_MS, 0, DAY_MS):
                pass
        shutil.rmtree(data / "store")
        registry = start(data, port=registry.port).wait()
        assert told(registry)["loaded"]
        until(lambda: not filling(registry, "a"), WAIT_S, "the history to be filled from the log")
        complete = status(registry)["history_from"]
        assert history(registry, "a")["completeFrom"] == complete > 0
        after = events(registry, "a")
        assert len(after) < len(before), "compaction has removed records"
        assert all(each in before for each in after)
        assert [each for each in after if each["offset"] >= complete] == [
            each for each in before if each["offset"] >= complete
        ]
        assert registry.stop() == 0, registry.output
        registry = start(data, "--history", "false", port=registry.port).wait()
        assert status(registry)["history_from"] is None
    finally:
        registry.stop()


def history(registry: Registry, subject: str) -> dict[str, Any]:
    found: dict[str, Any] = get(registry, f"/subjects/{subject}/history").json()
    return found


def events(registry: Registry, subject: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = history(registry, subject)["events"]
    return found


def filling(registry: Registry, subject: str) -> bool:
    return bool(history(registry, subject)["filling"])


@pytest.mark.logs_errors("its rows do not match the stored digest", r"the node ended \(exit code 1\)")
def test_rows_that_turn_out_wrong_are_made_anew_without_their_snapshot(data: Path, filled: Filled) -> None:
    (older, newest), wanted = filled
    wrong = newest._replace(digest=(newest.digest + 1) % digest.MODULUS)
    (data / "snapshots" / newest.id / MANIFEST).write_bytes(wrong.dumps())
    with closing(open_catalogue(Settings(data=data))) as catalogue:
        announced = msgspec.structs.replace(catalogue.entries()[newest.id], manifest=wrong.sha256)
        catalogue.forget(newest.id)
        assert catalogue.put(announced) == announced
    registry = start(data)
    try:
        until(lambda: "do not match the stored digest" in registry.output, WAIT_S, "the fault to be found")
        until(lambda: _loaded(registry) == older.id, WAIT_S, "the node to begin anew")
        registry.wait()
        assert rows(registry) == wanted
        (sentence,) = told(registry)["refused"]
        assert newest.id in sentence
        assert "do not match the stored digest" in sentence
    finally:
        registry.stop()


def _loaded(registry: Registry) -> str:
    try:
        found: str = told(registry).get("id", "")
    except httpx.TransportError:
        return ""
    return found


class Slow:
    """A file whose reads the test permits one by one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._content = file.read_bytes()
        file.unlink()
        os.mkfifo(file)

    def give(self) -> None:
        """Let one reader have it; blocks until there is one."""
        self._file.write_bytes(self._content)

    def end(self) -> None:
        """Refuse all further reads."""
        self._file.unlink()


def test_a_node_that_loads_is_alive_and_reports_how_far_it_is(data: Path, filled: Filled) -> None:
    (_, newest), wanted = filled
    slow = Slow(data / "snapshots" / newest.id / newest.parts[0].name)
    registry = start(data, "--request-timeout-s", "5")
    giving = threading.Thread(target=slow.give, daemon=True)
    try:
        until(lambda: _loaded(registry) == newest.id, WAIT_S, "the loading to be told")
        assert get(registry, "/health/live").status_code == 200
        started = get(registry, "/health/started")
        assert started.status_code == 503
        assert started.headers["retry-after"]
        assert f"loading the snapshot {newest.id}: 0 of {newest.rows} rows" in started.json()["reasons"][0]
        assert (started.json()["snapshot"]["rows_done"], started.json()["snapshot"]["loaded"]) == (0, False)
        assert get(registry, "/health/ready").status_code == 503
        for path in ("/subjects", "/subjects/a0/versions/latest", "/admin/snapshots", "/metrics"):
            refused = get(registry, path)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1"), path
            assert "still reading the log" in refused.text, path
        assert register(registry, "early").status_code in (500, 503)
        giving.start()
        registry.wait()
        assert rows(registry) == wanted, "what was refused was not done"
        assert told(registry)["loaded"]
        assert register(registry, "later").status_code == 200
        assert "the connection to the node is broken" not in registry.output
        assert "Traceback" not in registry.output
    finally:
        registry.stop()


@pytest.mark.logs_errors(r"the node ended \(SIGKILL\)")
def test_a_node_that_is_killed_while_it_loads_takes_the_loading_with_it(data: Path, filled: Filled) -> None:
    (_, newest), wanted = filled
    slow = Slow(data / "snapshots" / newest.id / newest.parts[0].name)
    registry = start(data)
    giving = threading.Thread(target=slow.give, daemon=True)
    try:
        until(lambda: _loaded(registry) == newest.id, WAIT_S, "the loading to be told")
        until((data / "store" / "store-1.new").exists, WAIT_S, "the store to be begun")
        assert not (data / "store" / "current").exists()
        (node,) = [pid for pid, module in children(registry).items() if module == "registry-node"]
        (loader,) = _children_of(node)
        os.kill(node, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{loader}").exists(), WAIT_S, "the loading to end")
        giving.start()
        registry.wait()
        assert rows(registry) == wanted
        assert len(list((data / "store").glob("store-*"))) == 1, "what it left is cleared away"
    finally:
        registry.stop()


def test_a_node_that_is_asked_to_stop_while_it_loads_leaves_nothing_half_made(
    data: Path, filled: Filled
) -> None:
    (_, newest), _ = filled
    slow = Slow(data / "snapshots" / newest.id / newest.parts[0].name)
    registry = start(data)
    try:
        until(lambda: _loaded(registry) == newest.id, WAIT_S, "the loading to be told")
        (node,) = [pid for pid, module in children(registry).items() if module == "registry-node"]
        (loader,) = _children_of(node)
        assert registry.stop() == 0, registry.output
        assert not Path(f"/proc/{loader}").exists()
        assert list((data / "store").glob("store-*")) == []
        assert "not used" not in registry.output, "the snapshot is as good as before"
        assert "Traceback" not in registry.output
    finally:
        registry.stop()
        slow.end()


def _children_of(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


# An object store


def test_a_start_that_is_stopped_ends_so_whatever_else_goes_wrong() -> None:
    starting = StartProgress()
    starting.stop()
    with pytest.raises(Stopped), starting.loading(lambda: None):
        raise BrokenPipeError


def test_a_node_starts_from_an_object_store_and_without_one_that_refuses_it(
    s3: str, data: Path, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, wanted = filled
    s3 = s3.replace("user:password@bucket/snapshots", f"bucket/{data.parent.name}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-password")
    shutil.rmtree(data / "catalogue")
    shutil.rmtree(data / "snapshots")
    newest = max(built(Settings(data=data, snapshots=s3)).id for _ in range(2))
    registry = start(data, "--snapshots", s3).wait()
    try:
        assert rows(registry) == wanted
        assert (told(registry)["id"], told(registry)["refused"]) == (newest, [])
        assert told(registry)["loaded"]
        assert registry.stop() == 0, registry.output
        shutil.rmtree(data / "store")
        credentials_are_looked_at(s3, after="0")
        registry = start(data, "--snapshots", s3, port=registry.port).wait()
        assert rows(registry) == wanted
        (sentence,) = told(registry)["refused"]
        assert "ACCESS_DENIED" in sentence
        assert f"bucket/{data.parent.name}" in sentence
        assert "secret-password" not in registry.output
        assert "reading the log instead" in registry.output
    finally:
        registry.stop()
        credentials_are_looked_at(s3, after="inf")


def credentials_are_looked_at(s3: str, after: str) -> None:
    """After so many requests the server refuses clients that it does not know."""
    address = unquote(parse_qs(s3.partition("?")[2])["endpoint_override"][0])
    httpx.post(f"http://{address}/moto-api/reset-auth", content=after, timeout=30).raise_for_status()


# Kafka


def on_topic(broker: Broker, topic: str, snapshots: Path) -> tuple[str, ...]:
    return (
        "--kafka", broker.address, "--topic", topic, "--group", topic,
        "--snapshots", str(snapshots), "--end-age-margin-s", "0",
    )  # fmt: skip


def settings_of(broker: Broker, topic: str, tmp_path: Path) -> Settings:
    return Settings(
        data=tmp_path / "builder", kafka=broker.address, topic=topic, group=topic, replication_factor=1,
        snapshots=str(tmp_path / "snapshots"), end_age_margin_s=0,
    )  # fmt: skip


def test_a_node_of_a_cluster_starts_from_a_snapshot_and_follows_the_topic(
    kafka: Broker, tmp_path: Path
) -> None:
    topic = make_topic(kafka.address)
    flags = on_topic(kafka, topic, tmp_path / "snapshots")
    first = start(tmp_path / "first", *flags).wait()
    other: Registry | None = None
    try:
        ids = [register(first, f"a{number}").json()["id"] for number in range(10)]
        manifest = built(settings_of(kafka, topic, tmp_path))
        assert httpx.delete(f"{first.url}/subjects/a3", timeout=60).status_code == 200
        ids.append(register(first, "b").json()["id"])
        other = start(tmp_path / "other", *flags).wait()
        assert told(other)["id"] == manifest.id
        assert told(other)["loaded"]
        until(lambda: rows(other) == rows(first), WAIT_S, "both to have the same rows")
        assert get(other, "/subjects").json() == get(first, "/subjects").json()
        assert register(other, "c").json()["id"] > max(ids)
    finally:
        first.stop()
        if other is not None:
            other.stop()


# The topic keeps deletions for 8 s: on a busy machine, a node may not have read for as long.
# In make test, tests/unit/snapshots/test_candidates.py refuses it, and stores are refused on a real topic.
@pytest.mark.long
@pytest.mark.logs_errors(
    "the store must be rebuilt: it was last at the log's end", r"the node ended \(exit code 1\)"
)
def test_a_snapshot_from_before_deletions_that_were_forgotten_is_refused(
    kafka: Broker, tmp_path: Path
) -> None:
    topic = make_topic(kafka.address, FORGETFUL)
    flags = on_topic(kafka, topic, tmp_path / "snapshots")
    here = start(tmp_path / "here", *flags).wait()
    fresh: Registry | None = None
    try:
        for subject in ("kept", "gone"):
            assert register(here, subject).status_code == 200
        old = built(settings_of(kafka, topic, tmp_path))
        for query in ("", "?permanent=true"):
            assert httpx.delete(f"{here.url}/subjects/gone{query}", timeout=60).status_code == 200
        numbers = iter(range(1_000_000))
        with closing(on_kafka(kafka.address, topic)) as log:

            def until_forgotten() -> bool:
                # Only closed segments are compacted.
                register(here, f"filler{next(numbers)}")
                return not any(b"SCHEMA" in key and b'"gone"' in key for key in keys(log))

            until(until_forgotten, 120, "the log to forget the deletion", every_s=0.5)
        fresh = start(tmp_path / "fresh", *flags).wait()
        found = told(fresh)
        assert found["id"] == ""
        assert old.id in found["refused"][0]
        assert "the log keeps deletions for 8 s" in found["refused"][0]
        assert "gone" not in get(fresh, "/subjects?deleted=true").json()
        until(lambda: rows(fresh) == rows(here), WAIT_S, "both to have the same rows")
        again = built(settings_of(kafka, topic, tmp_path))
        assert again.base == "", "nor is it built upon"
        assert (again.offset, digest.text(again.digest)) == rows(here)
    finally:
        here.stop()
        if fresh is not None:
            fresh.stop()


def test_what_was_made_of_records_that_the_log_has_lost_is_not_used(
    data: Path, filled: Filled, tmp_path: Path
) -> None:
    (_, newest), _ = filled
    shutil.copytree(data / "log", tmp_path / "backup")
    registry = start(data).wait()
    try:
        for number in range(5):
            assert register(registry, f"lost{number}").status_code == 200
        lost = built(Settings(data=data))
        assert lost.base == newest.id
        assert registry.stop() == 0, registry.output
        # Only the log is restored from a backup, and grows again beyond its former end.
        shutil.rmtree(data / "log")
        (tmp_path / "backup").rename(data / "log")
        with closing(EmbeddedLog(data / "log")) as log:
            departed = log.end()
            log.append([version(f"s{number}", 1, 100 + number) for number in range(40)])
            assert log.end() > lost.offset

        registry = start(data, port=registry.port).wait()
        assert f"has lost records and grown again; from offset {lost.offset - 1} or" in registry.output
        found = told(registry)
        assert found["id"] == newest.id, "the next older one is of what the log still has"
        (refused,) = found["refused"]
        assert lost.id in refused
        assert f"it holds records from offset {lost.offset - 1} or earlier that the log has" in refused
        assert departed < lost.offset
        names = get(registry, "/subjects").json()
        assert "s39" in names
        assert not any(name.startswith("lost") for name in names)
        again = built(Settings(data=data))
        assert again.base == newest.id, "nor is it built upon"
        assert (again.offset, digest.text(again.digest)) == rows(registry)
        assert registry.stop() == 0, registry.output
        shutil.rmtree(data / "store")
        registry = start(data, "--snapshots-load", "off", port=registry.port).wait()
        assert (again.offset, digest.text(again.digest)) == rows(registry)
    finally:
        registry.stop()
