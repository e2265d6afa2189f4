"""Tables of Spark that follow many changes at once.

A table for each change would take hours, so a table has the columns of many changes side by side: those of
the change ``7`` are ``c7_…``. Changes that a verdict allows are made together, and apart only if that fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from registry.domain.schemas.logical.types import Field, Kind, Leaf, Struct, Type

from .changes import TableChange
from .evolving import NULLS_FROM, Addition, Dialect, Loosening, Retyping, Step, is_kept, merged, steps, stored

# Changes whose columns share a table.
SIZE = 20
# Where Spark notes in a file the types of its columns.
_NOTED = b"org.apache.spark.sql.parquet.row.metadata"
# Spark's timestamps have microseconds, whatever the precision, and it has no times of day.
_MICROSECONDS = 6
_TYPES = {
    Kind.VARCHAR: "STRING",
    Kind.CHAR: "STRING",
    Kind.ENUM: "STRING",
    Kind.VARBINARY: "BINARY",
    Kind.BINARY: "BINARY",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMP_LTZ: "TIMESTAMP",
}


def sql(leaf: Leaf) -> str:
    return _TYPES.get(leaf.kind, str(leaf))


def iceberg_sql(leaf: Leaf) -> str:
    return "INT" if leaf.kind in (Kind.TINYINT, Kind.SMALLINT) else sql(leaf)


_ICEBERG_NAMES = {"bigint": "long", "timestamp": "timestamptz", "timestamp_ntz": "timestamp"}


def _iceberg_name(leaf: Leaf) -> str:
    """Return a type's name in Iceberg's own library."""
    name = iceberg_sql(leaf).lower()
    return _ICEBERG_NAMES.get(name, name)


# Delta refuses a null struct whose fields are required, so fields inside a column are never required there.
SPARK_SQL, ICEBERG_SQL = Dialect(sql, field="{name}: {type}"), Dialect(iceberg_sql)


def has_type(leaf: Leaf) -> bool:
    """Return true if Spark has a type with exactly the values of a leaf."""
    is_moment = leaf.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
    return leaf.kind is not Kind.TIME and (not is_moment or leaf.size == _MICROSECONDS)


class Part(NamedTuple):
    """One change, with the names of its columns in a shared table."""

    old: Struct
    new: Struct
    is_allowed: bool


def parts(target: str, changes: Sequence[TableChange]) -> list[Part]:
    return [
        Part(
            _renamed(f"c{number}_", stored(each.old)),
            _renamed(f"c{number}_", stored(each.new)),
            not each.broken_rules(target),
        )
        for number, each in enumerate(changes)
    ]


def _renamed(prefix: str, type: Type) -> Struct:
    assert isinstance(type.shape, Struct)
    struct = Struct()
    struct.fields += (each._replace(name=prefix + each.name) for each in type.shape.fields)
    return struct


def old_rows(dialect: Dialect, written: Sequence[Part]) -> str:
    """Return a query of old rows: one for each level of nulls, numbered from -1 down."""
    columns = [(field, field.type) for each in written for field in each.old.fields]
    return _rows(dialect, columns, -1, "")


def new_rows(dialect: Dialect, written: Sequence[Part], others: str = "") -> str:
    """Return the same of the new schemas, numbered from 1 up, and what follows it in the query."""
    columns = []
    for each in written:
        known = {field.name: field.type for field in each.old.fields}
        columns += [
            (field, merged(known[field.name], field.type) if field.name in known else field.type)
            for field in each.new.fields
        ]
    return _rows(dialect, columns, 1, others)


def _rows(dialect: Dialect, columns: Sequence[tuple[Field, Type]], sign: int, others: str) -> str:
    def written(level: int) -> str:
        return "".join(
            f", {dialect.value(field.type, level, place)} AS {dialect.name(field.name)}"
            for field, place in columns
        )

    return " UNION ALL ".join(
        f"SELECT {sign * number} AS n{written(level)}{others}" for number, level in enumerate(NULLS_FROM, 1)
    )


def read_old(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows that were written with the old schemas, in order."""
    found = [each.asDict(recursive=True) for each in frame.where("n < 0").collect()]
    return sorted(found, key=lambda row: -row["n"])


