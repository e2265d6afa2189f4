"""Avro's rules for names. Java's look at UTF-16 units, so no character beyond U+FFFF is a letter."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final, TypeAlias

from registry.domain.schemas.contract import InvalidSchema

from .model import TYPE_NAMES, Name

# Raises :class:`InvalidSchema` for a text that is not a valid name.
NameCheck: TypeAlias = Callable[[object], None]

_LETTERS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo"})


def check_strict(name: object) -> None:
    """Check a name of a new schema against ``[A-Za-z_][A-Za-z0-9_]*``."""
    if type(name) is str and name.isidentifier() and name.isascii():
        return
    _refuse(name, _is_ascii_letter, _is_ascii_digit)


def check_lenient(name: object) -> None:
    """Check a name of a stored schema: Unicode letters and digits, and ``_``."""
    if type(name) is str and name.isidentifier() and name.isascii():
        return
    _refuse(name, _is_letter, _is_digit)


def _is_ascii_letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


def _is_ascii_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()


def _is_digit(char: str) -> bool:
    return char <= "\uffff" and unicodedata.category(char) == "Nd"


def _is_letter(char: str) -> bool:
    return char <= "\uffff" and unicodedata.category(char) in _LETTERS


def _refuse(name: object, is_letter: Callable[[str], bool], is_digit: Callable[[str], bool]) -> None:
    if type(name) is not str:
        raise InvalidSchema("Null name")
    if not name:
        raise InvalidSchema("Empty name")
    if not (is_letter(name[0]) or name[0] == "_"):
        raise InvalidSchema(f"Illegal initial character: {name}")
    for char in name[1:]:
        if not (is_letter(char) or char == "_" or is_digit(char)):
            raise InvalidSchema(f"Illegal character in: {name}")


def make_name(text: str, space: str | None, check: NameCheck) -> Name:
    """Return the full name of ``text`` in namespace ``space``; a dotted text has its own."""
    dot = text.rfind(".")
    if dot >= 0:
        space, text = text[:dot], text[dot + 1 :]
    check(text)
    return Name(text, space or None)


def check_namespace(name: Name) -> None:
    """Check that every part of a namespace is a name, for new schemas only."""
    for part in () if name.space is None else name.space.split("."):
        try:
            check_strict(part)
        except InvalidSchema as error:
            raise InvalidSchema(f'Namespace part "{part}" is invalid: {error}') from None


def qualified(name: Name, space: str | None) -> str:
    """Return ``name`` as written inside ``space``: short if it belongs there and is not a type's name."""
    if name.space is not None and name.space == space and name.simple not in TYPE_NAMES:
        return name.simple
    return name.full
