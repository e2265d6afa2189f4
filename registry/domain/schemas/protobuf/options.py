"""The syntax of options and their values, in statements, brackets and braces."""

from __future__ import annotations

from typing import Final

from .model import Option, Value, Word
from .source import Source

# Maximum nesting of values, the same as that of messages in protobuf.
_DEPTH_MAX: Final = 100


def in_brackets(source: Source) -> tuple[Option, ...]:
    """Return the options of ``[name = value, …]``, if that comes next."""
    if not source.take("["):
        return ()
    options = [read_option(source)]
    while not source.take("]"):
        if not source.take(","):
            raise source.error("Expected ',' or ']'")
        options.append(read_option(source))
    return tuple(options)


def statement(source: Source) -> Option:
    """Return the option after the word ``option``, reading the semicolon, too."""
    option = read_option(source)
    source.need(";")
    return option


def read_option(source: Source) -> Option:
    """Return the option of ``name = value``."""
    name, custom, nested = _name(source)
    source.need("=")
    value = _value(source, 0)
    return Option(name, Option(nested, value) if nested else value, custom)


def _name(source: Source) -> tuple[str, bool, str]:
    custom = source.peek() == "("
    name = _wrap(source)
    nested = ""
    if custom and source.peek() == ".":
        # The scanner reads the dot after a closing bracket as the start of a word.
        nested = source.word()[1:] or _wrap(source)
    return name, custom, nested


def _wrap(source: Source) -> str:
    for start, end in ("()", "[]"):
        if source.take(start):
            word = source.word()
            source.need(end)
            return word if start == "(" else f"[{word}]"
    return source.word()


def _value(source: Source, depth: int) -> Value:
    if depth > _DEPTH_MAX:
        raise source.error(f"values are nested more than {_DEPTH_MAX} deep")
    match source.peek():
        case "{":
            return _message(source, depth + 1)
        case "[":
            return _list(source, depth + 1)
        case '"' | "'":
            return source.string()
        case _:
            return Word(source.word())


def _list(source: Source, depth: int) -> Value:
    source.need("[")
    values: list[Value] = []
    while not source.take("]"):
        values.append(_value(source, depth))
        if not source.take(",") and source.peek() != "]":
            raise source.error("expected ',' or ']'")
    return tuple(values)


def _message(source: Source, depth: int) -> Value:
    """Return a message; members of the same name become a list, like a repeated field."""
    source.need("{")
    members: dict[str, Value] = {}
    several: dict[str, list[Value]] = {}
    while not source.take("}"):
        name, _, nested = _name(source)
        if source.peek() != "{":
            source.need(":")
        value = _value(source, depth)
        if nested:
            value = {nested: value}
        if name not in members:
            members[name] = value
        else:
            several.setdefault(name, _as_list(members[name])).extend(_as_list(value))
        if not source.take(","):
            source.take(";")
    return members | {name: tuple(values) for name, values in several.items()}


def _as_list(value: Value) -> list[Value]:
    return list(value) if isinstance(value, tuple) else [value]