def keeps(part: Part, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> bool:
    """Return true if the old rows have the values that they had."""
    return len(before) == len(after) == len(NULLS_FROM) and all(
        is_kept(one, other, Type(part.old), Type(part.new)) for one, other in zip(before, after, strict=True)
    )


class Lake(NamedTuple):
    """One kind of tables."""

    target: str
    # The name of a table to be created, and how.
    table: str
    properties: str
    dialect: Dialect
    # True if rows written before a column was added read as its default (Iceberg v3).
    has_defaults: bool = False


class SharedTable:
    """A table with the columns of many changes."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake

    def follow(self, changed: Sequence[Part]) -> list[bool]:
        """Return which changes it follows. Raises what Spark raises if one fails that a verdict allows."""
        table, _, dialect = self._lake[1:4]
        declared = ", ".join(dialect.column(field) for each in changed for field in each.old.fields)
        self._spark.sql(f"CREATE TABLE {table} (n INT, {declared}) USING {self._lake.properties}")
        self._spark.sql(f"INSERT INTO {table} BY NAME {old_rows(dialect, changed)}")
        before = self._read()
        allowed = [each for each in changed if each.is_allowed]
        self._alter(allowed)
        refused = [each for each in changed if not each.is_allowed and _succeeds(self._alter, [each])]
        after = self._read()
        refused = [each for each in refused if keeps(each, before, after)]
        self._append(allowed)
        followed = [*allowed, *(each for each in refused if _succeeds(self._append, [each]))]
        last = self._read()
        return [each in followed and keeps(each, before, last) for each in changed]

    def _read(self) -> list[dict[str, Any]]:
        return read_old(self._spark.table(self._lake.table))

    def _append(self, written: Sequence[Part]) -> None:
        """Write rows of the new schemas. Columns that these lack are null, or as before for other changes."""
        if not written:
            return
        table, _, dialect = self._lake[1:4]
        given = {field.name for each in written for field in each.new.fields}
        own = {field.name for each in written for field in each.old.fields}
        others = "".join(
            f", NULL AS {dialect.name(each.name)}"
            if each.nullable or each.name in own
            else f", {dialect.name(each.name)}"
            for each in self._spark.table(table).schema
            if each.name not in given and each.name != "n"
        )
        rows = new_rows(dialect, written, f"{others} FROM {table} WHERE n = -1" if others else "")
        self._spark.sql(f"INSERT INTO {table} BY NAME {rows}")

    def _alter(self, changed: Sequence[Part]) -> None:
        needed = [step for each in changed for step in steps(Type(each.old), Type(each.new))]
        added = [each for each in needed if isinstance(each, Addition)]
        with_default = [each for each in added if self._lake.has_defaults and _has_default(each.field)]
        self._add([each for each in added if each not in with_default])
        self._add_with_default(with_default)
        for each in needed:
            self._change(each)

    def _add(self, added: Sequence[Addition]) -> None:
        if added:
            dialect = self._lake.dialect
            columns = ", ".join(
                f"{self._name((*each.path, each.field.name))} {dialect.type(each.field.type)}"
                for each in added
            )
            self._spark.sql(f"ALTER TABLE {self._lake.table} ADD COLUMNS ({columns})")

    def _add_with_default(self, added: Sequence[Addition]) -> None:
        """Add columns as Iceberg's library does, because Spark's SQL cannot give them defaults."""
        if not added:
            return
        iceberg = self._spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        table = iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self._lake.table)
        update = table.updateSchema()
        for path, field in added:
            assert isinstance(field.type.shape, Leaf)
            of_type = iceberg.types.Types.fromPrimitiveString(_iceberg_name(field.type.shape))
            default = iceberg.expressions.Expressions.lit(field.default).to(of_type)
            add = update.addColumn if field.type.nullable else update.addRequiredColumn
            add(".".join(path) or None, field.name, of_type, None, default)
        update.commit()

    def _change(self, step: Step) -> None:
        column = f"ALTER TABLE {self._lake.table} ALTER COLUMN "
        match step:
            case Loosening(path):
                self._spark.sql(f"{column} {self._name(path)} DROP NOT NULL")
            case Retyping(path, type):
                self._spark.sql(f"{column} {self._name(path)} TYPE {self._lake.dialect.type(type)}")

    def _name(self, path: tuple[str, ...]) -> str:
        return ".".join(map(self._lake.dialect.name, path))


def _has_default(field: Field) -> bool:
    return field.has_value and isinstance(field.type.shape, Leaf)


def _succeeds(action: Callable[[list[Part]], None], changed: list[Part]) -> bool:
    try:
        action(changed)
    except Exception:  # py4j and PySpark have classes of their own
        return False
    return True


def table_trial(spark: SparkSession, lake: Lake, changes: Sequence[TableChange]) -> Iterator[bool]:
    """Yield for each change if a table follows it: written, altered, appended to, and read."""
    tried = parts(lake.target, changes)
    for first in range(0, len(tried), SIZE):
        yield from _outcomes(spark, lake, tried[first : first + SIZE])


def _outcomes(spark: SparkSession, lake: Lake, changed: Sequence[Part]) -> list[bool]:
    """Return which changes a shared table follows; if that fails as a whole, halves get their own tables."""
    try:
        return SharedTable(spark, lake).follow(changed)
    except Exception:  # py4j and PySpark have classes of their own
        if len(changed) == 1:
            return [False]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {lake.table}")
    half = len(changed) // 2
    return _outcomes(spark, lake, changed[:half]) + _outcomes(spark, lake, changed[half:])


def file_trial(spark: SparkSession, folder: Path, changes: Sequence[TableChange]) -> Iterator[bool]:
    """Yield for each change if Spark reads old and new files by the new schema (target ``spark``)."""
    tried = parts("spark", changes)
    for first in range(0, len(tried), SIZE):
        some = tried[first : first + SIZE]
        files = str(folder / f"files-{first}")
        spark.sql(old_rows(SPARK_SQL, some)).coalesce(1).write.parquet(files)
        before = read_old(spark.read.parquet(files))
        spark.sql(_new_files(some)).coalesce(1).write.mode("append").parquet(files)
        yield from _read_by_new_schema(spark, files, before, some)


def _new_files(written: Sequence[Part]) -> str:
    columns = [(field, field.type) for each in written for field in each.new.fields]
    return _rows(SPARK_SQL, columns, 1, "")


def _read_by_new_schema(
    spark: SparkSession, files: str, before: Sequence[dict[str, Any]], changed: Sequence[Part]
) -> Iterator[bool]:
    allowed = [each for each in changed if each.is_allowed]
    together = _attempt(lambda: _read_files(spark, files, allowed)) if allowed else None
    for each in changed:
        after = together
        if after is None or not each.is_allowed:
            after = _attempt(partial(_read_files, spark, files, [each]))
        yield after is not None and keeps(each, before, after)


def _read_files(spark: SparkSession, files: str, changed: Sequence[Part]) -> list[dict[str, Any]]:
    columns = (
        f"{SPARK_SQL.name(field.name)} {SPARK_SQL.type(field.type)}"
        for each in changed
        for field in each.new.fields
    )
    frame = spark.read.schema(f"n INT, {', '.join(columns)}").parquet(files)
    frame.where("n > 0").collect()
    return read_old(frame)


def merge_trial(spark: SparkSession, folder: Path, changes: Sequence[TableChange]) -> Iterator[bool]:
    """Yield for each change if the schemas of old and new files can be merged (target ``parquet``)."""
    tried = parts("parquet", changes)
    for first in range(0, len(tried), SIZE):
        some = tried[first : first + SIZE]
        yield from _merged(spark, folder / f"merged-{first}", some)


def _merged(spark: SparkSession, folder: Path, changed: Sequence[Part]) -> Iterator[bool]:
    """Write the files of all changes, and merge the schemas of those that are allowed at once."""
    written = {"old": old_rows(SPARK_SQL, changed), "new": _new_files(changed)}
    for name, rows in written.items():
        spark.sql(rows).coalesce(1).write.parquet(str(folder / name))
    before = read_old(spark.read.parquet(str(folder / "old")))
    allowed = [each for each in changed if each.is_allowed]
    together = _attempt(lambda: _read_merged(spark, folder, "allowed", allowed)) if allowed else None
    for number, each in enumerate(changed):
        after = together
        if after is None or not each.is_allowed:
            after = _attempt(partial(_read_merged, spark, folder, str(number), [each]))
        yield after is not None and keeps(each, before, after)


def _read_merged(
    spark: SparkSession, folder: Path, name: str, changed: Sequence[Part]
) -> list[dict[str, Any]]:
    """Read files of old and new rows with the columns of some changes only."""
    files = folder / name
    for side in ("old", "new"):
        names = [field.name for each in changed for field in getattr(each, side).fields]
        part = _columns(folder / side, ["n", *names])
        files.mkdir(exist_ok=True)
        pq.write_table(part, files / f"{side}.parquet")
    return read_old(spark.read.option("mergeSchema", "true").parquet(str(files)))


def _columns(folder: Path, names: Sequence[str]) -> pa.Table:
    """Return some columns of the file that Spark wrote, with what it noted about their types.

    Only that says that two byte strings are a value of any type.
    """
    (file,) = folder.glob("*.parquet")
    part = pq.read_table(file, columns=names)
    noted = json.loads(pq.read_schema(file).metadata[_NOTED])
    noted["fields"] = [each for each in noted["fields"] if each["name"] in names]
    return part.replace_schema_metadata({_NOTED: json.dumps(noted)})


def _attempt(read: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]] | None:
    try:
        return read()
    except Exception:  # py4j and PySpark have classes of their own
        return None
