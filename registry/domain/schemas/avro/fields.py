"""The fields of an Avro schema, from its JSON; see :mod:`registry.domain.schemas.fields`."""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.schemas import tags
from registry.domain.schemas.contract import SchemaField, SearchPart
from registry.domain.schemas.fields import DEPTH_MAX, default_in, extend_path, join_path, list_names, text_in

from .attributes import read
from .model import Json
from .parser import RECORDS


def fields(text: str) -> Iterator[SchemaField]:
    """Yield types and fields in the order of the text. Raises :class:`InvalidSchema` if it is not JSON."""
    return (_type(value, kind, path) if kind else _field(value, path) for value, kind, path in _walk(text))


def search_parts(text: str) -> Iterator[SearchPart]:
    """Yield what a search reads of them."""
    for value, kind, _ in _walk(text):
        found = value.get(tags.NAME)
        yield (
            "type" if kind else "field",
            text_in(value, "name"),
            text_in(value, "doc"),
            tags.tags_in(found) if found else (),
        )


def _walk(text: str) -> Iterator[tuple[dict[str, Json], str, str]]:
    """Yield types and fields, each with its kind, empty for a field, and its path."""
    waiting: list[tuple[Json, str, bool]] = [(read(text), "", False)]
    while waiting:
        value, path, is_field = waiting.pop()
        if type(value) is not dict:
            branches: list[Json] = value if type(value) is list else []
            # Names of types, as most are, define nothing.
            waiting += [(each, path, False) for each in reversed(branches) if type(each) is not str]
            continue
        if is_field:
            place = join_path(path, text_in(value, "name"))
            yield value, "", place
            inner = value.get("type")
            if type(inner) is not str:
                waiting.append((inner, place, False))
            continue
        kind = text_in(value, "type")
        if kind in RECORDS or kind in ("enum", "fixed"):
            yield value, kind, path
            members = value.get("fields") if kind in RECORDS else None
            if type(members) is list:
                waiting += [(each, path, True) for each in reversed(members) if type(each) is dict]
        elif kind == "array":
            waiting.append((value.get("items"), extend_path(path, "[]"), False))
        elif kind == "map":
            waiting.append((value.get("values"), extend_path(path, "{}"), False))
        else:
            waiting.append((value.get("type"), path, False))


def _field(value: dict[str, Json], path: str) -> SchemaField:
    kind = value.get("type")
    return SchemaField(
        "field",
        path,
        text_in(value, "name"),
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
