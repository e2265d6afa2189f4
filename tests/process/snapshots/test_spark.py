"""Real Spark over real logs: snapshots are those of the plain fold, and a census counts every message."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import fastavro
import httpx
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from hypothesis import Phase, given, settings
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from registry.cli.decoding.message import WriterSchema
from registry.cli.decoding.rereading import Reader
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import Subject
from registry.domain.rows import digest, layout
from registry.domain.rows.memory_views import DictView
from registry.log.embedded.log import EmbeddedLog
from snapshots.building import builder, local
from snapshots.building.delta import DeltaLimits
from snapshots.building.sources import LogSource, open_source
from snapshots.building.task import BuildFailed, Task, silent
from snapshots.catalogue.open import open_catalogue
from snapshots.census import files as census_files
from snapshots.census import run as census
from snapshots.census.rereading import Verdict, reread
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST, Manifest
from snapshots.format.parts import begins_part
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.verify import verify
from snapshots.spark import engine
from snapshots.spark.census import REFERENCES_MAX
from snapshots.spark.engine import build
from snapshots.spark.jars import avro_jars, connector_jars
from snapshots.spark.ranges import places_for
from snapshots.spark.session import open_session
from tests.faults.cutting import cut
from tests.process.snapshots import counting, rereading
from tests.process.snapshots.command_line import registrar
from tests.support.kafka_topics import admin, delete_topic, make_topic
from tests.support.running import ROOT, Served, until
from tests.support.sample_snapshots import files_of, rows_in, task
from tests.unit.random_logs import covering, fold, logs, rows_of

# PySpark leaves closing the sockets of its results to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

MASTER = "local[2]"
# For a session that starts sooner.
QUICK = (
    "spark.ui.enabled=false"
    " spark.driver.extraJavaOptions='-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
)
LOGS = 20
COMPACTS = {
    "min.compaction.lag.ms": "0",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": str(7 * 86_400_000),
}
_SUBJECT = re.compile(rb'"subject":"((?::\.c:)?)([^"])')


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one session for all tests here; builds find it running."""
    # Uncompressed blocks have no checksum, so a test can change the rows in them.
    jars = ",".join(map(str, [*connector_jars(), *avro_jars()]))
    folder = tmp_path_factory.mktemp("spark")
    conf = f"{QUICK} spark.jars={jars} spark.rdd.compress=false spark.local.dir={folder}"
    given = Settings(kafka="127.0.0.1:1", snapshots_spark_master=MASTER, snapshots_spark_conf=conf)
    with open_session(given) as session:
        yield session


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Task]]:
    """Return a function that makes tasks over a topic, or over the embedded log in ``tmp_path``."""
    sources: dict[str, LogSource] = {}

    def make(broker: Broker | None, topic: str, end: int, base: Manifest | None = None) -> Task:
        where = {"kafka": broker.address, "topic": topic} if broker else {}
        given = Settings(data=tmp_path, allow_delete_policy=True, **where)
        if topic not in sources:
            sources[topic] = open_source(given)
        made = task(tmp_path, sources[topic], end, base)
        object.__setattr__(made, "settings", given)
        return made

    yield make
    for source in sources.values():
        source.log.close()


def of_other_subjects(log: list[Record], number: int) -> list[Record]:
    """Return the same log with different subjects; records of contexts and the cluster stay the same."""

    def renamed(raw: bytes | None) -> bytes | None:
        return raw and _SUBJECT.sub(rb'"subject":"\g<1>%d\2' % number, raw)

    return [record._replace(key=renamed(record.key)) for record in log]


def many_logs(count: int) -> list[Record]:
    """Return random logs, one after another."""
    found: list[list[Record]] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate])
    @given(logs)
    def collect(log: list[Record]) -> None:
        found.append(of_other_subjects(log, len(found)))

    collect()
    return [record for log in found for record in log]


def beginning_parts(kind: bytes, count: int) -> list[Subject]:
    """Return subjects whose rows in a table begin a part; for versions, the row of version 1."""
    end = layout.number(1) if kind == layout.VERSION else b""
    names = (f"n{number}" for number in range(10_000_000))
    return list(
        islice(
            (
                Subject(".", name)
                for name in names
                if begins_part(b"%b.\0%b\0%b" % (kind, name.encode(), end))
            ),
            count,
        )
    )


def cut_log() -> list[Entry]:
    """Return entries that begin parts, join them again, and begin others."""
    configs, versions = beginning_parts(layout.CONFIG, 4), beginning_parts(layout.VERSION, 3)
    level = [
        Entry(
            records.config_key(subject), subject_values.config_value(subject, {"compatibilityLevel": "FULL"})
        )
        for subject in configs
    ]
    version = [
        Entry(records.schema_key(subject, 1), values.schema_value(subject, 1, number, '"int"'))
        for number, subject in enumerate(versions)
    ]
    return [
        *level[:3],
        *version[:2],
        Entry(level[1].key, None),
        level[3],
        version[2],
        Entry(version[0].key, None),
    ]


def numbered(entries: Sequence[Entry | Record], first_ms: int = 1_000, step_ms: int = 1) -> list[Record]:
    return [
        Record(offset, first_ms + step_ms * offset, each.key, each.value)
        for offset, each in enumerate(entries)
    ]


def produced(servers: str, topic: str, log: list[Record]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "batch.num.messages": 5,
            "log_level": 0,
        }
    )
    for record in log:
        producer.produce(topic, record.value, record.key, partition=0, timestamp=record.ts)
    assert producer.flush(60) == 0


