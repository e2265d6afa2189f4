"""Explanations of changes to Protobuf schemas: their positions in both texts, and compatible alternatives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from registry.domain.schemas import contract
from registry.domain.schemas.contract import Budget, Part
from registry.domain.schemas.explaining import LINE_MAX, Fix, cut, fix_text

from .changes import Change, Item, message
from .compatibility import changes
from .model import Constant, EnumType, Field, File, Message, OneOf
from .schema import ProtobufSchema

_STEP: Final = "  "
_DECLARATION: Final = re.compile(
    r"(?P<kind>message|enum|oneof|service|extend|package) (?P<name>[^ ;]+)(?: \{|;)"
    r"|(?:\S.* )?(?P<field>[^ ]+ = -?[0-9]+)(?: \[|;)"
)


def explain(
    writer: ProtobufSchema,
    reader: ProtobufSchema,
    reader_is: Literal["new", "old"],
    budget: Budget,
    *,
    lines: bool,
) -> list[contract.Change]:
    """Return all changes. Raises :class:`~.contract.Exhausted`."""
    found = changes((writer.file, writer.names), (reader.file, reader.names), budget)
    sides = (_Shown(writer, lines=lines), _Shown(reader, lines=lines))
    return [_explain_change(each, reader_is, *sides) for each in found]


def _explain_change(
    change: Change, reader_is: Literal["new", "old"], writer: _Shown, reader: _Shown
) -> contract.Change:
    written, read = writer.part(change.old), reader.part(change.new)
    old, new = (written, read) if reader_is == "new" else (read, written)
    if change.compatible:
        return contract.Change(change.type, change.path, True, "", old, new, "")
    fix = fix_text(FIXES, change.type, reader_is, _name(change), old, new)
    return contract.Change(change.type, change.path, False, message(change, reader_is), old, new, fix)


def _name(change: Change) -> str:
    item = change.new or change.old
    return "" if item is None or isinstance(item.declared, File) else item.declared.name


class _Shown:
    """One of the two schemas: the texts of its parts, and their lines in its canonical text."""

    def __init__(self, schema: ProtobufSchema, *, lines: bool) -> None:
        self._package = schema.file.package
        self._lines = schema.canonical.split("\n") if lines else []
        self._index = _index_lines(self._lines)

    def part(self, item: Item | None) -> Part | None:
        """Return the changed part; ``None`` if it is absent."""
        text = "" if item is None else _text(item.declared)
        if item is None or not text:
            return None
        line = self._line(item)
        return Part(cut(text), line, cut(self._lines[line - 1].strip(), LINE_MAX) if line else "")

    def _line(self, item: Item) -> int:
        """Return its line, from 1; 0 for declarations of other files."""
        declared, scope = item.declared, item.scope
        if isinstance(declared, File):
            return self._index.get(("", "package"), 0)
        if self._package:
            if scope != self._package and not scope.startswith(f"{self._package}."):
                return 0
            scope = scope[len(self._package) + 1 :]
        if isinstance(declared, Message | EnumType):
            return self._index.get((scope, ""), 0)
        what = (
            f"oneof {declared.name}" if isinstance(declared, OneOf) else f"{declared.name} = {declared.tag}"
        )
        return self._index.get((scope, what), 0)


def _index_lines(lines: Sequence[str]) -> dict[tuple[str, str], int]:
    """Return the lines of a canonical text by scope and name; indentation shows the nesting."""
    index: dict[tuple[str, str], int] = {}
    scopes = [""]
    for number, line in enumerate(lines, 1):
        depth = len(scopes) - 1
        if not line.startswith(_STEP * depth) and line.strip():
            if line.startswith(_STEP * (depth - 1) + "}"):
                scopes.pop()
            continue
        match = _DECLARATION.match(line, len(_STEP) * depth)
        if match is None:
            continue
        scope = scopes[-1]
        if match["field"]:
            index.setdefault((scope, match["field"]), number)
        elif match["kind"] == "package":
            index["", "package"] = number
        else:
            inner = scope
            if match["kind"] == "oneof":
                index.setdefault((scope, f"oneof {match['name']}"), number)
            else:
                inner = f"{scope}.{match['name']}" if scope else match["name"]
                index.setdefault((inner, ""), number)
            if line.endswith("{"):
                scopes.append(inner)
    return index


def _text(declared: File | Message | EnumType | Constant | OneOf | Field) -> str:
    if isinstance(declared, Field):
        label = f"{declared.label} " if declared.label else ""
        return f"{label}{declared.type} {declared.name} = {declared.tag};"
    if isinstance(declared, Constant):
        return f"{declared.name} = {declared.tag};"
    if isinstance(declared, OneOf):
        return f"oneof {declared.name} {{ {' '.join(map(_text, declared.fields[:20]))} }}"
    if isinstance(declared, File):
        return f"package {declared.package};" if declared.package else ""
    return f"{'message' if isinstance(declared, Message) else 'enum'} {declared.name}"


def _either(text: str) -> Fix:
    return Fix(text, text)


_NEW_NUMBER: Final = "keep `{old}`, or reserve its number and give the new field another one"

# By kind of harmful change.
FIXES: Final[dict[str, Fix]] = {
    "PACKAGE_CHANGED": _either("keep the package of the old schema: `{old}`"),
    "MESSAGE_REMOVED": Fix(
        "keep the message `{name}`, even if no field uses it any more",
        "declare `{name}`, which the old schema lacks, in a separate schema, and refer to that",
    ),
    "FIELD_KIND_CHANGED": _either(_NEW_NUMBER),
    "FIELD_SCALAR_KIND_CHANGED": _either(
        f"{_NEW_NUMBER}; only types with the same encoding are interchangeable"
    ),
    "FIELD_NAMED_TYPE_CHANGED": _either(_NEW_NUMBER),
    "FIELD_NUMERIC_LABEL_CHANGED": _either("keep the label of `{name}`: `{old}`"),
    "REQUIRED_FIELD_ADDED": Fix("make `{name}` optional", "keep the required field: `{old}`"),
    "REQUIRED_FIELD_REMOVED": Fix("keep the required field: `{old}`", "make `{name}` optional"),
    "ONEOF_FIELD_REMOVED": Fix(
        "keep `{old}` in its oneof, or remove the whole oneof with all its fields",
        "declare `{name}` outside of the oneof: the old schema has to know all of its fields",
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": Fix(
        "move at most one field that stood alone into a new oneof: leave the others of `{name}` outside",
        "keep the fields of the old schema in the oneof `{name}`",
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": Fix(
        "leave fields that could be set together with those of the oneof `{name}` outside of it",
        "keep the fields of the old schema in the oneof `{name}`",
    ),
}
