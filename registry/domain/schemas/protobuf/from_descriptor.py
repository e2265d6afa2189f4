"""Conversion of descriptors to files, for clients that send a descriptor instead of a text (Confluent 8.x).

A descriptor has full names of types, and represents maps by the messages of their entries. Options are
printed in Confluent's order; of custom options only Confluent's own are known. A group becomes the field and
the message in its descriptor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

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
from registry.domain.schemas.json_text import clip

from .meta import meta_of
from .model import (
    Constant,
    EnumType,
    Extend,
    Field,
    File,
    Message,
    OneOf,
    Option,
    Rpc,
    Service,
    Span,
    Value,
    Word,
)

_FILE: Final = [
    "java_package",
    "java_outer_classname",
    "java_multiple_files",
    "java_generate_equals_and_hash",
    "java_string_check_utf8",
    "optimize_for",
    "go_package",
    "cc_generic_services",
    "java_generic_services",
    "py_generic_services",
    "deprecated",
    "cc_enable_arenas",
    "objc_class_prefix",
    "csharp_namespace",
    "swift_prefix",
    "php_class_prefix",
    "php_namespace",
    "php_metadata_namespace",
    "ruby_package",
]
_MESSAGE: Final = ("no_standard_descriptor_accessor", "deprecated", "map_entry")
_FIELD: Final = ("ctype", "packed", "jstype", "deprecated")
_ENUM: Final = ("allow_alias", "deprecated")
_METHOD: Final = ("deprecated", "idempotency_level")
# The names that the text shows without quotes; each must be one word to read back unchanged.
_NAMES: Final = frozenset({"name", "package", "type_name", "extendee", "input_type", "output_type"})
_NAME: Final = re.compile(r"[A-Za-z_.\-][A-Za-z0-9_.\-]*+")
_LABELS: Final = {1: "optional", 2: "required", 3: "repeated"}
_TYPES: Final = {
    number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()
}


def file_of(proto: FileDescriptorProto) -> File:
    """Return the file of a descriptor. Raises :class:`InvalidSchema`, also for one with an edition."""
    _check_texts(proto)
    if proto.syntax not in ("", "proto2", "proto3"):
        raise InvalidSchema("edition is not currently supported")
    public = set(proto.public_dependency)
    return File(
        syntax=proto.syntax,
        package=proto.package,
        imports=tuple(path for at, path in enumerate(proto.dependency) if at not in public),
        public_imports=tuple(path for at, path in enumerate(proto.dependency) if at in public),
        options=_options(proto.options, _FILE, "confluent.file_meta"),
        types=(
            *(_message(proto.syntax, each) for each in proto.message_type),
            *map(_enum, proto.enum_type),
        ),
        extends=_extends(proto.syntax, proto.extension),
        services=tuple(map(_service, proto.service)),
    )


def _check_texts(proto: AnyMessage) -> None:
    """Raise :class:`InvalidSchema` for a text that is not UTF-8 or a name that is not one word.

    The library returns such texts as bytes. Extensions known in this process are read elsewhere.
    """
    todo = [proto]
    while todo:
        message = todo.pop()
        for field, value in message.ListFields():
            if field.is_extension:
                continue
            many: Any = [value] if isinstance(value, str | bytes | AnyMessage) else value
            if field.type == field.TYPE_MESSAGE:
                todo += many
            elif field.type == field.TYPE_STRING and not all(isinstance(each, str) for each in many):
                raise InvalidSchema(f"The descriptor's {field.name} is not UTF-8")
            elif value and _is_name(message, field.name) and not _NAME.fullmatch(value):
                raise InvalidSchema(f"The descriptor's {field.name} is not a name: {clip(value)!r}")


def _is_name(message: AnyMessage, field: str) -> bool:
    # The name of the file itself is a path, which the text does not show.
    return field in _NAMES and not (field == "name" and isinstance(message, FileDescriptorProto))


def _options(options: AnyMessage, names: Sequence[str], meta: str = "") -> tuple[Option, ...]:
    found = [Option(name, _plain(options, name)) for name in names if options.HasField(name)]
    members = meta_of(options) if meta else None
    if members is not None:
        found.append(Option(meta, members, custom=True))
    return tuple(found)


def _plain(options: AnyMessage, name: str) -> Value:
    value: Any = getattr(options, name)
    field = options.DESCRIPTOR.fields_by_name[name]
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return Word(str(value) if known is None else known.name)
    return Word("true" if value else "false") if isinstance(value, bool) else value


def _message(syntax: str, proto: DescriptorProto) -> Message:
    members: list[list[Field]] = [[] for _ in proto.oneof_decl]
    fields: list[Field] = []
    for each in proto.field:
        if each.HasField("oneof_index") and not each.proto3_optional:
            if not 0 <= each.oneof_index < len(members):
                raise InvalidSchema(f"Field {each.name} is in a oneof that is not there")
            members[each.oneof_index].append(_field(syntax, each, in_oneof=True))
        else:
            fields.append(_field(syntax, each))
    oneofs = zip(proto.oneof_decl, members, strict=True)
    return Message(
        name=proto.name,
        fields=tuple(fields),
        oneofs=tuple(OneOf(decl.name, tuple(each), (), ()) for decl, each in oneofs if each),
        groups=(),
        types=(*(_message(syntax, each) for each in proto.nested_type), *map(_enum, proto.enum_type)),
        extends=_extends(syntax, proto.extension),
        extensions=tuple((_span(each.start, each.end - 1),) for each in proto.extension_range),
        reserved=(
            *((_span(each.start, each.end - 1),) for each in proto.reserved_range),
            *((name,) for name in proto.reserved_name),
        ),
        options=_options(proto.options, _MESSAGE, "confluent.message_meta"),
    )


def _span(start: int, end: int) -> Span:
    return start if start == end else (start, end)


def _field(syntax: str, proto: FieldDescriptorProto, *, in_oneof: bool = False) -> Field:
    return Field(
        label="" if in_oneof else _label(syntax, proto),
        type=proto.type_name or _TYPES.get(proto.type, ""),
        name=proto.name,
        tag=proto.number,
        default=_default(proto) if syntax != "proto3" and proto.HasField("default_value") else None,
        json_name=proto.json_name if proto.HasField("json_name") else None,
        options=_options(proto.options, _FIELD, "confluent.field_meta"),
    )


def _label(syntax: str, proto: FieldDescriptorProto) -> str:
    if proto.proto3_optional:
        return "optional"
    label = _LABELS.get(proto.label, "optional")
    return label if syntax != "proto3" or label == "repeated" else ""


def _default(proto: FieldDescriptorProto) -> str:
    if proto.type != FieldDescriptorProto.TYPE_BYTES:
        return proto.default_value
    try:
        return text_encoding.CUnescape(proto.default_value).decode("latin-1")
    except (UnicodeError, ValueError):
        return proto.default_value


def _extends(syntax: str, protos: Iterable[FieldDescriptorProto]) -> tuple[Extend, ...]:
    fields: dict[str, list[Field]] = {}
    for each in protos:
        fields.setdefault(each.extendee, []).append(_field(syntax, each))
    return tuple(Extend(name, tuple(each)) for name, each in fields.items())


def _enum(proto: EnumDescriptorProto) -> EnumType:
    return EnumType(
        name=proto.name,
        constants=tuple(
            Constant(
                each.name, each.number, _options(each.options, ("deprecated",), "confluent.enum_value_meta")
            )
            for each in proto.value
        ),
        options=_options(proto.options, _ENUM, "confluent.enum_meta"),
        reserved=(
            *((_span(each.start, each.end),) for each in proto.reserved_range),
            *((name,) for name in proto.reserved_name),
        ),
    )


def _service(proto: ServiceDescriptorProto) -> Service:
    return Service(
        name=proto.name,
        rpcs=tuple(
            Rpc(
                name=each.name,
                request=each.input_type,
                response=each.output_type,
                request_streams=each.client_streaming,
                response_streams=each.server_streaming,
                options=_options(each.options, _METHOD),
            )
            for each in proto.method
        ),
        options=_options(proto.options, ("deprecated",)),
    )
