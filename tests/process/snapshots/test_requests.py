"""Snapshots requested from running registries, built by them, and deleted, with kills in between."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deploy.local.broker import Broker
from snapshots.catalogue.catalogue import Entry
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from tests.process.snapshots.asking import (
    ask,
    held_up,
    http,
    kill_builder,
    register,
    snapshot,
    snapshots,
    told,
    until_it_is,
)
from tests.support.kafka_topics import admin, make_topic
from tests.support.running import ROOT, Registry, until

Start = Callable[..., Registry]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts registries; they are stopped at the end of the test."""
    started: list[Registry] = []

    def one(name: str, *flags: str) -> Registry:
        started.append(Registry(tmp_path / name, *flags))
        return started[-1]

    yield one
    for each in started:
        each.process.terminate()
    for each in started:
        each.stop()


def manifest(entry: dict[str, object]) -> Manifest:
    return Manifest.loads(Location.parse(str(entry["uri"])).read(f"{entry['id']}/manifest.json"))


def test_asked_built_listed_deleted(start: Start) -> None:
    node = start("data", "--readers", "2", "--snapshots-keep", "1").wait()
    assert snapshots(node) == []
    made = []
    for number in range(2):
        assert register(node, f"s{number}", "f").status_code == 200
        entry = ask(node)
        assert entry["state"] == "requested"
        made.append(until_it_is("ready", node, entry["id"]))
    assert [each["offset"] for each in made] == sorted({each["offset"] for each in made})
    last = made[-1]
    node_says = until(
        lambda: (now := told(node))["newest_snapshot"] == last["id"] and now, 10, "the node to know of it"
    )
    assert (last["offset"], last["digest"]) == (node_says["applied"], node_says["digest"])
    assert (last["schemas"], last["engine"], last["attempts"]) == (2, "local", 1)
    # It extends the one before, which is not kept.
    assert last["base"] == made[0]["id"]
    until(lambda: [each["id"] for each in snapshots(node)] == [last["id"]], 10, "one to be left")
    location = Location.parse(last["uri"])
    assert location.folders() == [last["id"]]
    assert manifest(last).offset == last["offset"]
    metrics = http("GET", node, "/metrics").text
    assert f"registrar_snapshot_offset {float(last['offset'])}" in metrics
    assert 'registrar_snapshots{state="ready"} 1.0' in metrics
    assert http("DELETE", node, f"/admin/snapshots/{last['id']}").status_code == 204
    assert (snapshots(node), location.folders()) == ([], [])
    assert http("DELETE", node, f"/admin/snapshots/{last['id']}").json()["error_code"] == 40480
    # A marker whose entry was deleted, rather than lost, is not taken for a request.
    assert http("GET", node, f"/admin/snapshots/{last['id']}").status_code == 404


def test_one_that_waits_does_for_all_that_ask(start: Start) -> None:
    node = start("data", "--readers", "2", "--snapshots-builder", "none").wait()
    with ThreadPoolExecutor(16) as pool:
        asked = list(pool.map(lambda _: ask(node)["id"], range(48)))
    assert len(set(asked)) == 1
    (entry,) = snapshots(node)
    assert (entry["state"], entry["offset"]) == ("requested", 1)
    # Nothing builds it, so it may be deleted; then a new one is requested.
    assert http("DELETE", node, f"/admin/snapshots/{entry['id']}").status_code == 204
    assert ask(node)["offset"] == 2


@pytest.mark.long
def test_a_request_outlives_all_processes(start: Start, tmp_path: Path) -> None:
    """The primary is killed when the marker is in the log and no client was answered."""
    lock = tmp_path / "data" / "catalogue" / "lock"
    lock.mkdir(parents=True)  # So that the catalogue can be read, but not written.
    node = start("data", "--readers", "1", "--snapshots-builder", "none", "--request-timeout-s", "3").wait()
    refused = http("POST", node, "/admin/snapshots")
    assert (refused.status_code, refused.json()["error_code"]) == (500, 50002)
    assert told(node)["applied"] == 1
    assert snapshots(node) == []
    node.kill()
    lock.rmdir()
    again = start("data", "--readers", "1").wait()
    entry = until(lambda: snapshots(again), 20, "the request to be known")[0]
    assert entry["offset"] == 1
    ready = until_it_is("ready", again, entry["id"])
    assert ready["schemas"] == 0


@pytest.mark.logs_errors(r"its builder ended \(SIGKILL\)")
def test_a_builder_that_is_killed_is_followed_by_another(start: Start, tmp_path: Path) -> None:
    node = start("data", "--readers", "1").wait()
    register(node, "s", "f")
    with held_up(tmp_path / "data"):
        entry = ask(node)
        assert kill_builder(node, entry["id"]) == 1
    ready = until_it_is("ready", node, entry["id"])
    assert (ready["attempts"], ready["reason"]) == (2, "")
    assert manifest(ready).digest == int(ready["digest"], 16)


@pytest.mark.long
def test_a_node_that_is_killed_goes_on_with_its_build(start: Start, tmp_path: Path) -> None:
    """Its builder ends with it; nothing waits until that builder has been silent for long."""
    node = start("data", "--readers", "1").wait()
    with held_up(tmp_path / "data"):
        entry = ask(node)
        building = until_it_is("building", node, entry["id"])
        node.kill()
    again = start("data", "--readers", "1").wait()
    ready = until_it_is("ready", again, entry["id"], timeout_s=30)
    assert ready["builder"] != building["builder"]


