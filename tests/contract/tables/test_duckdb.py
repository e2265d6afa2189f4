"""The rules of the target ``duckdb``, tried on tables of DuckDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from registry.domain.schemas.logical.types import Kind, Leaf

from .pairs import PAIRS, may_become, value_of

_TYPES = {
    Kind.TIMESTAMP_LTZ: "TIMESTAMPTZ",
    Kind.VARBINARY: "BLOB",
    Kind.ENUM: "VARCHAR",
    Kind.VARCHAR: "VARCHAR",
}
_TIMESTAMPS = {3: "TIMESTAMP_MS", 6: "TIMESTAMP", 9: "TIMESTAMP_NS"}
# DuckDB makes a moment of a date by the time zone of the session, so another session reads another one.
_REFUSED_ALL_THE_SAME = {("DATE", "TIMESTAMP_LTZ(6)")}


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
    return is_same(before, database.execute(read).fetchone())


def is_same(before: tuple[Any, str], after: tuple[Any, str]) -> bool:
    old, new = before[0], after[0]
    if isinstance(old, dt.datetime) and isinstance(new, dt.datetime):
        # Python's values end at microseconds.
        return (old.tzinfo is None) == (new.tzinfo is None) and after[1].startswith(before[1])
    if isinstance(old, dt.date) and isinstance(new, dt.datetime):
        return new == dt.datetime(old.year, old.month, old.day, tzinfo=new.tzinfo)
    kinds = {bool, str, bytes} & {type(old), type(new)}
    return old == new and (not kinds or type(old) is type(new))


def test_the_verdicts_are_those_of_tables(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("SET TimeZone = 'UTC'")
    wrong = [
        f"{old} to {new}"
        for old, new in PAIRS
        if (str(old), str(new)) not in _REFUSED_ALL_THE_SAME
        and may_become("duckdb", old, new) is not keeps_its_value(database, old, new)
    ]
    assert not wrong


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
