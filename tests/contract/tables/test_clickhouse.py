"""The rules of the target ``clickhouse``, tried on tables of ClickHouse in the process (the package chdb)."""

from __future__ import annotations

import datetime as dt
import json
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from struct import pack, unpack
from typing import Any

import pytest

from registry.domain.schemas.logical.types import Array, Field, Kind, Leaf, Map, Struct, Type

from .changes import DISAGREEMENTS, TableChange, corpus_changes, generated_changes
from .evolving import NULLS_FROM, Dialect, check_changes, distinct, is_kept, stored
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
    Kind.CHAR: "String",
    Kind.VARBINARY: "String",
    Kind.DATE: "Date32",
}
GENERATED = 1000
_NUMBERS = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL)
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
    if leaf.kind is Kind.BINARY:
        return f"FixedString({leaf.size})"
    if leaf.kind is Kind.ENUM:
        # Symbols keep their numbers, as ClickHouse needs it, if these follow from their names.
        symbols = (f"'{each}' = {zlib.crc32(each.encode()) % 30_000}" for each in leaf.symbols)
        return f"Enum16({', '.join(symbols)})"
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


DIALECT = Dialect(
    sql,
    nullable="Nullable({})",
    struct="Tuple({})",
    field="{name} {type}",
    array="Array({})",
    map="Map({key}, {value})",
    struct_value="tuple({})",
    field_value="{value}",
    array_value="[{}]",
)


def works(database: Any, change: TableChange) -> bool:
    """Write rows of the old schema, change the table, append rows of the new one, and read all."""
    old, new = stored(change.old).shape, stored(change.new).shape
    assert isinstance(old, Struct)
    assert isinstance(new, Struct)
    declared = "".join(f", {_declared(each)}" for each in old.fields)
    database.query("DROP TABLE IF EXISTS t SYNC")
    database.query(f"CREATE TABLE t (k Int32{declared}) ENGINE = MergeTree ORDER BY k")
    _insert(database, old, -1)
    before = _rows(database, old)
    try:
        _alter(database, old, new)
        _insert(database, new, 1)
        after = _rows(database, new)
    except Exception:  # the package has one class for all errors
        return False
    pairs = zip(before, after, strict=True)
    return all(is_kept(one, other, Type(old), Type(new)) for one, other in pairs)


def _declared(field: Field, type: Type | None = None) -> str:
    is_written = field.has_value and isinstance(field.type.shape, Leaf)
    default = f" DEFAULT CAST('{field.default}' AS {DIALECT.type(field.type)})" if is_written else ""
    return f"{DIALECT.name(field.name)} {DIALECT.type(type or field.type)}{default}"


def _insert(database: Any, struct: Struct, sign: int) -> None:
    names = ", ".join(["k", *(DIALECT.name(each.name) for each in struct.fields)])
    rows = " UNION ALL ".join(
        f"SELECT {sign * number}{''.join(f', {DIALECT.value(each.type, level)}' for each in struct.fields)}"
        for number, level in enumerate(NULLS_FROM, 1)
    )
    database.query(f"INSERT INTO t ({names}) {rows}")


def _alter(database: Any, old: Struct, new: Struct) -> None:
    """Change the table. Fields that are gone from inside a column go from the table."""
    before = {each.name: each for each in old.fields}
    altered = []
    for each in new.fields:
        known = before.get(each.name)
        if known is None:
            altered.append(f"ADD COLUMN {_declared(each)}")
        elif DIALECT.type(known.type) != DIALECT.type(each.type):
            altered.append(f"MODIFY COLUMN {DIALECT.name(each.name)} {DIALECT.type(each.type)}")
    if altered:
        database.query(f"ALTER TABLE t {', '.join(altered)} SETTINGS mutations_sync = 2")


def _rows(database: Any, struct: Struct) -> list[dict[str, Any]]:
    """Return the rows that were written with the old schema, in order."""
    text = str(database.query("SELECT * FROM t WHERE k < 0 ORDER BY k DESC", "JSONEachRow"))
    return [_value(json.loads(line, parse_float=Decimal), Type(struct)) for line in text.splitlines()]


def _value(value: Any, type: Type) -> Any:
    """Return what a JSON value stands for."""
    if value is None:
        return None
    match type.shape:
        case Struct(fields=fields):
            return {each.name: _value(value[each.name], each.type) for each in fields}
        case Array(element):
            return [_value(each, element) for each in value]
        case Map(key, of_value):
            return {_value(each, key): _value(inside, of_value) for each, inside in value.items()}
        case Leaf(kind=Kind.FLOAT):
            # A number of 32 bits prints fewer digits than the same one in 64.
            return unpack("f", pack("f", float(value)))[0]
        case Leaf(kind=Kind.DOUBLE):
            return float(value)
        case Leaf(kind=Kind.DATE):
            return dt.date.fromisoformat(value)
        case Leaf(kind=Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ):
            return dt.datetime.fromisoformat(value)
        case Leaf(kind=kind) if isinstance(value, str) and kind not in _NO_NUMBERS:
            return Decimal(value) if kind in _NUMBERS else value
    return value


def has_type(leaf: Leaf) -> bool:
    """Return true if ClickHouse has a type for a leaf, also one that may be null; enums need symbols."""
    return leaf.kind is not Kind.VARIANT and (leaf.kind is not Kind.ENUM or bool(leaf.symbols))


def trial(database: Any, changes: Sequence[TableChange]) -> Iterator[bool]:
    return (works(database, each) for each in changes)


def test_tables_follow_the_changes_of_the_corpora_as_the_verdicts_say(database: Any) -> None:
    needed = check_changes(
        "clickhouse", distinct("clickhouse", DIALECT, corpus_changes()), partial(trial, database), has_type
    )
    assert needed >= DISAGREEMENTS["clickhouse"]["rules"].keys()


def test_tables_follow_generated_changes_as_the_verdicts_say(database: Any) -> None:
    check_changes("clickhouse", generated_changes(GENERATED, seed=2), partial(trial, database))
