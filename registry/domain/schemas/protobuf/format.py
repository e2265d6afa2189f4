"""The PROTOBUF schema type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from registry.domain.schemas.contract import (
    STRICT,
    Budget,
    Change,
    Dependency,
    Difference,
    InvalidSchema,
    Schema,
)

if TYPE_CHECKING:
    from .schema import ProtobufSchema


class ProtobufFormat:
    """Protobuf's language as Confluent 8.x reads, prints and compares it."""

    __slots__ = ()
    name: Final = "PROTOBUF"

    def parse(
        self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False
    ) -> ProtobufSchema:
        """``text`` is a file or, where it is none, the Base64 of a ``FileDescriptorProto``.

        What is new must name only types that there are, in its fields, methods and extensions.
        """
        from .schema import read  # noqa: PLC0415 (a start does without)

        return read(text, dependencies, new=new)

    def differences(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Literal["new", "old"],
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
    ) -> list[Difference]:
        """Confluent's incompatible changes from the writer to the reader, whatever the policy."""
        from .compatibility import differences  # noqa: PLC0415 (as above)

        old, new = _both(writer, reader)
        sides = (old.file, old.names), (new.file, new.names)
        return differences(*sides, reader_is, Budget() if budget is None else budget)

    def changes(
        self,
        reader: Schema,
        writer: Schema,
        reader_is: Literal["new", "old"],
        budget: Budget | None = None,
        *,
        policy: str = STRICT,
        lines: bool = False,
    ) -> list[Change]:
        """All changes that Confluent knows of."""
        from .explaining import explained  # noqa: PLC0415 (as above)

        budget = Budget() if budget is None else budget
        pair = _both(writer, reader)
        for each in pair:
            budget.spend_on_text(len(each.canonical), lines=lines)
        return explained(*pair, reader_is, budget, lines=lines)


def _both(writer: Schema, reader: Schema) -> tuple[ProtobufSchema, ProtobufSchema]:
    from .schema import ProtobufSchema  # noqa: PLC0415 (as above)

    if not isinstance(reader, ProtobufSchema) or not isinstance(writer, ProtobufSchema):
        raise InvalidSchema("Incompatible because of different schema type")
    return writer, reader
