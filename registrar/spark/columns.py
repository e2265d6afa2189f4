"""Columns of messages, read and written with the schemas of a registry.

The registry is asked when the query is planned. A message's first bytes decide which of the writers known by
then it has, and a function of Spark's own reads it; Python sees a null. A message whose id was not known
passes through one Arrow function, which asks the registry once per id and worker and makes it a message of
the reader's schema; the same function of Spark then reads that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from pyspark.sql import Column
from pyspark.sql import functions as sql

from . import framing
from .client import Refused, Registry, registry_at
from .formats import FORMATS, Reader, Schema, reader_of
from .framing import Malformed
from .schemas import (
    Resolving,
    arrow_function,
    dependencies,
    schema_in,
    schema_of_id,
    schema_of_version,
    versions,
)

Mode = Literal["FAILFAST", "PERMISSIVE"]
Framing = Literal["id", "guid"]
Options = Mapping[str, str]
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
    follow: bool = True,
    options: Options | None = None,
) -> Column:
    """Return the messages in a binary column as values of one schema.

    ``reader``: the schema of the result: ``latest``, an id, or a text. ``mode``: for messages that cannot be
    read, as Spark's ``from_avro`` has it. ``headers``: Kafka's column of record headers, if serializers put
    the ids there; ``key``: it is the header of keys that counts. ``message``: which message of a Protobuf
    file. ``follow``: also read what versions wrote that were not known when the query was planned; else that
    cannot be read. ``options``: for Spark's own function.

    Raises :class:`.client.RegistryError` and :class:`ValueError`. A registry that does not answer later fails
    the task, in either mode.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
    registry = registry_at(urls)
    wanted = _reader(registry, subject, reader, message)
    writers = [_version(registry, subject, each, wanted) for each in versions(registry, subject)]
    # Serializers write GUIDs into headers. Ranges for those that begin a message would make a plan that Java
    # does not compile, so the Arrow function reads these.
    ranges = dict(_ranges(writers, wanted, guids=headers is not None))
    resolve = Resolving(registry, subject, wanted, strict=mode == "FAILFAST") if follow else None
    given = {**(options or {}), "mode": mode}
    return _decode_all(_with_prefix(col, headers, key), wanted, ranges, resolve, given)


def to_registry(
    col: Column | str,
    urls: str | Sequence[str] | Registry,
    subject: str,
    schema: str | int = "latest",
    *,
    framing: Framing = "id",
    message: str = "",
    options: Options | None = None,
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
        raise ValueError("the registry returns no GUIDs: write messages with ids")
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


# How the messages of a range are read: the length of what begins them, and the text of their schema, if their
# format needs it.
Key = tuple[int, str]
# A key for the messages from these bytes on, up to those of the next bound.
Bound = tuple[bytes, Key]


def _decode_all(
    value: Column, reader: Reader, ranges: Mapping[bytes, Key], resolve: Resolving | None, options: Options
) -> Column:
    """Return the values. ``resolve``: reads what no known writer begins; None: that cannot be read."""
    own = FORMATS[reader.schema.type]
    known = begins_with(value, [*ranges])
    if resolve is None:
        # Something that Spark's function cannot read, but null for null.
        others = sql.when(value.isNotNull(), sql.lit(own.malformed))
    else:
        others = arrow_function(resolve)(sql.when(known, sql.lit(None).cast("binary")).otherwise(value))
    is_other = ~known if resolve is None else others.isNotNull()

    def payload(key: Key) -> Column:
        return sql.substring(value, key[0] + 1, _REST)

    def decode(key: Key) -> Column:
        return own.decode(payload(key), reader, key[1], options)

    if not ranges:
        return own.decode(others, reader, "", options)
    make = decode if own.needs_writer else payload
    found = search_bounds(value, bounds_of(ranges), make)
    if own.needs_writer:
        return sql.when(is_other, own.decode(others, reader, "", options)).otherwise(found)
    return own.decode(sql.when(is_other, others).otherwise(found), reader, "", options)


def begins_with(value: Column, prefixes: Sequence[bytes]) -> Column:
    """Return whether the bytes begin with one of some prefixes; for null null, or false."""
    found = sql.lit(False)
    for size in sorted({len(each) for each in prefixes}):
        known = [sql.lit(each) for each in prefixes if len(each) == size]
        found |= sql.substring(value, 1, size).isin(known)
    return found


def bounds_of(ranges: Mapping[bytes, Key]) -> Sequence[Bound]:
    """Return the bounds of ranges, which are given by what begins their messages."""
    bounds: list[Bound] = []
    for prefix, key in sorted(ranges.items()):
        if not bounds or bounds[-1][1] != key:
            bounds.append((prefix, key))
    return bounds


def search_bounds(value: Column, bounds: Sequence[Bound], make: Callable[[Key], Column]) -> Column:
    """Return what is made for the last bound that is not above the bytes: a binary search."""
    if len(bounds) == 1:
        return make(bounds[0][1])
    middle = len(bounds) // 2
    low, high = (search_bounds(value, part, make) for part in (bounds[:middle], bounds[middle:]))
    return sql.when(value < sql.lit(bounds[middle][0]), low).otherwise(high)


def _ranges(writers: Sequence[Schema], reader: Reader, *, guids: bool) -> Iterator[tuple[bytes, Key]]:
    own = FORMATS[reader.schema.type]
    for writer in writers:
        if writer.type != reader.schema.type:
            continue
        try:
            position = own.position(writer, reader)
        except Malformed:
            continue  # The Arrow function says which message is missing.
        for prefix in writer.prefixes(guids=guids):
            yield prefix + position, (len(prefix + position), writer.text if own.needs_writer else "")
