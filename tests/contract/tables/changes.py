"""Changes of whole tables: those of the corpora of compatibility, and generated ones."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from registry.domain.schemas import FORMATS, Budget, InvalidSchema
from registry.domain.schemas.logical import target_reports
from registry.domain.schemas.logical.findings import Finding
from registry.domain.schemas.logical.types import MISSING, STRING, Array, Field, Kind, Leaf, Map, Struct, Type

_FOLDER = Path(__file__).parent
_CORPUS = _FOLDER.parents[1] / "corpus"
_INSIDE = re.compile(r"[.\[{]")
_LEAF = r"(\w+(?:\(\d+(?:, \d+)?\))?)"
_RETYPED = re.compile(f"type changed from {_LEAF} to {_LEAF}")
_FILES = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}

DISAGREEMENTS: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    (_FOLDER / "disagreements.toml").read_text("utf-8")
)


class TableChange(NamedTuple):
    """A table's type, and the one that it has to become."""

    about: str
    old: Type
    new: Type

    def broken_rules(self, target: str) -> set[str]:
        """Return the rules of a target that the change breaks, and if inside a column; empty: allowed.

        Of a type that may not become another, both are returned, as the disagreements name them.
        """
        reports = target_reports(self.new, self.old, [target], Budget())
        return {_rule(each) for report in reports for each in report.findings}

    def can_exist(self, target: str) -> bool:
        """Return true if both types are tables, without limits of the target that they exceed."""
        return not any(target_reports(each, None, [target], Budget()) for each in (self.old, self.new))

    def consists_of(self, known: Callable[[Leaf], bool]) -> bool:
        """Return true if an engine has all types without parts."""
        return all(map(known, (*_leaves(self.old), *_leaves(self.new))))


def _leaves(type: Type) -> Iterator[Leaf]:
    match type.shape:
        case Struct(fields=fields):
            for each in fields:
                yield from _leaves(each.type)
        case Array(element):
            yield from _leaves(element)
        case Map(key, value):
            yield from _leaves(key)
            yield from _leaves(value)
        case leaf:
            yield leaf


def _rule(finding: Finding) -> str:
    if finding.rule == "UNSUPPORTED_TYPE_CHANGE" and (found := _RETYPED.match(finding.text)):
        return f"{found[1]} to {found[2]}"
    return f"{finding.rule} inside" if _INSIDE.search(finding.path) else finding.rule


def corpus_changes() -> Iterator[TableChange]:
    """Yield the pairs of the corpora whose schemas have logical types, in both directions.

    What is no table by itself is the only column of one.
    """
    for schema_type, name in _FILES.items():
        cases = json.loads((_CORPUS / f"{name}_compatibility.json").read_text("utf-8"))
        for case in cases:
            try:
                old, new = (_type(schema_type, case[each]) for each in ("old", "new"))
            except InvalidSchema:
                continue
            yield TableChange(f"{schema_type}: {case['case']}", old, new)
            yield TableChange(f"{schema_type}: {case['case']}, backwards", new, old)


def _type(schema_type: str, schema: Any) -> Type:
    text = schema if schema_type == "PROTOBUF" else json.dumps(schema)
    found = FORMATS[schema_type].parse(text).logical(Budget())
    if isinstance(found.shape, Struct) and not found.shape.is_union and not found.nullable:
        return found
    table = Struct()
    table.fields.append(Field("value", found))
    return Type(table)


_LEAVES = (
    Leaf(Kind.BOOLEAN), Leaf(Kind.TINYINT), Leaf(Kind.SMALLINT), Leaf(Kind.INT), Leaf(Kind.BIGINT),
    Leaf(Kind.FLOAT), Leaf(Kind.DOUBLE), Leaf(Kind.DECIMAL, 9, 0), Leaf(Kind.DECIMAL, 12, 2),
    Leaf(Kind.DECIMAL, 22, 2), STRING, Leaf(Kind.DATE), Leaf(Kind.TIMESTAMP, 6),
)  # fmt: skip
_LEVELS_MAX = 3


def generated_changes(count: int, seed: int = 0) -> Iterator[TableChange]:
    """Yield tables with nested columns, each with a few changes at any depth."""
    random = Random(seed)
    for number in range(count):
        old = _struct(random, 0)
        yield TableChange(f"generated {number}", Type(old), Type(_changed_struct(random, old)))


def _any(random: Random, level: int) -> Type:
    nullable = random.random() < 0.5
    pick = random.random() if level < _LEVELS_MAX else 0
    if pick < 0.6:
        return Type(random.choice(_LEAVES), nullable)
    if pick < 0.75:
        return Type(_struct(random, level + 1), nullable)
    if pick < 0.9:
        return Type(Array(_any(random, level + 1)), nullable)
    return Type(Map(Type(STRING), _any(random, level + 1)), nullable)


def _struct(random: Random, level: int) -> Struct:
    struct = Struct()
    struct.fields += (Field(name, _any(random, level)) for name in "abc"[: random.randint(1, 3)])
    return struct


def _changed(random: Random, type: Type) -> Type:
    nullable = type.nullable ^ (random.random() < 0.1)
    match type.shape:
        case Struct() as struct:
            return Type(_changed_struct(random, struct), nullable)
        case Array(element):
            return Type(Array(_changed(random, element)), nullable)
        case Map(key, value):
            return Type(Map(key, _changed(random, value)), nullable)
        case leaf:
            return Type(random.choice(_LEAVES) if random.random() < 0.3 else leaf, nullable)


def _changed_struct(random: Random, struct: Struct) -> Struct:
    """Change, leave out and add fields."""
    changed = Struct()
    for each in struct.fields:
        if len(struct.fields) > 1 and random.random() < 0.1:
            continue
        kept = _changed(random, each.type) if random.random() < 0.5 else each.type
        changed.fields.append(Field(each.name, kept))
    if random.random() < 0.4:
        leaf = random.choice((Leaf(Kind.INT), STRING))
        default = random.choice((MISSING, MISSING, 7 if leaf.kind is Kind.INT else "x"))
        changed.fields.append(Field("added", Type(leaf, random.random() < 0.5), default))
    return changed
