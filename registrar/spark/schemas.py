"""Schemas as a registry describes them, in the form that Spark's functions take.

Avro comes with the types of its references inside (``format=resolved``). Protobuf comes as descriptors
(``format=serialized``), so nothing here parses its language. Both are Confluent's.
"""

from __future__ import annotations

import gc
import sys
import time
import zipimport
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from zipimport import zipimporter

import pandas as pd
import pyspark
from pyspark.sql import Column
from pyspark.sql.pandas.functions import pandas_udf

from registry.domain.lru import Lru

from .client import Refused, Registry
from .formats import DEFAULT_TYPE, FORMATS, Reader, Schema
from .framing import Frame, Malformed, split

# The registry refuses schemas with more references.
_REFERENCES_MAX: Final = 1000
# Versions whose writers are known when a query is planned: the newest. Others are resolved while it runs.
WRITERS_MAX: Final = 100
# Answers that a worker keeps, and how long it keeps that an id is unknown.
_SCHEMAS_MAX: Final = 10_000
_UNKNOWN_S: Final = 60.0
_NOT_FOUND: Final = 404
# How a schema is asked for whose type is not known.
_USUAL_FORM: Final = FORMATS[DEFAULT_TYPE].form


def schema_of_id(registry: Registry, id: int, subject: str = "") -> Schema:
    """Return the schema with an id, in the context of a subject. Raises :class:`.client.RegistryError`."""
    context = {"subject": subject} if subject.startswith(":.") else {}
    return _schema(registry, ("schemas", "ids", id), context, id)


def schema_of_guid(registry: Registry, guid: str) -> Schema:
    """Return the schema with a GUID. Raises :class:`.client.RegistryError`."""
    return _schema(registry, ("schemas", "guids", guid), {}, 0)


def schema_of_version(registry: Registry, subject: str, version: int | str, type: str = "") -> Schema:
    """Return a version, also a soft-deleted one. ``type``: that of the subject's schemas, if known."""
    params = {"deleted": True} if version != "latest" else {}
    return _schema(registry, ("subjects", subject, "versions", version), params, 0, type)


def versions(registry: Registry, subject: str) -> list[int]:
    """Return the newest versions of a subject, soft-deleted ones too, whose messages are still there."""
    found: list[int] = registry.get("subjects", subject, "versions", deleted=True)
    return sorted(found)[-WRITERS_MAX:]


def dependencies(registry: Registry, schema: Schema) -> dict[str, Schema]:
    """Return what a schema refers to, by the name of each import, dependencies first."""
    found: dict[str, Schema] = {}
    seen: set[tuple[str, int]] = set()

    def walk(one: Schema) -> None:
        for name, subject, version in one.references:
            if (subject, version) in seen:
                continue
            seen.add((subject, version))
            if len(seen) > _REFERENCES_MAX:
                raise ValueError(f"the schema refers to more than {_REFERENCES_MAX} others")
            other = schema_of_version(registry, subject, version, one.type)
            walk(other)
            found[name] = other

    walk(schema)
    return found


def _schema(
    registry: Registry, path: tuple[str | int, ...], params: Mapping[str, str | bool], id: int, type: str = ""
) -> Schema:
    form = FORMATS[type].form if type in FORMATS else _USUAL_FORM
    found = registry.get(*path, format=form, **params)
    named = str(found.get("schemaType") or DEFAULT_TYPE)
    if named not in FORMATS:
        raise Malformed(f"messages with schemas of the type {named} cannot be read")
    if (wanted := FORMATS[named].form) != form:
        found = registry.get(*path, format=wanted, **params)
    return schema_in(found, id)


