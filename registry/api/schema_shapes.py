"""JSON Schema, in the few forms in which it is written here."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
INT: Json = {"type": "integer", "format": "int32"}
LONG: Json = {"type": "integer", "format": "int64"}
BOOL: Json = {"type": "boolean"}


def ref(name: str) -> Json:
    """The entity of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(item: Json) -> Json:
    """An array of these."""
    return {"type": "array", "items": item}


def map_of(item: Json) -> Json:
    """An object with any members of this form."""
    return {"type": "object", "additionalProperties": item}


def object_of(required: str = "", /, **members: Json) -> Json:
    """An object with these members, of which those named in ``required`` are always there."""
    found: Json = {"type": "object", "properties": members}
    if required:
        found["required"] = required.split()
    return found


def nullable(schema: Json) -> Json:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def all_nullable(members: Json) -> Json:
    """Members, each of which may be null."""
    return {name: nullable(each) for name, each in members.items()}
