"""The rules of ``spark``, ``delta`` and ``iceberg``, tried on tables that Spark writes and reads."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from deploy.local.jars import java
from registry.domain.schemas.logical.types import Leaf
from snapshots.spark.jars import Jars
from tests.process.snapshots.command_line import registrar
from tests.support.running import ROOT

from .changes import DISAGREEMENTS, TableChange, corpus_changes, generated_changes
from .evolving import check_changes, distinct, is_same
from .pairs import PAIRS, Pair, may_become, value_of
from .spark_tables import (
    ICEBERG_SQL,
    SPARK_SQL,
    Lake,
    file_trial,
    has_type,
    iceberg_sql,
    merge_trial,
    sql,
    table_trial,
)

# py4j leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

# Delta does not turn these on by itself when a table is altered.
DELTA = (
    "delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.variantType' = 'supported', "
    "'delta.feature.timestampNtz' = 'supported')"
)
ICEBERG_V2 = "iceberg TBLPROPERTIES ('format-version' = '2')"
ICEBERG_V3 = "iceberg TBLPROPERTIES ('format-version' = '3')"
TRIED = [pair for pair in PAIRS if all(map(has_type, pair))]
# Generated changes for each target; about 0.4 s of CPU each.
GENERATED = 600


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("lakes")
    jars = Jars(Path(__file__).parent, "lakes", java, print).here()
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        # Tables are small and have many columns.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.cache-enabled": "false",
        "spark.sql.catalog.ice.warehouse": str(home / "ice"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    end_java()
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    # Refusals are expected here.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    session.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    yield session
    session.stop()
    end_java()


def end_java() -> None:
    """End the Java process of a former session, which has the jars of that one."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


def columns(type_of: Callable[[Leaf], str], pairs: list[Pair]) -> str:
    return ", ".join(f"c{number} {type_of(old)}" for number, (old, _) in enumerate(pairs))


def values(type_of: Callable[[Leaf], str], pairs: list[Pair]) -> str:
    return ", ".join(
        f"CAST({value_of(old)} AS {type_of(old)}) AS c{number}" for number, (old, _) in enumerate(pairs)
    )


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
        ("delta", "widened", DELTA, sql),
        ("iceberg-v2", "ice.db.v2", ICEBERG_V2, iceberg_sql),
        ("iceberg-v3", "ice.db.v3", ICEBERG_V3, iceberg_sql),
    ],
)
def test_columns_of_tables_change_their_types(
    spark: SparkSession, target: str, table: str, properties: str, type_of: Callable[[Leaf], str]
) -> None:
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


def tried_changes(target: str, source: str) -> Iterator[TableChange]:
    """Yield the changes of the corpora whose columns differ from those before, or generated ones."""
    if source == "corpora":
        return distinct(target, SPARK_SQL, corpus_changes())
    return generated_changes(GENERATED)


SOURCES = pytest.mark.parametrize("source", ["corpora", "generated"])


@SOURCES
@pytest.mark.parametrize(
    "lake",
    [
        Lake("delta", "changed", DELTA, SPARK_SQL),
        Lake("iceberg-v2", "ice.db.changed_v2", ICEBERG_V2, ICEBERG_SQL),
        Lake("iceberg-v3", "ice.db.changed_v3", ICEBERG_V3, ICEBERG_SQL, has_defaults=True),
    ],
    ids=lambda lake: lake.target,
)
def test_tables_follow_changes_as_the_verdicts_say(spark: SparkSession, lake: Lake, source: str) -> None:
    check_changes(
        lake.target, tried_changes(lake.target, source), partial(table_trial, spark, lake), has_type
    )


@SOURCES
def test_files_are_read_by_new_schemas_as_the_verdicts_say(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    check_changes("spark", tried_changes("spark", source), partial(file_trial, spark, tmp_path), has_type)


@SOURCES
def test_schemas_of_files_are_merged_as_the_verdicts_say(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    check_changes(
        "parquet", tried_changes("parquet", source), partial(merge_trial, spark, tmp_path), has_type
    )


def test_a_census_counts_the_values_of_the_current_version_of_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It gets the packages and nothing else: tables are named by their folders."""
    places = {"delta": f"{tmp_path}/delta", "iceberg": f"{tmp_path}/ice/db/t"}
    names = {"delta": f"delta.`{places['delta']}`", "iceberg": "own.db.t"}
    spark.conf.set("spark.sql.catalog.own", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.own.type", "hadoop")
    spark.conf.set("spark.sql.catalog.own.warehouse", f"{tmp_path}/ice")
    for kind, name in names.items():
        spark.sql(f"CREATE TABLE {name} (message STRUCT<value: BINARY>, n INT) USING {kind}")
        for value, count in (("0000000001", 3), ("0000000002", 2), ("00000000", 1)):
            rows = f"SELECT named_struct('value', X'{value}'), {count} FROM range({count})"
            spark.sql(f"INSERT INTO {name} {rows}")
        spark.sql(f"DELETE FROM {name} WHERE n = 2")
        spark.sql(f"INSERT INTO {name} VALUES (NULL, 4)")
    jars = ",".join(map(str, Jars(Path(__file__).parent, "lakes", java, print).here()))
    sources = [f"{kind}:{path}#message.value" for kind, path in places.items()]
    # In a process of its own, which has none of the settings of this session.
    command = [sys.executable, "-m", "registry", "census", "run", "--data", str(tmp_path)]
    command += [word for each in sources for word in ("--files", each)]
    command += ["--snapshots-spark-conf", f"spark.jars={jars}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(registrar("census", "show", "--data", str(tmp_path), "--json").stdout)
    found = {(each["source"], each["framing"], each["id"]): each["messages"] for each in shown["uses"]}
    assert found == {
        (f"{path}#message.value", *name): count
        for path in places.values()
        for name, count in {("id", 1): 3, ("none", None): 1, ("null", None): 1}.items()
    }
