"""Logical types as DDL (``format=logical``, Confluent 8.4).

Unlike Confluent's, the text declares every type that it uses, those of referenced schemas too, gives a name
to enums and to structs that are used twice, and quotes dates. What SQL cannot write is a comment: other
defaults, and the tags of enums and of branches of a union.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from registry.domain.schemas.contract import Budget, InvalidSchema
from registry.domain.schemas.json_text import print_json
from registry.domain.schemas.trampoline import Walk, run

from .literals import Literal, default_value
from .reading import NotLogical
from .tokens import identifier, quote, root_name
from .types import MISSING, NO_NOTES, UNBOUNDED, Array, Field, Kind, Leaf, Map, Notes, Struct, Type

_UNBOUNDED_NAMES: Final = {Kind.VARCHAR: "STRING", Kind.VARBINARY: "BYTES"}
# Characters that cost a step.
_STEP: Final = 20
# Fields that a declaration has in one line.
_LINE_FIELDS: Final = 2
_NAME_MAX: Final = 128
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBERS: Final = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
)
_TEXTS: Final = frozenset(
    {Kind.CHAR, Kind.VARCHAR, Kind.ENUM, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}
)


def ddl(root: Type, subject: str, budget: Budget) -> str:
    """Return the declarations of a type and all that it uses; a root without a name gets that of a subject.

    Raises :class:`.reading.NotLogical` for a union that contains itself, and :class:`.contract.Exhausted`.
    """
    return "".join(_Script(subject, budget).lines(root))


class _Script:
    def __init__(self, subject: str, budget: Budget) -> None:
        self._budget = budget
        self._root_name: Final = root_name(subject)
        # The last number behind each name.
        self._used: dict[str, int] = {}
        # Structs and enums with a declaration, in the order in which they are met.
        self._declared: dict[int | str, tuple[str, Struct | Leaf]] = {}
        # Unions and structs without a declaration that contain the present part.
        self._around: set[int] = set()
        # True if the numbers of the present struct's fields, which are Protobuf's, are not 1, 2, 3….
        self._notes_numbers = False

    def lines(self, root: Type) -> Iterator[str]:
        times = _uses(root, self._budget)
        self._declare(root, times)
        if isinstance(root.shape, Struct) and root.shape.namespace:
            yield f"NAMESPACE {_quote_name(root.shape.namespace)};\n"
        for name, shape in self._declared.values():
            text = self._enum(name, shape) if isinstance(shape, Leaf) else self._struct(name, shape)
            self._budget.spend(1 + len(text) // _STEP)
            yield text
        # Readers take the one declared type that no other uses.
        first = next(iter(self._declared.values()), None)
        is_inferred = first is not None and first[1] is root.shape and times.get(id(root.shape), 1) == 1
        if root.nullable or not is_inferred:
            yield f"TYPE {run(self._type(root))};\n"

    def _declare(self, root: Type, times: dict[int, int]) -> None:
        """Name the types that need a declaration: those with a name, enums, and what is used twice."""
        todo: list[tuple[Type, str, str]] = [(root, "", self._root_name)]
        seen: set[int] = set()
        while todo:
            part, owner, field = todo.pop()
            self._budget.spend()
            shape = part.shape
            if isinstance(shape, Leaf):
                if shape.kind is Kind.ENUM and (shape.name or id(shape)) not in self._declared:
                    self._name(shape.name or id(shape), shape.name or _name_inside(owner, field), shape)
                continue
            if isinstance(shape, Struct):
                if id(shape) in seen:
                    continue
                seen.add(id(shape))
                if not shape.is_union and (shape.name or times[id(shape)] > 1 or shape is root.shape):
                    owner = self._name(id(shape), shape.name or _name_inside(owner, field), shape)
            todo += reversed([(each, owner, name or field) for each, name in _contents(part)])

    def _name(self, key: int | str, wanted: str, shape: Struct | Leaf) -> str:
        number = self._used.get(wanted, 0) + 1
        name = wanted if number == 1 else f"{wanted}_{number}"
        while number > 1 and name in self._used:
            number += 1
            name = f"{wanted}_{number}"
        self._used[wanted] = number
        self._used.setdefault(name, 1)
        self._declared[key] = (name, shape)
        return name

    def _enum(self, name: str, leaf: Leaf) -> str:
        own, *others = leaf.notes or (NO_NOTES,)
        about = [_about(each, takes_tags=False) for each in others] or [""] * len(leaf.symbols)
        symbols = [quote(symbol) + each for symbol, each in zip(leaf.symbols, about, strict=False)]
        return f"ENUM {_quote_name(name)} ({', '.join(symbols)}){_about(own, takes_tags=False)};\n"

    def _struct(self, name: str, struct: Struct) -> str:
        self._notes_numbers = not _counts(struct)
        columns = [run(self._column(each)) for each in struct.fields]
        about = _about(struct.notes)
        if len(columns) <= _LINE_FIELDS:
            return f"STRUCT {_quote_name(name)} ({', '.join(columns)}){about};\n"
        return f"STRUCT {_quote_name(name)} (\n  " + ",\n  ".join(columns) + f"\n){about};\n"

    def _column(self, field: Field, *, is_branch: bool = False) -> Walk[str]:
        text = f"{identifier(field.name)} {(yield self._type(field.type, is_branch=is_branch))}"
        if field.default is not MISSING and not is_branch:
            written = _literal(field.type.shape, field.default)
            text += f" DEFAULT {written}" if written is not None else _other_default(field)
        options = {
            "avro.aliases": ",".join(field.aliases),
            "protobuf.field.number": str(field.number) if field.number and self._notes_numbers else "",
        }
        return text + _about(field.notes, options, takes_tags=not is_branch)

    def _type(self, type: Type, *, is_branch: bool = False) -> Walk[str]:
        self._budget.spend()
        text: str = yield self._shape(type)
        self._budget.spend(len(text) // _STEP)
        return text if type.nullable or is_branch else f"{text} NOT NULL"

    def _shape(self, type: Type) -> Walk[str]:
        match type.shape:
            case Leaf() as leaf:
                return self._leaf(leaf)
            case Array(element, is_multiset):
                return f"{'MULTISET' if is_multiset else 'ARRAY'}<{(yield self._type(element))}>"
            case Map(key, value):
                return f"MAP<{(yield self._type(key))}, {(yield self._type(value))}>"
            case Struct() as struct:
                if id(struct) in self._declared:
                    return _quote_name(self._declared[id(struct)][0])
                if id(struct) in self._around:
                    raise NotLogical("A union that contains itself has no declaration")
                self._around.add(id(struct))
                inner: list[str] = []
                for each in struct.fields:
                    inner += [(yield self._column(each, is_branch=struct.is_union))]
                self._around.discard(id(struct))
                return f"{'UNION' if struct.is_union else 'STRUCT'}<{', '.join(inner)}>"

    def _leaf(self, leaf: Leaf) -> str:
        if leaf.kind is Kind.ENUM:
            return _quote_name(self._declared[leaf.name or id(leaf)][0])
        if leaf.size == UNBOUNDED and leaf.kind in _UNBOUNDED_NAMES:
            return _UNBOUNDED_NAMES[leaf.kind]
        return str(leaf)


def _quote_name(name: str) -> str:
    return ".".join(map(identifier, name.split(".")))


def _name_inside(owner: str, field: str) -> str:
    return f"{owner}_{field}"[:_NAME_MAX] if owner else field


def _uses(root: Type, budget: Budget) -> dict[int, int]:
    """Return how often each struct is used."""
    times: dict[int, int] = {}
    todo = [root]
    while todo:
        part = todo.pop()
        budget.spend()
        if isinstance(part.shape, Struct):
            times[id(part.shape)] = times.get(id(part.shape), 0) + 1
            if times[id(part.shape)] > 1:
                continue
        todo += (each for each, _ in _contents(part))
    return times


def _contents(part: Type) -> Iterator[tuple[Type, str]]:
    """Yield the parts of a type, those of a struct with their names."""
    match part.shape:
        case Array(element):
            yield element, ""
        case Map(key, value):
            yield key, ""
            yield value, ""
        case Struct() as struct:
            yield from ((each.type, each.name) for each in struct.fields)


def _counts(struct: Struct) -> bool:
    """Return true if the numbers of Protobuf's fields are 1, 2, 3…, as readers of the DDL take them to be."""
    numbers = [number for each in struct.fields for number in _numbers(each)]
    return numbers == [*range(1, len(numbers) + 1)]