def check(made: Manifest, plain: Manifest, at: Task, log: list[Record]) -> None:
    """Check that the snapshot equals the other one byte for byte, and with the tail the fold of the log."""
    assert files_of(at.location, made) == files_of(at.location, plain)
    assert (made.digest, made.counts, made.parts) == (plain.digest, plain.counts, plain.parts)
    check_law(made, at, log)


def check_law(made: Manifest, at: Task, log: list[Record]) -> None:
    found = rows_in(at.location, made)
    assert made.digest == digest.of_rows(found)
    tail = [record for record in log if record.offset >= made.offset]
    assert dict(fold(tail, DictView(found)).rows()) == rows_of(log)


# Based on another snapshot or not, and by the short way for few records or not, which needs a base. The base
# itself, which is compared too, is built without either.
PAIRS = [(True, True)]
OTHERS = [(True, False), (False, False), (False, True)]


@pytest.mark.parametrize("pairs", [PAIRS, pytest.param(OTHERS, marks=pytest.mark.long)])
def test_what_spark_builds_is_what_the_plain_fold_builds(
    spark: SparkSession,
    kafka: Broker,
    opened: Callable[..., Task],
    monkeypatch: pytest.MonkeyPatch,
    pairs: list[tuple[bool, bool]],
) -> None:
    said, cuts = many_logs(LOGS), cut_log()
    middle = len(said) // 2
    log = numbered([*said[:middle], *cuts[:5], *said[middle:-20], *cuts[5:], *said[-20:]])
    # Brokers do not accept null keys in compacted topics.
    topic = make_topic(kafka.address, {"cleanup.policy": "delete", "retention.ms": "-1"})
    produced(kafka.address, topic, log)
    base_end, end = middle + 5, len(log) - 20
    base = build(opened(kafka, topic, base_end), silent)
    check(base, local.build(opened(kafka, topic, base_end), silent), opened(kafka, topic, end), log)
    plain = local.build(opened(kafka, topic, end), silent)
    for based, few in pairs:
        on = base if based else None
        monkeypatch.setattr(engine, "FEW", end if few else 0)
        made = build(opened(kafka, topic, end, on), silent)
        check(made, plain, opened(kafka, topic, end), log)
        assert (made.engine, made.base, made.offset) == ("spark", on.id if on else "", end)
    assert len(plain.parts) > 3, "the log is made so that rows begin parts"
    assert {part.first for part in base.parts} - {part.first for part in plain.parts}, "and so that they join"


def test_a_log_whose_beginning_is_gone_is_read_from_what_is_left(
    spark: SparkSession, kafka: Broker, opened: Callable[..., Task]
) -> None:
    topic = make_topic(kafka.address, {"cleanup.policy": "delete", "retention.ms": "-1"})
    log = numbered([entry(number) for number in range(60)])
    produced(kafka.address, topic, log)
    admins = admin(kafka.address)
    for done in admins.delete_records([TopicPartition(topic, 0, 40)]).values():
        assert done.result(30).low_watermark == 40
    made = build(opened(kafka, topic, len(log)), silent)
    check(made, local.build(opened(kafka, topic, len(log)), silent), opened(kafka, topic, len(log)), log[40:])


def test_workers_begin_with_what_they_need_and_read_no_archives_again(spark: SparkSession) -> None:
    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        archives = [each for each in sys.path_importer_cache if each.endswith("pyspark.zip")]
        yield pa.record_batch([[len(archives)], [gc.get_freeze_count() > 0]], ["archives", "frozen"])

    found = spark.range(0, 1, 1, 1).mapInArrow(look, "archives bigint, frozen boolean").collect()
    assert [tuple(each) for each in found] == [(0, True)]


@pytest.mark.parametrize("counts", [(1, 8), pytest.param((100,), marks=pytest.mark.long)])
def test_spark_puts_each_place_into_a_partition_of_its_own(
    spark: SparkSession, counts: tuple[int, ...]
) -> None:
    for count in counts:
        places = spark.createDataFrame([(place,) for place in places_for(count)], "place bigint")
        put = places.repartition(count, "place").select("place", sql.spark_partition_id().alias("at"))
        assert {each.place: each.at for each in put.collect()} == {
            place: number for number, place in enumerate(places_for(count))
        }


