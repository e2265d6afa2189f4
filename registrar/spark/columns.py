"""Columns of messages, read and written with the schemas of a registry.

The registry is asked when the query is planned. A message's first bytes decide which of the writers known by
then it has, and a function of Spark's own reads it: no Python runs for it. A message whose id was not known
passes through one Arrow function, which asks the registry once per id and worker and makes it a message of
the reader's schema; the same function of Spark then reads that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import pandas_udf

from . import framing
from .client import Refused, Registry, registry_at
from .formats import FORMATS, Reader, Schema, reader_of
from .framing import Malformed
from .schemas import (
    Resolving,
    dependencies,
    schema_in,
    schema_of_id,
    schema_of_version,
    versions,
)

Mode = Literal["FAILFAST", "PERMISSIVE"]
Framing = Literal["id", "guid"]
_MODES: Final = ("FAILFAST", "PERMISSIVE")
_NOT_FOUND: Final = 404
# More than any message has.
_REST: Final = 1 << 30


def from_registry(
    col: Column | str,
    urls: str | Sequence[str] | Registry,
    subject: str,
    reader: str | int = "latest",
    mode: Mode = "FAILFAST",
    headers: Column | str | None = None,
    *,
    key: bool = False,
    message: str = "",
    options: Mapping[str, str] | None = None,
) -> Column:
    """Return the messages in a binary column as values of one schema.

    ``reader``: the schema of the result: ``latest``, an id, or a text. ``mode``: for messages that cannot be
    read, as Spark's ``from_avro`` has it. ``headers``: Kafka's column of record headers, if serializers put
    the ids there; ``key``: it is the header of keys that counts. ``message``: which message of a Protobuf
    file. ``options``: for Spark's own function.

    Raises :class:`.client.RegistryError` and :class:`ValueError`. A registry that does not answer later fails
    the task, in either mode.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is one of {', '.join(_MODES)}, not {mode!r}")
    registry = registry_at(urls)
    wanted = _reader(registry, subject, reader, message)
    writers = [_version(registry, subject, each, wanted) for each in versions(registry, subject)]
    resolve = Resolving(registry, subject, wanted, strict=mode == "FAILFAST")
    given = {**(options or {}), "mode": mode}
    return _decode_all(_with_prefix(col, headers, key), wanted, writers, resolve, given)


def to_registry(
    col: Column | str,
    urls: str | Sequence[str] | Registry,
    subject: str,
    schema: str | int = "latest",
    *,
    framing: Framing = "id",
    message: str = "",
    options: Mapping[str, str] | None = None,
) -> Column:
    """Return a column as messages that name their schema.

    ``schema``: ``latest``, an id, or a text of Avro or JSON Schema, which is registered if it is new.
    """
    registry = registry_at(urls)
    wanted = _reader(registry, subject, schema, message, register=True)
    prefix = _prefix(wanted.schema, framing)
    own = FORMATS[wanted.schema.type]
    head = sql.lit(prefix + own.position(wanted.schema, wanted))
    return sql.concat(head, own.encode(_column(col), wanted, options or {}))


def _prefix(schema: Schema, form: Framing) -> bytes:
    if form == "id":
        return framing.prefix_of_id(schema.id)
    if not schema.guid:
        raise ValueError("the registry answers no GUIDs: write messages with ids")
    return framing.prefix_of_guid(schema.guid)


def _column(col: Column | str) -> Column:
    return sql.col(col) if isinstance(col, str) else col


def _reader(
    registry: Registry, subject: str, reader: str | int, message: str, *, register: bool = False
) -> Reader:
    schema = _choose_schema(registry, subject, reader, register=register)
    imports = dependencies(registry, schema) if not FORMATS[schema.type].needs_writer else {}
    return reader_of(schema, imports, message)


def _choose_schema(registry: Registry, subject: str, reader: str | int, *, register: bool) -> Schema:
    if isinstance(reader, int):
        return schema_of_id(registry, reader, subject)._replace(id=reader)
    latest: Schema | None = None
    try:
        latest = schema_of_version(registry, subject, "latest")
    except Refused as error:
        if reader == "latest" or error.status != _NOT_FOUND or not register:
            raise
    if reader == "latest":
        assert latest is not None
        return latest
    body = {"schema": reader} | ({"schemaType": latest.type} if latest else {})
    if register:
        registered = registry.post("subjects", subject, "versions", body=body)
        return schema_of_id(registry, int(registered["id"]), subject)
    assert latest is not None
    if FORMATS[latest.type].needs_writer:
        return Schema(latest.type, reader)
    found = schema_in(registry.post("subjects", subject, body=body))
    return schema_of_id(registry, found.id, subject)


