"""registrar.spark in a real Spark, against a real registry."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from registrar.spark import Refused, RegistrarSource, Registry, RegistryError, from_registry, to_registry
from registrar.spark.avro_resolution import long_bytes
from registrar.spark.formats import Reader, Schema
from registrar.spark.framing import prefix_of_guid, prefix_of_id
from registrar.spark.schemas import Resolving
from snapshots.spark import shipping
from tests.clients.spark_session import session
from tests.support.running import Served, free_port

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
    with session() as opened:
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
    read = from_registry("value", registry.url, topic)
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
    )
    ada_row = {"id": 7, "name": "Ada", "note": None}
    zoe_row = {"id": 9, "name": "Zoe", "note": None}
    eve_row = {"id": 8, "name": "Eve", "note": "new"}
    assert rows(written, read) == [ada_row, ada_row, eve_row, zoe_row, zoe_row, None]
    # All are known now, and the reader may be an older version, by its id or its text.
    older = [{name: row[name] for name in ("id", "name")} if row else None for row in rows(written, read)]
    for reader in (first["id"], FIRST):
        assert rows(written, from_registry("value", registry.url, topic, reader)) == older
    # What Spark writes, with either prefix, is what it reads.
    for framing in ("id", "guid"):
        value = sql.struct(sql.lit(7).cast("long").alias("id"), sql.lit("Ada").alias("name"))
        column = to_registry(value, registry.url, topic, FIRST, framing=framing)
        made = written.select("at", column.alias("value")).limit(1)
        assert rows(made, read) == [ada_row]
        prefix = prefix_of_id(first["id"]) if framing == "id" else prefix_of_guid(first["guid"])
        assert bytes(made.first()["value"]) == prefix + long_bytes(7) + text_bytes("Ada")


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


def test_another_address_is_asked_and_silence_is_an_error_in_either_mode(
    spark: SparkSession, registry: Served, topic: str
) -> None:
    register(registry, topic, FIRST)
    gone = Registry(f"http://127.0.0.1:{free_port()}", timeout_s=1.0)
    with pytest.raises(RegistryError, match="no answer to GET /subjects"):
        from_registry("value", gone, topic)
    reachable = Registry([f"http://127.0.0.1:{free_port()}", registry.url])
    read = from_registry("value", reachable, topic, mode="PERMISSIVE")
    assert rows(messages(spark, prefix_of_id(2_000_000_001)), read) == [{"id": None, "name": None}]
    resolve = Resolving(gone, topic, Reader(Schema("AVRO", FIRST)), strict=False)
    with pytest.raises(RegistryError, match="no answer to GET /schemas/ids/2000000002"):
        resolve(prefix_of_id(2_000_000_002))


def test_plans_show_no_credentials(spark: SparkSession, registry: Served, topic: str) -> None:
    register(registry, topic, FIRST)
    secrets = Registry(
        registry.url.replace("//", "//walter:hidden-password@"), http_headers={"X-Key": "hidden-key"}
    )
    frame = (
        messages(spark, b"x").select(from_registry("value", secrets, topic).alias("read")).select("read.*")
    )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(True)
    assert "from_avro" in printed.getvalue()
    assert not [
        word for word in ("hidden", "walter", "aGlkZGVu") if word in printed.getvalue() + repr(secrets)
    ]


def test_a_subject_that_does_not_exist_is_an_error_of_the_plan(registry: Served, topic: str) -> None:
    with pytest.raises(Refused, match=r"40401: Subject '.*' not found"):
        from_registry("value", registry.url, topic)
    with pytest.raises(ValueError, match="mode is one of FAILFAST, PERMISSIVE"):
        from_registry("value", registry.url, topic, mode="DROPMALFORMED")  # type: ignore[arg-type]


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
