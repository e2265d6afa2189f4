"""The rules of the target ``flink``, compared with those of Flink's own types.

Flink's tables store nothing, so no table is altered here. Its casts decide which values it writes to a table
of another type: those of all columns and their parts are asked for, by name. It has no rules for fields that
come or go; these are Confluent's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from deploy.local.jars import java
from registry.domain.schemas.logical.types import Array, Field, Kind, Leaf, Map, Struct, Type
from tests.clients.integrations import JVM, class_path

from .changes import DISAGREEMENTS, TableChange, corpus_changes, generated_changes
from .evolving import Dialect, check_changes
from .pairs import LEAVES, may_become

pytestmark = pytest.mark.long
_TIMEOUT_S = 240.0
_PROGRAM = Path(__file__).parent / "FlinkCasts.java"
_MORE = [
    *(Leaf(kind, size) for kind in (Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY) for size in (3, 4)),
    *(Leaf(Kind.TIME, precision) for precision in (0, 3)),
    Leaf(Kind.TIMESTAMP_LTZ, 3),
]


def sql(leaf: Leaf) -> str:
    return "STRING" if leaf.kind is Kind.ENUM else str(leaf)


DIALECT = Dialect(
    sql, present="{} NOT NULL", struct="ROW<{}>", field="{name} {type}", multiset="MULTISET<{}>"
)


def casts(folder: Path, pairs: Iterable[tuple[Type, Type]]) -> list[bool]:
    """Return which types Flink casts to which."""
    file = folder / "pairs"
    file.write_text("".join(f"{DIALECT.type(old)}\t{DIALECT.type(new)}\n" for old, new in pairs), "utf-8")
    command = [java(), *JVM, "-cp", class_path("flink-sql"), str(_PROGRAM), str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return [line == "true" for line in done.stdout.splitlines()]


def trial(folder: Path, changes: Sequence[TableChange]) -> list[bool]:
    return casts(folder, [(each.old, each.new) for each in changes])


def existing(changes: Iterable[TableChange]) -> Iterator[TableChange]:
    return (common(each) for each in changes if each.can_exist("flink"))


def common(change: TableChange) -> TableChange:
    """Return the change of what both have; a struct always keeps a field."""
    return TableChange(change.about, _common(change.old, change.new), _common(change.new, change.old))


def _common(type: Type, other: Type) -> Type:
    match type.shape, other.shape:
        case Struct() as one, Struct() as another:
            known = {each.name: each.type for each in another.fields}
            struct = Struct(is_union=one.is_union)
            struct.fields.append(Field("kept in both", Type(Leaf(Kind.INT), nullable=True)))
            struct.fields += sorted(
                Field(each.name, _common(each.type, known[each.name]))
                for each in one.fields
                if each.name in known
            )
            return Type(struct, type.nullable)
        case Array(one, is_multiset), Array(another):
            return Type(Array(_common(one, another), is_multiset), type.nullable)
        case Map() as one, Map() as another:
            return Type(Map(_common(one.key, another.key), _common(one.value, another.value)), type.nullable)
    return type


def test_columns_change_as_flink_casts(tmp_path: Path) -> None:
    leaves = [*LEAVES, *_MORE]
    pairs = [(old, new) for old in leaves for new in leaves if old != new]
    seen = casts(tmp_path, [(Type(old, nullable=True), Type(new, nullable=True)) for old, new in pairs])
    refused = {
        f"{old.kind} to {new.kind}"
        for (old, new), is_cast in zip(pairs, seen, strict=True)
        if is_cast and not may_become("flink", old, new)
    }
    allowed = {
        f"{old} to {new}"
        for (old, new), is_cast in zip(pairs, seen, strict=True)
        if may_become("flink", old, new) and not is_cast
    }
    assert not allowed
    assert refused == DISAGREEMENTS["flink"]["types"].keys()


def test_changes_of_the_corpora_are_those_that_flink_casts(tmp_path: Path) -> None:
    check_changes("flink", existing(corpus_changes()), partial(trial, tmp_path))


def test_generated_changes_are_those_that_flink_casts(tmp_path: Path) -> None:
    check_changes("flink", existing(generated_changes(3000, seed=3)), partial(trial, tmp_path))
