"""Parsed Protobuf schemas, read from a text or a descriptor."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from registry.domain.schemas.contract import (
    Budget,
    Dependency,
    Fingerprints,
    InvalidSchema,
    Schema,
    Tagged,
    Unreadable,
    digest,
)
from registry.domain.schemas.lint import Element
from registry.domain.schemas.tags import changes

from . import named_parts
from .model import File
from .named_parts import elements
from .names import Names, unknown_type
from .parser import parse
from .text import canonical_text, normal_text, text_without_extensions
from .validation import Validation

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

    from registry.domain.schemas.logical.types import Type

    from .pool import Pools


def read(text: str, dependencies: Sequence[Dependency], *, new: bool) -> ProtobufSchema:
    """Return the schema of ``text``; a new one must not name unknown types. Raises :class:`InvalidSchema`."""
    schema = ProtobufSchema(_file(text), [(each.name, _dependency(each)) for each in dependencies])
    if new:
        schema.check()
    return schema


class ProtobufSchema:
    """A parsed file; its texts are made on demand."""

    __slots__ = ("_canonical", "_dependencies", "_logical", "_names", "_normalized", "file")

    def __init__(self, file: File, dependencies: Sequence[tuple[str, File]]) -> None:
        self.file: Final = file
        self._dependencies = dependencies
        self._names: Names | None = None
        self._canonical: str | None = None
        self._normalized: str | None = None
        self._logical: Type | None = None

    @property
    def names(self) -> Names:
        """All names that the file can use."""
        if self._names is None:
            self._names = Names(self.file, self._dependencies, _bundled_names)
        return self._names

    @property
    def canonical(self) -> str:
        """The text as Confluent prints it."""
        if self._canonical is None:
            self._canonical = canonical_text(self.file)
        return self._canonical

    @property
    def normalized(self) -> str:
        """The text of the normal form. Raises :class:`InvalidSchema` for an unknown type."""
        if self._normalized is None:
            self._normalized = normal_text(self.file, self.names)
        return self._normalized

    def equivalent(self, other: Schema) -> bool:
        """Return true if the canonical texts are equal."""
        return isinstance(other, ProtobufSchema) and self.canonical == other.canonical

    def fingerprints(self) -> Fingerprints:
        """Return digests of the canonical text."""
        own = digest([self.canonical])
        return Fingerprints(own, own)

    def formatted(self, format: str) -> str:
        """Return the descriptor for ``serialized``, no custom options for ``ignore_extensions``."""
        match format.strip().lower():
            case "serialized":
                proto = self._pools().descriptor()
                return b64encode(proto.SerializeToString(deterministic=True)).decode()
            case "ignore_extensions":
                return text_without_extensions(self.file)
            case _:
                return self.canonical

    def pool(self) -> DescriptorPool:
        """Return the protobuf library's types of the file and its imports. Raises :class:`InvalidSchema`."""
        return self._pools().pool()

    def _pools(self) -> Pools:
        from .pool import Pools  # noqa: PLC0415 (protobuf is loaded where descriptors are asked for)

        return Pools(self.file, self.names, self._dependencies)

    def check(self) -> None:
        """Raise :class:`InvalidSchema` for an empty file and for an undeclared type."""
        if not self.canonical:
            raise InvalidSchema("Empty schema")
        unknown = unknown_type(self.file, self.names)
        if unknown is not None:
            raise InvalidSchema(f"Could not resolve type: {unknown}")

    def check_fields(self) -> None:
        """Check that types come from imports, and that names and numbers are unique."""
        Validation(self.file, self.names, self._dependencies).check()

    def field_names(self) -> frozenset[str]:
        """Return the fields of the first message."""
        first = next(self.file.messages(), None)
        return frozenset([field.name for field in first.all_fields()] if first else ())

    def elements(self) -> Iterator[Element]:
        """Yield messages, enums, fields and constants."""
        return elements(self.file)

    def tags(self) -> list[Tagged]:
        """Return the tagged messages and fields."""
        return named_parts.tagged(self.file)

    def retag(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """Return the canonical text with tags in Confluent's options."""
        return canonical_text(named_parts.change(self.file, changes(add, remove, also)))

    def logical(self, budget: Budget) -> Type:
        """Return the logical type of the first message."""
        if self._logical is None:
            from . import logical  # noqa: PLC0415 (only for policies that ask)

            self._logical = logical.read(self.file, self.names, budget)
        return self._logical


def _dependency(dependency: Dependency) -> File:
    try:
        return parse(dependency.text)
    except InvalidSchema as error:
        raise InvalidSchema(f"Could not parse Protobuf reference {dependency.name} - {error}") from None


def _file(text: str) -> File:
    try:
        return parse(text)
    except InvalidSchema as error:
        file = _from_base64(text)
        if file is None:
            raise Unreadable(f"Could not parse Protobuf - {error}") from None
        return file


def _from_base64(text: str) -> File | None:
    try:
        data = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (NotBase64, ValueError):
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 (as above)
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    from .from_descriptor import file_of  # noqa: PLC0415

    try:
        # Names in a descriptor can be anything; only its text counts.
        return parse(canonical_text(file_of(FileDescriptorProto.FromString(data))))
    except (DecodeError, UnicodeError):
        return None


def _bundled_names() -> Names:
    from .bundled import NAMES  # noqa: PLC0415 (loads the protobuf library, which few schemas need)

    return NAMES
