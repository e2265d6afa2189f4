"""Explanations of changes to Avro schemas: their positions in both texts, and compatible alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Budget, Change, Part
from registry.domain.schemas.explaining import Fix, Lines, Spot, excerpt, fix_text
from registry.domain.schemas.json_text import print_json

from . import attributes
from .compatibility import MAX_DIFFERENCES, Incompatibility, NoVerdictError, compare, difference, no_verdict
from .model import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Union,
    type_name,
)


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
    return "" if field.default is MISSING else print_json(field.default)


def _join(path: str, step: str) -> str:
    return f"{path}{step}" if path == "/" else f"{path}/{step}"


# The attribute of a definition that a difference between named types is about.
_OWN_KEYWORDS: Final = {
    "NAME_MISMATCH": "name",
    "FIXED_SIZE_MISMATCH": "size",
    "MISSING_ENUM_SYMBOLS": "symbols",
}
# By kind of difference.
FIXES: Final[dict[str, Fix]] = {
    "NAME_MISMATCH": Fix(
        "keep the name {old}, or add its full name to the aliases of {new}",
        "keep the name {old}: the old schema accepts no other",
    ),
    "FIXED_SIZE_MISMATCH": Fix("keep the size of `{name}` at {old}", "keep the size of `{name}` at {old}"),
    "MISSING_ENUM_SYMBOLS": Fix(
        "keep all symbols of `{name}` ({old}), or give the enum a default",
        "add no symbols to `{name}`, which has no default in the old schema: {old}",
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": Fix(
        "give `{name}` a default", "keep the field `{name}`, which has no default in the old schema"
    ),
    "TYPE_MISMATCH": Fix(
        "keep the type {old} of `{name}`, or use a type that it can be promoted to, or a union with it",
        "keep the type {old} of `{name}`, or use a type that can be promoted to it",
    ),
    "MISSING_UNION_BRANCH": Fix(
        "keep all branches in the union of `{name}`: {old}",
        "add no branches to the union of `{name}`: {old}",
    ),
    "UNEXPECTED_EXCEPTION": Fix(
        "let the name and aliases of a field match only one field of the old schema, and use fewer types",
        "do not let two fields match the name and aliases of one field of the old schema, and use fewer "
        "types",
    ),
}


class Side:
    """One of the two schemas: its model, its canonical text as JSON, and the objects of the model's parts."""

    def __init__(self, node: Node, canonical: str, *, lines: bool) -> None:
        self.node: Final = node
        self._value: Final = attributes.read(canonical)
        self._places: Final = _places(node, self._value)
        self._lines = Lines(self._value) if lines else None

    def part(self, of: Node | Field, keyword: str | None = None) -> Part:
        """Return the text of a part of the model; a type of a dependency has only its name here."""
        holder = self._places.get(id(of))
        if holder is None:
            is_whole = of is self.node
            spot = Spot(self._value if is_whole else _name(of))
        else:
            spot = Spot(holder, keyword if keyword is not None and keyword in holder else None)
        return Part(excerpt(spot.value)) if self._lines is None else self._lines.part(spot)


def changes(writer: Side, reader: Side, reader_is: Literal["new", "old"], budget: Budget) -> list[Change]:
    """Return Java's differences, then harmless changes. Raises :class:`~.contract.Exhausted`."""
    try:
        found = compare(reader.node, writer.node, budget)
    except NoVerdictError as error:
        text = no_verdict(error)
        fix = fix_text(FIXES, text.type, reader_is, "", None, None)
        return [Change(text.type, text.path, False, text.text, None, None, fix)]
    everything = [_change(each, writer, reader, reader_is) for each in found]
    room = max(0, MAX_DIFFERENCES - len(everything))
    return everything + [
        _harmless_change(each, writer, reader, reader_is) for each in harmless(reader.node, writer.node, room)
    ]


def _change(found: Incompatibility, writer: Side, reader: Side, reader_is: Literal["new", "old"]) -> Change:
    text = difference(found, reader_is)
    read, written, name = _parts(found, writer, reader)
    old, new = (written, read) if reader_is == "new" else (read, written)
    kind = "READER_FIELD_MISSING_DEFAULT_VALUE" if written is None else found.type
    fix = fix_text(FIXES, kind, reader_is, name, old, new)
    return Change(text.type, text.path, False, text.text, old, new, fix)


def _parts(found: Incompatibility, writer: Side, reader: Side) -> tuple[Part, Part | None, str]:
    """Return the reader's part, the writer's part, and the name of the difference's subject."""
    if isinstance(found.reader, Field):
        return reader.part(found.reader), None, found.reader.name
    keyword = _OWN_KEYWORDS.get(found.type)
    if keyword is not None:
        read, written = reader.part(found.reader, keyword), writer.part(found.writer, keyword)
        return read, written, _name(found.reader)
    fields = found.position.nearest_fields()
    if fields is not None:
        return reader.part(fields[0], "type"), writer.part(fields[1], "type"), fields[0].name
    return reader.part(reader.node), writer.part(writer.node), "the schema"


def _harmless_change(found: Harmless, writer: Side, reader: Side, reader_is: Literal["new", "old"]) -> Change:
    read = None if found.reader is None else reader.part(found.reader, found.keyword)
    written = None if found.writer is None else writer.part(found.writer, found.keyword)
    old, new = (written, read) if reader_is == "new" else (read, written)
    return Change(found.type, found.path, True, "", old, new, "")


def _name(of: Node | Field) -> str:
    return of.name if isinstance(of, Field) else type_name(of)


def _places(node: Node, value: Json) -> dict[int, dict[str, Json]]:
    """Return the JSON object of each field and named type, by identity."""
    found: dict[int, dict[str, Json]] = {}
    stack: list[tuple[Node, Json]] = [(node, value)]
    while stack:
        node, value = stack.pop()
        if type(node) is Union and type(value) is list:
            stack += zip(node.branches, value, strict=True)
        elif type(value) is not dict:
            continue  # a name
        elif type(node) is Array:
            stack.append((node.items, value["items"]))
        elif type(node) is Map:
            stack.append((node.values, value["values"]))
        elif type(node) is Record:
            found[id(node)] = value
            for field, shown in zip(node.fields, value["fields"], strict=True):
                found[id(field)] = shown
                stack.append((field.type, shown["type"]))
        elif type(node) is Enum or type(node) is Fixed:
            found[id(node)] = value
    return found
