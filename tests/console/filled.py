"""Logs of many subjects, written before a registry starts, because registering them would take minutes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from registry.domain.log_format.records import Entry, context_key, schema_key
from registry.domain.log_format.values import context_value
from registry.domain.model import Subject
from registry.log.embedded.log import EmbeddedLog

BATCH = 5000
# The time of all records: 2026-01-01.
TIME_MS = 1_767_225_600_000
AREAS = ("billing", "catalogue", "delivery", "orders", "payments", "search", "stock", "users")
EVENTS = ("cancelled", "changed", "created", "failed", "imported", "removed")
TYPES = ("AVRO", "AVRO", "AVRO", "JSON", "PROTOBUF")

# What nobody should call a subject, and what a page must not take for anything but its name.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "javascript:alert(3)",
    "${7*7}{{7*7}}",
    "\u202egnp.exe\u202c",
    "with/slashes/../and%2Fescapes",
    "..",
    ".",
    "tab\tline\nnull\x01",
    "  spaces   at both ends  ",
    "quote\"'`&amp;",
    "?q=1#fragment",
    "😀 emoji 👩‍👩‍👧 ünïcode",
    "x" * 250,
    "zero\u200bwidth",
)


def text_of(kind: str, number: int) -> str:
    """Return a schema's text of a type."""
    if kind == "AVRO":
        fields = [{"name": f"f{each}", "type": "string"} for each in range(number % 5 + 1)]
        return orjson.dumps({"type": "record", "name": f"R{number}", "fields": fields}).decode()
    if kind == "JSON":
        return orjson.dumps({"type": "object", "title": f"R{number}"}).decode()
    return f'syntax = "proto3";\n\nmessage R{number} {{\n  string name = 1;\n}}\n'


def version(name: str, id: int, version: int = 1, *, text: str = "", deleted: bool = False) -> Entry:
    """Return the record of a version; without a text it has one of its own, of a type by its id."""
    kind, subject = "AVRO" if text else TYPES[id % len(TYPES)], Subject.parse(name)
    value = {"subject": name, "version": version, "id": id, "schema": text or text_of(kind, id)}
    if kind != "AVRO":
        value["schemaType"] = kind
    return Entry(schema_key(subject, version), orjson.dumps(value | {"deleted": deleted}))


def context(name: str) -> Entry:
    """Return the record of a context."""
    return Entry(context_key(name), context_value(name))


def many(count: int) -> Iterator[Entry]:
    """Yield the first versions of this many subjects."""
    for number in range(count):
        area, event = AREAS[number % len(AREAS)], EVENTS[number % len(EVENTS)]
        yield version(f"{area}.{event}-{number:06d}-value", number + 1)


def write_log(data: Path, entries: Iterable[Entry]) -> None:
    """Write a log into the data folder of a registry that is not running."""
    data.mkdir(parents=True)
    log = EmbeddedLog(data / "log", clock=lambda: TIME_MS)
    log.claim()
    rest = iter(entries)
    while batch := list(itertools.islice(rest, BATCH)):
        log.append(batch)
    log.close()
