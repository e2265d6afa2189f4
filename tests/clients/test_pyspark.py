"""registrar.spark in a real Spark, against a real registry."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from deploy.local.broker import Broker
from registrar.spark import (
    Malformed,
    Refused,
    RegistrarSource,
    Registry,
    RegistryError,
    from_registry,
    to_registry,
)
from registrar.spark.avro_resolution import long_bytes
from registrar.spark.formats import Reader, Schema, reader_of
from registrar.spark.framing import prefix_of_guid, prefix_of_id
from registrar.spark.schemas import Resolving, dependencies, schema_of_version
from snapshots.spark import shipping
from snapshots.spark.jars import connector_jars
from tests.clients.integrations import BROKER, REGISTRY
from tests.clients.spark_session import session
from tests.support.kafka_topics import make_topic
from tests.support.pages import blocks
from tests.support.running import ROOT, Served, free_port

# PySpark leaves closing the sockets of its results to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
TAGS = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]}


def record(*fields: dict[str, Any]) -> str:
    written = {"type": "record", "name": "User", "namespace": "shop", "fields": [*fields]}
    return json.dumps(written, separators=(",", ":"))


FIRST, SECOND = record(*FIELDS), record(*FIELDS, NOTE)
# Another order, a new field, one that is gone, and a wider type.
THIRD = record(TAGS, FIELDS[1], FIELDS[0])


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session("local[1]", *map(str, connector_jars())) as opened:
        yield opened


def register(registry: Served, subject: str, text: str, **more: Any) -> dict[str, Any]:
    return Registry(registry.url).post("subjects", subject, "versions", body={"schema": text, **more})


def text_bytes(value: str) -> bytes:
    return long_bytes(len(value)) + value.encode()


def messages(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [(at, bytearray(value) if value is not None else None) for at, value in enumerate(values)]
    return spark.createDataFrame(rows, "at int, value binary")


def rows(frame: DataFrame, column: Column) -> list[Any]:
    found = frame.select("at", column.alias("read")).orderBy("at").collect()
    return [row.read.asDict(recursive=True) if row.read is not None else None for row in found]


def failure(frame: DataFrame, column: Column) -> str:
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        rows(frame, column)
    return str(raised.value)


def test_messages_of_every_version_are_read_whether_it_was_known_or_not(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    first, second = (register(registry, topic, text) for text in (FIRST, SECOND))
    ada, eve = long_bytes(7) + text_bytes("Ada"), long_bytes(8) + text_bytes("Eve")
    url = registry.url.replace("//", "//walter:hidden-password@")
    known = Registry([f"http://127.0.0.1:{free_port()}", url], http_headers={"X-Key": "hidden-key"})
    read = from_registry("value", known, topic, mode="PERMISSIVE")
    assert httpx.put(f"{registry.url}/config/{topic}", json={"compatibility": "NONE"}).is_success
    third = register(registry, topic, THIRD)
    late = long_bytes(1) + text_bytes("x") + b"\0" + text_bytes("Zoe") + long_bytes(9)
    written = messages(
        spark,
        prefix_of_id(first["id"]) + ada,
        prefix_of_guid(first["guid"]) + ada,
        prefix_of_id(second["id"]) + eve + b"\x02" + text_bytes("new"),
        prefix_of_id(third["id"]) + late,
        prefix_of_guid(third["guid"]) + late,
        None,
        b"hello",
        prefix_of_id(2_000_000_000) + ada,
        prefix_of_id(first["id"]) + long_bytes(7) + b"\x7fshort",
    )
    ada_row = {"id": 7, "name": "Ada", "note": None}
    zoe_row = {"id": 9, "name": "Zoe", "note": None}
    eve_row = {"id": 8, "name": "Eve", "note": "new"}
    poison = [dict.fromkeys(ada_row)] * 3
    assert rows(written, read) == [ada_row, ada_row, eve_row, zoe_row, zoe_row, None, *poison]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        written.select(read.alias("read")).select("read.*").explain(True)
    assert "from_avro" in printed.getvalue()
    shown = printed.getvalue() + repr(known)
    assert not [word for word in ("hidden", "walter", "d2FsdGVy") if word in shown]


@pytest.mark.long
def test_readers_may_be_older_and_what_spark_writes_is_read(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    first, second = (register(registry, topic, text) for text in (FIRST, SECOND))
    ada, eve = long_bytes(7) + text_bytes("Ada"), long_bytes(8) + text_bytes("Eve") + b"\0"
    written = messages(spark, prefix_of_id(first["id"]) + ada, prefix_of_id(second["id"]) + eve, None)
    older = [{"id": 7, "name": "Ada"}, {"id": 8, "name": "Eve"}, None]
    for reader in (first["id"], FIRST):
        assert rows(written, from_registry("value", registry.url, topic, reader)) == older
    # A query that does not follow new versions is planned with those that there are.
    blind = from_registry("value", registry.url, topic, mode="PERMISSIVE", follow=False)
    third = register(registry, topic, record(*FIELDS, NOTE, TAGS))
    newer = prefix_of_id(third["id"]) + eve + b"\0"
    ada_row = {"id": 7, "name": "Ada", "note": None}
    assert rows(messages(spark, written.first()["value"], newer, None), blind) == [
        ada_row, dict.fromkeys(ada_row), None,
    ]  # fmt: skip
    # What Spark writes, with either prefix, is what it reads.
    value = sql.struct(sql.lit(7).cast("long").alias("id"), sql.lit("Ada").alias("name"))
    for framing, prefix in (("id", prefix_of_id(first["id"])), ("guid", prefix_of_guid(first["guid"]))):
        column = to_registry(value, registry.url, topic, FIRST, framing=framing)
        made = written.select("at", column.alias("value")).limit(1)
        assert rows(made, from_registry("value", registry.url, topic, SECOND)) == [ada_row]
        assert bytes(made.first()["value"]) == prefix + ada


@pytest.mark.long
def test_what_cannot_be_read_fails_or_is_null_as_the_mode_says(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    known = register(registry, topic, FIRST)
    good = prefix_of_id(known["id"]) + long_bytes(7) + text_bytes("Ada")
    broken = prefix_of_id(known["id"]) + long_bytes(7) + b"\x7fshort"
    unknown = prefix_of_id(2_000_000_000) + b"\x02"
    poison = {b"hello": "68656c6c6f", b"": "no id", unknown: "2000000000", broken: "Malformed records"}
    nothing = {"id": None, "name": None}
    read = from_registry("value", registry.url, topic, mode="PERMISSIVE")
    written = messages(spark, good, *poison)
    assert rows(written, read) == [{"id": 7, "name": "Ada"}, *[nothing] * len(poison)]
    strict = from_registry("value", registry.url, topic)
    for value, reason in poison.items():
        assert reason in failure(messages(spark, good, value), strict)


def test_silence_of_the_registry_is_an_error_in_either_mode(topic: str) -> None:
    gone = Registry(f"http://127.0.0.1:{free_port()}", timeout_s=1.0)
    with pytest.raises(RegistryError, match="no answer to GET /subjects"):
        from_registry("value", gone, topic)
    resolve = Resolving(gone, topic, Reader(Schema("AVRO", FIRST)), strict=False)
    with pytest.raises(RegistryError, match="no answer to GET /schemas/ids/2000000002"):
        resolve(prefix_of_id(2_000_000_002))


def test_a_subject_that_does_not_exist_is_an_error_of_the_plan(registry: Served, topic: str) -> None:
    with pytest.raises(Refused, match=r"40401: Subject '.*' not found"):
        from_registry("value", registry.url, topic)
    with pytest.raises(ValueError, match="mode must be one of FAILFAST, PERMISSIVE"):
        from_registry("value", registry.url, topic, mode="DROPMALFORMED")  # type: ignore[arg-type]


@pytest.mark.long
def test_headers_name_schemas_and_keys_have_references(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    city = record({"name": "city", "type": "string"}).replace("User", "City")
    register(registry, f"{topic}-city", city)
    key = record({"name": "home", "type": "shop.City"})
    references = [{"name": "shop.City", "subject": f"{topic}-city", "version": 1}]
    schema = register(registry, f"{topic}-key", key, references=references)
    payload = text_bytes("Rome")
    named = [("other", b"x"), ("__key_schema_id", prefix_of_guid(schema["guid"]))]
    frame = spark.createDataFrame(
        [
            (0, payload, [("__value_schema_id", b"x"), *named]),
            (1, prefix_of_id(schema["id"]) + payload, None),
        ],
        "at int, key binary, headers array<struct<key string, value binary>>",
    )
    read = from_registry("key", registry.url, f"{topic}-key", headers="headers", key=True)
    assert rows(frame, read) == [{"home": {"city": "Rome"}}] * 2


EVERYTHING = """syntax = "proto3"; package shop;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
    message Empty {}
    message Order {
        int32 i = 1; uint32 u = 2; int64 l = 3; fixed64 f = 4; float h = 5; double d = 6; bool b = 7;
        string s = 8; bytes y = 9; Color color = 10; repeated int32 many = 11; map<string, Line> lines = 12;
        google.protobuf.Timestamp at = 13; google.protobuf.Duration took = 14; optional int32 o = 15;
        Line line = 16; Empty nothing = 17; repeated Line more = 18;
        oneof which { int32 a = 19; string z = 20; }
    }
    enum Color { RED = 0; BLUE = 5; }
    message Line { int32 a = 1; repeated google.protobuf.Timestamp times = 2; }"""


def test_protobuf_is_read_and_written_without_the_package_of_spark(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    """The columns are those of from_protobuf, as its documentation has them."""
    known = register(registry, topic, EVERYTHING, schemaType="PROTOBUF")
    read = from_registry("value", registry.url, topic, mode="PERMISSIVE", message="shop.Order")
    pool = DescriptorPool()
    schema = schema_of_version(Registry(registry.url), topic, 1)
    for file in FileDescriptorSet.FromString(reader_of(schema, {}, "shop.Order").descriptors).file:
        pool.Add(file)
    order: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    given = {
        "i": -1, "u": 2**32 - 1, "l": 2**40, "f": 2**64 - 2, "h": 0.5, "d": 1.25, "b": True, "s": "é",
        "y": b"\x00\xff", "color": 5, "many": [1, 0], "o": 0, "z": "",
        "line": {"a": 1, "times": [{"seconds": 1, "nanos": 2000}]}, "more": [{"a": 2}, {}],
        "at": {"seconds": -1, "nanos": 5000}, "took": {"seconds": 90, "nanos": 1000},
        "lines": {"k": {"a": 3}},
    }  # fmt: skip
    full, strange = order(**given).SerializeToString(), order(color=7).SerializeToString()
    prefix = prefix_of_id(known["id"])
    late = register(registry, topic, EVERYTHING + " message Later {}", schemaType="PROTOBUF")
    values = [
        *(start + b"\x02\x02" + full for start in (prefix, prefix_of_id(late["id"]))),
        prefix + b"\x02\x02" + strange, None, prefix + b"\0", b"hello", prefix + b"\x02\x02\xff",
    ]  # fmt: skip
    found = rows(messages(spark, *values), read)
    moment = datetime(1970, 1, 1)  # noqa: DTZ001 (as Spark returns it, in UTC)
    first = {
        **given, "u": -1, "f": -2, "color": "BLUE", "y": bytearray(b"\x00\xff"), "a": None,
        "at": moment + timedelta(seconds=-1, microseconds=5), "took": timedelta(seconds=90, microseconds=1),
        "line": {"a": 1, "times": [moment + timedelta(seconds=1, microseconds=2)]},
        "more": [{"a": 2, "times": []}, {"a": None, "times": []}], "lines": {"k": {"a": 3, "times": []}},
    }  # fmt: skip
    nothing = dict.fromkeys(first) | {"many": [], "more": [], "lines": {}}
    other = nothing | {"color": "UNKNOWN_ENUM_VALUE_Color_7"}
    assert found == [first, first, other, None, None, None, None]
    strict = from_registry("value", registry.url, topic, message="shop.Order")
    assert "is not of the type shop.Order" in failure(messages(spark, values[-1]), strict)
    made = (
        messages(spark, values[0])
        .select(strict.alias("row"))
        .select(to_registry("row", registry.url, topic, known["id"], message="shop.Order").alias("value"))
    )
    assert order.FromString(bytes(made.first()["value"])[7:]) == order(**given)
    with pytest.raises(ValueError, match=r"enums\.as\.ints: options for Protobuf need .* spark-protobuf"):
        from_registry("value", registry.url, topic, options={"enums.as.ints": "true"})


@pytest.mark.long
def test_json_schema_is_read_by_from_json(spark: SparkSession, registry: Served, topic: str) -> None:
    text = json.dumps(
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        }
    )
    schema = register(registry, topic, text, schemaType="JSON")
    read = from_registry("value", registry.url, topic, mode="PERMISSIVE")
    body = b'{"id": 7, "tags": ["a"]}'
    written = messages(spark, prefix_of_id(schema["id"]) + body, prefix_of_guid(schema["guid"]) + body, b"{}")
    assert rows(written, read) == [{"id": 7, "tags": ["a"]}] * 2 + [{"id": None, "tags": None}]
    value = sql.struct(sql.lit(7).alias("id"), sql.array(sql.lit("a")).alias("tags"))
    made = written.select("at", to_registry(value, registry.url, topic).alias("value")).limit(1)
    assert bytes(made.first()["value"]) == prefix_of_id(schema["id"]) + b'{"id":7,"tags":["a"]}'


def test_without_the_extra_it_names_what_to_install() -> None:
    program = "import sys; sys.modules['pandas'] = None; import registrar.spark"
    words = (sys.executable, "-c", program)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "registrar.spark lacks pandas: pip install 'kafka-registrar[spark]'" in done.stderr


def test_its_archive_holds_all_that_it_needs_and_nothing_of_a_server(tmp_path: Path) -> None:
    archive = tmp_path / "registrar-spark.zip"
    shipping.write_archive(archive, shipping.LIBRARY)
    lines = [
        "import sys",
        f"sys.path[:0] = [{str(archive)!r}, {sysconfig.get_path('purelib')!r}]",
        "import registrar.spark",
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))",
        # Only drivers parse JSON Schema.
        "from registrar.spark.formats import reader_of, Schema",
        "print(reader_of(Schema('JSON', '{\"type\": \"object\"}'), {}).type)",
        "print(*{getattr(module, '__file__', '') for name, module in sys.modules.items()"
        " if name.partition('.')[0] in ('registry', 'registrar')}, sep='\\n')",
    ]
    # Without what .pth files say, this project is found in the archive alone.
    command = [sys.executable, "-I", "-S", "-c", "\n".join(lines)]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    loaded, made, *files = printed.stdout.splitlines()
    assert {"registrar", "pyspark", "pandas"} <= {*loaded.split()}
    servers = {"aiokafka", "starlette", "hypercorn", "lmdb", "kazoo", "uvloop", "httptools", "httpx"}
    assert not servers & {*loaded.split()}
    assert made == "VARIANT"
    assert [path for path in files if not path.startswith(str(archive))] == []


def test_the_table_of_usage_has_the_sources_of_all_pages(registry: Served) -> None:
    usage = {"census": "c", "state": "read", "uses": [["value", "id", 7, 2, 60, 1, 2, True]]}
    with httpx.Client(base_url=registry.url) as http:
        for number in range(101):
            assert http.put(f"/usage/sources/page-{number}", json=usage).status_code == 204
    table = RegistrarSource({"path": "usage", "url": registry.url}).reader(StructType())
    rows = [row for row in table.read(InputPartition(0)) if row[0].startswith("page-")]
    assert len(rows) == 101
    assert rows[0][3:9] == ("value", "id", 7, None, 2, 60)


@pytest.mark.long
def test_the_registry_is_tables_and_its_history_a_stream(
    spark: SparkSession, registry: Served, topic: str, tmp_path: Path
) -> None:
    spark.dataSource.register(RegistrarSource)
    first, second = (register(registry, topic, text) for text in (FIRST, SECOND))
    assert httpx.delete(f"{registry.url}/subjects/{topic}/versions/1").is_success
    source = spark.read.format("registrar").option("url", registry.url.replace("//", "//walter:hidden@"))
    source = source.option("prefix", topic).option("token", "hidden")
    versions = source.load("versions").select("version", "id", "guid", "type", "schema", "deleted")
    assert sorted(map(tuple, versions.collect())) == [
        (1, first["id"], first["guid"], "AVRO", FIRST, True),
        (2, second["id"], second["guid"], "AVRO", SECOND, False),
    ]
    assert [tuple(row) for row in source.load("subjects").collect()] == [(topic, False)]
    history = source.load("history").orderBy("offset").select("kind", "version")
    changes = [("version_registered", 1), ("version_registered", 2), ("version_soft_deleted", 1)]
    assert [tuple(row) for row in history.collect()] == changes
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        source.load("versions").explain(True)
    assert "hidden" not in printed.getvalue()
    stream = spark.readStream.format("registrar").option("url", registry.url).option("prefix", topic)
    query = (
        stream.load("history")
        .writeStream.format("memory")
        .queryName("history")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert httpx.delete(f"{registry.url}/subjects/{topic}").is_success
        query.processAllAvailable()
    finally:
        query.stop()
    found = spark.table("history").orderBy("offset").select("kind", "version").collect()
    assert [tuple(row) for row in found] == [*changes, ("subject_soft_deleted", 2)]


def test_plans_read_a_version_once_though_its_neighbours_ids_are_of_others(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    ids, between = [], []
    for number in range(3):
        ids.append(register(registry, topic, record(*FIELDS, {**NOTE, "doc": str(number)}))["id"])
        between.append(
            register(registry, f"{topic}-other", record({**FIELDS[0], "doc": topic * number}))["id"]
        )
    read = from_registry("value", registry.url, topic, mode="PERMISSIVE", follow=False)
    payload = long_bytes(7) + text_bytes("Ada") + b"\0"
    written = messages(spark, *(prefix_of_id(each) + payload for each in (*ids, *between)), None, b"", b"\1")
    ada_row = {"id": 7, "name": "Ada", "note": None}
    nothing = dict.fromkeys(ada_row)
    assert rows(written, read) == [ada_row] * 3 + [nothing] * 3 + [None, nothing, nothing]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        written.select(read.alias("read")).explain("simple")
    assert printed.getvalue().count("from_avro(") == len(ids) + 1, "one for all that no known version wrote"


def test_workers_keep_nothing_that_makes_their_next_tasks_slow(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    """PySpark reads the archives of all finders again before a task, and collects garbage after it."""
    known = register(registry, topic, FIRST)
    good = messages(spark, prefix_of_id(known["id"]) + long_bytes(7) + text_bytes("Ada"))

    @sql.udf("string")
    def kept(value: bytes) -> str:
        import gc  # noqa: PLC0415 (in the worker)
        import sys  # noqa: PLC0415

        archives = [getattr(each, "archive", "") for each in sys.path_importer_cache.values()]
        spark_s = [each for each in archives if each.endswith((".jar", "pyspark.zip"))]
        return f"{len(spark_s)} of Spark's, {gc.get_freeze_count() > 0}"

    for _ in range(2):
        assert len(rows(good, from_registry("value", registry.url, topic))) == 1
        # The one worker's next task.
        assert good.select(kept("value")).first()[0] == "0 of Spark's, True"


@pytest.mark.parametrize("suffix", ["zip", "jar"])
def test_modules_that_a_user_ships_are_imported_in_any_task(
    spark: SparkSession, registry: Served, topic: str, tmp_path: Path, suffix: str
) -> None:
    """Workers drop what has read archives, also those of users if they are called like Spark's own."""
    known = register(registry, topic, FIRST)
    good = messages(spark, prefix_of_id(known["id"]) + long_bytes(7) + text_bytes("Ada"))
    archive = tmp_path / f"shipped.{suffix}"
    with zipfile.ZipFile(archive, "w") as made:
        for name in ("early", "late"):
            made.writestr(f"shipped_{suffix}_{name}/__init__.py", "from .part import TEXT\n")
            made.writestr(f"shipped_{suffix}_{name}/part.py", f"TEXT = {name!r}\n")
    spark.sparkContext.addPyFile(str(archive))

    def text_of(module: str) -> str:
        @sql.udf("string")
        def text(value: bytes) -> str:
            import importlib  # noqa: PLC0415 (in the worker)

            return str(importlib.import_module(module).TEXT)

        return str(good.select(text("value")).first()[0])

    for name in ("early", "late"):
        assert text_of(f"shipped_{suffix}_{name}") == name
        assert len(rows(good, from_registry("value", registry.url, topic))) == 1


