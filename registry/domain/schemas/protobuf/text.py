"""The canonical and the normal text of a file, as Confluent 8.x prints them.

Blanks and empty lines are part of a schema's identity: even odd-looking ones are required byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from registry.domain.schemas.contract import InvalidSchema

from .model import (
    SCALARS,
    TAG_MAX,
    EnumType,
    Extend,
    Field,
    FieldType,
    File,
    Group,
    MapType,
    Message,
    OneOf,
    Option,
    Rpc,
    Service,
    Span,
    Word,
)
from .names import Names, inside
from .option_text import OptionText, indent, quote

_T = TypeVar("_T", Field, Group)
_WORD: Final = re.compile(r"[A-Za-z0-9_.\-]+")
_NAMES_LAST: Final = 2**31 - 1
_by_tag: Final = attrgetter("tag")


def canonical_text(file: File) -> str:
    """Return the text that is stored."""
    return _Text(None, ignore_extensions=False).file(file)


def text_without_extensions(file: File) -> str:
    """Return the canonical text without custom options (except Confluent's), ``extensions``, ``extend``."""
    return _Text(None, ignore_extensions=True).file(file)


def normal_text(file: File, names: Names) -> str:
    """Return the normal form. Raises :class:`InvalidSchema` for an unknown type."""
    return _Text(names, ignore_extensions=False).file(file)


class _Text:
    def __init__(self, names: Names | None, *, ignore_extensions: bool) -> None:
        self._names = names
        self._ignore_extensions = ignore_extensions
        self._options = OptionText(names, ignore_custom=ignore_extensions)

    def file(self, file: File) -> str:
        scope = file.package
        parts = []
        if file.syntax and not (self._names and file.syntax == "proto2"):
            parts.append(f'syntax = "{file.syntax}";\n')
        if file.package:
            parts.append(f"package {file.package};\n")
        if file.imports or file.public_imports:
            parts.append("\n")
            parts += [f"import {quote(path)};\n" for path in self._unique(file.imports)]
            parts += [f"import public {quote(path)};\n" for path in self._unique(file.public_imports)]
        parts += _after_blank(self._options.statements(self._options.select(file.options, scope), scope))
        parts += _after_blank(self._types(file.types, scope))
        parts += _after_blank(self._extends(file.extends, scope))
        parts += _after_blank([self._service(each, scope) for each in file.services])
        return "".join(parts)

    def _unique(self, paths: Iterable[str]) -> Iterable[str]:
        return sorted(set(paths)) if self._names else paths

    def _types(self, types: Iterable[Message | EnumType], scope: str) -> list[str]:
        """Return the texts of messages, then enums; messages keep their order: records use their index."""
        messages = [each for each in types if isinstance(each, Message)]
        if self._names:
            messages = [each for each in messages if each.map_type() is None]
        texts = [self._message(each, inside(scope, each.name)) for each in messages]
        return texts + [
            self._enum(each, inside(scope, each.name)) for each in types if isinstance(each, EnumType)
        ]

    def _message(self, message: Message, scope: str) -> str:
        options = self._options.select(message.options, scope)
        parts = [f"message {message.name} {{"]
        parts += _block(self._print_reserved(message.reserved))
        parts += _block(self._options.statements(options, scope))
        parts += _block([self._field(each, scope) for each in self._by_tag(message.fields)])
        if message.oneofs:
            parts += ["\n", *map(indent, self._oneofs(message.oneofs, scope))]
        parts += _block([self._group(each, scope) for each in self._by_tag(message.groups)])
        if not self._ignore_extensions:
            parts += _block(self._extensions(message.extensions))
        parts += _block(self._extends(message.extends, scope))
        parts += _block(self._types(message.types, scope))
        return "".join([*parts, "}\n"])

    def _by_tag(self, fields: Sequence[_T]) -> Sequence[_T]:
        return sorted(fields, key=_by_tag) if self._names else fields

    def _oneofs(self, oneofs: Sequence[OneOf], scope: str) -> list[str]:
        if self._names:
            filled = [
                each._replace(fields=tuple(self._by_tag(each.fields))) for each in oneofs if each.fields
            ]
            oneofs = sorted(filled, key=lambda each: each.fields[0].tag)
        return [self._oneof(each, scope) for each in oneofs]

    def _oneof(self, oneof: OneOf, scope: str) -> str:
        options = self._options.select(oneof.options, scope)
        parts = [f"oneof {oneof.name} {{"]
        parts += _block(self._options.statements(options, scope))
        parts += _block([self._field(each, scope) for each in oneof.fields])
        parts += _block([self._group(each, scope) for each in self._by_tag(oneof.groups)])
        return "".join([*parts, "}\n"])

    def _group(self, group: Group, scope: str) -> str:
        label = f"{group.label} " if group.label else ""
        parts = [f"{label}group {group.name} = {group.tag} {{"]
        parts += _block([self._field(each, scope) for each in self._by_tag(group.fields)])
        return "".join([*parts, "}\n"])

    def _extends(self, extends: Sequence[Extend], scope: str) -> list[str]:
        if self._ignore_extensions:
            return []
        if self._names:
            fields: dict[str, list[Field]] = {}
            for each in extends:
                if each.fields:
                    fields.setdefault(self._resolve(each.name, scope), []).extend(each.fields)
            extends = [Extend(name, tuple(self._by_tag(each))) for name, each in fields.items()]
        return [self._extend(each, scope) for each in extends]

    def _extend(self, extend: Extend, scope: str) -> str:
        parts = [f"extend {extend.name} {{", *_block([self._field(each, scope) for each in extend.fields])]
        return "".join([*parts, "}\n"])

    def _enum(self, enum: EnumType, scope: str) -> str:
        """Return the text of an enum; unlike a message, it has no empty line between its parts."""
        parts = [f"enum {enum.name} {{"]
        if enum.reserved or enum.options or enum.constants:
            parts.append("\n")
        parts += map(indent, self._print_reserved(enum.reserved))
        options = self._options.select(enum.options, scope)
        parts += map(indent, self._options.statements(options, scope))
        constants = enum.constants
        for each in sorted(constants, key=attrgetter("tag", "name")) if self._names else constants:
            shown = self._options.in_brackets(self._options.select(each.options, scope), scope)
            parts.append(indent(f"{each.name} = {each.tag}{shown};\n"))
        return "".join([*parts, "}\n"])

    def _field(self, field: Field, scope: str) -> str:
        label, type_ = field.label, field.type
        if self._names:
            type_ = self._normal_type(type_, scope)
            if isinstance(type_, MapType):
                label = ""
        if not field.options and field.default is None and field.json_name is None:
            return f"{f'{label} ' if label else ''}{type_} {field.name} = {field.tag};\n"
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", _default(type_, field.default)))
        if field.json_name is not None:
            options.append(Option("json_name", field.json_name))
        shown = self._options.in_brackets(self._options.select(options, scope), scope)
        return f"{f'{label} ' if label else ''}{type_} {field.name} = {field.tag}{shown};\n"

    def _normal_type(self, type_: FieldType, scope: str) -> FieldType:
        if isinstance(type_, str):
            if type_ in SCALARS:
                return type_
            declared = self._names.type(type_, scope) if self._names else None
            entry = declared.type.map_type() if declared and isinstance(declared.type, Message) else None
            if declared is None or entry is None:
                return self._resolve(type_, scope)
            type_, scope = entry, declared.full_name
        value = type_.value
        return type_ if value in SCALARS else MapType(type_.key, self._resolve(value, scope))

    def _resolve(self, name: str, scope: str) -> str:
        if self._names is None:
            return name
        declared = self._names.type(name, scope)
        if declared is None:
            raise InvalidSchema(f"Could not resolve type: {name}")
        return f".{declared.full_name}"

    def _service(self, service: Service, scope: str) -> str:
        options = self._options.select(service.options, scope)
        parts = [f"service {service.name} {{"]
        parts += _block(self._options.statements(options, scope))
        parts += _block([self._rpc(each, scope) for each in service.rpcs])
        return "".join([*parts, "}\n"])

    def _rpc(self, rpc: Rpc, scope: str) -> str:
        request = ("stream " if rpc.request_streams else "") + self._resolve(rpc.request, scope)
        response = ("stream " if rpc.response_streams else "") + self._resolve(rpc.response, scope)
        options = self._options.statements(self._options.select(rpc.options, scope), scope)
        body = f" {{\n{''.join(map(indent, options))}}}" if options else ""
        return f"rpc {rpc.name} ({request}) returns ({response}){body};\n"

    def _print_reserved(self, statements: Iterable[Sequence[Span]]) -> list[str]:
        if self._names:
            statements = [
                [span] for span in sorted((s for each in statements for s in each), key=_reserved_order)
            ]
        return [f"reserved {', '.join(map(self._span, each))};\n" for each in statements]

    def _extensions(self, statements: Iterable[Sequence[Span]]) -> list[str]:
        if self._names:
            statements = [[span] for span in sorted((s for each in statements for s in each), key=_start)]
        return [f"extensions {', '.join(map(self._span, each))};\n" for each in statements]

    def _span(self, span: Span) -> str:
        if isinstance(span, str):
            return quote(span)
        if isinstance(span, int):
            return str(span)
        start, end = span
        if self._names and start == end:
            return str(start)
        return f"{start} to {end if end < TAG_MAX else 'max'}"


def _after_blank(texts: Sequence[str]) -> Sequence[str]:
    return ["\n", *texts] if texts else ()


def _block(texts: Sequence[str]) -> Sequence[str]:
    return ("\n", indent("".join(texts))) if texts else ()


def _start(span: Span) -> int:
    if isinstance(span, str):
        return _NAMES_LAST
    return span if isinstance(span, int) else span[0]


def _reserved_order(span: Span) -> tuple[int, str]:
    return _start(span), f"{span[0]}..{span[1]}" if isinstance(span, tuple) else str(span)


def _default(type_: FieldType, text: str) -> str | Word:
    """Return a default, quoted if it is a string (Confluent 8.x) or not a single word."""
    if type_ != "string" and _WORD.fullmatch(text):
        return Word(text)
    return text
