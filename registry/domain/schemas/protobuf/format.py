"""The PROTOBUF schema type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from registry.domain.schemas.comparing import Comparing, Side
from registry.domain.schemas.contract import (
    About,
    Budget,
    Change,
    Dependency,
    Difference,
    Fingerprints,
    InvalidSchema,
    Links,
    Schema,
    SchemaField,
)

if TYPE_CHECKING:
    from registry.domain.schemas.logical.types import Script

    from .schema import ProtobufSchema


class ProtobufFormat(Comparing["ProtobufSchema"]):
    """The Protobuf language as Confluent 8.x reads, prints and compares it."""

    __slots__ = ()
    name: Final = "PROTOBUF"
    about: Final = About(
        "Protobuf",
        ".proto",
        language="protobuf",
        sample='syntax = "proto3";\n\nmessage Order {\n  int64 id = 1;\n}\n',
        decoder="protobuf",
    )
    weight = 2

    def parse(
        self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False
    ) -> ProtobufSchema:
        """Parse ``text``, a file or else the Base64 of a ``FileDescriptorProto``.

        A new schema may only name known types in its fields, methods and extensions.
        """
        from .schema import read  # noqa: PLC0415 (a start does without)

        return read(text, dependencies, new=new)

    def from_logical(
        self, script: Script, root: str, dependencies: Sequence[Dependency], budget: Budget
    ) -> str:
        """Return the normalized text for what DDL declares; its refusal is Confluent's."""
        from .from_logical import FAILED, write  # noqa: PLC0415 (only for registrations of DDL)

        text = write(script, root, dependencies, budget)
        try:
            schema = self.parse(text, dependencies, new=True)
            schema.check_fields()  # numbers and names, as a descriptor has them
        except InvalidSchema:
            raise InvalidSchema(FAILED) from None
        return schema.normalized

    def outline(self, text: str) -> Fingerprints | None:
        """Return the outline of the text; see :func:`.source.outline`."""
        from .source import outline  # noqa: PLC0415 (as above)

        return outline(text)

    def links(self, text: str) -> Links:
        """Return the imports of the text."""
        from .bundled import links  # noqa: PLC0415 (registrations do without)

        return links(text)

    def fields(self, text: str) -> Iterator[SchemaField]:
        """Yield the types and fields of the text."""
        from .fields import fields  # noqa: PLC0415 (registrations do without)

        return fields(text)

    def own(self, schema: Schema) -> ProtobufSchema | None:
        """Return the schema if it is of this class, else None."""
        from .schema import ProtobufSchema  # noqa: PLC0415 (as above)

        return schema if isinstance(schema, ProtobufSchema) else None

    def compare(
        self, writer: ProtobufSchema, reader: ProtobufSchema, reader_is: Side, budget: Budget, policy: str
    ) -> list[Difference]:
        """Return Confluent's incompatible changes from writer to reader, whatever the policy."""
        from .compatibility import differences  # noqa: PLC0415 (as above)

        return differences((writer.file, writer.names), (reader.file, reader.names), reader_is, budget)

    def explain(
        self,
        writer: ProtobufSchema,
        reader: ProtobufSchema,
        reader_is: Side,
        budget: Budget,
        policy: str,
        *,
        lines: bool,
    ) -> list[Change]:
        """Return all changes that Confluent reports."""
        from .explaining import explain  # noqa: PLC0415 (as above)

        return explain(writer, reader, reader_is, budget, lines=lines)