REPLACED = """
import gc, importlib, sys, weakref, zipfile
from registrar.spark.schemas import shorten_pauses

class Cycle:
    def __init__(self):
        self.itself = self

def ship(*names):
    with zipfile.ZipFile(sys.argv[1], "w") as made:
        for name in names:
            made.writestr(f"{name}.py", f"TEXT = {name!r}")

ship("early")
sys.path.append(sys.argv[1])
gc.disable()
garbage = weakref.ref(Cycle())
assert importlib.import_module("early").TEXT == "early"
shorten_pauses()
assert garbage() is None, "garbage would stay for good"
# Spark replaces files where spark.files.overwrite says so.
ship("longer_than_before", "late")
importlib.invalidate_caches()
assert importlib.import_module("late").TEXT == "late"
"""


def test_workers_keep_no_garbage_and_read_archives_that_are_replaced(tmp_path: Path) -> None:
    words = (sys.executable, "-c", REPLACED, str(tmp_path / "shipped.jar"))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Counting(Registry):
    """A registry whose requests are counted."""

    asked = 0

    def get(self, *path: str | int, **params: Any) -> Any:
        self.asked += 1
        return super().get(*path, **params)


def test_a_worker_asks_the_registry_once_for_an_id(registry: Served, topic: str) -> None:
    known = register(registry, topic, FIRST)
    counting = Counting(registry.url)
    good = prefix_of_id(known["id"]) + long_bytes(7) + text_bytes("Ada")
    missing = prefix_of_id(2_000_000_003)
    for _ in range(3):  # Tasks, one after the other in one worker.
        resolve = Resolving(counting, f":.:{topic}", Reader(Schema("AVRO", SECOND)), strict=False)
        assert [resolve(value) for value in (good, good, missing, missing)] == [good[5:] + b"\0"] * 2 + [
            b""
        ] * 2
    assert counting.asked == 2


