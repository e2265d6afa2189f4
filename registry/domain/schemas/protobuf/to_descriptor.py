"""Conversion of files to ``FileDescriptorProto``, as protobuf's compiler does it except for JSON names.

Unresolved options stay as ``uninterpreted_option``, as in the compiler's parser.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from google.protobuf import text_encoding
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message as AnyMessage

from registry.domain.schemas.contract import InvalidSchema

from .model import (
    SCALARS,
    EnumType,
    Extend,
    Field,
    File,
    Group,
    MapType,
    Message,
    OneOf,
    Option,
    Service,
    Span,
)
from .names import Names, inside

# Sets options, which were found in a scope, in a message of options.
SetOptions = Callable[[AnyMessage, Sequence[Option], str], None]

_LABELS: Final = {
    "": FieldDescriptorProto.LABEL_OPTIONAL,
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
_SCALARS: Final = {name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}") for name in SCALARS}
_INTEGERS: Final = frozenset(name for name in SCALARS if "int" in name or "fixed" in name)


def bare_descriptor(file: File, names: Names, path: str) -> FileDescriptorProto:
    """Return the descriptor with only those options that affect its structure."""
    return descriptor(file, names, path, _set_nothing)


def descriptor(
    file: File,
    names: Names,
    path: str,
    set_options: SetOptions,
    known: Collection[str] | None = None,
) -> FileDescriptorProto:
    """Return the descriptor of a file with the given ``path``. Raises :class:`InvalidSchema`.

    ``known``: the available imports; others are left out, and missing imports of used files are added.
    """
    try:
        return _Builder(file, names, path, set_options, known).proto
    except (ValueError, TypeError, UnicodeError) as error:
        raise InvalidSchema(f"The schema has no descriptor: {error}") from None


class _Builder:
    def __init__(
        self, file: File, names: Names, path: str, set_options: SetOptions, known: Collection[str] | None
    ) -> None:
        self._names = names
        self._set_options = set_options
        self._proto3 = file.syntax == "proto3"
        self._used: dict[str, None] = {}
        self.proto = proto = FileDescriptorProto(name=path, package=file.package or None)
        if self._proto3:
            proto.syntax = file.syntax
        for each in file.types:
            if isinstance(each, Message):
                self._message(proto.message_type.add(), each, inside(file.package, each.name))
            else:
                self._enum(proto.enum_type.add(), each, inside(file.package, each.name))
        for service in file.services:
            self._service(proto.service.add(), service, file.package)
        for extend in file.extends:
            self._extend(proto.extension.add, extend, file.package)
        if file.options:
            self._options(proto.options, file.options, file.package)
        self._imports(file, known)

    def _options(self, proto: AnyMessage, options: Sequence[Option], scope: str) -> None:
        for option in options:
            name = self._names.extension(option.name, scope) if option.custom else None
            extension = self._names.extension_called(name) if name else None
            if extension is not None and extension.path:
                self._used[extension.path] = None
        self._set_options(proto, options, scope)

    def _imports(self, file: File, known: Collection[str] | None) -> None:
        proto = self.proto
        public = set(file.public_imports)
        wanted = dict.fromkeys((*file.imports, *file.public_imports))
        if known is not None:
            wanted = dict.fromkeys(
                path for path in (*wanted, *self._used) if path in known and path != proto.name
            )
        for at, path in enumerate(wanted):
            proto.dependency.append(path)
            if path in public:
                proto.public_dependency.append(at)

    def _message(self, proto: DescriptorProto, message: Message, scope: str) -> None:
        proto.name = message.name
        for nested in message.types:
            if isinstance(nested, Message):
                self._message(proto.nested_type.add(), nested, inside(scope, nested.name))
            else:
                self._enum(proto.enum_type.add(), nested, inside(scope, nested.name))
        for at, oneof in enumerate(message.oneofs):
            self._oneof(proto, oneof, at, scope)
        for group in message.groups:
            self._group(proto, group, scope)
        for field in message.fields:
            self._member(proto, field, scope)
        for extend in message.extends:
            self._extend(proto.extension.add, extend, scope)
        for statement in message.extensions:
            for span in statement:
                start, end = _ends(span)
                proto.extension_range.add(start=start, end=end + 1)
        self._reserve(proto, message.reserved, 1)
        if message.map_type() is not None:
            proto.options.map_entry = True
        if message.options:
            self._options(proto.options, message.options, scope)

    @staticmethod
    def _reserve(
        proto: DescriptorProto | EnumDescriptorProto, statements: Sequence[Sequence[Span]], beyond: int
    ) -> None:
        """Add reserved ranges; ``beyond`` is added to their ends: enums include them, messages do not."""
        for statement in statements:
            for span in statement:
                if isinstance(span, str):
                    proto.reserved_name.append(span)
                else:
                    start, end = _ends(span)
                    proto.reserved_range.add(start=start, end=end + beyond)

    def _oneof(self, message: DescriptorProto, oneof: OneOf, at: int, scope: str) -> None:
        proto = message.oneof_decl.add(name=oneof.name)
        if oneof.options:
            self._options(proto.options, oneof.options, scope)
        for field in oneof.fields:
            self._field(message.field.add(oneof_index=at), field, scope)
        for group in oneof.groups:
            self._group(message, group, scope).oneof_index = at

    def _group(self, message: DescriptorProto, group: Group, scope: str) -> FieldDescriptorProto:
        name = inside(scope, group.name)
        nested = message.nested_type.add(name=group.name)
        for field in group.fields:
            self._member(nested, field, name)
        return message.field.add(
            name=group.name.lower(),
            number=group.tag,
            label=_LABELS[group.label],
            type=FieldDescriptorProto.TYPE_GROUP,
            type_name=f".{name}",
        )

    def _member(self, message: DescriptorProto, field: Field, scope: str) -> None:
        proto = message.field.add()
        self._field(proto, field, scope)
        if isinstance(field.type, MapType):
            entry = message.nested_type.add(name=_entry_name(field.name))
            entry.options.map_entry = True
            for tag, (name, type_) in enumerate((("key", field.type.key), ("value", field.type.value)), 1):
                self._type(entry.field.add(name=name, number=tag, label=_LABELS[""]), type_, scope)
            proto.label = FieldDescriptorProto.LABEL_REPEATED
            proto.type = FieldDescriptorProto.TYPE_MESSAGE
            proto.type_name = f".{inside(scope, entry.name)}"
        elif self._proto3 and field.label == "optional":
            proto.proto3_optional = True
            proto.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _field(self, proto: FieldDescriptorProto, field: Field, scope: str) -> None:
        proto.name = field.name
        proto.number = field.tag
        proto.label = _LABELS[field.label]
        if isinstance(field.type, str):
            self._type(proto, field.type, scope)
        if field.default is not None:
            proto.default_value = _default(str(field.type), field.default)
        if field.json_name is not None:
            proto.json_name = field.json_name
        if field.options:
            self._options(proto.options, field.options, scope)

    def _type(self, proto: FieldDescriptorProto, name: str, scope: str) -> None:
        """Set the type; an unknown name stays as it is, without a distinction of messages and enums."""
        scalar = _SCALARS.get(name)
        if scalar is not None:
            proto.type = scalar
            return
        proto.type_name = self._full_name(name, scope)
        declared = self._names.type(name, scope)
        if declared is not None:
            is_enum = isinstance(declared.type, EnumType)
            proto.type = FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE

    def _full_name(self, name: str, scope: str) -> str:
        declared = self._names.type(name, scope)
        if declared is None:
            return name
        if declared.path:
            self._used[declared.path] = None
        return f".{declared.full_name}"

    def _extend(self, add: Callable[[], FieldDescriptorProto], extend: Extend, scope: str) -> None:
        for field in extend.fields:
            proto = add()
            self._field(proto, field, scope)
            proto.extendee = self._full_name(extend.name, scope)

    def _enum(self, proto: EnumDescriptorProto, enum: EnumType, scope: str) -> None:
        proto.name = enum.name
        for constant in enum.constants:
            value = proto.value.add(name=constant.name, number=constant.tag)
            if constant.options:
                self._options(value.options, constant.options, scope)
        self._reserve(proto, enum.reserved, 0)
        if enum.options:
            self._options(proto.options, enum.options, scope)

    def _service(self, proto: ServiceDescriptorProto, service: Service, scope: str) -> None:
        proto.name = service.name
        for rpc in service.rpcs:
            method = proto.method.add(
                name=rpc.name,
                input_type=self._full_name(rpc.request, scope),
                output_type=self._full_name(rpc.response, scope),
            )
            if rpc.request_streams:
                method.client_streaming = True
            if rpc.response_streams:
                method.server_streaming = True
            if rpc.options:
                self._options(method.options, rpc.options, scope)
        if service.options:
            self._options(proto.options, service.options, scope)


def _ends(span: Span) -> tuple[int, int]:
    if isinstance(span, str):
        raise InvalidSchema(f"'{span}' is not a number")
    return (span, span) if isinstance(span, int) else span


def _entry_name(name: str) -> str:
    """Return the compiler's name for the message of a map's entries."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _default(type_: str, text: str) -> str:
    if type_ == "bytes":
        return text_encoding.CEscape(text.encode("latin-1", "replace"), as_utf8=False)
    if type_ in ("float", "double"):
        return _real(text)
    if type_ in _INTEGERS and len(text) < 100:
        try:
            return str(int(text, 8 if text.lstrip("-").startswith("0") and text.isdigit() else 0))
        except ValueError:
            return text
    return text


def _real(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    short = f"{value:.15g}"
    return short if float(short) == value else f"{value:.17g}"


def _set_nothing(options: AnyMessage, _options: Sequence[Option], scope: str) -> None:
    """Set no options."""
