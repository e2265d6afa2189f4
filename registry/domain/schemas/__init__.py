"""The schema formats of the registry, by the name that the API calls ``schemaType``."""

from __future__ import annotations

from typing import Final

import orjson

from .avro.format import AvroFormat
from .contract import (
    LENIENT,
    LOGICAL,
    STEPS_MAX,
    STRICT,
    About,
    Budget,
    Change,
    Dependency,
    Difference,
    Entity,
    Exhausted,
    Fingerprints,
    Format,
    InvalidSchema,
    Links,
    Part,
    Schema,
    SchemaField,
    Tagged,
    Unreadable,
    digest,
)
from .json_schema.format import JsonFormat
from .protobuf.format import ProtobufFormat

__all__ = [
    "FORMATS",
    "LENIENT",
    "LOGICAL",
    "STEPS_MAX",
    "STRICT",
    "About",
    "Budget",
    "Change",
    "Dependency",
    "Difference",
    "Entity",
    "Exhausted",
    "Fingerprints",
    "Format",
    "InvalidSchema",
    "Links",
    "Part",
    "Schema",
    "SchemaField",
    "Tagged",
    "Unreadable",
    "digest",
]

# The only table of formats. ``GET /schemas/types`` lists them in this order (Confluent 8.x).
FORMATS: Final[dict[str, Format]] = {
    each.name: each for each in (JsonFormat(), ProtobufFormat(), AvroFormat())
}
# The end of the name of a file with a schema of another writer's format.
EXTENSION_OF_OTHERS: Final = ".txt"


def extension_of(schema_type: str) -> str:
    """Return the end of the name of a file with such a schema."""
    found = FORMATS.get(schema_type)
    return EXTENSION_OF_OTHERS if found is None else found.about.extension


def types_by_extension() -> dict[str, str]:
    """Return the schema types by the ends of the names of their files."""
    return {each.about.extension: each.name for each in FORMATS.values()}


def describe_formats() -> bytes:
    """Return what the console has to know about the formats, as JSON."""
    return orjson.dumps(
        [
            {
                "name": each.name,
                "title": each.about.title,
                "language": each.about.language,
                "extension": each.about.extension.removeprefix("."),
                "sample": each.about.sample,
                "resolves": each.about.resolves,
            }
            for each in FORMATS.values()
        ]
    )
