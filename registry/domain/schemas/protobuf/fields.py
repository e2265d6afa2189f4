"""The fields of a Protobuf schema, from its declarations; see :mod:`registry.domain.schemas.fields`.

Paths name messages, as those of tags do: ``Outer.Inner.field``.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.schemas import tags
from registry.domain.schemas.contract import SchemaField
from registry.domain.schemas.fields import join_path, list_names

from .model import EnumType, Field, Message, Option
from .named_parts import meta_of
from .parser import parse


def fields(text: str) -> Iterator[SchemaField]:
    """Yield messages, enums and fields in the order of the text. Raises :class:`InvalidSchema`."""
    waiting: list[tuple[str, Message | EnumType]] = [("", each) for each in reversed(parse(text).types)]
    while waiting:
        scope, each = waiting.pop()
        path = join_path(scope, each.name)
        if isinstance(each, EnumType):
            symbols = list_names([one.name for one in each.constants])
            yield SchemaField("type", path, each.name, f"enum ({symbols})")
            continue
        if each.map_type() is None:
            found, doc = meta_of(each.options, tags.RECORD)
            yield SchemaField("type", path, each.name, "message", None, doc, found)
            yield from (_field(one, path) for one in each.fields)
            for oneof in each.oneofs:
                yield from (_field(one, path, f" (oneof {oneof.name})") for one in oneof.fields)
            for group in each.all_groups():
                place = join_path(path, group.name)
                yield SchemaField("field", place, group.name, f"{group.label} group".strip())
                yield from (_field(one, place) for one in group.fields)
        waiting.extend((path, inner) for inner in reversed(each.types))


def _field(each: Field, scope: str, note: str = "") -> SchemaField:
    found, doc = meta_of(each.options, tags.FIELD)
    label = "" if each.label == "required" else each.label
    shown = f"{label} {each.type}{note}{_deprecation(each.options)}".strip()
    required = each.label == "required"
    path = join_path(scope, each.name)
    return SchemaField("field", path, each.name, shown, each.default, doc, found, required)


def _deprecation(options: tuple[Option, ...]) -> str:
    return ", deprecated" if any(each.name == "deprecated" for each in options) else ""
