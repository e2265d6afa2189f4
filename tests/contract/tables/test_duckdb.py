"""The rules of the target ``duckdb``, tried on tables of DuckDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import duckdb
import pytest

from registry.domain.schemas.logical.types import Field, Kind, Leaf, Struct, Type

from .changes import DISAGREEMENTS, TableChange, corpus_changes, generated_changes
from .evolving import (
    NULLS_FROM,
    Addition,
    Dialect,
    check_changes,
    distinct,
    is_kept,
    is_same,
    merged,
    steps,
    stored,
)
from .pairs import PAIRS, may_become, value_of

_TYPES = {
    Kind.TIMESTAMP_LTZ: "TIMESTAMPTZ",
    Kind.BINARY: "BLOB",
    Kind.VARBINARY: "BLOB",
    Kind.CHAR: "VARCHAR",
    Kind.TIME: "TIME",
    Kind.ENUM: "VARCHAR",
    Kind.VARCHAR: "VARCHAR",
}
_TIMESTAMPS = {3: "TIMESTAMP_MS", 6: "TIMESTAMP", 9: "TIMESTAMP_NS"}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as database:
        yield database


def sql(leaf: Leaf) -> str:
    if leaf.kind is Kind.TIMESTAMP:
        return _TIMESTAMPS[leaf.size]
    return _TYPES.get(leaf.kind, str(leaf))


def keeps_its_value(database: duckdb.DuckDBPyConnection, old: Leaf, new: Leaf) -> bool:
    """Return true if a column can change its type, and its greatest value stays the same."""
    if sql(old) == sql(new):
        return True
    database.execute(f"CREATE OR REPLACE TABLE t (x {sql(old)})")
    database.execute(f"INSERT INTO t VALUES ({value_of(old)})")
    read = "SELECT x, x::VARCHAR FROM t"
    before = database.execute(read).fetchone()
    try:
        database.execute(f"ALTER TABLE t ALTER x TYPE {sql(new)}")
    except duckdb.Error:
        return False
    after = database.execute(read).fetchone()
    if isinstance(before[0], dt.datetime) and isinstance(after[0], dt.datetime):
        # Python's values end at microseconds.
        return (before[0].tzinfo is None) == (after[0].tzinfo is None) and after[1].startswith(before[1])
    return is_same(before[0], after[0])


def test_the_verdicts_are_those_of_tables(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("SET TimeZone = 'UTC'")
    wrong = {
        f"{old} to {new}"
        for old, new in PAIRS
        if may_become("duckdb", old, new) is not keeps_its_value(database, old, new)
    }
    assert wrong == DISAGREEMENTS["duckdb"]["types"].keys()


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("STRUCT(a INTEGER)", "STRUCT(a BIGINT, b INTEGER)", {"a": 1, "b": None}),
        ("STRUCT(a INTEGER, b INTEGER)", "STRUCT(b INTEGER, a INTEGER)", {"b": 2, "a": 1}),
        ("STRUCT(a INTEGER, b INTEGER)", "STRUCT(a INTEGER)", {"a": 1}),
    ],
)
def test_fields_of_structs_are_matched_by_name(
    database: duckdb.DuckDBPyConnection, old: str, new: str, row: dict[str, Any]
) -> None:
    database.execute(f"CREATE OR REPLACE TABLE t (x {old})")
    database.execute(
        "INSERT INTO t VALUES ({'a': 1, 'b': 2}::" + old + ")"
        if "b" in old
        else "INSERT INTO t VALUES ({'a': 1})"
    )
    database.execute(f"ALTER TABLE t ALTER x TYPE {new}")
    assert database.execute("SELECT x FROM t").fetchone() == (row,)


def test_a_required_column_needs_a_default(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("CREATE OR REPLACE TABLE t (x INTEGER)")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 7")
    assert database.execute("SELECT y FROM t").fetchone() == (7,)
    with pytest.raises(duckdb.Error):
        database.execute("ALTER TABLE t ADD COLUMN z INTEGER NOT NULL")


def test_names_ignore_case(database: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error):
        database.execute("CREATE OR REPLACE TABLE t (x INTEGER, X INTEGER)")


DIALECT = Dialect(
    sql,
    quote='"',
    struct="STRUCT({})",
    field="{name} {type}",
    array="{}[]",
    map="MAP({key}, {value})",
    struct_value="struct_pack({})",
    field_value="{name} := {value}",
    array_value="[{}]",
    map_value="MAP {{{key}: {value}}}",
)


def default_in_sql(field: Field) -> str:
    is_written = field.has_value and isinstance(field.type.shape, Leaf)
    return f" DEFAULT CAST('{field.default}' AS {DIALECT.type(field.type)})" if is_written else ""


def evolve(database: duckdb.DuckDBPyConnection, old: Struct, new: Struct) -> None:
    """Change the table ``t``. Raises ``duckdb.Error`` if it cannot."""
    for step in steps(Type(old), Type(new)):
        if isinstance(step, Addition):
            where = ".".join(map(DIALECT.name, (*step.path, step.field.name)))
            type_and_default = DIALECT.type(step.field.type) + default_in_sql(step.field)
            database.execute(f"ALTER TABLE t ADD COLUMN {where} {type_and_default}")
    after = {each.name: each.type for each in new.fields}
    for each in old.fields:
        column = f"ALTER TABLE t ALTER {DIALECT.name(each.name)}"
        if each.name not in after:
            if not each.type.nullable:
                raise duckdb.Error("new rows have no value for a required column")
            continue
        if after[each.name].nullable and not each.type.nullable:
            database.execute(f"{column} DROP NOT NULL")
        wanted = DIALECT.type(merged(each.type, after[each.name]))
        if wanted != DIALECT.type(each.type):
            database.execute(f"{column} TYPE {wanted}")


def works(database: duckdb.DuckDBPyConnection, change: TableChange) -> bool:
    """Write rows of the old schema, change the table, append rows of the new one, and read all."""
    old, new = stored(change.old).shape, stored(change.new).shape
    assert isinstance(old, Struct)
    assert isinstance(new, Struct)
    database.execute(f"CREATE OR REPLACE TABLE t ({', '.join(map(DIALECT.column, old.fields))})")
    insert(database, old)
    before = rows(database)
    try:
        evolve(database, old, new)
        insert(database, new)
    except duckdb.Error:
        return False
    after = rows(database)
    pairs = zip(before, after[: len(before)], strict=True)
    return all(is_kept(one, other, Type(old), Type(new)) for one, other in pairs)


def insert(database: duckdb.DuckDBPyConnection, struct: Struct) -> None:
    for level in NULLS_FROM:
        written = ", ".join(
            f"{DIALECT.value(each.type, level)} AS {DIALECT.name(each.name)}" for each in struct.fields
        )
        database.execute(f"INSERT INTO t BY NAME SELECT {written}")


def rows(database: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    found = database.execute("SELECT * FROM t")
    names = [each[0] for each in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def trial(database: duckdb.DuckDBPyConnection, changes: Sequence[TableChange]) -> Iterator[bool]:
    return (works(database, each) for each in changes)


# make test tries every second change.
@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.long)])
def test_tables_follow_the_changes_of_the_corpora_as_the_verdicts_say(
    database: duckdb.DuckDBPyConnection, first: int
) -> None:
    changes = islice(distinct("duckdb", DIALECT, corpus_changes()), first, None, 2)
    needed = check_changes("duckdb", changes, partial(trial, database))
    assert needed >= DISAGREEMENTS["duckdb"]["rules"].keys()


def test_tables_follow_generated_changes_as_the_verdicts_say(database: duckdb.DuckDBPyConnection) -> None:
    check_changes("duckdb", generated_changes(100), partial(trial, database))


@pytest.mark.long
def test_tables_follow_thousands_of_generated_changes_as_the_verdicts_say(
    database: duckdb.DuckDBPyConnection,
) -> None:
    check_changes("duckdb", generated_changes(3000, seed=1), partial(trial, database))