def test_the_embedded_log_is_read_in_pieces_and_how_far_it_is_is_reported_in_tasks(
    spark: SparkSession, tmp_path: Path, opened: Callable[..., Task]
) -> None:
    entries = [Entry(record.key, record.value) for record in many_logs(10) if record.key is not None]
    found = embedded(tmp_path, [*entries, *(entry(number) for number in range(3_000))])
    at = opened(None, "", len(found) - 10)
    told: dict[str, tuple[int, int]] = {}

    def tell(step: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        told[step] = done, total

    base = build(opened(None, "", 500), tell)
    assert list(told) == [engine.STARTING, engine.FOLDING, engine.WRITING, engine.VERIFYING]
    assert all(done == total for done, total in told.values()), "each step ends at its end"
    made = build(opened(None, "", at.end, base), silent)
    check(made, local.build(opened(None, "", at.end), silent), at, found)
    nothing = build(opened(None, "", 0), silent)
    assert (nothing.rows, nothing.parts, nothing.digest) == (0, (), digest.EMPTY)
    again = build(opened(None, "", 500, base), silent)
    assert again.parts == base.parts, "without news it is the same"


def test_a_full_snapshot_by_spark_follows_deltas(
    spark: SparkSession, tmp_path: Path, opened: Callable[..., Task]
) -> None:
    log = embedded(tmp_path, [*(entry(number) for number in range(40)), entry(3, '"long"')])
    given = embedded_settings(tmp_path)
    limits = DeltaLimits(most=1, full_bytes_min=0, share=1)
    builds = (("local", 35), ("spark", 38), ("spark", 41))
    with closing(open_catalogue(given)) as catalogue:
        full, small, made = (
            builder.build_now(given, catalogue, name, silent, offset=at, limits=limits) for name, at in builds
        )
    assert (small.engine, small.needs) == ("delta", {full.id})
    assert (made.engine, made.needs, made.base) == ("spark", frozenset(), full.id)
    check(made, local.build(opened(None, "", 41), silent), opened(None, "", 41), log)


def embedded(data: Path, entries: list[Entry]) -> list[Record]:
    """Create the embedded log; return its records."""
    with closing(EmbeddedLog(data / "log")) as log:
        log.append(entries)
        return log.read(0, len(entries), 1 << 30).records


def entry(number: int, text: str = '"int"') -> Entry:
    subject = Subject(".", f"s{number}")
    return Entry(records.schema_key(subject, 1), values.schema_value(subject, 1, number + 1, text))


# In make test, logs whose beginning is gone and lost chunks after compaction are read.
@pytest.mark.long
def test_compaction_before_while_and_after_it_reads_does_no_harm(
    spark: SparkSession, kafka: Broker, opened: Callable[..., Task]
) -> None:
    topic = make_topic(kafka.address, COMPACTS)
    # Segments are rolled, and so compacted, by the times of their records.
    said = [record for record in many_logs(20) if record.key is not None]
    log = numbered(covering(numbered([*said, *said])), round(time.time() * 1000) - 3_600_000, 20)
    first, second = len(log) // 3, 2 * len(log) // 3
    produced(kafka.address, topic, log[:first])
    until(lambda: compacted(kafka, topic, log[:first]), 60, "compaction of what is there", every_s=0.2)
    base = build(opened(kafka, topic, first), silent)
    check_law(base, opened(kafka, topic, first), log)
    produced(kafka.address, topic, log[first:second])
    begun, over = threading.Event(), threading.Event()

    def write_on() -> None:
        for at in range(second, len(log), 10):
            produced(kafka.address, topic, log[at : at + 10])
            begun.set()
            over.wait(0.2)

    writing = threading.Thread(target=write_on)
    writing.start()
    assert begun.wait(60)
    while_written = [build(opened(kafka, topic, second, on), silent) for on in (base, None)]
    over.set()
    writing.join()
    for made in while_written:
        check_law(made, opened(kafka, topic, second), log)
        assert made.comparable_from > made.offset, "records may be gone that the offset still had"
    until(lambda: compacted(kafka, topic, log), 60, "compaction of all", every_s=0.2)
    made = build(opened(kafka, topic, second, base), silent)
    check_law(made, opened(kafka, topic, second), log)


def compacted(broker: Broker, topic: str, log: list[Record]) -> bool:
    """Return true if most superseded records are gone; the last ones written stay."""
    source = open_source(Settings(kafka=broker.address, topic=topic))
    with closing(source.log):
        offset, count = 0, 0
        while offset < len(log) and source.log.wait(offset, 10):
            fetched = source.log.read(offset, 1_000, 1 << 30)
            offset, count = fetched.next, count + len(fetched.records)
    keys = len({record.key for record in log})
    return count <= keys + (len(log) - keys) / 2


def test_a_damaged_base_is_refused_and_leaves_no_snapshot(
    spark: SparkSession, tmp_path: Path, opened: Callable[..., Task]
) -> None:
    embedded(tmp_path, [entry(number) for number in range(20)])
    base = build(opened(None, "", 10), silent)
    file = tmp_path / "snapshots" / base.id / base.parts[0].name
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    at = opened(None, "", 20, base)
    with pytest.raises(UnusableSnapshot, match=f"{base.parts[0].name} is damaged"):
        build(at, silent)
    assert MANIFEST not in at.location.files(at.id)


def spoiling(step: str, spoil: Callable[[], None], times: int = 1) -> Callable[[str, int, int], None]:
    """Return a progress that spoils something as soon as a step has ended, in the first ``times`` builds."""
    spoiled = 0

    def progress(at: str, done: int, total: int) -> None:
        nonlocal spoiled
        # The last report of a step comes from the thread that builds, before the next step begins.
        if at == step and done == total and threading.current_thread() is threading.main_thread():
            spoiled += 1
            if spoiled <= times:
                spoil()

    return progress


# Begins a frame of zstd; before it, Arrow has the length of its contents.
ZSTD = b"\x28\xb5\x2f\xfd"
# Java cuts what it serializes into pieces of 1 KiB, each after its length.
SHORT_PIECE, PIECE = 0x77, 0x7A
FULL_PIECE = b"\x7a\x00\x00\x04\x00"


def pieces(file: bytes) -> list[slice]:
    """Return the places of the data in a file that Java has serialized."""
    found, begin = list[slice](), file.find(FULL_PIECE)
    while 0 <= begin < len(file) and file[begin] in (SHORT_PIECE, PIECE):
        size = 1 if file[begin] == SHORT_PIECE else 4
        start = begin + 1 + size
        begin = start + int.from_bytes(file[begin + 1 : start], "big")
        found.append(slice(start, begin))
    return found or [slice(len(file))]


def with_other_name(file: bytes, name: str) -> bytes:
    """Return the file in which a row has another name of the same letters, packed into as many bytes."""
    places, changed = pieces(file), bytearray(file)
    data = b"".join(file[each] for each in places)
    begin = data.find(ZSTD)
    while begin >= 0:
        length = int.from_bytes(data[begin - 8 : begin], "little")
        content = pa.CompressedInputStream(pa.BufferReader(data[begin:]), "zstd").read(length)
        packed = pa.compress(content, codec="zstd", asbytes=True)
        if name.encode() in content:
            data = data.replace(packed, _as_long(content, name, packed))
        begin = data.find(ZSTD, begin + 1)
    for each in places:
        size = len(file[each])
        changed[each], data = data[:size], data[size:]
    return bytes(changed)


def _as_long(content: bytes, name: str, packed: bytes) -> bytes:
    """Return the contents with the letters of ``name`` in another order, as long as ``packed``."""
    chance, letters = random.Random(1), list(name[1:])
    while True:
        chance.shuffle(letters)
        other = content.replace(name[1:].encode(), "".join(letters).encode())
        found: bytes = pa.compress(other, codec="zstd", asbytes=True)
        if len(found) == len(packed) and other != content:
            return found


def blocks(spark: SparkSession) -> list[Path]:
    """Return the files in which Spark keeps data between stages: what a lost executor takes with it."""
    local = Path(spark.sparkContext.getConf().get("spark.local.dir") or "")
    chunks = list(local.glob("**/rdd_*"))
    assert chunks, "the chunks are kept"
    return [*chunks, *local.glob("**/shuffle_*")]


def embedded_settings(data: Path) -> Settings:
    return Settings(data=data, snapshots_spark_master=MASTER, snapshots_spark_conf=QUICK)


def is_sound(made: Manifest, data: Path, log: list[Record]) -> None:
    location = Location.parse(data / "snapshots")
    assert not list(verify(location, made.id, lambda done, total: None))
    found = rows_in(location, made)
    tail = [record for record in log if record.offset >= made.offset]
    assert dict(fold(tail, DictView(found)).rows()) == rows_of(log)
    assert location.files(made.id) == sorted([MANIFEST, *(part.name for part in made.parts)])


# In a process of its own, because this one has the log open for reading.
COMPACTS_ALL = """
import sys
from pathlib import Path
from registry.log.embedded.log import EmbeddedLog, now_ms

log = EmbeddedLog(Path(sys.argv[1]))
while log.compact(now_ms() + 86_400_000, 0, 0):
    pass
"""


@pytest.mark.parametrize("extend", [False, pytest.param(True, marks=pytest.mark.long)])
def test_lost_chunks_are_never_folded_again_from_a_log_that_has_moved_on(
    spark: SparkSession, tmp_path: Path, extend: bool
) -> None:
    """Compaction removes the records of the snapshot and the chunks are lost: nothing mixes two folds."""
    first = [entry(number) for number in range(40)]
    log = embedded(tmp_path, [*first, *(entry(number, '"string"') for number in range(40))])
    given = embedded_settings(tmp_path)
    if extend:
        builder.build_now(given, None, "local", silent, offset=10)

    def lose() -> None:
        subprocess.run([sys.executable, "-c", COMPACTS_ALL, str(tmp_path / "log")], cwd=ROOT, check=True)
        for file in blocks(spark):
            file.unlink()

    made = builder.build_now(given, None, "spark", spoiling(engine.FOLDING, lose), offset=40)
    assert (made.engine, made.offset) == ("spark", 40)
    is_sound(made, tmp_path, log)
    with open_session(given) as found:
        assert found is spark, "a step that failed ends no session that it has not begun"


@pytest.mark.parametrize("extend", [False, pytest.param(True, marks=pytest.mark.long)])
def test_rows_that_change_between_fold_and_write_are_folded_once_more(
    spark: SparkSession, tmp_path: Path, extend: bool
) -> None:
    name = f"a{random.Random(1).randbytes(16).hex()}"
    text = f'{{"type":"fixed","size":7,"name":"{name}"}}'
    log = embedded(tmp_path, [*(entry(number) for number in range(20)), entry(20, text)])
    given = embedded_settings(tmp_path)
    if extend:
        builder.build_now(given, None, "local", silent, offset=10)
    changed: list[Path] = []

    def change() -> None:
        for file in blocks(spark):
            content = file.read_bytes()
            other = with_other_name(content, name)
            if other != content:
                file.write_bytes(other)
                changed.append(file)

    made = builder.build_now(given, None, "spark", spoiling(engine.FOLDING, change))
    assert changed
    is_sound(made, tmp_path, log)


# In make test, rows that change before they are written and a damaged base are noticed.
@pytest.mark.long
def test_a_part_that_is_damaged_after_it_was_written_is_noticed_before_anything_is_announced(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = embedded(tmp_path, [entry(number) for number in range(20)])
    given = embedded_settings(tmp_path)

    def damage() -> None:
        for part in tmp_path.glob("snapshots/*/part-*"):
            if not (part.parent / MANIFEST).exists():
                part.write_bytes(part.read_bytes()[:-1] + b"!")

    made = builder.build_now(given, None, "spark", spoiling(engine.WRITING, damage))
    is_sound(made, tmp_path, log)
    with pytest.raises(BuildFailed, match="SHA-256"):
        builder.build_now(given, None, "spark", spoiling(engine.WRITING, damage, 2), extend=False)
    assert [path.parent.name for path in tmp_path.glob(f"snapshots/*/{MANIFEST}")] == [made.id]


@pytest.mark.long
def test_killed_python_workers_are_replaced(
    spark: SparkSession, tmp_path: Path, opened: Callable[..., Task]
) -> None:
    embedded(tmp_path, [entry(number) for number in range(20_000)])
    at = opened(None, "", 20_000)
    hanging, killed = Hanging(spark), list[int]()

    def kill(step: str, done: int, total: int) -> None:
        hanging(step, done, total)
        if step == engine.FOLDING and not killed:
            killed.extend(hanging.kill())

    made = build(at, kill)
    assert killed
    plain = local.build(opened(None, "", 20_000), silent)
    assert files_of(at.location, made) == files_of(at.location, plain)


@pytest.mark.long
def test_a_build_whose_workers_hang_ends_in_time_and_the_next_one_succeeds(
    spark: SparkSession, tmp_path: Path
) -> None:
    embedded(tmp_path, [entry(number) for number in range(20_000)])
    known = Settings(data=tmp_path, snapshots_build_timeout_s=45.0)
    hanging = Hanging(spark)
    with pytest.raises(BuildFailed, match="it took longer than 45 s"):
        builder.build_now(known, None, "spark", hanging)
    assert hanging.kill()
    made = builder.build_now(replace(known, snapshots_build_timeout_s=3_600.0), None, "spark", silent)
    assert made.offset == 20_000


class Hanging:
    """A progress that stops Spark's waiting workers before the log is folded, which gives work to them first.

    While the log is folded, it would come too late for a build that is done sooner than it is asked.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._stopped: list[int] = []

    def __call__(self, step: str, done: int, total: int) -> None:
        if step == engine.STARTING and done == total:
            # Afterwards at least one worker waits for the next task.
            self._spark.range(2, numPartitions=2).mapInArrow(lambda batches: batches, "id bigint").count()
            for worker in python_workers():
                os.kill(worker, signal.SIGSTOP)
                self._stopped.append(worker)

    def kill(self) -> list[int]:
        """Kill the workers; return them."""
        for worker in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        return self._stopped


def python_workers() -> list[int]:
    """Return the processes that run Python for Spark: children of the one that forks them."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"snapshots.spark.daemon" in words:
            found[int(folder.name)] = parent
    ours = {pid for pid, parent in found.items() if _descends(parent, os.getpid())}
    return [pid for pid in ours if found[pid] in found]


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid == ancestor


KILLS_SPARK = """
import os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from registry.base.config.settings import Settings
from snapshots.building import builder
from snapshots.spark.engine import WRITING

def kill(step, done, total):
    if step == WRITING and list(Path(sys.argv[1]).glob("snapshots/*/part-*")):
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

given = Settings(data=Path(sys.argv[1]), snapshots_spark_master="local[1]", snapshots_spark_conf=sys.argv[2])
try:
    builder.build_now(given, None, "spark", kill)
except builder.FAILURES as error:
    sys.exit(f"failed: {error}")
"""


@pytest.mark.long
def test_a_killed_spark_leaves_no_snapshot_and_the_next_build_succeeds(
    spark: SparkSession, tmp_path: Path, opened: Callable[..., Task]
) -> None:
    log = embedded(tmp_path, [entry(number) for number in range(20)])
    command = [sys.executable, "-c", KILLS_SPARK, str(tmp_path), QUICK]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1, done.stderr
    assert "failed: Spark" in done.stderr
    assert list((tmp_path / "snapshots").glob("*/part-*")), "all was there but the manifest"
    assert not list((tmp_path / "snapshots").glob(f"*/{MANIFEST}"))
    at = opened(None, "", 20)
    check(build(at, silent), local.build(opened(None, "", 20), silent), at, log)


KEPT = {"cleanup.policy": "delete"}


class Steps:
    """The steps that a census has reported."""

    def __init__(self) -> None:
        self.names = set[str]()

    def __call__(self, step: str, done: int, total: int) -> None:
        self.names.add(step)


def test_a_census_counts_every_committed_message_and_then_only_new_ones(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """It equals a count by another client: of all framings, headers, transactions and removed messages."""
    servers = kafka.address
    topics = {"plain": 2, "expired": 1, "compacted": 1, "transactions": 1, "empty": 1}
    plain, expired, compacted, transactions, _ = (
        make_topic(servers, {} if name == "compacted" else KEPT, name=f"census.{name}", partitions=partitions)
        for name, partitions in topics.items()
    )
    counting.produce(servers, plain, counting.messages(1, 3_000), partitions=2)
    counting.produce(servers, expired, counting.messages(2, 500))
    counting.produce(servers, compacted, counting.messages(3, 200))
    batches = [(counting.messages(seed, 50), seed % 3 > 0) for seed in range(9)]
    counting.produce_in_transactions(servers, transactions, batches)
    expire(servers, expired, 200)
    settings = Settings(kafka=servers, snapshots_spark_master=MASTER, data=tmp_path)
    scope, location = census.Scope(("census.*",)), Location.parse(tmp_path / "found")

    def take() -> tuple[census.Result, set[str]]:
        steps = Steps()
        return census.run(settings, scope, location, steps), steps.names

    def brute() -> dict[tuple[object, ...], list[object]]:
        found = [counting.counted(servers, f"census.{name}", number) for name, number in topics.items()]
        return {key: row for each in found for key, row in each.items()}

    first, _ = take()
    assert counting.as_counts(first.rows.uses) == brute()
    assert all(use.exact for use in first.rows.uses)
    assert {len(use.samples) for use in first.rows.uses if use.framing != "none"} == {0}
    assert {len(use.samples) for use in first.rows.uses if use.messages > 50 and use.framing == "none"} == {5}
    assert (first.census.sources.read, first.census.sources.unread) == (5, 0)
    assert not first.census.complete, "it has counted only some topics"

    same, steps = take()
    assert same.rows == first.rows, "nothing has changed"
    assert census.STARTING not in steps, "nothing was read, so Spark was not needed"

    counting.produce(servers, plain, counting.messages(4, 100), partitions=2)
    counting.produce(servers, compacted, counting.messages(5, 10))
    expire(servers, expired, 350)
    third, _ = take()
    assert third.census.base == same.census.id
    found, wanted = counting.as_counts(third.rows.uses), brute()
    exact = {tuple(use[:6]) for use in third.rows.uses if use.exact}
    assert {key: found[key] for key in exact} == {key: wanted[key] for key in exact}
    assert {key[0] for key in found.keys() - exact} == {expired}, "the base has counted removed messages"
    assert found.keys() == wanted.keys(), "what no message names any more is gone"
    assert all(wanted[key][0] <= found[key][0] for key in found)
    assert census_files.read_rows(location, third.census) == third.rows


# In make test, tests/contract/log/test_kafka_log_cut.py plans by the answers of a broker that lost messages.
@pytest.mark.long
def test_a_partition_that_lost_messages_and_grew_past_them_is_counted_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Broker(tmp_path / "kafka") as broker:
        cut_off, kept = (make_topic(broker.address, KEPT, name=f"grown.{name}") for name in ("cut", "kept"))
        settings = Settings(kafka=broker.address, snapshots_spark_master=MASTER, data=tmp_path)
        location = Location.parse(tmp_path / "found")

        def grow(seed: int) -> None:
            for part in range(10):
                for topic in (cut_off, kept):
                    counting.produce(broker.address, topic, counting.messages(seed * 10 + part, 20))

        def take() -> census.Result:
            return census.run(settings, census.Scope(("grown.*",)), location, silent)

        grow(1)
        take()
        broker.kill()
        assert cut(broker.folder, cut_off, 50) < 150
        broker.start().wait()
        grow(2)
        found = take()
        assert {row.source: "and grew again" in row.reason for row in found.rows.partitions} == {
            cut_off: True, kept: False,
        }  # fmt: skip
        brute = [counting.counted(broker.address, topic) for topic in (cut_off, kept)]
        assert counting.as_counts(found.rows.uses) == {
            key: row for each in brute for key, row in each.items()
        }
        assert take().rows.uses == found.rows.uses


# In make test, tests/unit/snapshots/test_census_plan.py has the rows, test_kafka_log_topic.py the answers.
@pytest.mark.long
def test_what_cannot_be_counted_is_a_row_with_the_reason_and_harms_no_other_topic(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """A topic is deleted after the run was planned, one is not framed, one has an open transaction."""
    servers = kafka.address
    good, gone, foreign, busy = (
        make_topic(servers, KEPT, name=f"uncounted.{name}") for name in ("good", "gone", "foreign", "open")
    )
    counting.produce(servers, good, counting.messages(1, 50))
    counting.produce(servers, gone, counting.messages(2, 50))
    many = (counting.Sent(None, b"\0" + number.to_bytes(4), []) for number in range(REFERENCES_MAX + 1))
    counting.produce(servers, foreign, many)
    counting.produce(servers, busy, counting.messages(3, 20))
    settings = Settings(kafka=servers, snapshots_spark_master=MASTER, data=tmp_path)
    location = Location.parse(tmp_path / "found")

    def take(
        before_counting: Callable[[], None], transactions_s: float
    ) -> tuple[dict[str, str], dict[str, set[str]]]:
        def progress(step: str, done: int, total: int) -> None:
            if step == census.STARTING and done < total:
                before_counting()

        scope = census.Scope(("uncounted.*",))
        result = census.run(settings, scope, location, progress, transactions_s=transactions_s)
        counted: dict[str, set[str]] = {}
        for use in result.rows.uses:
            counted.setdefault(use.source, set()).add(use.framing)
        return {row.source: row.reason for row in result.rows.partitions}, counted

    with counting.open_transaction(servers, busy):
        reasons, counted = take(lambda: delete_topic(servers, gone), 0)
    assert reasons[good] == ""
    assert good in counted
    assert "deleted while it was read" in reasons[gone]
    assert f"its values name more than {REFERENCES_MAX} schemas" in reasons[foreign]
    assert foreign not in counted
    assert reasons[busy] == "a transaction has been open since offset 20"
    assert busy in counted, "what was committed before is counted"
    # The broker ends a transaction soon after its producer has.
    reasons, _ = take(lambda: None, census.TRANSACTIONS_S)
    assert {source for source, reason in reasons.items() if reason} == {foreign}


def test_values_in_files_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    values = [b"\0\0\0\0\1x", b"\0\0\0\0\1", b"\1" + bytes(16), b"text", None]
    path = f"{tmp_path}/a.parquet"
    parquet.write_table(pa.table({"value": pa.array(values, pa.binary()), "n": range(5)}), path)
    containers = tmp_path / "containers"
    containers.mkdir()
    nested = {"type": "record", "name": "Inner", "fields": [{"name": "body", "type": ["null", "bytes"]}]}
    schema = {"type": "record", "name": "Outer", "fields": [{"name": "sent", "type": nested}]}
    for number, some in enumerate((values[:3], values[3:])):
        with (containers / f"{number}.avro").open("wb") as file:
            fastavro.writer(file, schema, [{"sent": {"body": each}} for each in some])
    settings = Settings(snapshots_spark_master=MASTER, data=tmp_path)
    named = [census.FileSource("parquet", path, column) for column in ("value", "n", "none")]
    named.append(census.FileSource("avro", str(containers), "sent.body"))
    result = census.run(settings, census.Scope((), tuple(named)), Location.parse(tmp_path / "found"), silent)
    counts = {(use.source, use.side, use.framing, use.id): use[6:8] for use in result.rows.uses}
    assert counts == {
        (source, "value", *name): count
        for source in (f"{path}#value", f"{containers}#sent.body")
        for name, count in {
            ("guid", None): (1, 17),
            ("id", 1): (2, 11),
            ("none", None): (1, 4),
            ("null", None): (1, 0),
        }.items()
    }
    reasons = {row.source.rpartition("#")[2]: row.reason for row in result.rows.partitions}
    assert reasons["value"] == ""
    assert "the column n has the type bigint" in reasons["n"]
    assert "UNRESOLVED_COLUMN" in reasons["none"]
    assert not result.census.complete


def failed_places(found: Verdict) -> dict[str, list[tuple[int, int]]]:
    """Return the first places of messages that cannot be read, by their writers."""
    places: dict[str, list[tuple[int, int]]] = {}
    for each in found.failed:
        places.setdefault(str(each.writer), []).extend(each.places)
    return {name: sorted(each) for name, each in places.items()}


@pytest.mark.parametrize(("messages", "seed"), [(600, 1), pytest.param(60_000, 2, marks=pytest.mark.long)])
def test_messages_that_another_schema_cannot_read_are_found_with_the_reason(
    spark: SparkSession, kafka: Broker, tmp_path: Path, messages: int, seed: int
) -> None:
    """They are those that fastavro cannot read: named by ids, GUIDs and headers, damaged, and unknown."""
    servers = kafka.address
    topic = make_topic(servers, KEPT, name=f"reread.{messages}", partitions=2)
    counting.produce(servers, topic, rereading.messages(seed, messages), partitions=2)
    settings = Settings(kafka=servers, snapshots_spark_master=MASTER, data=tmp_path)
    steps, reader = Steps(), Reader(rereading.READER)
    found = reread(settings, topic, "value", reader, rereading.find, steps)
    count, failing = rereading.failing(servers, topic, 2)
    assert (found.messages, found.failures) == (count, sum(map(len, failing.values())))
    assert (found.messages + found.nulls, found.unread) == (messages, {})
    by_writer: dict[str, int] = {}
    for each in found.failed:
        by_writer[str(each.writer)] = by_writer.get(str(each.writer), 0) + each.messages
        assert set(each.places) <= set(failing[str(each.writer)])
    assert by_writer == {name: len(places) for name, places in failing.items()}
    assert {min(each) for each in failed_places(found).values()} == {each[0] for each in failing.values()}
    reasons = {(str(each.writer), each.reason) for each in found.failed}
    assert {
        ("id 1", "the reader's enum shop.Color lacks the symbol PINK"),
        ("id 3", "the reader's type long cannot read string"),
        ("id 4", "the message has a schema of the type JSON, the new one is AVRO"),
        ("id 77", "the registry has no schema with the id 77"),
        ("None", "it names no schema"),
    } <= reasons
    assert {"counting writers", "reading messages"} <= steps.names

    sampled = reread(settings, topic, "value", reader, rereading.find, silent, sample=messages // 4)
    assert abs(sampled.messages + sampled.nulls - messages // 4) <= 8
    # The keys of this topic name no schema.
    keys = reread(settings, topic, "key", reader, rereading.find, silent, sample=8)
    assert [(each.writer, each.reason) for each in keys.failed] == [(None, "it names no schema")]
    assert keys.failures == keys.messages > 0


# Spark waits for two minutes; tests/unit/snapshots/test_census_plan.py has what is noticed after reading.
@pytest.mark.long
def test_messages_that_are_lost_while_they_are_read_are_unread(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    servers = kafka.address
    topic = make_topic(servers, KEPT)
    counting.produce(servers, topic, rereading.messages(1, 20))

    def make_again(step: str, done: int, total: int) -> None:
        if (step, done) == (census.STARTING, 0):
            delete_topic(servers, topic)
            make_topic(servers, KEPT, name=topic)

    settings = Settings(kafka=servers, snapshots_spark_master=MASTER, data=tmp_path)
    found = reread(settings, topic, "value", Reader(rereading.READER), rereading.find, make_again)
    assert found.unread == {0: "it was deleted and created again while it was read"}


@pytest.mark.long
def test_messages_of_other_formats_are_read_one_by_one(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """JSON is validated, Protobuf is parsed, and Spark has no type for a recursive Avro schema."""
    servers = kafka.address
    settings = Settings(kafka=servers, snapshots_spark_master=MASTER, data=tmp_path)

    def failures(writer: WriterSchema, reader: WriterSchema, values: list[bytes]) -> dict[int, str]:
        topic = make_topic(servers, KEPT, name=f"reread.{writer.type}.{len(values)}")
        prefix = b"\0\0\0\0\1"
        counting.produce(servers, topic, (counting.Sent(None, prefix + each, []) for each in values))
        found = reread(settings, topic, "value", Reader(reader), lambda name: writer, silent)
        assert found.messages == len(values)
        return {offset: each.reason for each in found.failed for _, offset in each.places}

    old = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
    new = '{"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}}, "required": ["a"]}'
    values = [b'{"a": %d}' % number for number in range(9)] + [b"{}"]
    refused = failures(WriterSchema("JSON", old), WriterSchema("JSON", new), values)
    assert sorted(refused) == rereading.invalid(new, values) == [6, 7, 8, 9]
    assert (refused[9], refused[6]) == (
        "$: 'a' is a required property",
        "$.a: 6 is greater than the maximum of 5",
    )

    before = 'syntax = "proto3"; message Other { int32 a = 1; } message Order { int32 a = 1; string b = 2; }'
    after = 'syntax = "proto2"; message Order { required int32 a = 1; required string b = 2; }'
    values = [b"\2\2\x08\1\x12\1x", b"\0\x08\1", b"\2\2\x08\1", b"\2\2\x12\5x", b"\2\2\x08\1\x12\2\xc3\xa9"]
    refused = failures(WriterSchema("PROTOBUF", before), WriterSchema("PROTOBUF", after), values)
    assert sorted(refused) == [1, 2, 3]
    assert refused[1] == "the new schema has no message Other"
    assert refused[2] == "the message lacks fields that Order requires: b"
    assert "the message is not of the type Order" in refused[3]

    node = '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}'
    more = node.replace("}]}", '}, {"name": "x", "type": "int", "default": 1}]}')
    wider = WriterSchema("AVRO", more), WriterSchema("AVRO", node)
    values = [b"\2\2\0", b"\2\2", b"\0", b"\6"]
    refused = failures(wider[1], wider[0], values)
    assert refused == {
        1: "the message ends before its schema does",
        3: "the message chooses type 3 of a union of 2",
    }


def test_check_decode_reads_a_topic_with_the_schema_in_a_file(
    spark: SparkSession, kafka: Broker, registry: Served, tmp_path: Path
) -> None:
    topic = make_topic(kafka.address, KEPT)
    with httpx.Client(base_url=registry.url) as http:
        money = {"schema": rereading.MONEY}
        assert http.post(f"/subjects/{topic}-money/versions", json=money).is_success
        named = [{"name": "shop.Money", "subject": f"{topic}-money", "version": 1}]
        old = {"schema": rereading.order(("price", "shop.Money"), ("a", "int")), "references": named}
        known = http.post(f"/subjects/{topic}-value/versions", json=old).json()["id"]
    value = b"\0" + known.to_bytes(4)
    counting.produce(
        kafka.address, topic, [counting.Sent(None, value + each, []) for each in (b"\2\4", b"\2")]
    )
    file = tmp_path / "new.avsc"
    words = ("check", str(file), "--topic", topic, "--url", registry.url, "--kafka", kafka.address)
    file.write_text(rereading.order(("a", "long"), ("b", "int", 0)))
    found = registrar(*words, "--decode")
    assert "1 of 2 values of" in found.stdout
    assert f"id {known}" in found.stdout
    assert (found.returncode, "the message ends before its schema does" in found.stdout) == (1, True)
    assert "the versions in use were not compared" in found.stderr, "there is no census"
    file.write_text(rereading.order(("price", json.loads(rereading.MONEY))))
    found = registrar(*words, "--decode", "--json", "--sample", "2")
    decoded = json.loads(found.stdout)["decoded"]
    assert (found.returncode, decoded["failures"], decoded["messages"]) == (1, 1, 2)
    assert [decoded["failed"][0][name] for name in ("id", "guid", "messages", "first")] == [
        known,
        None,
        1,
        [[0, 1]],
    ]
    empty = make_topic(kafka.address, KEPT)
    words = ("check", str(file), "--topic", empty, "--subject", f"{topic}-value", "--url", registry.url)
    found = registrar(*words, "--decode", "--kafka", kafka.address)
    assert (found.returncode, found.stdout) == (0, f"0 of 0 values of {empty} fail to decode\n")
    missing = registrar(*words[:3], "no-such-topic", *words[4:], "--decode", "--kafka", kafka.address)
    assert (missing.returncode, "there is no topic no-such-topic" in missing.stderr) == (2, True)
    assert registrar("check", str(file), "--sample", "1", "--url", registry.url).returncode == 2


def test_check_decode_reads_each_side_with_the_newest_version_of_its_own_subject(
    spark: SparkSession, kafka: Broker, registry: Served, tmp_path: Path
) -> None:
    topic = make_topic(kafka.address, KEPT, partitions=2)
    ids = {}
    with httpx.Client(base_url=registry.url) as http:
        for side, text in (("key", '"string"'), ("value", rereading.order(("a", "int")))):
            posted = http.post(f"/subjects/{topic}-{side}/versions", json={"schema": text})
            ids[side] = posted.raise_for_status().json()["id"]
    key, value = (b"\0" + ids[side].to_bytes(4) for side in ("key", "value"))
    # By turns in two partitions: fine, a cut key, a deletion, a cut value, no key.
    sent = [(key + b"\2k", value + b"\2"), (key + b"\6k", value + b"\4"), (key + b"\2k", None)]
    sent += [(key + b"\2k", value), (None, value + b"\2")]
    counting.produce(kafka.address, topic, [counting.Sent(*each, []) for each in sent], partitions=2)
    for side, versions in (
        ("key", ['"int"', '"bytes"']),
        ("value", [rereading.order(("z", "int")), rereading.order(("a", "long"))]),
    ):
        folder = tmp_path / "schemas" / f"{topic}-{side}"
        folder.mkdir(parents=True)
        for number, text in enumerate(versions, 1):
            (folder / f"{number}.avsc").write_text(text)
    words = ("check", str(tmp_path / "schemas"), "--topic", topic, "--decode", "--json")
    words += ("--url", registry.url, "--kafka", kafka.address)
    for flags, side, place in (((), "value", [1, 1]), (("--keys",), "key", [1, 0])):
        found = registrar(*words, *flags)
        decoded = json.loads(found.stdout)["decoded"]
        assert found.returncode == 1
        assert [decoded[name] for name in ("side", "messages", "nulls", "failures")] == [side, 4, 1, 1]
        [failed] = decoded["failed"]
        assert (failed["id"], failed["first"]) == (ids[side], [place])


def expire(servers: str, topic: str, offset: int) -> None:
    """Remove the messages of a topic before an offset, as retention does."""
    at = TopicPartition(topic, 0, offset)
    client = admin(servers)  # Kept, because its pending calls would end with it.
    client.delete_records([at])[at].result(30)
