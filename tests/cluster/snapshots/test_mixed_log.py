"""Builds of a large log with everything in it, on a standalone cluster of two workers, while things fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local.broker import COMPACTS_SOON, Broker
from registry.base.config.settings import Settings
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import DictView
from registry.log.embedded.log import now_ms
from snapshots.building import builder
from snapshots.building.task import Progress, silent
from snapshots.catalogue.catalogue import Entry
from snapshots.catalogue.open import open_catalogue
from snapshots.catalogue.retention import retire
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.manifest import DELTA_FORMAT, Manifest, new_id
from snapshots.format.verify import verify
from snapshots.spark import engine
from tests.cluster.snapshots.conftest import Daemon, running
from tests.cluster.snapshots.test_spark_cluster import executors
from tests.process.snapshots.test_spark import COMPACTS, compacted, many_logs
from tests.process.snapshots.test_starting import credentials_are_looked_at
from tests.support.disks import Disk
from tests.support.kafka_topics import make_topic
from tests.support.mixed_log import TABLES, mixed_log, produce
from tests.support.running import ROOT, until
from tests.support.sample_snapshots import files_of, rows_in
from tests.unit.random_logs import covering, fold, rows_of

pytestmark = [
    pytest.mark.long,
    # PySpark leaves closing the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
RECORDS = 300_000
CONF = (
    "spark.ui.enabled=false spark.executor.memory=512m spark.executor.cores=1 spark.driver.host=127.0.0.1"
    " spark.scheduler.minRegisteredResourcesRatio=1.0"
)
# Segments of ten thousand records, by their times.
SEGMENTS = COMPACTS | {"segment.ms": "10000"}


class Cluster(NamedTuple):
    """A broker, and Spark's master and two workers."""

    broker: Broker
    master: str
    workers: list[Daemon]

    def settings(self, data: Path, topic: str, conf: str = "", **other: object) -> Settings:
        known = Settings(
            data=data, kafka=self.broker.address, topic=topic, replication_factor=1, allow_delete_policy=True,
            snapshots_spark_master=self.master, snapshots_spark_conf=f"{CONF} {conf}", snapshots_keep=1,
        )  # fmt: skip
        return replace(known, **other)  # type: ignore[arg-type]


class Built(NamedTuple):
    """A topic with the mixed log, and what the plain fold makes of it."""

    log: list[Record]
    topic: str
    plain: Manifest
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        pytest.MonkeyPatch.context() as environment,
        Broker(folder / "kafka", settings=COMPACTS_SOON) as broker,
    ):
        # For the executors; no other test here has a location that asks for them.
        environment.setenv("AWS_ACCESS_KEY_ID", "user")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "password")
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        with running(folder / "spark", 2) as (master, workers):
            yield Cluster(broker, master, workers)


@pytest.fixture(scope="module")
def mixed() -> list[Record]:
    others = [record for record in many_logs(200) if record.key is not None]
    # Segments are rolled, and so compacted, by the times of their records.
    return covering(mixed_log(RECORDS, others, round(time.time() * 1000) - 3_600_000))