@pytest.mark.logs_errors(r"cannot build the snapshot \S+ Not a directory")
def test_what_cannot_be_built_is_said(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    node = start("data", "--readers", "1", "--snapshots", str(tmp_path / "file" / "within")).wait()
    entry = ask(node)
    failed = until_it_is("failed", node, entry["id"])
    assert "Not a directory" in failed["reason"]
    assert failed["attempts"] in (1, 2, 3), "it is tried again soon"
    assert told(node)["ready"]


def test_the_schedule_counts_records(start: Start) -> None:
    node = start("data", "--readers", "1", "--snapshots-every", "20").wait()
    register(node, "s", "f")
    assert snapshots(node) == []
    for number in range(20):
        register(node, f"s{number}", "f")
    entry = until(lambda: snapshots(node), 20, "a snapshot to be asked for")[0]
    assert entry["offset"] > 20
    until_it_is("ready", node, entry["id"])


class Cluster:
    """Start three nodes over one topic."""

    def __init__(self, start: Start, kafka: Broker, *flags: str) -> None:
        self.topic = f"snapshots-{secrets.token_hex(4)}"
        self.flags = (
            *("--kafka", kafka.address, "--topic", self.topic, "--group", self.topic),
            *("--replication-factor", "1", *flags),
        )
        self.nodes = [start(f"n{number}", *self.flags, "--readers", "1") for number in range(3)]
        for node in self.nodes:
            node.wait()

    @property
    def running(self) -> list[Registry]:
        return [node for node in self.nodes if node.process.poll() is None]

    def primary(self) -> Registry:
        def known() -> Registry | None:
            writing = [node for node in self.running if told(node)["role"] == "primary"]
            named = {told(node)["primary"] for node in self.running}
            return writing[0] if len(writing) == 1 and named == {writing[0].url} else None

        found: Registry = until(known, 30, "a primary that all agree on")
        return found


# In make test, builders are killed above, and tests/contract/snapshots/ shares a catalogue on Kafka.
@pytest.mark.long
def test_a_cluster_whose_primary_is_killed(start: Start, kafka: Broker, tmp_path: Path) -> None:
    """Any node may be asked, and all know it; the next primary publishes a marker that has no entry yet."""
    cluster = Cluster(start, kafka, "--snapshots", str(tmp_path / "shared"), "--request-timeout-s", "10")
    primary = cluster.primary()
    secondary = next(node for node in cluster.nodes if node is not primary)
    assert register(secondary, "s", "f").status_code == 200
    entry = ask(secondary)
    for node in cluster.nodes:
        assert snapshot(node, entry["id"])["offset"] == entry["offset"]
    ready = until_it_is("ready", secondary, entry["id"])
    assert (ready["schemas"], ready["log"]) == (1, told(secondary)["log"])

    # The catalogue accepts nothing more, so the primary cannot publish the snapshot that it requested.
    catalogue = f"{cluster.topic}_snapshots"
    _alter(kafka, catalogue, "60")
    refused = http("POST", secondary, "/admin/snapshots", params={})
    assert refused.json()["error_code"] == 50002, refused.text
    primary.kill()
    _alter(kafka, catalogue, "1000000")
    cluster.primary()
    found = until(lambda: len(now := snapshots(secondary)) == 2 and now, 40, "the request to be known")
    assert found[0]["offset"] > entry["offset"]
    assert until_it_is("ready", secondary, found[0]["id"])["base"] == entry["id"]
    assert http("DELETE", secondary, f"/admin/snapshots/{entry['id']}").status_code == 204
    for node in cluster.running:
        assert [each["id"] for each in snapshots(node)] == [found[0]["id"]]
    assert Location.parse(tmp_path / "shared").folders() == [found[0]["id"]]


def _alter(kafka: Broker, topic: str, bytes_max: str) -> None:
    change = ConfigEntry("max.message.bytes", bytes_max, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client = admin(kafka.address)
    client.incremental_alter_configs([resource])[resource].result(30)

    def taken() -> bool:
        # The broker answers before it applies the setting.
        config = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        (found,) = config.values()
        return bool(found.result(30)["max.message.bytes"].value == bytes_max)

    until(taken, 30, "the broker to take the setting")


def test_without_a_catalogue_all_else_goes_on(start: Start, kafka: Broker) -> None:
    topic = f"snapshots-{secrets.token_hex(4)}"
    make_topic(kafka.address, {"cleanup.policy": "delete"}, name=f"{topic}_snapshots")
    node = start(
        "data", "--kafka", kafka.address, "--topic", topic, "--group", topic,
        "--replication-factor", "1", "--readers", "1",
    ).wait()  # fmt: skip
    assert register(node, "s", "f").status_code == 200
    for method in ("GET", "POST"):
        refused = http(method, node, "/admin/snapshots")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "cleanup.policy" in refused.json()["message"]


def test_a_watcher_builds_for_nodes_that_do_not(start: Start, tmp_path: Path) -> None:
    node = start("data", "--readers", "1", "--snapshots-builder", "none").wait()
    register(node, "s", "f")
    entry = ask(node)
    command = [sys.executable, "-m", "registry", "snapshot", "build", "--watch", "--engine", "local"]
    watcher = subprocess.Popen(
        [*command, "--data", str(tmp_path / "data")], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:
        ready = until_it_is("ready", node, entry["id"])
        assert Entry.loads(http("GET", node, f"/admin/snapshots/{entry['id']}").content).state == "ready"
        assert int(ready["builder"].rpartition(":")[2]) == watcher.pid
    finally:
        watcher.terminate()
        _, said = watcher.communicate(timeout=20)
    assert (watcher.returncode, said) == (0, "")
