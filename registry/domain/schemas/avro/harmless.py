"""Harmless changes between two Avro schemas, which Java does not report."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from registry.domain.schemas.json_text import printed

from .model import MISSING, Array, Enum, Field, Fixed, Map, Named, Node, Primitive, Record, Union, type_name


class Harmless(NamedTuple):
    """One harmless change from writer to reader, and the parts on both sides."""

    type: str
    path: str
    reader: Node | Field | None
    writer: Node | Field | None
    keyword: str | None = None


_Pair = tuple[Node, Node, str]


def harmless(reader: Node, writer: Node, most: int) -> list[Harmless]:
    """Return at most ``most`` changes; a pair of named types is reported only once."""
    return list(islice(_walk(reader, writer), most))


def _walk(reader: Node, writer: Node) -> Iterator[Harmless]:
    seen: set[tuple[int, int]] = set()
    stack: list[_Pair] = [(reader, writer, "/")]
    while stack:
        reader, writer, path = stack.pop()
        if reader is writer or (id(reader), id(writer)) in seen:
            continue
        seen.add((id(reader), id(writer)))
        below: list[_Pair] = []
        yield from _between(reader, writer, path, below)
        stack += reversed(below)


def _between(reader: Node, writer: Node, path: str, below: list[_Pair]) -> Iterator[Harmless]:
    if type(reader) is Union or type(writer) is Union:
        yield from _unions(reader, writer, path, below)
    elif type(reader) is Record and type(writer) is Record:
        yield from _compare_named(reader, writer, path)
        yield from _fields(reader, writer, path, below)
    elif type(reader) is Enum and type(writer) is Enum:
        yield from _compare_named(reader, writer, path)
        yield from _symbols(reader, writer, path)
    elif type(reader) is Fixed and type(writer) is Fixed:
        yield from _compare_named(reader, writer, path)
    elif type(reader) is Array and type(writer) is Array:
        below.append((reader.items, writer.items, _join(path, "items")))
    elif type(reader) is Map and type(writer) is Map:
        below.append((reader.values, writer.values, _join(path, "values")))
    elif type(reader) is Primitive and type(writer) is Primitive and _is_promoted(reader, writer):
        yield Harmless("TYPE_PROMOTED", path, reader, writer)


def _is_promoted(reader: Primitive, writer: Primitive) -> bool:
    numbers = ("int", "long", "float", "double")
    if writer.kind in numbers and reader.kind in numbers:
        return numbers.index(writer.kind) < numbers.index(reader.kind)
    return {reader.kind, writer.kind} == {"string", "bytes"}


def _unions(reader: Node, writer: Node, path: str, below: list[_Pair]) -> Iterator[Harmless]:
    """Compare the branches of unions that have the same names."""
    read = {type_name(each): each for each in (reader.branches if type(reader) is Union else [reader])}
    written = {type_name(each): each for each in (writer.branches if type(writer) is Union else [writer])}
    for index, (name, branch) in enumerate(read.items()):
        here = _join(path, str(index)) if type(reader) is Union else path
        if name in written:
            below.append((branch, written[name], here))
        elif type(reader) is Union:
            yield Harmless("UNION_BRANCH_ADDED", here, branch, None)


def _compare_named(reader: Named, writer: Named, path: str) -> Iterator[Harmless]:
    if reader.name.simple != writer.name.simple:
        if any(alias.full == writer.name.full for alias in reader.aliases):
            yield Harmless("NAME_CHANGED_TO_ALIASED", _join(path, "name"), reader, writer, "name")
    elif reader.name.space != writer.name.space:
        yield Harmless("NAMESPACE_CHANGED", _join(path, "namespace"), reader, writer, "namespace")
    if reader.doc != writer.doc:
        yield Harmless("DOC_CHANGED", _join(path, "doc"), reader, writer, "doc")


def _symbols(reader: Enum, writer: Enum, path: str) -> Iterator[Harmless]:
    here = _join(path, "symbols")
    if not set(reader.symbols) <= set(writer.symbols):
        yield Harmless("ENUM_SYMBOLS_ADDED", here, reader, writer, "symbols")
    if not set(writer.symbols) <= set(reader.symbols) and reader.default in reader.symbols:
        yield Harmless("ENUM_SYMBOLS_REMOVED_WITH_DEFAULT", here, reader, writer, "symbols")


def _fields(reader: Record, writer: Record, path: str, below: list[_Pair]) -> Iterator[Harmless]:
    written = {field.name: field for field in writer.fields}
    read: set[str] = set()
    for index, field in enumerate(reader.fields):
        here = _join(path, f"fields/{index}")
        other = next((written[name] for name in (field.name, *field.aliases) if name in written), None)
        if other is None:
            if field.default is not MISSING:
                yield Harmless("FIELD_WITH_DEFAULT_ADDED", here, field, None)
            continue
        read.add(other.name)
        yield from _field(field, other, here)
        below.append((field.type, other.type, _join(here, "type")))
    for field in writer.fields:
        if field.name not in read:
            yield Harmless("FIELD_REMOVED", _join(path, "fields"), None, field)


def _field(reader: Field, writer: Field, path: str) -> Iterator[Harmless]:
    if reader.name != writer.name:
        yield Harmless("FIELD_NAME_CHANGED_TO_ALIASED", _join(path, "name"), reader, writer, "name")
    if _default(reader) != _default(writer):
        yield Harmless("DEFAULT_CHANGED", _join(path, "default"), reader, writer, "default")
    if reader.doc != writer.doc:
        yield Harmless("DOC_CHANGED", _join(path, "doc"), reader, writer, "doc")


def _default(field: Field) -> str:
    return "" if field.default is MISSING else printed(field.default)


def _join(path: str, step: str) -> str:
    return f"{path}{step}" if path == "/" else f"{path}/{step}"