def _version(registry: Registry, subject: str, version: int, reader: Reader) -> Schema:
    return schema_of_version(registry, subject, version, reader.schema.type)


def _with_prefix(col: Column | str, headers: Column | str | None, key: bool) -> Column:
    """Return messages with their id in front, wherever serializers wrote it."""
    value = _column(col)
    if headers is None:
        return value
    name = framing.KEY_HEADER if key else framing.VALUE_HEADER
    named = sql.filter(_column(headers), lambda each: each["key"] == sql.lit(name))
    return sql.coalesce(sql.concat(sql.try_element_at(named["value"], sql.lit(-1)), value), value)


class _Range(NamedTuple):
    """The messages that begin with ``prefix``, which the payload follows, and the text of their schema."""

    prefix: bytes
    writer: str


# A result for the messages from these bytes on, up to those of the next bound.
_Bound = tuple[bytes, Column]


def _decode_all(
    value: Column, reader: Reader, writers: Sequence[Schema], resolve: Resolving, options: Mapping[str, str]
) -> Column:
    """Return the values; what no known writer begins is not null after the Arrow function."""
    own = FORMATS[reader.schema.type]
    ranges = sorted({one.prefix: one for one in _ranges(writers, reader)}.values())
    others = _arrow(resolve)(_search(value, _gaps(value, ranges)))
    if not own.needs_writer:
        payload = sql.coalesce(others, _search(value, _payloads(value, ranges)))
        return own.decode(payload, reader, "", options)
    known = [
        (each.prefix, own.decode(_payload(value, each), reader, each.writer, options)) for each in ranges
    ]
    other = own.decode(others, reader, "", options)
    return sql.when(others.isNotNull(), other).otherwise(_search(value, known)) if known else other


def _payload(value: Column, range: _Range) -> Column:
    return sql.substring(value, len(range.prefix) + 1, _REST)


def _gaps(value: Column, ranges: Sequence[_Range]) -> Sequence[_Bound]:
    """Return the bounds of what no known writer begins: the message, or null."""
    bounds: list[_Bound] = [(b"", value)]
    for each in ranges:
        if bounds[-1][0] == each.prefix:
            bounds.pop()  # The ids follow each other.
        else:
            bounds.append((each.prefix, sql.lit(None).cast("binary")))
        bounds.append((_after(each.prefix), value))
    return bounds


def _payloads(value: Column, ranges: Sequence[_Range]) -> Sequence[_Bound]:
    """Return the bounds between prefixes of different lengths."""
    return [
        (each.prefix, _payload(value, each))
        for at, each in enumerate(ranges)
        if not at or len(ranges[at - 1].prefix) != len(each.prefix)
    ] or [(b"", sql.lit(None).cast("binary"))]


def _search(value: Column, bounds: Sequence[_Bound]) -> Column:
    """Return the result of the last bound that is not above the message: a binary search over bytes."""
    if len(bounds) == 1:
        return bounds[0][1]
    middle = len(bounds) // 2
    low, high = _search(value, bounds[:middle]), _search(value, bounds[middle:])
    return sql.when(value < sql.lit(bounds[middle][0]), low).otherwise(high)


def _after(prefix: bytes) -> bytes:
    """Return the first bytes above all that begin with ``prefix``, which itself begins with 0 or 1."""
    return (int.from_bytes(prefix) + 1).to_bytes(len(prefix))


def _ranges(writers: Sequence[Schema], reader: Reader) -> Iterator[_Range]:
    own = FORMATS[reader.schema.type]
    for writer in writers:
        if writer.type != reader.schema.type:
            continue
        try:
            position = own.position(writer, reader)
        except Malformed:
            continue  # The Arrow function says which message is missing.
        for prefix in writer.prefixes():
            yield _Range(prefix + position, writer.text if own.needs_writer else "")


def _arrow(resolve: Resolving) -> Callable[[Column], Column]:
    """Return the function for messages with ids that were not known when the query was planned."""

    # Spark reads the annotations, as types rather than texts.
    def registrar_unknown_ids(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        for batch in batches:
            yield batch.map(resolve, na_action="ignore") if batch.notna().any() else batch

    registrar_unknown_ids.__annotations__ = dict.fromkeys(("batches", "return"), Iterator[pd.Series])
    made: Callable[[Column], Column] = pandas_udf(registrar_unknown_ids, "binary")  # type: ignore[call-overload]
    return made
