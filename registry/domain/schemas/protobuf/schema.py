"""Parsed Protobuf schemas, read from a text or a descriptor, and the rules of ``validateFields``.

The released server (8.3.1) builds Java descriptors from the file and its imports. So an import counts only if
its text is the name of a reference or of a bundled file, and what Java does not check, such as the numbers of
enums or reserved ones, is not checked here, either.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from .model import SCALARS, EnumType, Field, File, Group, MapType, Message
from .named_parts import elements
from .names import Names, declarations, inside, unknown_type
from .parser import parse
from .text import canonical_text, normal_text, text_without_extensions

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

    from registry.domain.schemas.logical.types import Type

    from .pool import Pools


_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Validation:
    """The validation of one file; ``dependencies`` are the files it may import, by reference name."""

    def __init__(self, file: File, names: Names, dependencies: Iterable[tuple[str, File]]) -> None:
        self._file: Final = file
        self._names: Final = names
        self._visible: Final = _visible(file, dict(dependencies))

    def check(self) -> None:
        """Raise :class:`InvalidSchema` for the first error."""
        faults = chain(self._faults_of_names(), self._faults_of_fields(), self._unknown_in_services())
        fault = next(faults, None)
        if fault is not None:
            raise InvalidSchema(f"Invalid protobuf schema definition: {fault}")

    def _faults_of_names(self) -> Iterator[str]:
        yield from _check_names(self._file.package, [each.name for each in self._file.types])
        for scope, declared in declarations(self._file):
            if isinstance(declared, Message):
                fields = [each.name for each in _fields(declared)]
                yield from _check_names(scope, [*(each.name for each in declared.types), *fields])

    def _faults_of_fields(self) -> Iterator[str]:
        for scope, declared in declarations(self._file):
            if not isinstance(declared, EnumType):
                yield from self._faults_in(scope, declared)

    def _faults_in(self, scope: str, message: Message) -> Iterator[str]:
        taken: dict[int, str] = {}
        for field in _fields(message):
            if isinstance(field, Field) and (wanted := self._unknown(field, scope)):
                # A map's values belong to the message that Java creates for its entries.
                owner = f"{field.name}Entry.value" if isinstance(field.type, MapType) else field.name
                yield f'{scope}.{owner}: "{wanted}" is not defined.'
            if field.tag <= 0:
                yield f"{scope}.{field.name}: Field numbers must be positive integers."
            first = taken.setdefault(field.tag, field.name)
            if first != field.name:
                used = f'Field number {field.tag} has already been used in "{scope}" by field "{first}".'
                yield f"{scope}.{field.name}: {used}"
        for group in message.all_groups():
            for field in group.fields:
                if wanted := self._unknown(field, scope):
                    yield f'{scope}.{group.name}.{field.name}: "{wanted}" is not defined.'

    def _unknown_in_services(self) -> Iterator[str]:
        for service in self._file.services:
            scope = inside(self._file.package, service.name)
            for rpc in service.rpcs:
                for name in (rpc.request, rpc.response):
                    if not self._sees(name, self._file.package):
                        yield f'{scope}.{rpc.name}: "{name}" is not defined.'

    def _unknown(self, field: Field, scope: str) -> str | None:
        name = field.type.value if isinstance(field.type, MapType) else field.type
        return None if name in SCALARS or self._sees(name, scope) else name

    def _sees(self, name: str, scope: str) -> bool:
        declared = self._names.type(name, scope)
        return declared is not None and (not declared.path or declared.path in self._visible)


def _fields(message: Message) -> Sequence[Field | Group]:
    return [*message.all_fields(), *message.all_groups()]


def _check_names(scope: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the errors of names in one scope: invalid names and duplicates."""
    seen: set[str] = set()
    for name in names:
        if not _IDENTIFIER.fullmatch(name):
            yield f'{inside(scope, name)}: "{name}" is not a valid identifier.'
        if name in seen:
            where = f' in "{scope}"' if scope else ""
            yield f'{inside(scope, name)}: "{name}" is already defined{where}.'
        seen.add(name)


def _visible(file: File, dependencies: Mapping[str, File]) -> frozenset[str]:
    """Return the paths of the imports of ``file``, and of those that they import publicly."""
    from .bundled import PROTOS  # noqa: PLC0415 (protobuf is loaded when its types are asked for)

    found: set[str] = set()
    todo = [*file.imports, *file.public_imports]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        if path in dependencies:
            todo += dependencies[path].public_imports
        elif path in PROTOS:
            proto = PROTOS[path]
            todo += [proto.dependency[place] for place in proto.public_dependency]
        else:
            continue
        found.add(path)
    return frozenset(found)


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

    def text_in(self, format: str) -> str:
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
        return named_parts.list_tagged(self.file)

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
