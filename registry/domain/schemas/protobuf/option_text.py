"""The text of options in canonical and normal form (Confluent 8.x)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import groupby
from math import isfinite
from operator import attrgetter
from typing import Final

from registry.domain.schemas.contract import InvalidSchema

from .model import Field, MapType, Message, Option, Value, Word
from .names import Declared, Names

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
}
_ESCAPED: Final = re.compile("[\a\b\f\n\r\t\v\\\\'\"]")
_KEPT: Final = "confluent."
_TEXT_MAX: Final = 16 * 1024 * 1024
_INTEGER: Final = re.compile(r"(-?)(0[xX][0-9A-Fa-f]+|[0-9]+)")
_DECIMAL: Final = re.compile(r"-?(?:[0-9]+(?:\.([0-9]*))?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# Longest number, in digits; a longer one, or one that would get longer, stays as it is.
_LENGTH_MAX: Final = 400
_PLACES: Final = Decimal("0.001")
# Names of nested options with more parts stay as they are.
_NESTED_MAX: Final = 30
_EXACT: Final = Context(prec=2 * _LENGTH_MAX)


def quote(text: str) -> str:
    """Return a quoted string; characters without an escape sequence stay as they are."""
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES[found.group()], text) + '"'


def indent(text: str) -> str:
    """Return the text with every line, even an empty one, indented by two. Raises :class:`InvalidSchema`.

    Deep nesting could make short lines a hundred times longer, so the length is limited.
    """
    if len(text) > _TEXT_MAX:
        raise InvalidSchema(f"The schema is longer than {_TEXT_MAX} characters when it is printed")
    return "  " + text.rstrip("\n").replace("\n", "\n  ") + "\n"


class OptionText:
    """Prints options: in normal form if ``names`` are given, without custom ones if ``ignore_custom``."""

    def __init__(self, names: Names | None, *, ignore_custom: bool) -> None:
        self._names = names
        self._ignore_custom = ignore_custom

    def select(self, options: Sequence[Option], scope: str) -> Sequence[Option]:
        """Return the options to print, in order."""
        if not options:
            return options
        if self._ignore_custom:
            options = [each for each in options if not each.custom or each.name.startswith(_KEPT)]
        return options if self._names is None else self._normal(options, scope, self._names)

    def _normal(self, options: Iterable[Option], scope: str, names: Names) -> list[Option]:
        resolved = sorted((_resolve(each, scope, names) for each in options), key=attrgetter("name"))
        chosen: list[Option] = []
        for name, group in groupby(resolved, attrgetter("name")):
            extension, same = names.extension_called(name), list(group)
            if extension is None or extension.field.label == "repeated":
                chosen += same
            else:
                chosen.append(_merge(same, extension.field, name.rpartition(".")[0], names))
        return chosen

    def statements(self, options: Iterable[Option], scope: str) -> list[str]:
        """Return ``option name = value;`` for each option."""
        return [f"option {self.text(each, scope)};\n" for each in options]

    def in_brackets(self, options: Sequence[Option], scope: str) -> str:
        """Return `` [name = value]``, over several lines for several options, or an empty text."""
        return f" {self._list([self.text(each, scope) for each in options])}" if options else ""

    @staticmethod
    def _list(texts: Sequence[str]) -> str:
        if len(texts) == 1:
            return f"[{texts[0]}]"
        return f"[\n{_join_separated(texts)}]"

    def text(self, option: Option, scope: str) -> str:
        """Return ``name = value``."""
        name = f"({option.name})" if option.custom else option.name
        value = option.value
        if isinstance(value, Option):
            return f"{name}.{self.text(value, scope)}"
        if isinstance(value, tuple):
            return f"{name} = {self._list([self._value(each, scope) for each in value])}"
        return f"{name} = {self._value(value, scope)}"

    def _value(self, value: Value, scope: str) -> str:
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, Word):
            return normal(value.text) if self._names is not None and value.is_number else value.text
        if isinstance(value, Option):
            return self.text(value, scope)
        if isinstance(value, Mapping):
            return self._message(value, scope)
        if self._names is not None and len(value) == 1:
            return self._value(value[0], scope)
        return f"[\n{_join_separated([self._value(each, scope) for each in value])}]"

    def _message(self, members: Mapping[str, Value], scope: str) -> str:
        if self._names is not None:
            members = _sort_members(members, scope, self._names)
        lines = [f"{name}: {self._value(value, scope)}" for name, value in members.items()]
        return f"{{\n{_join_separated(lines)}}}"


def _join_separated(texts: Sequence[str]) -> str:
    last = len(texts) - 1
    return "".join([indent(text if at == last else f"{text},") for at, text in enumerate(texts)])


def _resolve(option: Option, scope: str, names: Names) -> Option:
    full_name = names.extension(option.name, scope) if option.custom else None
    if full_name is None:
        return option
    value = option.value
    return replace(option, name=full_name, value=_as_message(value) if isinstance(value, Option) else value)


def _as_message(nested: Option) -> Mapping[str, Value]:
    """Return ``(option).a.b = value`` as the message ``{a: {b: value}}``."""
    value = nested.value
    found = _as_message(value) if isinstance(value, Option) else value
    steps = nested.name.split(".", _NESTED_MAX)
    if nested.name.startswith("[") or len(steps) > _NESTED_MAX:
        return {nested.name: found}
    for step in reversed(steps[1:]):
        found = {step: found}
    return {steps[0]: found}


def _merge(same: Sequence[Option], field: Field, scope: str, names: Names) -> Option:
    """Return one option for several of a name: messages are merged, of other values the last one counts.

    ``field``: the extension's, whose type is resolved in ``scope``.
    """
    from_here = max((at for at, each in enumerate(same) if not isinstance(each.value, Mapping)), default=0)
    if from_here == len(same) - 1:
        return same[-1]
    if not isinstance(same[from_here].value, Mapping):
        from_here += 1
    values = [each.value for each in same[from_here:] if isinstance(each.value, Mapping)]
    return replace(same[-1], value=_unite(values, _message_of(field, scope, names), names))


def _unite(
    values: Iterable[Mapping[str, Value]], message: Declared | None, names: Names
) -> Mapping[str, Value]:
    """Return the members of several messages as one message, as in Confluent 8.4.

    Messages in singular members are merged, too, and of scalars the last one counts. Members that are
    repeated or unknown become lists.
    """
    found: dict[str, list[Value]] = {}
    for each in values:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    fields = {} if message is None else _fields_of(message)
    return {name: _only(given, fields.get(name), message, names) for name, given in found.items()}


def _only(given: list[Value], field: Field | None, message: Declared | None, names: Names) -> Value:
    if len(given) == 1:
        return given[0]
    if field is None or message is None or field.label == "repeated" or isinstance(field.type, MapType):
        return _distinct(given)
    inner = [each for each in given if isinstance(each, Mapping)]
    if len(inner) < len(given):
        return given[-1]
    return _unite(inner, _message_of(field, message.full_name, names), names)


def _message_of(field: Field, scope: str, names: Names) -> Declared | None:
    declared = None if isinstance(field.type, MapType) else names.type(field.type, scope)
    return declared if declared is not None and isinstance(declared.type, Message) else None


def _fields_of(message: Declared) -> dict[str, Field]:
    fields = message.type.all_fields() if isinstance(message.type, Message) else ()
    return {each.name: each for each in fields}


def _distinct(values: Iterable[Value]) -> Value:
    """Return each value once; values are compared as texts, because there can be many."""
    listed = (one for value in values for one in (value if isinstance(value, tuple) else (value,)))
    return tuple({repr(one): one for one in listed}.values())


def _sort_members(members: Mapping[str, Value], scope: str, names: Names) -> Mapping[str, Value]:
    named: dict[str, Value] = {}
    for name, value in members.items():
        if value == ():
            continue
        if name.startswith("["):
            full_name = names.extension(name[1:-1], scope)
            named.setdefault(name if full_name is None else f"[{full_name}]", value)
        else:
            named.setdefault(name, value)
    return dict(sorted(named.items()))


def normal(text: str) -> str:
    """Return ``text`` without grouping and with at most three decimals; a text that is not a number stays.

    Java reads a number with few decimals as a float, so only the first digits of a large one remain.
    """
    if len(text) > _LENGTH_MAX:
        return text
    whole = _INTEGER.fullmatch(text)
    if whole is not None:
        return _whole(whole.group(1), whole.group(2).lower())
    found = _DECIMAL.fullmatch(text)
    if found is None or Decimal(text).adjusted() > _LENGTH_MAX:
        return text
    return _format(_read(text, len(found.group(1) or "")))


def _whole(sign: str, digits: str) -> str:
    if digits.startswith("0x"):
        value = int(digits, 16)
    elif digits.startswith("0") and len(digits) > 1:
        if not set(digits) <= set("01234567"):
            return sign + digits
        value = int(digits, 8)
    else:
        value = int(digits)
    return str(-value if sign else value)


def _read(text: str, decimals: int) -> Decimal:
    exact, double = Decimal(text), float(text)
    if decimals <= 7:
        try:
            (single,) = struct.unpack("f", struct.pack("f", double))
        except OverflowError:
            single = 0.0
        if (single or not exact) and isfinite(single):
            return Decimal(repr(single))
    return Decimal(repr(double)) if decimals <= 16 and (double or not exact) and isfinite(double) else exact


def _format(value: Decimal) -> str:
    text = f"{value.quantize(_PLACES, ROUND_HALF_EVEN, _EXACT):f}"
    return text.rstrip("0").rstrip(".")
