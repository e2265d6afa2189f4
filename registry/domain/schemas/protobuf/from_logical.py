"""Writing a logical type as a Protobuf file (Confluent 8.4, ``format=logical``).

Unlike Confluent's writer, a required field of a declared struct says that it is required, and a root that is
no struct is refused, because its file would be that of all of Google's wrappers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry.domain.schemas.contract import Budget, Dependency, InvalidSchema
from registry.domain.schemas.logical.types import (
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
    name_of,
    parent_of,
)
from registry.domain.schemas.trampoline import Walk, run

from .model import EnumType
from .names import declarations
from .option_text import quote
from .parser import parse

_SCALARS: Final[Mapping[Kind, str]] = {
    Kind.BOOLEAN: "bool",
    Kind.TINYINT: "int32",
    Kind.SMALLINT: "int32",
    Kind.INT: "int32",
    Kind.BIGINT: "int64",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.CHAR: "string",
    Kind.VARCHAR: "string",
    Kind.BINARY: "bytes",
    Kind.VARBINARY: "bytes",
}
# Messages that stand for one value, and the files that declare them.
_MESSAGES: Final[Mapping[Kind, tuple[str, str]]] = {
    Kind.DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    Kind.DATE: ("google.type.Date", "google/type/date.proto"),
    Kind.TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    Kind.TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    Kind.TIMESTAMP_LTZ: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    Kind.VARIANT: ("confluent.type.Variant", "confluent/type/variant.proto"),
}
_SMALL: Final[Mapping[Kind, str]] = {Kind.TINYINT: "int8", Kind.SMALLINT: "int16"}
_PRECISION: Final = 9
_WRAPPED: Final = {"flink.wrapped": "true"}
_MULTISET: Final = {"flink.type": "multiset"}
_MULTISET_COUNT: Final = Type(Leaf(Kind.INT))
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Field numbers that no field may have.
_RESERVED: Final = range(19_000, 20_000)
FAILED: Final = "Failed to translate the provided schema to a Protobuf descriptor"
# Characters that cost a step.
_STEP: Final = 20


def write(script: Script, root: str, dependencies: Sequence[Dependency], budget: Budget) -> str:
    """Return the file of a script; ``root`` names a root that has no name.

    Raises :class:`InvalidSchema` for what Protobuf cannot express, and :class:`.contract.Exhausted`.
    """
    if script.imports:
        raise InvalidSchema(
            "Cannot emit to Proto: LogicalType carries JSON-specific synthetic external imports "
            f"[{', '.join(script.imports)}]. Re-construct the LT against Proto-compatible externals."
        )
    return _Writer(script, _types_in(dependencies), budget).file(root)


class _Known(NamedTuple):
    """A type of another file."""

    path: str
    is_enum: bool


def _types_in(dependencies: Sequence[Dependency]) -> Mapping[str, _Known]:
    return {
        name: _Known(each.name, isinstance(declared, EnumType))
        for each in dependencies
        for name, declared in declarations(parse(each.text))
    }


class _Message:
    """A message while it is written."""

    def __init__(self, struct: Struct) -> None:
        # Field numbers that the script gives.
        self.given: Final = _given_numbers(struct)
        self.number = 0
        self.fields: list[str] = []
        self.nested: list[str] = []

    def next_number(self, field: Field) -> int:
        """Return the number of a field: the given one, else the next that is given to none."""
        if field.number:
            return field.number
        self.number += 1
        while self.number in self.given or self.number in _RESERVED:
            self.number += 1
        return self.number


class _Column(NamedTuple):
    """Something that becomes one field of a message."""

    name: str
    type: Type
    number: int
    notes: Notes = NO_NOTES
    # As a parameter says it; None: there is none.
    default: str | None = None
    is_branch: bool = False


class _Writer:
    def __init__(self, script: Script, known: Mapping[str, _Known], budget: Budget) -> None:
        self._script = script
        self._known = known
        self._budget = budget
        self._imports: set[str] = set()
        # By the name of a declared type, those that are nested in it.
        self._children: dict[str, list[str]] = {}

    def file(self, root: str) -> str:
        name, struct = self._root(root)
        self._nest(name if struct.name else "", root)
        messages = [run(self._message(struct, name.rpartition(".")[2], self._children.get(struct.name, ())))]
        enums: list[str] = []
        for each in self._children.get("", ()):
            shape = self._script.declared[each]
            if shape is struct:
                continue
            if isinstance(shape, Leaf):
                enums.append(self._enum(shape, each))
            else:
                messages.append(
                    run(self._message(shape, each.rpartition(".")[2], self._children.get(each, ())))
                )
        package = self._script.namespace
        return "".join([
            'syntax = "proto3";\n',
            f"package {'.'.join(map(_word, package.split('.')))};\n" if package else "",
            *(f"import {quote(each)};\n" for each in sorted(self._imports)),
            *messages,
            *enums,
        ])  # fmt: skip

    def _root(self, name: str) -> tuple[str, Struct]:
        """Return the first message: of several roots the first one."""
        shape = self._script.root.shape
        if isinstance(shape, Struct) and shape.is_union and not self._script.root.nullable:
            branches = [each.type.shape for each in shape.fields]
            if all(
                isinstance(each, Struct | Leaf) and each.name in self._script.declared for each in branches
            ):
                shape = branches[0]
        if isinstance(shape, External):
            raise InvalidSchema(f"Top-level schema must be declared here: {shape.name}")
        if not isinstance(shape, Struct) or shape.is_union:
            raise InvalidSchema(f"Top-level schema must be STRUCT, got {name_of(shape)}")
        return shape.name or name, shape

    def _nest(self, root: str, root_name: str) -> None:
        """Find which declared types are nested in which, and refuse names that a file cannot hold."""
        declared, package = self._script.declared, self._script.namespace
        for name in declared:
            parent = parent_of(name, declared)
            self._children.setdefault(parent, []).append(name)
            if parent:
                continue
            namespace = name.rpartition(".")[0]
            if namespace != package:
                raise InvalidSchema(
                    f"Proto requires all named types to share the file's package, but '{name}' is in "
                    f"namespace '{namespace or '<none>'}' while the file's package is "
                    f"'{package or '<none>'}'. Either align the namespaces, or split cross-namespace types "
                    "into separate schemas referenced via REFERENCE TYPE."
                )
            if not root and name.rpartition(".")[2] == root_name:
                raise InvalidSchema(
                    f"Named type '{name}' has the same simple name '{root_name}' as the root message."
                )

    def _message(self, struct: Struct, name: str, children: Iterable[str]) -> Walk[str]:
        message = _Message(struct)
        for field in struct.fields:
            shape = field.type.shape
            if isinstance(shape, Struct) and shape.is_union:
                message.fields.append(f"oneof {_word(field.name)} {{\n")
                for each in shape.fields:
                    number = message.next_number(each)
                    branch = _Column(each.name, each.type, number, each.notes, is_branch=True)
                    message.fields.append((yield self._field(message, branch)))
                message.fields.append("}\n")
            else:
                default = _default(field.default) if field.has_value else None
                column = _Column(field.name, field.type, message.next_number(field), field.notes, default)
                message.fields.append((yield self._field(message, column)))
        for child in children:
            shape = self._script.declared[child]
            if isinstance(shape, Leaf):
                message.nested.append(self._enum(shape, child, is_nested=True))
            else:
                below = self._children.get(child, ())
                message.nested.append((yield self._message(shape, child.rpartition(".")[2], below)))
        is_marked = bool(struct.name) and bool(parent_of(struct.name, self._script.declared))
        marked = {"logical.named": "true"} if is_marked and not self._is_cyclic(struct) else {}
        option = _meta("message_meta", struct.notes, {**dict(struct.notes.params), **marked})
        text = f"message {_word(name)} {{\n{f'option {option};' if option else ''}\n"
        # As in a descriptor, messages come before enums.
        nested = sorted(message.nested, key=lambda each: each.startswith("enum "))
        text = "".join([text, *message.fields, *nested, "}\n"])
        self._budget.spend(len(text) // _STEP)
        return text

    def _field(self, message: _Message, column: _Column, *, is_repeated: bool = False) -> Walk[str]:
        """Return a field, and write the messages that it needs."""
        self._budget.spend(1 + len(column.name) // _STEP)
        shape, nullable = column.type
        params: dict[str, str] = {}
        label = "repeated " if is_repeated else "optional " if nullable and not column.is_branch else ""
        if isinstance(shape, Array | Map):
            return (yield self._collection(message, column))  # type: ignore[no-any-return]
        if isinstance(shape, Struct) and shape.is_union:
            # A oneof cannot stand in another.
            kind = yield self._wrapper(message, column, "OneofWrapper", column.type)
            return self._line("", kind, column, _WRAPPED)
        is_value = isinstance(shape, Leaf) and shape.kind in _MESSAGES
        is_inline = isinstance(shape, Struct) and not shape.name
        is_declared = isinstance(shape, Struct) and not is_repeated and not column.is_branch
        if not nullable and (is_value or is_inline or (is_declared and not self._is_enum(shape))):
            params["flink.notNull"] = "true"
        kind = yield self._type(message, column, shape)
        if isinstance(shape, Leaf):
            params |= _annotations(shape)
        return self._line(label, kind, column, params)

    def _collection(self, message: _Message, column: _Column) -> Walk[str]:
        shape, nullable = column.type
        is_multiset = isinstance(shape, Array) and shape.is_multiset
        marked = _MULTISET if is_multiset else {}
        if nullable or column.is_branch:
            kind = yield self._wrapper(message, column, "RepeatedWrapper", Type(shape))
            return self._line("", kind, column, {**_WRAPPED, **marked})
        if isinstance(shape, Map) or is_multiset:
            entry = shape if isinstance(shape, Map) else Map(_element(shape), _MULTISET_COUNT)
            struct = Struct()
            struct.fields += (Field("key", entry.key), Field("value", entry.value))
            kind = yield self._inline(message, column.name, "Entry", struct)
            return self._line("repeated ", kind, column, marked)
        element = _element(shape)
        inner = element.shape
        if (
            element.nullable
            or isinstance(inner, Array | Map)
            or (isinstance(inner, Struct) and inner.is_union)
        ):
            kind = yield self._wrapper(message, column, "ElementWrapper", element)
            return self._line("repeated ", kind, column, _WRAPPED)
        single = column._replace(type=element)
        return (yield self._field(message, single, is_repeated=True))  # type: ignore[no-any-return]

    def _wrapper(self, message: _Message, column: _Column, end: str, type: Type) -> Walk[str]:
        struct = Struct()
        struct.fields.append(Field("value", type))
        return (yield self._inline(message, column.name, end, struct))  # type: ignore[no-any-return]

    def _inline(self, message: _Message, field: str, end: str, struct: Struct) -> Walk[str]:
        """Write a message for a field's type, and return its name."""
        name = f"{_camel_case(field)}{end}"
        message.nested.append((yield self._message(struct, name, ())))
        return name

    def _type(self, message: _Message, column: _Column, shape: Shape) -> Walk[str]:
        """Return the name of a type that is no collection and no union."""
        if isinstance(shape, External):
            known = self._known.get(shape.name)
            if known is None:
                raise InvalidSchema(f"Unknown named type reference: {shape.name}")
            self._imports.add(known.path)
            return f".{shape.name}"
        if isinstance(shape, Struct):
            if shape.name:
                return f".{_full_name(shape.name)}"
            return (yield self._inline(message, column.name, "Row", shape))  # type: ignore[no-any-return]
        assert isinstance(shape, Leaf)
        if shape.kind is Kind.ENUM:
            return f".{_full_name(shape.name)}"
        if shape.kind in _MESSAGES:
            name, path = _MESSAGES[shape.kind]
            self._imports.add(path)
            return f".{name}"
        return _SCALARS[shape.kind]

    def _line(self, label: str, kind: str, column: _Column, params: Mapping[str, str]) -> str:
        given = dict(params)
        if column.default is not None:
            given["logical.default"] = column.default
        own = dict(column.notes.params)
        if given or (own and column.is_branch):
            given["flink.version"] = "1"
        option = _meta("field_meta", column.notes, {**own, **given})  # what says the type counts
        return f"{label}{kind} {_word(column.name)} = {column.number}{f' [{option}]' if option else ''};\n"

    def _enum(self, leaf: Leaf, name: str, *, is_nested: bool = False) -> str:
        own, *others = leaf.notes or (NO_NOTES,)
        option = _meta(
            "enum_meta", own, {**dict(own.params), **({"logical.named": "true"} if is_nested else {})}
        )
        lines = []
        for number, symbol in enumerate(leaf.symbols):
            notes = others[number] if others else NO_NOTES
            about = _meta("enum_value_meta", notes, dict(notes.params))
            lines.append(f"{_word(symbol)} = {number}{f' [{about}]' if about else ''};\n")
        self._budget.spend(len(lines))
        head = f"enum {_word(name.rpartition('.')[2])} {{\n"
        return "".join([head, f"option {option};\n" if option else "", *lines, "}\n"])

    def _is_enum(self, shape: Shape) -> bool:
        return isinstance(shape, External) and shape.name in self._known and self._known[shape.name].is_enum

    def _is_cyclic(self, struct: Struct) -> bool:
        """Return true if a struct leads to itself; readers see that such a type is a declared one."""
        seen: set[int] = set()
        todo: list[Shape] = [each.type.shape for each in struct.fields]
        while todo:
            shape = todo.pop()
            self._budget.spend()
            if shape is struct:
                return True
            if isinstance(shape, Array):
                todo.append(shape.element.shape)
            elif isinstance(shape, Map):
                todo += (shape.key.shape, shape.value.shape)
            elif isinstance(shape, Struct) and id(shape) not in seen:
                seen.add(id(shape))
                todo += (each.type.shape for each in shape.fields)
        return False


