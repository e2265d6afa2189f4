"""Rows of the tables that map another registry's settings to ours, and conversions that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

# All settings of the other registry that are given, by name.
Given = Mapping[str, str]
# Values of our settings, by name. Empty if the foreign value means what holds here anyway.
Ours = dict[str, str]
Convert = Callable[[str, Given], Ours]


class Refused(Exception):
    """A value that asks for what Registrar does not do in the same way; the text says what to do instead.

    ``instead`` has the names of settings of ours that answer it: with one of them the value is not refused.
    """

    def __init__(self, reason: str, *instead: str) -> None:
        super().__init__(reason)
        self.instead = instead


class Row(NamedTuple):
    """One setting of the other registry; a name that ends in ``*`` stands for all that begin so."""

    name: str
    ours: tuple[str, ...]
    how: str  # how it is converted, or why it has no counterpart
    convert: Convert | None  # ``None`` if it has no counterpart

    @property
    def pattern(self) -> bool:
        """True if the row is for all names that begin alike."""
        return self.name.endswith("*")


class Registry(NamedTuple):
    """A registry whose settings are understood."""

    title: str
    prefix: str  # of its variables in the environment
    rows: tuple[Row, ...]
    brokers: str  # the setting that names the brokers; a registry without Kafka would be a new, empty one
    separator: str  # between the words of a name
    clients: frozenset[str] = frozenset()  # variables of the same prefix that its clients read

    def row(self, name: str) -> Row | None:
        """Return the row of a setting."""
        for row in self.rows:
            if row.name == name or (row.pattern and name.startswith(row.name[:-1])):
                return row
        return None

    def variable(self, name: str) -> str:
        """Return the name of a setting in the environment."""
        return self.prefix + name.replace(self.separator, "_").upper()


def same(name: str, ours: str, how: str = "the same") -> Row:
    """Return the row of a setting whose values are ours."""
    return Row(name, (ours,), how, lambda value, _: {ours: value})


def conversion(name: str, ours: str | tuple[str, ...], how: str, convert: Convert) -> Row:
    """Return the row of a setting whose values are converted."""
    return Row(name, (ours,) if isinstance(ours, str) else ours, how, convert)


def part_of(name: str, other: str, *ours: str) -> Row:
    """Return the row of a setting that is read together with another one."""
    return Row(name, ours, f"used with `{other}`", lambda _value, _given: {})


def without(name: str, because: str) -> Row:
    """Return the row of a setting that has no counterpart."""
    return Row(name, (), because, None)


def milliseconds(ours: str) -> Convert:
    """Return the conversion of milliseconds to a setting in seconds."""

    def convert(value: str, given: Given) -> Ours:
        try:
            return {ours: f"{int(value) / 1000:g}"}
        except ValueError:
            raise Refused("must be a whole number of milliseconds", ours) from None

    return convert


def word(ours: str, words: Mapping[str, str | None]) -> Convert:
    """Return the conversion of words, in any letter case; ``None`` stands for what holds here anyway."""

    def convert(value: str, given: Given) -> Ours:
        folded = value.lower()
        if folded not in words:
            raise Refused(f"must be one of {', '.join(words)}", ours)
        found = words[folded]
        return {} if found is None else {ours: found}

    return convert


def is_on(value: str | None) -> bool:
    """Return whether a switch is on."""
    return (value or "").strip().lower() == "true"


def pieces(value: str) -> list[str]:
    """Return the members of a list that is separated by commas."""
    return [piece for piece in (each.strip() for each in value.split(",")) if piece]


def brokers(value: str, protocol: str, protocol_setting: str) -> str:
    """Return brokers as ``HOST:PORT,…``; of those with a protocol in front, the ones with ``protocol``."""
    kept, others = [], set()
    for each in pieces(value):
        scheme, slashes, address = each.rpartition("://")
        if not slashes or scheme.upper() == protocol:
            kept.append(address)
        else:
            others.add(scheme.upper())
    if not kept:
        named = f"only {' and '.join(sorted(others))}" if others else "no broker"
        raise Refused(
            f"names {named}, but {protocol_setting} is {protocol}: make them agree, "
            "or the registry would not find its log",
            "kafka",
        )
    return ",".join(kept)
