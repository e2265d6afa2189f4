"""Censuses that need no Spark, because they read nothing; and a long test of one that does."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import pytest
from pyarrow import parquet

from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from snapshots.building.task import silent
from snapshots.census import files
from snapshots.census.files import BadCensus
from snapshots.census.plan import READ, UNREAD, PartitionRow, Use
from snapshots.census.published import census_record, context_of, usages
from snapshots.census.run import Result, Scope, open_location, run
from snapshots.census.topics import infer_contexts
from snapshots.format.location import Location
from snapshots.format.manifest import ManifestKeys
from tests.process.cli.test_statuses import check
from tests.process.snapshots.command_line import registrar
from tests.support.kafka_topics import delete_topic, make_topic
from tests.support.running import ROOT, Registry, Served, until

DELETED = {"cleanup.policy": "delete"}


def census(id: str = "20261128T031500Z-000000000001-a1b2c3", **changes: Any) -> files.Census:
    members = {
        "base": "", "started_ms": 1, "ended_ms": 2, "cluster": "c", "patterns": ("*",), "complete": True,
        "messages": 3,
    }  # fmt: skip
    return files.Census(id=id, **members | changes)


ROWS = files.Rows(
    [
        Use("t", 0, "key", "none", None, None, 2, 4, 0, 1, 5, 6, True, (0, 1)),
        Use("t", 0, "value", "id", -1, None, 2, 40, 0, 1, 5, 6),
        Use("t", 1, "value", "id", -1, None, 1, 20, 7, 7, 4, 4, False),
        Use("/lake#v", 0, "value", "guid", None, "0" * 36, 9, 90, None, None, None, None),
    ],
    [
        PartitionRow("t", 0, 0, 2, 100, False, "i", READ, epoch=4),
        PartitionRow("t", 1, 7, 8, None, True, "i", UNREAD, "a reason"),
        PartitionRow("/lake#v", 0, 0, 0, None, False, "", READ),
    ],
)


def test_what_was_written_is_read_and_what_was_damaged_is_not(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    written = files.write(location, census(), ROWS)
    assert files.read_manifest(location, written.id) == written
    assert (written.sources, written.partitions) == (files.SourceCounts(read=1, unread=1), 3)
    assert files.read_rows(location, written) == ROWS
    folder = tmp_path / "census" / written.id
    for name in ("uses-00000.parquet", "partitions.parquet"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(BadCensus, match=f"{name} is damaged"):
            files.read_rows(location, written)
        (folder / name).unlink()
        with pytest.raises(BadCensus, match=f"{name} is missing"):
            files.read_rows(location, written)
        (folder / name).write_bytes(content)
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"messages": 3', b'"messages": 4'))
    with pytest.raises(BadCensus, match="does not match the hash"):
        files.read_manifest(location, written.id)
    assert list(files.newest_first(location)) == []


def test_a_census_of_an_earlier_release_is_read_without_epochs(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    written = files.write(location, census(), ROWS)
    path = tmp_path / "census" / written.id / files.PARTITIONS
    table = parquet.read_table(path)
    parquet.write_table(table.drop_columns(["epoch"]), path)
    content = path.read_bytes()
    size, sha256 = len(content), hashlib.sha256(content).hexdigest()
    replaced = [
        msgspec.structs.replace(each, size=size, sha256=sha256) if each.name == files.PARTITIONS else each
        for each in written.files
    ]
    earlier = msgspec.structs.replace(written, files=tuple(replaced))
    (path.parent / "manifest.json").write_bytes(earlier.dumps())
    rows = [row._replace(epoch=None) for row in ROWS.partitions]
    assert files.read_rows(location, files.read_manifest(location, written.id)) == files.Rows(ROWS.uses, rows)


def test_with_a_key_only_signed_censuses_count(tmp_path: Path) -> None:
    keys = ManifestKeys("a" * 32)
    files.write(Location.parse(tmp_path), census(), ROWS)
    assert list(files.newest_first(Location.parse(tmp_path, keys))) == []
    signed = files.write(Location.parse(tmp_path, keys), census("20261128T031501Z-000000000001-a1b2c3"), ROWS)
    assert list(files.newest_first(Location.parse(tmp_path, keys))) == [signed]


def test_the_digest_sums_partitions_and_names_contexts() -> None:
    result = Result(census(sources=files.SourceCounts(1, 1), partitions=3), ROWS)
    found = dict(usages(result, context_of("t*=.eu,*=.us", {"t": ".inferred"})))
    assert [(each.side, each.schema, each.messages, each.size) for each in found["t"].uses] == [
        ("key", None, 2, 4), ("value", -1, 3, 60),
    ]  # fmt: skip
    assert [(each.first, each.last, each.exact) for each in found["t"].uses] == [(5, 6, True), (4, 6, False)]
    assert (found["t"].state, found["t"].reason, found["t"].context) == ("unread", "a reason", ".eu")
    assert (found["t"].messages, found["t"].ms) == (3, 1)
    lake = found["/lake#v"]
    assert (lake.state, lake.context, lake.uses[0].first, lake.uses[0].schema) == (
        "read",
        ".us",
        -1,
        "0" * 36,
    )
    assert context_of("", {"t": ".inferred"})("t") == ".inferred"
    assert census_record(result.census, "place", found.values()).unread == 1


def test_a_source_whose_ids_may_belong_to_several_contexts_makes_a_census_incomplete() -> None:
    """Otherwise a version in use would be taken for unused, and the guard would let it go."""
    use = Use("u", 0, "value", "id", 1, None, 3, 60, 0, 2, 4, 6)
    rows = files.Rows([use], [PartitionRow("u", 0, 0, 3, None, False, "", READ, "")])
    result = Result(census(sources=files.SourceCounts(1, 0), partitions=1), rows)

    def published(*subjects: str, configured: str = "") -> tuple[str, str, bool]:
        found = dict(usages(result, context_of(configured, infer_contexts(subjects)))).values()
        (each,) = found
        return each.state, each.context, census_record(result.census, "place", found).complete

    assert published() == published("record", "u-value", "other") == ("read", ".", True)
    assert published(":.eu:record") == published(":.eu:u-value", "record") == ("read", ".eu", True)
    assert published("u-key", ":.eu:record") == ("read", ".", True)
    # By the name of a record, or of a topic in two contexts, nobody can tell.
    assert published("record", ":.eu:r") == published("u-key", ":.eu:u-value") == ("unread", ".", False)
    assert published("record", ":.eu:r", configured="*=.eu") == ("read", ".eu", True)


def take(settings: Settings, location: Location, *topics: str) -> Result:
    return run(settings, Scope(topics), location, silent)


def test_a_killed_run_leaves_the_last_census_and_a_later_run_deletes_its_files(
    kafka: Broker, tmp_path: Path
) -> None:
    """The process is killed in the write of its last file, when all others are there."""
    topic = make_topic(kafka.address, DELETED, name="killed-census.t")
    settings = Settings(kafka=kafka.address, data=tmp_path)
    location = open_location(settings)
    first = take(settings, location, "killed-census.*")
    program = (
        "import os, signal; from snapshots.format.files import LocalFolder\n"
        "write = LocalFolder.write\n"
        "def killed(self, path, data):\n"
        "    if path.endswith('manifest.json'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    write(self, path, data)\n"
        "LocalFolder.write = killed\n"
        "from registry.__main__ import main\n"
        f"main(['census', 'run', '--topics', 'killed-census.*', '--kafka', {kafka.address!r}, "
        f"'--data', {str(tmp_path)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    killed, kept = files.ids(location)
    assert kept == first.census.id
    assert location.files(f"census/{killed}") == ["partitions.parquet"]
    assert list(files.newest_first(location)) == [first.census]
    third = take(settings, location, "killed-census.*")
    assert third.census.base == first.census.id
    assert files.ids(location) == [third.census.id, kept]
    assert [row.source for row in third.rows.partitions] == [topic]


def test_censuses_of_other_topics_and_clusters_are_not_continued(kafka: Broker, tmp_path: Path) -> None:
    settings = Settings(kafka=kafka.address, data=tmp_path, census_keep=1)
    location = open_location(settings)
    make_topic(kafka.address, DELETED, name="other-census.t")
    one, two = take(settings, location, "other-census.*"), take(settings, location, "other-census.t")
    assert (two.census.base, two.census.cluster) == ("", one.census.cluster)
    three = take(settings, location, "other-census.*")
    assert three.census.base == one.census.id
    assert files.ids(location) == [three.census.id, two.census.id], "only the newest of each scope is kept"


def http(url: str, path: str) -> Any:
    with urlopen(Request(url + path), timeout=30) as answer:
        return json.loads(answer.read())


def test_a_census_is_published_and_topics_that_are_gone_are_withdrawn(
    kafka: Broker, registry: Served, tmp_path: Path
) -> None:
    for name in ("published-census.a", "published-census.b"):
        make_topic(kafka.address, DELETED, name=name)
    words = (
        *("census", "run", "--topics", "published-census.*", "--kafka", kafka.address),
        *("--data", str(tmp_path), "--url", registry.url, "--census-contexts", "published-census.b=.b"),
    )
    assert registrar(*words).returncode == 0
    stored = {each["source"]: each for each in http(registry.url, "/usage/sources")}
    assert {name: each["context"] for name, each in stored.items() if name.startswith("published")} == {
        "published-census.a": ".", "published-census.b": ".b",
    }  # fmt: skip
    record = http(registry.url, "/usage/census")
    assert (record["complete"], record["sources"], record["patterns"]) == (False, 2, ["published-census.*"])
    delete_topic(kafka.address, "published-census.b")
    assert registrar(*words).returncode == 0
    assert "published-census.b" not in {each["source"] for each in http(registry.url, "/usage/sources")}
    assert http(registry.url, "/usage/census")["base"] == record["id"]
    listed = registrar("census", "list", "--data", str(tmp_path), "--json")
    assert [each["id"] for each in json.loads(listed.stdout)][-1] == record["id"]
    check("census-list", json.loads(listed.stdout))
    show = ("census", "show", record["id"], "--data", str(tmp_path))
    check("census", json.loads(registrar(*show, "--json").stdout))
    shown = registrar(*show)
    assert "0 messages in 2 sources" in shown.stdout
    grown = ROWS.partitions[0]._replace(reason="it was cut")
    later = files.write(
        Location.parse(tmp_path / "snapshots"),
        census("20991128T031500Z-000000000001-a1b2c3"),
        ROWS._replace(partitions=[grown, *ROWS.partitions[1:]]),
    )
    shown = registrar("census", "show", later.id, "--data", str(tmp_path))
    assert "t was read as a whole again (1 partitions): it was cut" in shown.stderr
    assert "t was not read (1 partitions): a reason" in shown.stderr
    assert registrar("census", "show", "nothing", "--data", str(tmp_path)).returncode == 2


def test_the_primary_takes_a_census_by_its_schedule(kafka: Broker, tmp_path: Path) -> None:
    topic = make_topic(kafka.address, DELETED, name="scheduled-census.t")
    node = Registry(
        tmp_path / "data", "--readers", "1", "--kafka", kafka.address, "--topic", "scheduled-census-log",
        "--replication-factor", "1", "--group", "scheduled-census", "--snapshots-builder", "none",
        "--census-every-s", "86400", "--census-topics", "scheduled-census.*",
    ).wait()  # fmt: skip
    try:
        until(lambda: published(node.url), 120, "the primary to publish a census")
        assert [each["source"] for each in http(node.url, "/usage/sources")] == [topic]
        location = Location.parse(tmp_path / "data" / "snapshots")
        (only,) = files.newest_first(location)
        assert http(node.url, "/usage/census")["sha256"] == only.sha256
    finally:
        node.stop()


def published(url: str) -> bool:
    try:
        return bool(http(url, "/usage/census"))
    except OSError:
        return False
