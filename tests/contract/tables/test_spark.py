"""The rules of ``spark``, ``delta`` and ``iceberg``, tried on tables that Spark writes and reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deploy.local.jars import java
from registry.domain.schemas.logical.types import Kind, Leaf
from snapshots.spark.jars import Jars

from .changes import DISAGREEMENTS
from .pairs import PAIRS, Pair, may_become, value_of

# py4j leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

# Spark's timestamps have microseconds, whatever the precision.
MICROSECONDS = 6
TRIED = [
    (old, new)
    for old, new in PAIRS
    if not any(each.kind is Kind.TIMESTAMP and each.size != MICROSECONDS for each in (old, new))
]
_TYPES = {
    Kind.VARCHAR: "STRING",
    Kind.VARBINARY: "BINARY",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMP_LTZ: "TIMESTAMP",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("lakes")
    jars = Jars(Path(__file__).parent, "lakes", java, print).here()
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(home / "ice"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def sql(leaf: Leaf) -> str:
    return _TYPES.get(leaf.kind, str(leaf))


def iceberg_sql(leaf: Leaf) -> str:
    return "INT" if leaf.kind in (Kind.TINYINT, Kind.SMALLINT) else sql(leaf)


def columns(type_of: Callable[[Leaf], str], pairs: list[Pair]) -> str:
    return ", ".join(f"c{number} {type_of(old)}" for number, (old, _) in enumerate(pairs))


def values(type_of: Callable[[Leaf], str], pairs: list[Pair]) -> str:
    return ", ".join(
        f"CAST({value_of(old)} AS {type_of(old)}) AS c{number}" for number, (old, _) in enumerate(pairs)
    )


def is_same(old: Any, new: Any) -> bool:
    if isinstance(new, dt.datetime) and not isinstance(old, dt.datetime):
        return isinstance(old, dt.date) and new == dt.datetime.combine(old, dt.time())
    kinds = {bool, str, bytearray} & {type(old), type(new)}
    return old == new and (not kinds or type(old) is type(new))


def wrong(target: str, kept: list[bool], pairs: list[Pair]) -> list[str]:
    """Return the pairs of which the verdict is not what was seen, unless it refuses for a listed reason."""
    listed = DISAGREEMENTS[target.partition("-")[0]]["types"]
    return [
        f"{old} to {new}"
        for (old, new), seen in zip(pairs, kept, strict=True)
        if may_become(target, old, new) is not seen
        and (f"{old} to {new}" not in listed or may_become(target, old, new))
    ]


def test_files_of_earlier_schemas_are_read_by_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    files = str(tmp_path / "files")
    spark.sql(f"SELECT {values(sql, TRIED)}").coalesce(1).write.parquet(files)
    before = spark.read.parquet(files).first()

    def keeps(number: int, new: Leaf) -> bool:
        try:
            row = spark.read.schema(f"c{number} {sql(new)}").parquet(files).first()
        except Exception:  # py4j raises errors of its own for files that cannot be read
            return False
        return is_same(before[number], row[0])

    assert not wrong("spark", [keeps(number, new) for number, (_, new) in enumerate(TRIED)], TRIED)


@pytest.mark.parametrize(
    ("target", "table", "properties", "type_of"),
    [
        ("delta", "widened", "delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", sql),
        ("iceberg-v2", "ice.db.v2", "iceberg TBLPROPERTIES ('format-version' = '2')", iceberg_sql),
        ("iceberg-v3", "ice.db.v3", "iceberg TBLPROPERTIES ('format-version' = '3')", iceberg_sql),
    ],
)
def test_columns_of_tables_change_their_types(
    spark: SparkSession, target: str, table: str, properties: str, type_of: Callable[[Leaf], str]
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    spark.sql(f"CREATE TABLE {table} ({columns(type_of, TRIED)}) USING {properties}")
    spark.sql(f"INSERT INTO {table} SELECT {values(type_of, TRIED)}")
    before = spark.table(table).first()

    def changes(number: int, old: Leaf, new: Leaf) -> bool:
        if type_of(old) == type_of(new):
            return True
        try:
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN c{number} TYPE {type_of(new)}")
        except Exception:  # py4j and PySpark have classes of their own
            return False
        return True

    changed = [changes(number, old, new) for number, (old, new) in enumerate(TRIED)]
    after = spark.table(table).first()
    kept = [seen and is_same(before[number], after[number]) for number, seen in enumerate(changed)]
    assert not wrong(target, kept, TRIED)