def schema_in(found: Mapping[str, Any], id: int = 0) -> Schema:
    """Return the schema in the body of an answer."""
    references = tuple(
        (str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in found.get("references") or ()
    )
    return Schema(
        str(found.get("schemaType") or DEFAULT_TYPE), str(found["schema"]), int(found.get("id") or id),
        str(found.get("guid") or ""), references,
    )  # fmt: skip


# What this process knows of schemas by id or GUID, for each login, and until when of those that the registry
# lacks or hides. Spark keeps its workers from task to task, and lets them serve all columns of a session.
_known: Lru[tuple[bytes, str, int, str], Schema | tuple[str, float]] = Lru(_SCHEMAS_MAX)


def schema_named(registry: Registry, subject: str, id: int, guid: str) -> Schema:
    """Return the schema that a message names; the registry is asked once in this process for each login.

    Raises :class:`.framing.Malformed` if the registry lacks it, and :class:`.client.RegistryError`.
    """
    key = registry.identity(), subject if subject.startswith(":.") else "", id, guid
    found = _known.get(key)
    if found is None or (not isinstance(found, Schema) and found[1] < time.monotonic()):
        try:
            found = schema_of_guid(registry, guid) if guid else schema_of_id(registry, id, subject)
        except Refused as error:
            if error.status != _NOT_FOUND:
                raise
            found = str(error), time.monotonic() + _UNKNOWN_S
        _known.put(key, found)
    if isinstance(found, Schema):
        return found
    raise Malformed(f"the message names the schema {guid or id}, but {found[0]}")


class Resolving:
    """Makes messages whose writers were unknown when the query was planned messages of the reader."""

    def __init__(self, registry: Registry, subject: str, reader: Reader, *, strict: bool) -> None:
        """``strict``: raise what cannot be read, instead of returning what Spark's function cannot read."""
        self._registry, self._subject, self._reader, self._strict = registry, subject, reader, strict
        self._format = FORMATS[reader.schema.type]
        self._writers: Lru[tuple[int, str], Callable[[bytes], bytes]] = Lru(_SCHEMAS_MAX)

    def __call__(self, value: bytes) -> bytes:
        """Return the payload for the reader. Raises :class:`.client.RegistryError`."""
        try:
            frame = split(value)
            return self._writer(frame)(frame.rest)
        except Malformed:
            if self._strict:
                raise
            return self._format.malformed

    def _writer(self, frame: Frame) -> Callable[[bytes], bytes]:
        key = frame.id, frame.guid
        if (found := self._writers.get(key)) is None:
            schema = schema_named(self._registry, self._subject, *key)
            if schema.type != self._reader.schema.type:
                raise Malformed(f"the message has a schema of the type {schema.type}")
            found = self._format.to_reader(schema, self._reader)
            self._writers.put(key, found)
        return found


def arrow_function(resolve: Resolving) -> Callable[[Column], Column]:
    """Return the Arrow function that makes messages of unknown writers messages of the reader.

    All rows of a query pass through it, those of known writers as nulls, so it costs as little as it can.
    """

    # Spark reads the annotations, as types rather than texts.
    def registrar_unknown_ids(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        try:
            for batch in batches:
                yield batch.map(resolve, na_action="ignore") if batch.notna().any() else batch
        finally:
            shorten_pauses()

    registrar_unknown_ids.__annotations__ = dict.fromkeys(("batches", "return"), Iterator[pd.Series])
    made: Callable[[Column], Column] = pandas_udf(registrar_unknown_ids, "binary")  # type: ignore[call-overload]
    return made


def shorten_pauses() -> None:
    """Spare a worker most of what PySpark does between two of its tasks, 0.15 s of CPU.

    PySpark lets all finders of modules read their archives again, which takes time before Python 3.13. Those
    of Spark's own archives are dropped, with what is known of the archives; Python makes them again, and
    reads them, when a module is looked for there. PySpark also collects garbage, for which it would go
    through all modules each time; what is there now, and is no garbage, stays.
    """
    own = getattr(pyspark.__loader__, "archive", "")
    directories = getattr(zipimport, "_zip_directory_cache", {})
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter) and (finder.archive == own or finder.archive.endswith(".jar")):
            sys.path_importer_cache.pop(path, None)
            directories.pop(finder.archive, None)
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
