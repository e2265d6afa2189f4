"""The fields of an Avro schema, from its JSON; see :mod:`registry.domain.schemas.fields`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.domain.schemas import tags
from registry.domain.schemas.contract import SchemaField, SearchPart
from registry.domain.schemas.fields import DEPTH_MAX, default_in, extend_path, join_path, list_names, text_in

from .attributes import read
from .model import Json
from .parser import RECORDS

# Kinds of types that a schema defines; the members of those that hold one type, and how paths show it.
_DEFINED: Final = RECORDS | {"enum", "fixed"}
_ELEMENTS: Final = {"array": ("items", "[]"), "map": ("values", "{}")}


def fields(text: str) -> Iterator[SchemaField]:
    """Yield types and fields in the order of the text. Raises :class:`InvalidSchema` if it is not JSON."""
    return (
        _type(value, kind, path) if kind else _field(value, path)
        for values, kind, path in _walk(text)
        for value in values
    )


def search_parts(text: str) -> Iterator[SearchPart]:
    """Yield what a search reads of them."""
    for values, kind, _ in _walk(text):
        what = "type" if kind else "field"
        for value in values:
            # Looked at here, without a call for each: a node reads the texts of all that is written.
            name, doc, found = value.get("name"), value.get("doc"), value.get(tags.NAME)
            yield (
                what,
                name if type(name) is str else "",
                doc if type(doc) is str else "",
                tags.tags_in(found) if found else (),
            )


def _walk(text: str) -> Iterator[tuple[list[dict[str, Json]], str, str]]:
    """Yield types, each with its kind and path, and fields in a row, with no kind and their record's path."""
    # Those of an inner list come before the rest of the outer ones.
    waiting: list[tuple[Iterator[Json], str, bool]] = [(iter((read(text),)), "", False)]
    while waiting:
        values, path, are_fields = waiting[-1]
        if are_fields:
            found, inside = _fields_in_a_row(values)
            if inside is None:
                waiting.pop()
            else:
                waiting.append((iter((inside,)), join_path(path, text_in(found[-1], "name")), False))
            yield found, "", path
            continue
        for value in values:
            if type(value) is dict:
                kind = text_in(value, "type")
                if kind in _DEFINED:
                    yield [value], kind, path
                waiting.append(_inside(value, kind, path))
                break
            if type(value) is list:
                waiting.append((iter(value), path, False))
                break
        else:
            waiting.pop()


def _fields_in_a_row(values: Iterator[Json]) -> tuple[list[dict[str, Json]], Json]:
    """Return the next fields up to one whose type may define others, and that type; ``None``: none may."""
    found: list[dict[str, Json]] = []
    for value in values:
        if type(value) is dict:
            found.append(value)
            inner = value.get("type")
            # Most types are names.
            if type(inner) is not str and _may_define(inner):
                return found, inner
    return found, None


def _may_define(value: Json) -> bool:
    """Return false for a list of names, and for elements, values or attributes of a type with a name."""
    if type(value) is list:
        return {*map(type, value)} != {str}
    if type(value) is not dict:
        return False
    kind = value.get("type")
    if type(kind) is not str or kind in _DEFINED:
        return True
    return kind in _ELEMENTS and type(value.get(_ELEMENTS[kind][0])) is not str


def _inside(value: dict[str, Json], kind: str, path: str) -> tuple[Iterator[Json], str, bool]:
    """Return what a type holds, its path, and whether these are fields."""
    if kind in RECORDS:
        members = value.get("fields")
        return iter(members if type(members) is list else ()), path, True
    if kind in _ELEMENTS:
        member, mark = _ELEMENTS[kind]
        return iter((value.get(member),)), extend_path(path, mark), False
    inner = () if kind in _DEFINED else (value.get("type"),)
    return iter(inner), path, False


def _field(value: dict[str, Json], path: str) -> SchemaField:
    kind, name = value.get("type"), text_in(value, "name")
    return SchemaField(
        "field",
        join_path(path, name),
        name,
        _type_text(kind),
        default_in(value),
        text_in(value, "doc"),
        tuple(tags.tags_in(value.get(tags.NAME))),
        not _may_be_null(kind) and "default" not in value,
    )


def _type(value: dict[str, Json], kind: str, path: str) -> SchemaField:
    name = text_in(value, "name")
    return SchemaField(
        "type",
        path,
        name,
        _enum(value) if kind == "enum" else kind,
        default_in(value),
        text_in(value, "doc"),
        tuple(tags.tags_in(value.get(tags.NAME))),
    )


def _may_be_null(kind: Json) -> bool:
    return kind == "null" or (type(kind) is list and "null" in kind)


def _type_text(value: Json, depth: int = 0) -> str:
    if type(value) is str:
        return value.rpartition(".")[2]
    if depth == DEPTH_MAX:
        return "…"
    if type(value) is list:
        return list_names([_type_text(each, depth + 1) for each in value[:21]], " | ")
    if type(value) is not dict:
        return ""
    kind = text_in(value, "type")
    if kind == "array":
        return f"array<{_type_text(value.get('items'), depth + 1)}>"
    if kind == "map":
        return f"map<{_type_text(value.get('values'), depth + 1)}>"
    if kind in RECORDS or kind in ("enum", "fixed"):
        return text_in(value, "name").rpartition(".")[2]
    plain, logical = _type_text(value.get("type"), depth + 1), text_in(value, "logicalType")
    if logical == "decimal":
        logical = f"decimal {value.get('precision')}, {value.get('scale', 0)}"
    return f"{plain} ({logical})" if logical else plain


def _enum(value: dict[str, Json]) -> str:
    symbols = value.get("symbols")
    names = [each for each in symbols if type(each) is str] if type(symbols) is list else []
    return f"enum ({list_names(names)})"
