"""The schema formats of the registry, by the name that the API calls ``schemaType``."""

from __future__ import annotations

from typing import Final

from .avro.format import AvroFormat
from .contract import (
    LENIENT,
    STEPS_MAX,
    STRICT,
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
    Tagged,
    Unreadable,
    digest,
)
from .json_schema.format import JsonFormat
from .protobuf.format import ProtobufFormat

__all__ = [
    "FORMATS",
    "LENIENT",
    "STEPS_MAX",
    "STRICT",
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
    "Tagged",
    "Unreadable",
    "digest",
]

FORMATS: Final[dict[str, Format]] = {
    each.name: each for each in (AvroFormat(), JsonFormat(), ProtobufFormat())
}
