"""The parser of ``.proto`` texts.

It drops what Confluent's parser drops, because the stored text shows that: comments, weak imports, and groups
inside ``extend``.
"""

from __future__ import annotations

from typing import Final, TypeVar

from .model import (
    TAG_MAX,
    Constant,
    EnumType,
    Extend,
    Field,
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
from .source import Cursor, in_brackets, statement

_T = TypeVar("_T", Message, EnumType, Message | EnumType, Service)
# Maximum nesting of messages. Protobuf itself reads descriptors no deeper; its compiler stops at 32.
DEPTH_MAX: Final = 100
_LABELS: Final = frozenset({"required", "optional", "repeated"})
_SYNTAXES: Final = frozenset({"proto2", "proto3"})


def parse(text: str) -> File:
    """Return the file that ``text`` declares. Raises :class:`InvalidSchema` with line and column."""
    return _Parser(Cursor(text)).file()


class _Parser:
    def __init__(self, source: Cursor) -> None:
        self._source = source
        self._syntax = ""
        self._package = ""
        self._imports: list[str] = []
        self._public_imports: list[str] = []
        self._options: list[Option] = []
        self._types: dict[str, Message | EnumType] = {}
        self._extends: list[Extend] = []
        self._services: dict[str, Service] = {}

    def file(self) -> File:
        source, first = self._source, True
        while source.peek():
            if not source.take(";"):
                self._declaration(source.word(), first)
            first = False
        return File(
            self._syntax,
            self._package,
            tuple(self._imports),
            tuple(self._public_imports),
            tuple(self._options),
            tuple(self._types.values()),
            tuple(self._extends),
            tuple(self._services.values()),
        )

    def _declaration(self, word: str, first: bool) -> None:
        source = self._source
        match word:
            case "syntax":
                self._read_syntax(first)
            case "package":
                self._package = source.word()
                source.need(";")
            case "import":
                self._import()
            case "option":
                self._options.append(statement(source))
            case "message":
                self._once(self._types, self._message(0))
            case "enum":
                self._once(self._types, self._enum())
            case "extend":
                self._extends.append(self._extend())
            case "service":
                self._once(self._services, self._service())
            case "edition":
                raise source.error("edition is not currently supported")
            case _:
                raise source.unexpected_label(word)

    def _once(self, known: dict[str, _T], declared: _T) -> None:
        if declared.name in known:
            raise self._source.error(f"{declared.name} is already defined")
        known[declared.name] = declared

    def _read_syntax(self, first: bool) -> None:
        source = self._source
        source.need("=")
        if self._syntax:
            raise source.error("too many syntax definitions")
        if not first:
            raise source.error("'syntax' element must be the first declaration in a file")
        syntax = source.string()
        if syntax not in _SYNTAXES:
            raise source.error(f"unexpected syntax: {syntax}")
        self._syntax = syntax
        source.need(";")

    def _import(self) -> None:
        source = self._source
        kind = "" if source.peek() in ("'", '"') else source.word()
        if kind not in ("", "public", "weak"):
            raise source.error("expected quoted string")
        path = source.string().replace("\\", "/")
        if kind != "weak":
            (self._public_imports if kind else self._imports).append(path)
        source.need(";")

    def _message(self, depth: int) -> Message:
        source = self._source
        if depth >= DEPTH_MAX:
            raise source.error(f"messages are nested more than {DEPTH_MAX} deep")
        name = source.word()
        parts = _Parts()
        source.need("{")
        while not source.take("}"):
            if source.take(";"):
                continue
            word = source.word()
            match word:
                case "option":
                    parts.options.append(statement(source))
                case "message":
                    parts.types.append(self._message(depth + 1))
                case "enum":
                    parts.types.append(self._enum())
                case "reserved":
                    parts.reserved.append(self._parse_reserved())
                case "extensions":
                    parts.extensions.append(self._extensions())
                case "extend":
                    parts.extends.append(self._extend())
                case "oneof":
                    parts.oneofs.append(self._oneof())
                case _:
                    parts.add(self._field(word))
        return parts.message(name)

    def _field(self, word: str) -> Field | Group:
        source, label = self._source, ""
        if word in _LABELS:
            if word == "required" and self._syntax == "proto3":
                raise source.error("'required' label forbidden in proto3 field declarations")
            label, type_ = word, source.type()
        elif self._syntax == "proto3" or (word == "map" and source.peek() == "<"):
            type_ = source.type(word)
        else:
            raise source.unexpected_label(word)
        if label and isinstance(type_, MapType):
            raise source.error("'map' type cannot have label")
        return self._group(label) if type_ == "group" else self._field_of(label, type_)

    def _field_of(self, label: str, type_: str | MapType) -> Field:
        source = self._source
        plain = source.numbered_name()
        if plain is not None:
            return Field(label, type_, *plain)
        name = source.name()
        source.need("=")
        tag = source.integer()
        options = in_brackets(source)
        source.need(";")
        if not options:
            return Field(label, type_, name, tag)
        default, json_name = self._scalar("default", options), self._scalar("json_name", options)
        rest = tuple(each for each in options if each.name not in ("default", "json_name"))
        return Field(label, type_, name, tag, default, json_name, rest)

    def _scalar(self, name: str, options: tuple[Option, ...]) -> str | None:
        """Return a value that stands among a field's options without being one."""
        found = None
        for option in options:
            if option.name == name:
                if not isinstance(option.value, str | Word):
                    raise self._source.error(f"{name} is neither a message nor a list")
                found = option.value.text if isinstance(option.value, Word) else option.value
        return found

    def _group(self, label: str) -> Group:
        source = self._source
        name = source.word()
        source.need("=")
        tag = source.integer()
        source.need("{")
        fields: list[Field] = []
        while not source.take("}"):
            field = self._field(source.word())
            if isinstance(field, Group):
                raise source.error("expected field declaration, was a group")
            fields.append(field)
        return Group(label, name, tag, tuple(fields))

    def _oneof(self) -> OneOf:
        source = self._source
        name = source.word()
        fields: list[Field] = []
        groups: list[Group] = []
        options: list[Option] = []
        source.need("{")
        while not source.take("}"):
            if source.take(";"):
                continue
            type_ = source.type()
            if type_ == "option":
                options.append(statement(source))
            elif type_ == "group":
                groups.append(self._group(""))
            else:
                fields.append(self._field_of("", type_))
        return OneOf(name, tuple(fields), tuple(groups), tuple(options))

    def _extend(self) -> Extend:
        source = self._source
        name = source.word()
        fields: list[Field] = []
        source.need("{")
        while not source.take("}"):
            if source.take(";"):
                continue
            field = self._field(source.word())
            if isinstance(field, Field):
                fields.append(field)
        return Extend(name, tuple(fields))

    def _enum(self) -> EnumType:
        source = self._source
        name = source.word()
        constants: list[Constant] = []
        options: list[Option] = []
        reserved: list[tuple[Span, ...]] = []
        source.need("{")
        while not source.take("}"):
            if source.take(";"):
                continue
            word = source.name()
            if word == "option":
                options.append(statement(source))
            elif word == "reserved":
                reserved.append(self._parse_reserved())
            else:
                constants.append(self._constant(word))
        return EnumType(name, tuple(constants), tuple(options), tuple(reserved))

    def _constant(self, name: str) -> Constant:
        source = self._source
        source.need("=")
        tag = source.integer()
        options = in_brackets(source)
        source.need(";")
        return Constant(name, tag, options)

    def _parse_reserved(self) -> tuple[Span, ...]:
        source = self._source
        spans: list[Span] = []
        while True:
            spans.append(source.string() if source.peek() in ("'", '"') else self._span(",;"))
            if source.take(";"):
                return tuple(spans)
            if not source.take(","):
                raise source.error("expected ',' or ';'")

    def _extensions(self) -> tuple[Span, ...]:
        """Return the ranges; declarations in their options are neither checked nor kept."""
        source = self._source
        spans: list[Span] = []
        while True:
            spans.append(self._span(",;["))
            if in_brackets(source) or source.peek() == ";":
                source.need(";")
                return tuple(spans)
            if not source.take(","):
                raise source.error("expected ',' or ';'")

    def _span(self, ends: str) -> Span:
        source = self._source
        start = source.integer()
        if source.peek() in ends:
            return start
        if source.word() != "to":
            raise source.error("expected ',', ';', or 'to'")
        if source.peek() == "m":
            word = source.word()
            if word != "max":
                raise source.error(f"expected an integer but was {word}")
            return (start, TAG_MAX)
        return (start, source.integer())

    def _service(self) -> Service:
        source = self._source
        name = source.word()
        rpcs: list[Rpc] = []
        options: list[Option] = []
        source.need("{")
        while not source.take("}"):
            if source.take(";"):
                continue
            word = source.word()
            if word == "option":
                options.append(statement(source))
            elif word == "rpc":
                rpcs.append(self._rpc())
            else:
                raise source.unexpected_label(word)
        return Service(name, tuple(rpcs), tuple(options))

    def _rpc(self) -> Rpc:
        source = self._source
        name = source.word()
        request, request_streams = self._rpc_type()
        if source.word() != "returns":
            raise source.error("expected 'returns'")
        response, response_streams = self._rpc_type()
        options: list[Option] = []
        if source.take("{"):
            while not source.take("}"):
                if source.take(";"):
                    continue
                word = source.word()
                if word != "option":
                    raise source.unexpected_label(word)
                options.append(statement(source))
        else:
            source.need(";")
        return Rpc(name, request, response, request_streams, response_streams, tuple(options))

    def _rpc_type(self) -> tuple[str, bool]:
        source = self._source
        source.need("(")
        word = source.word()
        streams = word == "stream" and source.peek() != ")"
        name = source.word() if streams else word
        source.need(")")
        return name, streams


class _Parts:
    """The members of a message, grouped by kind."""

    def __init__(self) -> None:
        self.fields: list[Field] = []
        self.oneofs: list[OneOf] = []
        self.groups: list[Group] = []
        self.types: list[Message | EnumType] = []
        self.extends: list[Extend] = []
        self.extensions: list[tuple[Span, ...]] = []
        self.reserved: list[tuple[Span, ...]] = []
        self.options: list[Option] = []

    def add(self, field: Field | Group) -> None:
        if isinstance(field, Group):
            self.groups.append(field)
        else:
            self.fields.append(field)

    def message(self, name: str) -> Message:
        return Message(
            name,
            tuple(self.fields),
            tuple(self.oneofs),
            tuple(self.groups),
            tuple(self.types),
            tuple(self.extends),
            tuple(self.extensions),
            tuple(self.reserved),
            tuple(self.options),
        )
