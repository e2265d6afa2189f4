"""Writing a logical type as a JSON schema (Confluent 8.4, ``format=logical``)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.domain.schemas.contract import Budget, Dependency
from registry.domain.schemas.json_text import Json, print_json
from registry.domain.schemas.logical.types import (
    MISSING,
    NO_NOTES,
    UNBOUNDED,
    Array,
    External,
    Field,
    Kind,
    Leaf,
    Map,
    Notes,
    Script,
    Shape,
    Struct,
    Type,
)
from registry.domain.schemas.trampoline import Walk, run

from .text import read, segment

_CONNECT: Final = "org.apache.kafka.connect.data."
_NUMBERS: Final[Mapping[Kind, str]] = {
    Kind.TINYINT: "int8",
    Kind.SMALLINT: "int16",
    Kind.INT: "int32",
    Kind.BIGINT: "int64",
    Kind.FLOAT: "float32",
    Kind.DOUBLE: "float64",
    Kind.DATE: "int32",
    Kind.TIME: "int32",
    Kind.TIMESTAMP: "int64",
    Kind.TIMESTAMP_LTZ: "int64",
}
_TITLES: Final[Mapping[Kind, str]] = {
    Kind.DATE: f"{_CONNECT}Date",
    Kind.TIME: f"{_CONNECT}Time",
    Kind.TIMESTAMP_LTZ: f"{_CONNECT}Timestamp",
}
_DIGITS: Final = 3
_FLINK: Final[Mapping[str, Json]] = {"flink.version": "1"}
_MULTISET_COUNT: Final = Type(Leaf(Kind.INT))
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Characters of a name, or of the whole schema, that cost a step.
_STEP: Final = 20


def write(script: Script, root: str, dependencies: Sequence[Dependency], budget: Budget) -> str:
    """Return the schema of a script; ``root`` names one that has no name.

    Raises :class:`InvalidSchema` for what JSON Schema cannot express, and :class:`.contract.Exhausted`.
    """
    text = print_json(run(_Writer(script, dependencies, budget).document(root)))
    budget.spend(len(text) // _STEP)
    return text


class _Writer:
    def __init__(self, script: Script, dependencies: Sequence[Dependency], budget: Budget) -> None:
        self._script = script
        self._budget = budget
        # Where the definitions of other schemas are, by name.
        self._known = {name: each.name for each in dependencies for name in _definitions(each.text)}

    def document(self, root: str) -> Walk[Json]:
        found: dict[str, Json] = yield self._type(self._script.root, root)
        if self._script.namespace:
            found["confluent:namespace"] = self._script.namespace
        found["$schema"] = _DIALECT
        definitions: dict[str, Json] = {}
        for name, shape in self._script.declared.items():
            definitions[name] = yield self._definition(shape, name)
        for name, uri in self._script.imports.items():
            definitions[name] = {"$ref": uri, "logical.ref": True}
        if definitions:
            found["$defs"] = definitions
        return found

    def _type(self, type: Type, name: str) -> Walk[dict[str, Json]]:
        written: dict[str, Json] = yield self._shape(type.shape, name)
        if not type.nullable:
            return written
        if "oneOf" in written:
            return {**written, "oneOf": [{"type": "null"}, *written["oneOf"]]}
        return {"oneOf": [{"type": "null"}, written]}

    def _shape(self, shape: Shape, name: str) -> Walk[dict[str, Json]]:
        """Return the schema of a type; ``name``: of one that has none."""
        self._budget.spend(1 + len(name) // _STEP)
        match shape:
            case External():
                return {"$ref": self._address(shape.name)}
            case Leaf(kind=Kind.ENUM):
                return {"$ref": f"#/$defs/{segment(shape.name)}"}
            case Leaf():
                return _leaf(shape)
            case Array(element, is_multiset):
                if is_multiset:
                    counts: dict[str, Json] = yield self._map(Map(element, _MULTISET_COUNT), name)
                    return {**counts, **_FLINK, "flink.type": "multiset"}
                return {"type": "array", "items": (yield self._type(element, name))}
            case Map():
                return (yield self._map(shape, name))  # type: ignore[no-any-return]
            case Struct(is_union=True):
                return (yield self._union(shape))  # type: ignore[no-any-return]
            case Struct():
                if shape.name:
                    return {"$ref": f"#/$defs/{segment(shape.name)}"}
                return (yield self._definition(shape, name))  # type: ignore[no-any-return]

    def _address(self, name: str) -> str:
        """Return the address of a type in another schema; the name itself if none defines it."""
        if name in self._script.imports:
            return f"#/$defs/{segment(name)}"
        return f"{self._known[name]}#/$defs/{segment(name)}" if name in self._known else name

    def _map(self, map: Map, name: str) -> Walk[dict[str, Json]]:
        key = map.key.shape
        if isinstance(key, Leaf) and key.kind in (Kind.CHAR, Kind.VARCHAR):
            found: dict[str, Json] = {"type": "object", "connect.type": "map"}
            found["additionalProperties"] = yield self._type(map.value, name)
            if key.size != UNBOUNDED:
                found["logical.key.length"] = key.size
                if key.kind is Kind.CHAR:
                    found["logical.key.type"] = "CHAR"
            return found
        entry = {
            "type": "object",
            "properties": {
                "key": (yield self._type(map.key, f"{name}_key")),
                "value": (yield self._type(map.value, f"{name}_value")),
            },
            "additionalProperties": False,
        }
        return {"type": "array", "items": entry, "connect.type": "map"}

    def _union(self, union: Struct) -> Walk[dict[str, Json]]:
        branches: list[Json] = []
        for each in union.fields:
            branches += ((yield self._type(each.type, each.name)),)
        names = [_notes_of(each.name, each.notes) for each in union.fields]
        return {"oneOf": branches, "confluent:union": names}

    def _definition(self, shape: Struct | Leaf, name: str) -> Walk[dict[str, Json]]:
        """Return the schema of a declared type, or of a struct without a name."""
        if isinstance(shape, Leaf):
            return _enum(shape, name)
        properties: dict[str, Json] = {}
        for index, each in enumerate(shape.fields):
            properties[each.name] = yield self._property(each, index, f"{name}_{each.name}")
        required = [each.name for each in shape.fields if not each.type.nullable]
        return {
            "type": "object",
            "title": name,
            **_description(shape.notes),
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
            **_members(shape.notes),
        }

    def _property(self, field: Field, index: int, name: str) -> Walk[Json]:
        found: dict[str, Json] = yield self._type(field.type, name)
        if field.default is not MISSING:
            found["default"] = _default(field.default)
        return {**found, "connect.index": index, **_description(field.notes), **_members(field.notes)}


def _definitions(text: str) -> Sequence[str]:
    """Return the names of the definitions in another schema."""
    value = read(text)
    groups = [value.get(each) for each in ("$defs", "definitions")] if type(value) is dict else []
    return [name for group in groups if type(group) is dict for name in group]


def _leaf(leaf: Leaf) -> dict[str, Json]:
    match leaf.kind:
        case Kind.BOOLEAN:
            return {"type": "boolean"}
        case Kind.CHAR:
            return {"type": "string", "minLength": leaf.size, "maxLength": leaf.size}
        case Kind.VARCHAR:
            return {"type": "string"} | ({} if leaf.size == UNBOUNDED else {"maxLength": leaf.size})
        case Kind.BINARY:
            lengths = {**_FLINK, "flink.minLength": leaf.size, "flink.maxLength": leaf.size}
            return {"type": "string", "connect.type": "bytes", **lengths}
        case Kind.VARBINARY:
            lengths = {} if leaf.size == UNBOUNDED else {**_FLINK, "flink.maxLength": leaf.size}
            return {"type": "string", "connect.type": "bytes", **lengths}
        case Kind.DECIMAL:
            scale = "-1" if leaf.scale is None else str(leaf.scale)
            parameters = {"connect.decimal.precision": str(leaf.size), "scale": scale}
            return {
                "type": "number",
                "title": f"{_CONNECT}Decimal",
                "connect.type": "bytes",
                "connect.parameters": parameters,
            }
        case Kind.VARIANT:
            return {}
    found: dict[str, Json] = {"type": "number", "connect.type": _NUMBERS[leaf.kind]}
    if leaf.kind in _TITLES:
        found["title"] = _TITLES[leaf.kind]
    if leaf.kind is Kind.TIMESTAMP:
        found |= {**_FLINK, "flink.type": "timestamp"}
    if leaf.size is not None and leaf.size != _DIGITS:
        found |= {**_FLINK, "flink.precision": leaf.size}
    return found


def _enum(leaf: Leaf, name: str) -> dict[str, Json]:
    own, *others = leaf.notes or (NO_NOTES,)
    values = [_notes_of(symbol, each) for symbol, each in zip(leaf.symbols, others, strict=False)]
    return {
        "enum": [*leaf.symbols],
        "title": name,
        **_description(own),
        **_members(own),
        **({"confluent:enum": values} if any(len(each) > 1 for each in values) else {}),
    }


def _default(value: Any) -> Json:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _description(notes: Notes) -> dict[str, Json]:
    return {"description": notes.comment} if notes.comment else {}


def _members(notes: Notes) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if notes.tags:
        found["confluent:tags"] = [*notes.tags]
    if notes.params:
        found["confluent:params"] = dict(notes.params)
    return found


def _notes_of(name: str, notes: Notes) -> dict[str, Json]:
    """Return what is said about a symbol or a branch."""
    found: dict[str, Json] = {"name": name}
    if notes.comment:
        found["doc"] = notes.comment
    if notes.params:
        found["params"] = dict(notes.params)
    return found