def test_a_worker_gives_no_login_what_another_was_answered(registry: Served, topic: str) -> None:
    message = prefix_of_id(register(registry, topic, FIRST)["id"]) + long_bytes(7) + text_bytes("Ada")

    def asked(*urls: str, **login: Any) -> int:
        counting = Counting(urls, **login)
        assert Resolving(counting, topic, Reader(Schema("AVRO", SECOND)), strict=False)(message)
        return counting.asked

    one, other = (registry.url.replace("//", f"//{user}:secret@") for user in ("ada", "bob"))
    with_token: dict[str, Any] = {"http_headers": {"Authorization": "Bearer a"}}
    renewed: dict[str, Any] = {"http_headers": lambda: {"Authorization": "Bearer b"}}
    logins: list[tuple[str, dict[str, Any]]] = [
        (registry.url, {}), (one, {}), (other, {}), (registry.url, with_token), (registry.url, renewed),
        (registry.url, {"ca": "/etc/ca.pem"}),
    ]  # fmt: skip
    assert [asked(url, **login) for url, login in logins] == [1] * len(logins)
    assert [asked(url, **login) for url, login in logins] == [0] * len(logins)


def test_protobuf_is_planned_with_complete_descriptors(registry: Served, topic: str) -> None:
    city = 'syntax = "proto3"; package shop; message City { string name = 1; }'
    register(registry, f"{topic}-city", city, schemaType="PROTOBUF")
    text = """syntax = "proto3"; package shop;
        import "city.proto"; import "google/protobuf/timestamp.proto";
        message Other { int32 a = 1; }
        message Order { City city = 1; google.protobuf.Timestamp at = 2; message Line { int32 a = 1; } }"""
    references = [{"name": "city.proto", "subject": f"{topic}-city", "version": 1}]
    known = register(registry, topic, text, schemaType="PROTOBUF", references=references)
    schema = schema_of_version(Registry(registry.url), topic, 1)
    imports = dependencies(Registry(registry.url), schema)
    reader = reader_of(schema, imports, "shop.Order")
    # The library finds the message and all that it needs, as Spark does.
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(reader.descriptors).file:
        pool.Add(file)
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    payload = bytes.fromhex("0a060a04526f6d65")
    found: Any = order.FromString(payload)
    assert found.city.name == "Rome"
    assert reader_of(schema, imports).message == "shop.Other"
    with pytest.raises(Malformed, match=r"has no message Order, but shop\.Other, shop\.Order, "):
        reader_of(schema, imports, "Order")
    # What workers make of a message that no plan knew: its payload, if it is the reader's message.
    resolve = Resolving(Registry(registry.url), topic, reader, strict=True)
    prefix = prefix_of_id(known["id"])
    assert resolve(prefix + b"\x02\x02" + payload) == payload
    with pytest.raises(Malformed, match=r"the message is the one at \[0\] of its file, not shop\.Order"):
        resolve(prefix + b"\0" + payload)


