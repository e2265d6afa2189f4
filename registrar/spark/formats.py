"""The formats of schemas, as a table: how Spark reads and writes their messages.

All that names a format is here. What workers need has no imports beyond the standard library.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from . import framing
from .avro_resolution import Resolver
from .framing import Malformed

if TYPE_CHECKING:
    from pyspark.sql import Column

    from registry.domain.schemas.logical.types import Type

# What an answer without a type means.
DEFAULT_TYPE: Final = "AVRO"
# Bounds of a JSON Schema: steps of the search for its type, levels, and digits of Spark's decimals.
_STEPS_MAX: Final = 1_000_000
_DEPTH_MAX: Final = 100
_DIGITS_MAX: Final = 38
_LEAVES: Final = {
    **{each: each for each in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE")},
    "BINARY": "BINARY", "VARBINARY": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP",
}  # fmt: skip


class Schema(NamedTuple):
    """A schema. ``text``: Avro or JSON Schema, or the descriptor of a Protobuf file in Base64."""

    type: str
    text: str
    # 0 and empty if the registry did not say them.
    id: int = 0
    guid: str = ""
    # Each reference: name, subject, version.
    references: tuple[tuple[str, str, int], ...] = ()

    def prefixes(self, *, guids: bool) -> Iterator[bytes]:
        """Yield the bytes that a message with this schema may begin with."""
        if self.id:
            yield framing.prefix_of_id(self.id)
        if self.guid and guids:
            yield framing.prefix_of_guid(self.guid)


class Reader(NamedTuple):
    """The schema into which messages are read."""

    schema: Schema
    # Of JSON Schema: the type of Spark, as DDL. Of Protobuf: the descriptors of the file and its imports.
    type: str = ""
    descriptors: bytes = b""
    # Of Protobuf: the full name of the message.
    message: str = ""


# A function of Spark's own for a payload: the reader, the text of the writer's schema (empty: that of the
# reader), and options.
Decode = Callable[["Column", Reader, str, Mapping[str, str]], "Column"]
Encode = Callable[["Column", Reader, Mapping[str, str]], "Column"]


class Format(NamedTuple):
    """The properties of one format."""

    # The value of ``format`` with which its schemas are asked for.
    form: str
    # True if a message can only be read with the schema that it was written with.
    needs_writer: bool
    # No message of any schema, for what cannot be read: Spark's function answers as its mode says.
    malformed: bytes
    # Follows the id in the messages of a writer; Malformed if it writes no messages of the reader.
    position: Callable[[Schema, Reader], bytes]
    # Returns the function that makes what follows the id a message of the reader's schema.
    to_reader: Callable[[Schema, Reader], Callable[[bytes], bytes]]
    decode: Decode
    encode: Encode


def _no_position(writer: Schema, reader: Reader) -> bytes:
    return b""


def _resolution(writer: Schema, reader: Reader) -> Callable[[bytes], bytes]:
    return Resolver(writer.text, reader.schema.text).resolve


def _identity(writer: Schema, reader: Reader) -> Callable[[bytes], bytes]:
    return bytes


def _place(writer: Schema, reader: Reader) -> list[int]:
    positions = framing.messages_in(b64decode(writer.text)).positions
    if reader.message not in positions:
        raise Malformed(f"the schema with the id {writer.id} has no message {reader.message}")
    return positions[reader.message]


def _position(writer: Schema, reader: Reader) -> bytes:
    return framing.position_prefix(_place(writer, reader))


def _without_position(writer: Schema, reader: Reader) -> Callable[[bytes], bytes]:
    place = _place(writer, reader)

    def strip(rest: bytes) -> bytes:
        found, payload = framing.split_position(rest)
        if found != place:
            raise Malformed(f"the message is the one at {found} of its file, not {reader.message}")
        return payload

    return strip


def _from_avro(payload: Column, reader: Reader, writer: str, options: Mapping[str, str]) -> Column:
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415 (workers need none of these)

    text = reader.schema.text
    return from_avro(payload, writer or text, {**options, "avroSchema": text})


def _to_avro(column: Column, reader: Reader, options: Mapping[str, str]) -> Column:
    from pyspark.sql.avro.functions import to_avro  # noqa: PLC0415

    return to_avro(column, reader.schema.text)


def _from_json(payload: Column, reader: Reader, writer: str, options: Mapping[str, str]) -> Column:
    from pyspark.sql.functions import from_json  # noqa: PLC0415

    return from_json(payload.cast("string"), reader.type, dict(options))


def _to_json(column: Column, reader: Reader, options: Mapping[str, str]) -> Column:
    from pyspark.sql.functions import to_json  # noqa: PLC0415

    return to_json(column, dict(options)).cast("binary")


def _from_protobuf(payload: Column, reader: Reader, writer: str, options: Mapping[str, str]) -> Column:
    from . import protobuf  # noqa: PLC0415 (needs google.protobuf, as the other formats do not)

    if (own := _spark_protobuf()) is None:
        return protobuf.decode(payload, protobuf.MessageType(reader.descriptors, reader.message), options)
    found: Column = own.from_protobuf(
        payload, reader.message, options=dict(options), binaryDescriptorSet=reader.descriptors
    )
    return found


def _to_protobuf(column: Column, reader: Reader, options: Mapping[str, str]) -> Column:
    from . import protobuf  # noqa: PLC0415

    if (own := _spark_protobuf()) is None:
        return protobuf.encode(column, protobuf.MessageType(reader.descriptors, reader.message), options)
    found: Column = own.to_protobuf(
        column, reader.message, options=dict(options), binaryDescriptorSet=reader.descriptors
    )
    return found


def _spark_protobuf() -> Any:
    """Return the module of Spark's own functions for Protobuf; ``None`` if their package is not loaded."""
    from py4j.java_gateway import JavaPackage  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql.protobuf import functions  # noqa: PLC0415

    jvm: Any = SparkContext._jvm  # noqa: SLF001 (as PySpark's functions do)
    # A class that Java does not find looks like a package. With Spark Connect, the server decides.
    if jvm is not None and isinstance(jvm.org.apache.spark.sql.protobuf.ProtobufDataToCatalyst, JavaPackage):
        return None
    return functions


