"""The rules of the target ``clickhouse``, tried on tables of ClickHouse in the process (the package chdb)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest

from registry.domain.schemas.logical.types import Kind, Leaf

from .changes import DISAGREEMENTS
from .pairs import PAIRS, may_become, value_of

session = pytest.importorskip("chdb.session", reason="pip install chdb")
pytestmark = pytest.mark.long

_TYPES = {
    Kind.BOOLEAN: "Bool",
    Kind.TINYINT: "Int8",
    Kind.SMALLINT: "Int16",
    Kind.INT: "Int32",
    Kind.BIGINT: "Int64",
    Kind.FLOAT: "Float32",
    Kind.DOUBLE: "Float64",
    Kind.VARCHAR: "String",
    Kind.VARBINARY: "String",
    Kind.DATE: "Date32",
}
_NO_NUMBERS = (Kind.BOOLEAN, Kind.VARCHAR, Kind.VARBINARY)


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    database = session.Session()
    yield database
    database.close()


def sql(leaf: Leaf) -> str:
    if leaf.kind is Kind.TIMESTAMP:
        return f"DateTime64({leaf.size})"
    if leaf.kind is Kind.TIMESTAMP_LTZ:
        return f"DateTime64({leaf.size}, 'UTC')"
    return _TYPES.get(leaf.kind) or f"Decimal({leaf.size}, {leaf.scale})"


def keeps_its_value(database: Any, old: Leaf, new: Leaf) -> bool:
    if sql(old) == sql(new):
        return True
    database.query("DROP TABLE IF EXISTS t SYNC")
    database.query(f"CREATE TABLE t (k Int32, x Nullable({sql(old)})) ENGINE = MergeTree ORDER BY k")
    database.query(f"INSERT INTO t VALUES (1, {value_of(old)})")
    before = _read(database)
    try:
        database.query(f"ALTER TABLE t MODIFY COLUMN x Nullable({sql(new)}) SETTINGS mutations_sync = 2")
    except Exception:  # the package has one class for all errors
        return False
    after = _read(database)
    if old.kind in _NO_NUMBERS or new.kind in _NO_NUMBERS:
        return old.kind is new.kind and before == after
    return _number(before) == _number(after)


def _read(database: Any) -> str:
    return str(database.query("SELECT toString(x) FROM t", "TSV")).strip()


def _number(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:  # a date or a moment
        return (text if " " in text else f"{text} 00:00:00").partition(".")[0]


def test_no_verdict_allows_what_loses_a_value(database: Any) -> None:
    """ClickHouse rewrites a column also where some value may not fit, so it allows more than the verdicts."""
    wrong = {
        f"{old} to {new}"
        for old, new in PAIRS
        if may_become("clickhouse", old, new) and not keeps_its_value(database, old, new)
    }
    assert wrong == DISAGREEMENTS["clickhouse"]["types"].keys()


def test_symbols_of_enums_may_not_go(database: Any) -> None:
    both, one = (Leaf(Kind.ENUM, symbols=symbols) for symbols in (("a", "b"), ("a",)))
    assert may_become("clickhouse", one, both)
    assert not may_become("clickhouse", both, one)
    database.query("CREATE TABLE e (k Int32, x Enum('a' = 1, 'b' = 2)) ENGINE = MergeTree ORDER BY k")
    database.query("INSERT INTO e VALUES (1, 'b')")
    database.query("ALTER TABLE e MODIFY COLUMN x Enum('a' = 1) SETTINGS mutations_sync = 2")
    with pytest.raises(Exception, match="Unexpected value 2 in enum"):
        database.query("SELECT x FROM e", "TSV")


def test_fields_added_inside_a_column_get_no_default(database: Any) -> None:
    database.query("CREATE TABLE s (k Int32, x Tuple(a Int32)) ENGINE = MergeTree ORDER BY k")
    database.query("INSERT INTO s VALUES (1, (5))")
    changed = "Tuple(a Int64, b Int32, c Nullable(Int32))"
    database.query(f"ALTER TABLE s MODIFY COLUMN x {changed} SETTINGS mutations_sync = 2")
    assert str(database.query("SELECT x.a, x.b, x.c FROM s", "TSV")).split() == ["5", "0", "\\N"]