@pytest.fixture(scope="module")
def built(cluster: Cluster, mixed: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Built:
    data, topic = tmp_path_factory.mktemp("plain"), make_topic(cluster.broker.address)
    produce(cluster.broker.address, topic, mixed)
    plain = builder.build_now(cluster.settings(data, topic), None, "local", silent)
    assert set(plain.counts) == TABLES, "it has everything"
    return Built(mixed, topic, plain, files_of(Location.parse(data / "snapshots"), plain))


def once(step: str, do: Callable[[], object], *, at_end: bool = False) -> Progress:
    """Return a progress that does something once in a step: when tasks have ended, or all of them."""
    left = [do]

    def progress(at: str, done: int, total: int) -> None:
        if at == step and left and (done == total if at_end else 0 < done < total):
            left.pop()()

    return progress


def is_plain(known: Settings, made: Manifest, built: Built) -> None:
    assert made.engine == engine.ENGINE
    assert (made.digest, made.counts) == (built.plain.digest, built.plain.counts)
    assert files_of(Location.parse(known.snapshots_location), made) == built.files


def is_sound(location: Location, id: str) -> bool:
    return list(verify(location, id, lambda done, total: None)) == []


def python_workers(executor: int) -> list[int]:
    """Return the processes that run tasks in Python for an executor: grandchildren, below a daemon."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return [pid for pid, parent in parents.items() if parents.get(parent) == executor]


def test_speculation_replaces_what_hangs_and_changes_nothing(
    tmp_path: Path, cluster: Cluster, built: Built
) -> None:
    """The workers of one executor are frozen while they fold, and again while they write."""
    events, frozen = tmp_path / "events", list[int]()
    events.mkdir()
    conf = (
        "spark.speculation=true spark.speculation.interval=200ms spark.speculation.quantile=0.3"
        " spark.speculation.multiplier=1.5 spark.speculation.minTaskRuntime=500ms"
        f" spark.eventLog.enabled=true spark.eventLog.compress=false spark.eventLog.dir={events.as_uri()}"
    )
    known = cluster.settings(tmp_path, built.topic, conf)

    def freeze() -> None:
        (executor,) = executors(cluster.workers[0].pid)
        for pid in python_workers(executor):
            os.kill(pid, signal.SIGSTOP)
            frozen.append(pid)

    steps = [once(engine.FOLDING, freeze), once(engine.WRITING, freeze)]

    def progress(step: str, done: int, total: int) -> None:
        for each in steps:
            each(step, done, total)

    try:
        made = builder.build_now(known, None, "spark", progress)
    finally:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert frozen
    is_plain(known, made, built)
    started = [
        each["Task Info"]
        for file in events.rglob("*")
        if file.is_file() and not file.name.startswith(".")
        for each in map(json.loads, file.read_text().splitlines())
        if each["Event"] == "SparkListenerTaskStart"
    ]
    assert [each for each in started if each["Speculative"]], "Spark has speculated"


def test_executors_that_are_killed_while_the_log_is_compacted_leave_a_sound_snapshot(
    tmp_path: Path, cluster: Cluster, mixed: list[Record]
) -> None:
    """Both are killed between fold and write: all is folded again, from a log that has fewer records."""
    topic, at = make_topic(cluster.broker.address, SEGMENTS), len(mixed) // 2
    produce(cluster.broker.address, topic, mixed[:at])
    folded: list[int] = []

    def kill(step: str, done: int, total: int) -> None:
        here = threading.current_thread() is threading.main_thread()
        if not (here and step == engine.FOLDING and done == total):
            return
        folded.append(total)
        if len(folded) == 1:
            for worker in cluster.workers:
                for executor in executors(worker.pid):
                    os.kill(executor, signal.SIGKILL)
            produce(cluster.broker.address, topic, mixed[at:])
            until(lambda: compacted(cluster.broker, topic, mixed), 300, "compaction of what was folded")

    known = cluster.settings(tmp_path, topic)
    made = builder.build_now(known, None, "spark", kill)
    assert len(folded) == 2
    location = Location.parse(known.snapshots_location)
    assert is_sound(location, made.id)
    assert made.offset == at
    found = rows_in(location, made)
    assert dict(fold(mixed[at:], DictView(found)).rows()) == rows_of(mixed)


def test_a_location_that_refuses_executors_half_way_gets_a_whole_snapshot_later(
    tmp_path: Path, cluster: Cluster, built: Built, s3: str
) -> None:
    uri = s3.replace("user:password@bucket/snapshots", f"bucket/{tmp_path.name}")
    known = cluster.settings(tmp_path, built.topic, snapshots=uri)
    location = Location.parse(uri)
    try:
        with closing(open_catalogue(known)) as catalogue:
            good = builder.build_now(known, catalogue, "local", silent, offset=1_000)
            catalogue.put(entry := requested(known, built.plain))
            refuse = once(engine.WRITING, lambda: credentials_are_looked_at(s3, "0"))
            failed = builder.build_request(known, catalogue, entry, "spark", refuse)
            credentials_are_looked_at(s3, "inf")
            assert (failed.state, "AWS Error" in failed.reason) == ("failed", True), failed.reason
            assert [each.id for each in stored.manifests(location)] == [good.id]
            ready = builder.build_and_retire(known, catalogue, failed, "spark", silent)
            assert set(catalogue.entries()) == {ready.id}, "only then the older one is deleted"
    finally:
        credentials_are_looked_at(s3, "inf")
    is_plain(known, stored.read_manifest(location, ready.id), built)


def test_a_disk_of_executors_that_fills_half_way_leaves_the_older_snapshot_until_there_is_a_whole_one(
    tmp_path: Path, cluster: Cluster, built: Built
) -> None:
    with Disk(tmp_path / "disk") as disk, running(tmp_path, 2, disk.place) as (master, _):
        known = replace(cluster.settings(tmp_path, built.topic), snapshots_spark_master=master)
        location = Location.parse(known.snapshots_location)
        with closing(open_catalogue(known)) as catalogue:
            good = builder.build_now(known, catalogue, "local", silent, offset=1_000)
            catalogue.put(entry := requested(known, built.plain))
            failed = builder.build_request(known, catalogue, entry, "spark", once(engine.FOLDING, disk.fill))
            disk.free()
            assert failed.state == "failed"
            assert "the disk of Spark's temporary files is full" in failed.reason, failed.reason
            assert [each.id for each in stored.manifests(location)] == [good.id]
            ready = builder.build_and_retire(known, catalogue, failed, "spark", silent)
            assert good.id not in location.folders(), "only then the older one is deleted"
    is_plain(known, stored.read_manifest(location, ready.id), built)


def requested(known: Settings, plain: Manifest) -> Entry:
    now = now_ms()
    return Entry(
        id=new_id(plain.offset, now, 7), state="requested", log=plain.log, offset=plain.offset,
        uri=known.snapshots_location, requested_ms=now, updated_ms=now,
    )  # fmt: skip


# Builds a snapshot of the log's end by the plain fold, whenever a line is written to it.
BUILDS = """
import sys
from contextlib import closing
from pathlib import Path
from registry.base.config.settings import Settings
from registry.log.embedded.log import now_ms
from snapshots.building import builder
from snapshots.building.task import silent
from snapshots.catalogue.open import open_catalogue
from snapshots.catalogue.retention import retire

data, kafka, topic, uri = sys.argv[1:]
where = {"data": Path(data), "kafka": kafka, "topic": topic, "snapshots": uri}
known = Settings(**where, allow_delete_policy=True, replication_factor=1)
with closing(open_catalogue(known)) as catalogue:
    for line in sys.stdin:
        made = builder.build_now(known, catalogue, "local", silent)
        retire(catalogue, 1, now_ms())
        print(made.id, made.format, flush=True)
"""


def test_both_builders_at_once_make_one_consistent_catalogue(
    tmp_path: Path, cluster: Cluster, mixed: list[Record]
) -> None:
    """Spark builds full snapshots while the plain fold builds deltas, and both delete what is too much."""
    topic, shared = make_topic(cluster.broker.address), tmp_path / "shared"
    held = len(mixed) - 5_000
    produce(cluster.broker.address, topic, mixed[:held])
    known = cluster.settings(tmp_path / "spark", topic, snapshots=str(shared))
    location = Location.parse(known.snapshots_location)
    command = [sys.executable, "-c", BUILDS, str(tmp_path / "local"), known.kafka, topic, str(shared)]
    with (
        closing(open_catalogue(known)) as catalogue,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        first = builder.build_now(known, catalogue, "spark", silent)
        done: list[list[str]] = []

        def build_deltas(step: str, at: int, total: int) -> None:
            """Have the other one build in each step of this build, and look at what is left."""
            if threading.current_thread() is not threading.main_thread() or at != total or len(done) >= 5:
                return
            begin = held + 1_000 * len(done)
            produce(cluster.broker.address, topic, mixed[begin : begin + 1_000])
            other.stdin.write("\n")
            other.stdin.flush()
            done.append(other.stdout.readline().split())
            ready = [each for each in catalogue.entries().values() if each.state == "ready"]
            assert ready
            assert all(is_sound(location, each.id) for each in ready)

        made = builder.build_now(known, catalogue, "spark", build_deltas, extend=False)
        retire(catalogue, 1, now_ms())
        other.stdin.close()
        assert other.wait(60) == 0
        entries = catalogue.entries()
    assert any(" ".join(each[1:]) == DELTA_FORMAT for each in done), "they were built upon Spark's"
    assert made.id != first.id
    assert {each.state for each in entries.values()} == {"ready"}
    newest = max(entries.values(), key=lambda each: each.offset)
    assert {*entries} == {newest.id, *newest.needs} == {*location.folders()}
    assert all(is_sound(location, each) for each in entries)
    manifest = stored.read_manifest(location, newest.id, newest.manifest)
    assert dict(rows_in(location, manifest)) == rows_of(mixed[: manifest.offset])