def _element(shape: Shape) -> Type:
    assert isinstance(shape, Array)
    return shape.element


def _given_numbers(struct: Struct) -> frozenset[int]:
    found: set[int] = set()
    for field in struct.fields:
        shape = field.type.shape
        parts = shape.fields if isinstance(shape, Struct) and shape.is_union else (field,)
        for each in parts:
            if each.number in found:
                raise InvalidSchema(
                    f"Duplicate protobuf.field.number {each.number} in struct '{struct.name}'"
                )
            if each.number:
                found.add(each.number)
    return frozenset(found)


def _annotations(leaf: Leaf) -> dict[str, str]:
    """Return the parameters that say what Protobuf's type does not."""
    match leaf.kind:
        case Kind.TINYINT | Kind.SMALLINT:
            return {"connect.type": _SMALL[leaf.kind]}
        case Kind.CHAR | Kind.BINARY:
            return {"flink.minLength": str(leaf.size), "flink.maxLength": str(leaf.size)}
        case Kind.VARCHAR | Kind.VARBINARY if leaf.size != UNBOUNDED:
            return {"flink.maxLength": str(leaf.size)}
        case Kind.DECIMAL:
            return {"precision": str(leaf.size), "scale": "-1" if leaf.scale is None else str(leaf.scale)}
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ:
            found = {} if leaf.size == _PRECISION else {"flink.precision": str(leaf.size)}
            return {**found, "flink.type": "timestamp"} if leaf.kind is Kind.TIMESTAMP else found
    return {}


def _default(value: Any) -> str:
    """Return a default as a parameter."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meta(option: str, notes: Notes, params: Mapping[str, str]) -> str:
    """Return Confluent's option; empty if there is nothing to say."""
    members = []
    if notes.comment:
        members.append(f"doc: {quote(notes.comment)}")
    if params:
        members.append(f"params: [{', '.join(_param(key, params[key]) for key in sorted(params))}]")
    if notes.tags:
        members.append(f"tags: [{', '.join(map(quote, notes.tags))}]")
    return f"(confluent.{option}) = {{ {', '.join(members)} }}" if members else ""


def _param(key: str, value: str) -> str:
    return f"{{ key: {quote(key)}, value: {quote(value)} }}"


def _camel_case(name: str) -> str:
    """Return a field's name as the beginning of a message's."""
    if "_" in name:
        return "".join(each[:1].upper() + each[1:].lower() for each in name.split("_"))
    return name[:1].upper() + name[1:]


def _full_name(name: str) -> str:
    return ".".join(map(_word, name.split(".")))


def _word(name: str) -> str:
    """Return a name. Raises :class:`InvalidSchema` for one that Protobuf could read as something else."""
    if not _WORD.fullmatch(name):
        raise InvalidSchema(FAILED)
    return name
