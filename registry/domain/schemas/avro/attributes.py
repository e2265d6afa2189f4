"""JSON of schema texts as Avro's parser accepts it, and the names and attributes of definitions.

orjson does the work. It refuses comments, infinite numbers and blanks after the document, and turns integers
beyond 64 bits into floats; :func:`read_exactly` reads such texts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

import orjson

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import Scanner, clip, print_json, too_deep

from .model import TYPE_NAMES, Field, Json, Name

# Jackson's limit on nested arrays and objects (``StreamReadConstraints``).
MAX_DEPTH: Final = 1000

_BIG: Final = float(2**63)
_BLANKS: Final = "".join(map(chr, range(0x21)))


def read(text: str) -> Json:
    """Return the JSON value of a schema's text. Raises :class:`InvalidSchema`."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return read_exactly(text)
    # Each level has a mark at both ends.
    opened = text.count("[") + text.count("{") if len(text) > 2 * MAX_DEPTH else 0
    if opened > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    return value


def _too_deep() -> InvalidSchema:
    return too_deep(MAX_DEPTH)


def is_exact(value: Json) -> bool:
    """Return false if the value holds a float that orjson may have made from an integer."""
    if type(value) is float:
        return -_BIG < value < _BIG
    if type(value) is not list and type(value) is not dict:
        return True
    todo = [value]
    while todo:
        for item in _children(todo.pop()):
            if type(item) is list or type(item) is dict:
                todo.append(item)
            elif type(item) is float and not -_BIG < item < _BIG:
                return False
    return True


def read_exactly(text: str) -> Json:
    """Read the text token by token: skip comments and keep every digit of integers."""
    scanner = Scanner(text, MAX_DEPTH, _number, comments=True)
    value = scanner.document()
    rest = text[scanner.at :].strip(_BLANKS)
    if rest:
        raise InvalidSchema(f"dangling content after end of schema: {rest[:200]}")
    return value


def _number(token: re.Match[str]) -> int | float:
    digits = token["number"]
    return int(digits) if token["part"] is None and token["power"] is None else float(digits)


def _children(value: Json) -> Any:
    return value.values() if type(value) is dict else value


def _depth(value: Json) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if type(item) is list or type(item) is dict]:
        depth += 1
        level = [child for item in level for child in _children(item)]
    return depth


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
    parts = () if name.space is None else name.space.split(".")
    if name.full.isascii() and all(map(str.isidentifier, parts)):
        return
    for part in parts:
        try:
            check_strict(part)
        except InvalidSchema as error:
            raise InvalidSchema(f'Namespace part "{part}" is invalid: {error}') from None


def qualified(name: Name, space: str | None) -> str:
    """Return ``name`` as written inside ``space``: short if it belongs there and is not a type's name."""
    if name.space is not None and name.space == space and name.simple not in TYPE_NAMES:
        return name.simple
    return name.full


_ORDERS: Final = {"ASCENDING": "ascending", "DESCENDING": "descending", "IGNORE": "ignore"}
_JAVA_DOUBLE: Final = re.compile(
    r"[\x00-\x20]*(?P<sign>[+-]?)(?:(?P<word>NaN|Infinity)"
    r"|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)[\x00-\x20]*"
)


def refuse(what: str, value: Json) -> NoReturn:
    """Raise :class:`InvalidSchema` with an excerpt of ``value``."""
    raise InvalidSchema(f"{what}: {clip(print_json(value))}")


def refuse_field(raw: Json) -> NoReturn:
    """Raise :class:`InvalidSchema` for a field that has no name, or no type."""
    has_name = type(raw) is dict and type(raw.get("name")) is str
    refuse("No field type" if has_name else "No field name", raw)


def text_attribute(value: dict[str, Json], key: str) -> str | None:
    """Return a text attribute; a value that is not a string counts as absent."""
    text = value.get(key)
    return text if type(text) is str else None


def field_order(value: Json) -> str:
    """Return the sort order of a field."""
    if type(value) is not str or value.upper() not in _ORDERS:
        raise InvalidSchema(f"Invalid order: {print_json(value)} is none of {', '.join(_ORDERS.values())}")
    return _ORDERS[value.upper()]


def alias_texts(value: dict[str, Json]) -> list[str]:
    """Return the aliases of a definition or a field that has some."""
    texts = value["aliases"]
    if type(texts) is not list:
        refuse("aliases not an array", value)
    for text in texts:
        if type(text) is not str:
            refuse("alias not a string", text)
    return texts


def accept_any_name(name: object) -> None:
    """Accept every alias in a stored schema."""


def check_unique_fields(fields: list[Field], record: Name) -> None:
    """Refuse two fields of one name."""
    if len({field.name for field in fields}) == len(fields):
        return
    places: dict[str, int] = {}
    for place, field in enumerate(fields):
        if field.name in places:
            first = places[field.name]
            one, other = (f"{f.name} type:{f.type.kind.upper()}" for f in (field, fields[first]))
            raise InvalidSchema(
                f"Duplicate field {field.name} in record {record.full}:"
                f" {one} pos:{place} and {other} pos:{first}."
            )
        places[field.name] = place


def java_double(text: str) -> float:
    """Return ``Double.parseDouble`` of the text default of a float or double; may be NaN."""
    match = _JAVA_DOUBLE.fullmatch(text)
    if match is None:
        raise InvalidSchema(f'For input string: "{text}"')
    sign = -1.0 if match["sign"] == "-" else 1.0
    if match["word"]:
        return math.nan if match["word"] == "NaN" else sign * math.inf
    if match["decimal"]:
        return sign * float(match["decimal"])
    try:
        return sign * float.fromhex(match["hex"])
    except OverflowError:
        return sign * math.inf


def has_wide_integer(value: Json) -> bool:
    """Return true if any integer in ``value`` takes more than 64 bits."""
    todo = [value]
    while todo:
        item = todo.pop()
        if type(item) is dict:
            todo.extend(item.values())
        elif type(item) is list:
            todo.extend(item)
        elif type(item) is int and not -(2**63) <= item < 2**63:
            return True
    return False
