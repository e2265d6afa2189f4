"""The named parts of a Protobuf schema, for lint rules. Its stored text has no comments, so no docs."""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.schemas.lint import Element

from .model import EnumType, File, Message


def elements(file: File) -> Iterator[Element]:
    """Yield the file, then each message and enum with what is in it."""
    yield Element("schema", "", file.package or "file", namespace=bool(file.package))
    waiting: list[tuple[str, Message | EnumType]] = [("", each) for each in reversed(file.types)]
    while waiting:
        scope, each = waiting.pop()
        path = f"{scope}{each.name}"
        if isinstance(each, EnumType):
            yield Element("enum", path, each.name)
            yield from (Element("symbol", f"{path}.{one.name}", one.name) for one in each.constants)
            continue
        if each.map_type() is None:
            yield Element("type", path, each.name)
            yield from (Element("field", f"{path}.{one.name}", one.name) for one in each.all_fields())
        waiting.extend((f"{path}.", inner) for inner in reversed(each.types))