FORMATS: Final[Mapping[str, Format]] = {
    "AVRO": Format("resolved", True, b"", _no_position, _resolution, _from_avro, _to_avro),
    "JSON": Format("resolved", False, b"{", _no_position, _identity, _from_json, _to_json),
    "PROTOBUF": Format(
        "serialized", False, b"\xff", _position, _without_position, _from_protobuf, _to_protobuf
    ),
}


def reader_of(schema: Schema, imports: Mapping[str, Schema], message: str = "") -> Reader:
    """Return the reader for a schema and what it refers to. Raises :class:`.framing.Malformed`.

    ``message``: which message of a Protobuf file; by default the first.
    """
    return _READERS[schema.type](schema, imports, message)


def _avro_reader(schema: Schema, imports: Mapping[str, Schema], message: str) -> Reader:
    return Reader(schema)


def _json_reader(schema: Schema, imports: Mapping[str, Schema], message: str) -> Reader:
    # The registry's own parser, which only drivers need.
    from registry.domain.schemas import FORMATS as PARSERS  # noqa: PLC0415
    from registry.domain.schemas import Budget, Dependency  # noqa: PLC0415

    found = [Dependency(name, each.text) for name, each in imports.items()]
    parsed = PARSERS[schema.type].parse(schema.text, found)
    return Reader(schema, spark_type(parsed.logical(Budget(_STEPS_MAX)), 0))


def spark_type(type: Type, depth: int) -> str:
    """Return the type of Spark for a logical type. What has none is a string of JSON.

    Raises :class:`.framing.Malformed` for a type that contains itself.
    """
    from registry.domain.schemas.logical.types import Array, Leaf, Map, Struct  # noqa: PLC0415

    if depth > _DEPTH_MAX:
        raise Malformed("Spark has no recursive types: read the messages with a schema that ends somewhere")
    match type.shape:
        case Array(element):
            return f"ARRAY<{spark_type(element, depth + 1)}>"
        case Map(_, value):
            return f"MAP<STRING, {spark_type(value, depth + 1)}>"
        case Struct(is_union=False, fields=fields) if fields:
            inside = (f"{_quote(each.name)}: {spark_type(each.type, depth + 1)}" for each in fields)
            return f"STRUCT<{', '.join(inside)}>"
        case Leaf(kind, size, scale) if kind.value == "DECIMAL" and size and size <= _DIGITS_MAX:
            return f"DECIMAL({size}, {scale or 0})"
        case Leaf(kind):
            return _LEAVES.get(kind.value, "STRING" if depth else "VARIANT")
    return "STRING" if depth else "VARIANT"


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _protobuf_reader(schema: Schema, imports: Mapping[str, Schema], message: str) -> Reader:
    own = b64decode(schema.text)
    files = {name: framing.with_name(b64decode(each.text), name) for name, each in imports.items()}
    for file in [*files.values(), own]:
        _add_bundled(file, files)
    descriptors = framing.descriptor_set([*files.values(), framing.with_name(own, "registry.proto")])
    found = framing.messages_in(own)
    if message and message not in found.positions:
        raise Malformed(f"the schema has no message {message}, but {', '.join(found.positions)}")
    return Reader(schema, descriptors=descriptors, message=message or found.first)


def _add_bundled(file: bytes, files: dict[str, bytes]) -> None:
    """Add the imports that need no reference, such as google/protobuf/timestamp.proto."""
    for name in framing.imports_in(file):
        if name not in files:
            files[name] = _bundled_file(name)
            _add_bundled(files[name], files)


def _bundled_file(name: str) -> bytes:
    from registry.domain.schemas.protobuf.bundled import PROTOS  # noqa: PLC0415 (only drivers need them)

    if name not in PROTOS:
        raise Malformed(f"the schema imports {name}, to which it has no reference")
    return PROTOS[name].SerializeToString()


_READERS: Final[Mapping[str, Callable[[Schema, Mapping[str, Schema], str], Reader]]] = {
    "AVRO": _avro_reader, "JSON": _json_reader, "PROTOBUF": _protobuf_reader,
}  # fmt: skip
