"""The building blocks of the JSON Schemas in the OpenAPI document."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
INT: Json = {"type": "integer", "format": "int32"}
LONG: Json = {"type": "integer", "format": "int64"}
BOOL: Json = {"type": "boolean"}


def ref(name: str) -> Json:
    """Return a reference to the entity of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(item: Json) -> Json:
    """Return the schema of an array."""
    return {"type": "array", "items": item}


def map_of(item: Json) -> Json:
    """Return the schema of an object with any members of this form."""
    return {"type": "object", "additionalProperties": item}


def object_of(required: str = "", /, **members: Json) -> Json:
    """Return the schema of an object with these members; those in ``required`` are always present."""
    found: Json = {"type": "object", "properties": members}
    if required:
        found["required"] = required.split()
    return found


def nullable(schema: Json) -> Json:
    """Return the schema of the same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def all_nullable(members: Json) -> Json:
    """Return members each of which may be null."""
    return {name: nullable(each) for name, each in members.items()}