def shown(name: str, replaced: dict[str, str]) -> str:
    """Return a file of the page for the servers of a test."""
    page = blocks(ROOT / "docs" / "pyspark.md")
    text = next(block.code for block in page if (block.note, block.value) == ("file", f"pyspark/{name}"))
    for found, replacement in replaced.items():
        text = text.replace(found, replacement)
    return text


@pytest.mark.long
def test_the_scripts_of_the_page_run_and_a_stream_reads_a_new_version(
    spark: SparkSession, registry: Served, kafka: Broker, topic: str, tmp_path: Path, capfd: Any
) -> None:
    order = {"name": "cents", "type": "long"}
    for subject in ("orders-value", topic):
        register(registry, subject, record(order, NOTE))
    make_topic(kafka.address, {"cleanup.policy": "delete"}, name="orders")
    own = {BROKER: kafka.address, REGISTRY: registry.url, "/etc/registrar/ca.pem": ""}
    for name in ("write.py", "read.py", "tables.py", "login.py"):
        exec(compile(shown(name, own), name, "exec"), {})  # the page's own text
    printed = capfd.readouterr().out
    assert "| 1999|NULL|" in printed
    assert "AVRO|" in printed
    # The stream was planned before the next version.
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    messages = source.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    read = messages.select(from_registry("value", registry.url, "orders-value").alias("read")).select(
        "read.*"
    )
    into = read.writeStream.format("memory").queryName("orders")
    query = into.option("checkpointLocation", str(tmp_path / "orders")).start()
    try:
        query.processAllAvailable()
        newer = register(registry, "orders-value", record(order, NOTE, TAGS))
        more = '"cents", "note", sql.array(sql.lit("new")).alias("tags")'
        script = shown("write.py", own | {"1999L": "5L", 'struct("cents", "note")': f"struct({more})"})
        exec(compile(f"from pyspark.sql import functions as sql\n{script}", "write.py", "exec"), {})
        query.processAllAvailable()
    finally:
        query.stop()
    assert newer["version"] == 2
    assert sorted(map(tuple, spark.table("orders").collect())) == [(5, None), (1999, None)]
