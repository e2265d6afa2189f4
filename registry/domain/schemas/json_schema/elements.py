"""The named parts of a JSON schema, for lint rules."""

from __future__ import annotations

from collections.abc import Iterator

from registry.domain.schemas import tags
from registry.domain.schemas.json_scanner import Json
from registry.domain.schemas.lint import Element

from .tags import parts


def elements(value: Json) -> Iterator[Element]:
    """Yield objects and their properties, which a description or a title documents."""
    for entity, schema, name in parts(value):
        doc = bool(schema.get("description") or schema.get("title"))
        yield Element("object" if entity.kind == tags.RECORD else "field", entity.path, name, doc=doc)
