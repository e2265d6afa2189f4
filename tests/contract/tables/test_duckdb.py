"""The rules of the target ``duckdb``, tried on tables of DuckDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from registry.domain.schemas.logical.types import Array, Field, Kind, Leaf, Map, Shape, Struct, Type

from .changes import DISAGREEMENTS, TableChange, corpus_changes, generated_changes
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


# The rows that are written: with nulls from each level on, and without.
NULLS_FROM = (0, 1, 2, 3, 100)


def name_in_sql(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def type_in_sql(shape: Shape) -> str:
    match shape:
        case Struct():
            inner = (f"{name_in_sql(each.name)} {type_in_sql(each.type.shape)}" for each in shape.fields)
            return f"STRUCT({', '.join(inner)})"
        case Array(element, is_multiset):
            inside = type_in_sql(element.shape)
            return f"MAP({inside}, INTEGER)" if is_multiset else f"{inside}[]"
        case Map(key, value):
            return f"MAP({type_in_sql(key.shape)}, {type_in_sql(value.shape)})"
        case leaf:
            return sql(leaf)


def value_in_sql(type: Type, nulls_from: int) -> str:
    """Return the greatest value of a type, with null for all from a level on that may be null."""
    shape, below = type.shape, nulls_from - 1
    if type.nullable and nulls_from <= 0:
        return "NULL"
    match shape:
        case Struct():
            inner = ", ".join(
                f"{name_in_sql(each.name)} := {value_in_sql(each.type, below)}" for each in shape.fields
            )
            text = f"struct_pack({inner})"
        case Array(element, is_multiset):
            inner = value_in_sql(element, below)
            text = f"MAP {{{inner}: 1}}" if is_multiset else f"[{inner}]"
        case Map(key, value):
            text = f"MAP {{{value_in_sql(key, below)}: {value_in_sql(value, below)}}}"
        case leaf:
            text = value_of(leaf)
    return f"({text})::{type_in_sql(shape)}"


def default_in_sql(field: Field) -> str:
    is_written = field.has_value and isinstance(field.type.shape, Leaf)
    return f" DEFAULT CAST('{field.default}' AS {type_in_sql(field.type.shape)})" if is_written else ""


def added_fields(old: Type, new: Type, path: str) -> Iterator[str]:
    """Yield the columns to be added inside a column, as ``ALTER TABLE`` names them."""
    match old.shape, new.shape:
        case Struct() as before, Struct() as after:
            known = {each.name: each for each in before.fields}
            for each in after.fields:
                where = f"{path}.{name_in_sql(each.name)}" if path else name_in_sql(each.name)
                if each.name in known:
                    yield from added_fields(known[each.name].type, each.type, where)
                else:
                    yield f"{where} {type_in_sql(each.type.shape)}{default_in_sql(each)}"
        case Array(one), Array(other):
            yield from added_fields(one, other, f"{path}.element")
        case Map(_, one), Map(_, other):
            yield from added_fields(one, other, f"{path}.value")


def merged(old: Shape, new: Shape) -> Shape:
    """Return the type that a column gets: fields that are gone from a struct stay in the table."""
    match old, new:
        case Struct() as before, Struct() as after:
            fields = {each.name: each.type for each in after.fields}
            both = Struct()
            for each in before.fields:
                became = fields.pop(each.name, None)
                shape = each.type.shape if became is None else merged(each.type.shape, became.shape)
                both.fields.append(Field(each.name, Type(shape, nullable=True)))
            both.fields += (Field(name, each) for name, each in fields.items())
            return both
        case Array(one, False), Array(other, False):
            return Array(Type(merged(one.shape, other.shape)))
        case Map(_, one), Map(key, other):
            return Map(key, Type(merged(one.shape, other.shape)))
    return new


def evolve(database: duckdb.DuckDBPyConnection, change: TableChange) -> None:
    """Change the table ``t``. Raises ``duckdb.Error`` if it cannot."""
    old, new = change.old.shape, change.new.shape
    assert isinstance(old, Struct)
    assert isinstance(new, Struct)
    for column in added_fields(change.old, change.new, ""):
        database.execute(f"ALTER TABLE t ADD COLUMN {column}")
    after = {each.name: each.type for each in new.fields}
    for each in old.fields:
        if each.name not in after:
            if not each.type.nullable:
                raise duckdb.Error("new rows have no value for a required column")
            continue
        if after[each.name].nullable and not each.type.nullable:
            database.execute(f"ALTER TABLE t ALTER {name_in_sql(each.name)} DROP NOT NULL")
        wanted = type_in_sql(merged(each.type.shape, after[each.name].shape))
        if wanted != type_in_sql(each.type.shape):
            database.execute(f"ALTER TABLE t ALTER {name_in_sql(each.name)} TYPE {wanted}")


def is_kept(old: Any, new: Any, before: Type, after: Type) -> bool:
    """Return true if a value is the same, and one of the new type."""
    if new is None:
        return after.nullable and (old is None)
    match before.shape, after.shape:
        case Struct() as one, Struct() as other:
            types = {each.name: each.type for each in one.fields}
            return old is not None and all(
                is_kept(old[each.name], new[each.name], types[each.name], each.type)
                if each.name in types
                else has_default(new[each.name], each)
                for each in other.fields
            )
        case Array(one, False), Array(other, False):
            return all(is_kept(each, now, one, other) for each, now in zip(old, new, strict=True))
        case Map(key, one), Map(new_key, other):
            pairs = zip(old.items(), new.items(), strict=True)
            return all(
                is_kept(each[0], now[0], key, new_key) and is_kept(each[1], now[1], one, other)
                for each, now in pairs
            )
    return is_same((old, str(old)), (new, str(new)))


def has_default(value: Any, field: Field) -> bool:
    return field.type.nullable if value is None else field.has_value


def works(database: duckdb.DuckDBPyConnection, change: TableChange) -> bool:
    """Write rows of the old schema, change the table, append rows of the new one, and read all."""
    old, new = change.old.shape, change.new.shape
    assert isinstance(old, Struct)
    assert isinstance(new, Struct)
    columns = ", ".join(
        f"{name_in_sql(each.name)} {type_in_sql(each.type.shape)}{'' if each.type.nullable else ' NOT NULL'}"
        for each in old.fields
    )
    database.execute(f"CREATE OR REPLACE TABLE t ({columns})")
    for level in NULLS_FROM:
        written = ", ".join(value_in_sql(each.type, level) for each in old.fields)
        database.execute(f"INSERT INTO t VALUES ({written})")
    before = rows(database)
    try:
        evolve(database, change)
        for level in NULLS_FROM:
            written = ", ".join(
                f"{value_in_sql(each.type, level)} AS {name_in_sql(each.name)}" for each in new.fields
            )
            database.execute(f"INSERT INTO t BY NAME SELECT {written}")
    except duckdb.Error:
        return False
    after = rows(database)
    pairs = zip(before, after[: len(before)], strict=True)
    return all(is_kept(one, other, change.old, change.new) for one, other in pairs)


def rows(database: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    found = database.execute("SELECT * FROM t")
    names = [each[0] for each in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def check_changes(database: duckdb.DuckDBPyConnection, changes: Iterator[TableChange]) -> set[str]:
    """Check that no verdict allows what fails, and that what works is only refused for a listed reason.

    Return the rules of which a reason is listed and needed.
    """
    tried = [each for each in changes if each.can_exist("duckdb")]
    rules = {each.about: each.broken_rules("duckdb") for each in tried}
    listed = DISAGREEMENTS["duckdb"]["rules"].keys()
    disagreed = [each.about for each in tried if works(database, each) is bool(rules[each.about])]
    wrong = [(each, sorted(rules[each])) for each in disagreed if not rules[each] & listed]
    assert tried
    assert not wrong
    return {rule for each in disagreed for rule in rules[each] & listed}


def test_tables_follow_the_changes_of_the_corpora_as_the_verdicts_say(
    database: duckdb.DuckDBPyConnection,
) -> None:
    assert check_changes(database, corpus_changes()) == DISAGREEMENTS["duckdb"]["rules"].keys()


def test_tables_follow_generated_changes_as_the_verdicts_say(database: duckdb.DuckDBPyConnection) -> None:
    check_changes(database, generated_changes(100))


@pytest.mark.long
def test_tables_follow_thousands_of_generated_changes_as_the_verdicts_say(
    database: duckdb.DuckDBPyConnection,
) -> None:
    check_changes(database, generated_changes(3000, seed=1))