def _numbers(field: Field) -> Iterable[int]:
    shape = field.type.shape
    if field.number or not isinstance(shape, Struct) or not shape.is_union:
        return (field.number,)
    return (each.number for each in shape.fields)


def _other_default(field: Field) -> str:
    """Return a default without a literal as a comment; "" for the empty collection that Protobuf implies."""
    is_implied = field.number and isinstance(field.type.shape, Array | Map)
    return "" if is_implied else " " + _comment(f"DEFAULT {print_json(field.default)}")


def _about(
    notes: Notes, options: Mapping[str, str] = MappingProxyType({}), *, takes_tags: bool = True
) -> str:
    """Return the clauses behind a part; ``options``: reserved parameters, empty ones are left out."""
    text = f" COMMENT {quote(notes.comment)}" if notes.comment else ""
    if notes.tags:
        tags = f"TAGS ({', '.join(map(quote, notes.tags))})"
        text += f" {tags if takes_tags else _comment(tags)}"
    pairs = [*((name, value) for name, value in options.items() if value), *notes.params]
    given = [f"{quote(name)} = {quote(value)}" for name, value in pairs]
    return f"{text} WITH ({', '.join(given)})" if given else text


def _comment(text: str) -> str:
    """Return a text as a comment that ends where the text ends."""
    return f"/* {text.replace('*/', '* /')} */"


def _literal(type: object, value: Any) -> str | None:
    """Return a default as SQL; None if none of the type can be written so, as of all types with parts."""
    if value is None:
        return "NULL"
    if not isinstance(type, Leaf):
        return None
    literal = _literal_of(type.kind, value)
    if literal is None:
        return None
    try:
        default_value(type, literal)
    except InvalidSchema:
        return None
    return literal.text


def _literal_of(kind: Kind, value: Any) -> Literal | None:
    if isinstance(value, bytes):
        return Literal("bytes", f"x'{value.hex()}'")
    text = value if isinstance(value, str) else print_json(value)
    if kind is Kind.BOOLEAN:
        return Literal("boolean", text.upper()) if text in ("true", "false") else None
    if kind in _NUMBERS:
        return Literal("number", text) if _NUMBER.fullmatch(text) else None
    return Literal("string", quote(value), value) if kind in _TEXTS and isinstance(value, str) else None
