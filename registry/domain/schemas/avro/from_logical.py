"""Writing a logical type as an Avro schema (Confluent 8.4, ``format=logical``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from registry.domain.schemas.contract import Budget, Dependency, InvalidSchema
from registry.domain.schemas.json_text import Json, print_json
from registry.domain.schemas.logical.literals import moment
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

from .model import Enum, Record
from .parser import Parser

_PLAIN: Final[Mapping[Kind, str]] = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
}
_SMALL: Final[Mapping[Kind, str]] = {Kind.TINYINT: "int8", Kind.SMALLINT: "int16"}
# The greatest precision, the base type and the logical type, the coarsest first.
_UNITS: Final[Mapping[Kind, Sequence[tuple[int, str, str]]]] = {
    # Avro has no nanoseconds of a day.
    Kind.TIME: ((3, "int", "time-millis"), (6, "long", "time-micros")),
    Kind.TIMESTAMP: tuple(
        (digits, "long", f"local-timestamp-{unit}")
        for digits, unit in ((3, "millis"), (6, "micros"), (9, "nanos"))
    ),
    Kind.TIMESTAMP_LTZ: tuple(
        (digits, "long", f"timestamp-{unit}") for digits, unit in ((3, "millis"), (6, "micros"), (9, "nanos"))
    ),
}
_FLINK: Final[Mapping[str, Json]] = {"flink.version": "1"}
_VARIANT_NAME: Final = "confluent.type.Variant"
_VARIANT: Final = {
    "type": "record",
    "name": "Variant",
    "namespace": "confluent.type",
    "fields": [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}],
    "logicalType": "variant",
}
_MULTISET_COUNT: Final = Type(Leaf(Kind.INT))
_SCALE_MAX: Final = 1000
_DAY_S: Final = 86_400
_NANOS: Final = 9
# Characters of a name, or of the whole schema, that cost a step.
_STEP: Final = 20


def write(script: Script, root: str, dependencies: Sequence[Dependency], budget: Budget) -> str:
    """Return the schema of a script; ``root`` names one that has no name.

    Raises :class:`InvalidSchema` for what Avro cannot express, and :class:`.contract.Exhausted`.
    """
    if script.imports:
        raise InvalidSchema(
            "Cannot emit to Avro: LogicalType carries JSON-specific synthetic external imports "
            f"[{', '.join(script.imports)}]. Re-construct the LT against Avro-compatible externals."
        )
    text = print_json(run(_Writer(_names_in(dependencies), budget).root(script.root, root)))
    budget.spend(len(text) // _STEP)
    return text


def _names_in(dependencies: Sequence[Dependency]) -> frozenset[str]:
    """Return the full names of the records and enums in other schemas."""
    parser = Parser()
    for each in dependencies:
        parser.read(each.text, strict=False)
    return frozenset(name for name, node in parser.known.items() if isinstance(node, Record | Enum))


class _Writer:
    def __init__(self, known: frozenset[str], budget: Budget) -> None:
        self._known = known
        self._budget = budget
        # Full names of types that are written already.
        self._written: set[str] = set()

    def root(self, type: Type, name: str) -> Walk[Json]:
        written: Json = yield self._shape(type.shape, name)
        return _with_null(type, written)

    def _type(self, type: Type, name: str) -> Walk[Json]:
        """Return the schema of an element, a key or a value."""
        written: Json = yield self._shape(type.shape, name)
        if isinstance(written, list) and type.nullable:
            raise InvalidSchema("A union that may be null is supported only as a field")
        return _with_null(type, written)

    def _shape(self, shape: Shape, name: str) -> Walk[Json]:
        """Return the schema of a type; ``name``: of one that has none."""
        self._budget.spend(1 + len(name) // _STEP)
        match shape:
            case Leaf(kind=Kind.ENUM):
                return self._enum(shape)
            case Leaf(kind=Kind.VARIANT):
                return _VARIANT if self._is_first(_VARIANT_NAME) else _VARIANT_NAME
            case Leaf():
                return _leaf(shape, name)
            case Array(element, is_multiset):
                if is_multiset:
                    return {**(yield self._map(Map(element, _MULTISET_COUNT), name)), **_FLINK,
                            "flink.type": "multiset"}  # fmt: skip
                return {"type": "array", "items": (yield self._type(element, name))}
            case Map():
                return (yield self._map(shape, name))
            case External():
                if shape.name not in self._known:
                    raise InvalidSchema(f"Unknown named type reference: {shape.name}")
                return shape.name
            case Struct(is_union=True):
                return (yield self._union(shape))
            case Struct():
                return (yield self._record(shape, name))

    def _is_first(self, name: str) -> bool:
        """Return true if a type is not written yet; later uses name it."""
        if name in self._written:
            return False
        self._written.add(name)
        return True

    def _enum(self, leaf: Leaf) -> Json:
        if not self._is_first(leaf.name):
            return leaf.name
        own, *others = leaf.notes or (NO_NOTES,)
        values = [_notes_of(symbol, each) for symbol, each in zip(leaf.symbols, others, strict=False)]
        return {
            "type": "enum",
            **_name(leaf.name),
            **_doc(own),
            "symbols": [*leaf.symbols],
            **_props(own),
            **({"confluent:enum": values} if any(len(each) > 1 for each in values) else {}),
        }

    def _map(self, map: Map, name: str) -> Walk[dict[str, Json]]:
        key = map.key.shape
        if isinstance(key, Leaf) and key.kind in (Kind.CHAR, Kind.VARCHAR):
            found = {"type": "map", "values": (yield self._type(map.value, name))}
            if key.size != UNBOUNDED:
                found["logical.key.length"] = key.size
                if key.kind is Kind.CHAR:
                    found["logical.key.type"] = "CHAR"
            return found
        entry = {
            "type": "record",
            **_name(f"{name}_Entry"),
            "fields": [
                {"name": "key", "type": (yield self._type(map.key, f"{name}_key"))},
                {"name": "value", "type": (yield self._type(map.value, f"{name}_value"))},
            ],
            "connect.internal.type": "MapEntry",
        }
        return {"type": "array", "items": entry, "logicalType": "map"}

    def _union(self, union: Struct) -> Walk[Json]:
        branches: list[Json] = []
        for each in union.fields:
            written: Json = yield self._shape(each.type.shape, each.name)
            if isinstance(written, list):
                raise InvalidSchema("A union cannot be a branch of another union")
            branches.append(written)
        return branches

    def _record(self, struct: Struct, name: str) -> Walk[Json]:
        full_name = struct.name or name
        if struct.name and not self._is_first(struct.name):
            return struct.name
        fields: list[Json] = []
        for each in struct.fields:
            if not _is_name(each.name):
                raise InvalidSchema(
                    f"Illegal field name for AVRO format `{each.name}`. AVRO expects field names to start "
                    "with [A-Za-z_] subsequently contain only [A-Za-z0-9_]."
                )
            fields.append((yield self._field(each, f"{full_name}_{each.name}")))
        return {
            "type": "record",
            **_name(full_name),
            **_doc(struct.notes),
            "fields": fields,
            **_props(struct.notes),
            **({} if struct.name else {"logical.anonymous": "true"}),
        }

    def _field(self, field: Field, name: str) -> Walk[Json]:
        written: Json = yield self._shape(field.type.shape, name)
        found: dict[str, Json] = {"name": field.name}
        found["type"] = _with_null(field.type, written, null_first=not field.has_value)
        found |= _doc(field.notes)
        if field.default is not MISSING:
            found["default"] = _default(field.type.shape, field.default)
        if field.aliases:
            found["aliases"] = [*field.aliases]
        found |= _props(field.notes)
        shape = field.type.shape
        if isinstance(shape, Struct) and shape.is_union:
            found["confluent:union"] = [_notes_of(each.name, each.notes) for each in shape.fields]
        return found


def _with_null(type: Type, written: Json, *, null_first: bool = True) -> Json:
    if not type.nullable:
        return written
    branches = written if isinstance(written, list) else [written]
    return ["null", *branches] if null_first else [*branches, "null"]


def _leaf(leaf: Leaf, name: str) -> Json:
    match leaf.kind:
        case Kind.TINYINT | Kind.SMALLINT:
            return {"type": "int", "connect.type": _SMALL[leaf.kind]}
        case Kind.CHAR:
            return {"type": "string", **_FLINK, "flink.minLength": leaf.size, "flink.maxLength": leaf.size}
        case Kind.VARCHAR:
            return _varying("string", leaf)
        case Kind.BINARY:
            return {"type": "fixed", **_name(name), "size": leaf.size}
        case Kind.VARBINARY:
            return _varying("bytes", leaf)
        case Kind.DECIMAL:
            return _decimal(leaf)
        case Kind.DATE:
            return {"type": "int", "logicalType": "date"}
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ:
            digits, base, logical = _unit(leaf)
            precision = {} if leaf.size == digits else {**_FLINK, "flink.precision": leaf.size}
            return {"type": base, "logicalType": logical, **precision}
    return _PLAIN[leaf.kind]


def _varying(base: str, leaf: Leaf) -> Json:
    return base if leaf.size == UNBOUNDED else {"type": base, **_FLINK, "flink.maxLength": leaf.size}


def _decimal(leaf: Leaf) -> Json:
    """Return a decimal; Avro's library refuses others, and Confluent's server answers 500 without a scale."""
    precision, scale = leaf.size or 0, leaf.scale
    if scale is None:
        raise InvalidSchema("DECIMAL needs a scale")
    if precision <= 0:
        raise InvalidSchema(f"Invalid decimal precision: {precision} (must be positive)")
    if scale > precision:
        raise InvalidSchema(f"Invalid decimal scale: {scale} (greater than precision: {precision})")
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _unit(leaf: Leaf) -> tuple[int, str, str]:
    units = _UNITS[leaf.kind]
    return next((each for each in units if (leaf.size or 0) <= each[0]), units[-1])


def _default(shape: Shape, value: Any) -> Json:
    """Return a default as Avro writes it: bytes as Latin-1, decimals as bytes, dates and times as numbers."""
    if value is None or not isinstance(shape, Leaf):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if shape.kind is Kind.DECIMAL:
        return _decimal_bytes(Decimal(value), shape.scale or 0).decode("latin-1")
    if shape.kind is Kind.DATE or shape.kind in _UNITS:
        found = moment(shape.kind, value)
        assert found is not None
        if shape.kind is Kind.DATE:
            return found.days
        nanoseconds = found.days * _DAY_S * 10**_NANOS + found.nanoseconds
        return nanoseconds // 10 ** (_NANOS - _unit(shape)[0])
    return value


def _decimal_bytes(value: Decimal, scale: int) -> bytes:
    """Return the unscaled value as a two's complement without needless bytes."""
    if scale > _SCALE_MAX:
        raise InvalidSchema(f"A default of a DECIMAL has a scale of at most {_SCALE_MAX}")
    is_negative, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * int(10 ** (scale + exponent))
    number = -number if is_negative else number
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _name(full_name: str) -> dict[str, Json]:
    namespace, _, simple = full_name.rpartition(".")
    return {"name": simple, "namespace": namespace}


def _doc(notes: Notes) -> dict[str, Json]:
    return {"doc": notes.comment} if notes.comment else {}


def _props(notes: Notes) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if notes.tags:
        found["confluent:tags"] = [*notes.tags]
    if notes.params:
        found["confluent:params"] = dict(notes.params)
    return found


def _notes_of(name: str, notes: Notes) -> dict[str, Json]:
    """Return what is said about a symbol or a branch."""
    params = {"params": dict(notes.params)} if notes.params else {}
    return {"name": name, **_doc(notes), **params}


def _is_name(text: str) -> bool:
    """Return true for letters of any script, digits and underscores, as Avro's library does."""
    return bool(text) and (text[0].isalpha() or text[0] == "_") and text.replace("_", "a").isalnum()
