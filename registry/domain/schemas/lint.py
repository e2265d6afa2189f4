"""Lint rules for new schemas: a small set, the same for all formats, each with a fix.

A format describes a schema as :class:`Element` objects; the rules know no format. Properties that a format
does not have are ``None`` there and break no rule: the stored text of a Protobuf schema has no comments, for
example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple

# The maximum number of findings reported for one schema.
FINDINGS_MAX: Final = 20
# Characters of a name or path that are shown.
SHOWN_MAX: Final = 200

# An object is a type without a name.
Kind = Literal["schema", "type", "object", "field", "enum", "symbol"]


class Element(NamedTuple):
    """A named part of a schema, with the properties that rules examine."""

    kind: Kind
    # In the API's syntax for paths of entities.
    path: str
    name: str
    # True if it is documented.
    doc: bool | None = None
    # True if a field or an enum has a default.
    default: bool | None = None
    # True if a whole schema has a namespace or package.
    namespace: bool | None = None


class Finding(NamedTuple):
    """A broken rule, and what to do about it."""

    rule: str
    path: str
    message: str
    fix: str

    def __str__(self) -> str:
        """Return one sentence for clients."""
        return f"{self.rule} at {self.path}: {self.message}; {self.fix}"


class Rule(NamedTuple):
    """A rule: the kinds of elements that it applies to, its condition, and its message."""

    kinds: tuple[Kind, ...]
    broken: Callable[[Element], bool]
    message: str
    fix: str


def _unlike(pattern: str) -> Callable[[Element], bool]:
    allowed = re.compile(pattern)
    return lambda element: allowed.fullmatch(element.name) is None


# By name, as in settings.
RULES: Final[dict[str, Rule]] = {
    "pascal_case_types": Rule(
        ("type", "enum"),
        _unlike(r"[A-Z][A-Za-z0-9]*"),
        "the type's name {name} is not in PascalCase",
        "begin each word with a capital and use no underscores",
    ),
    "snake_case_fields": Rule(
        ("field",),
        _unlike(r"[a-z][a-z0-9]*(_[a-z0-9]+)*"),
        "the field's name {name} is not in snake_case",
        "use lower-case words joined by underscores",
    ),
    "camel_case_fields": Rule(
        ("field",),
        _unlike(r"[a-z][A-Za-z0-9]*"),
        "the field's name {name} is not in camelCase",
        "begin in lower case, each further word with a capital, and use no underscores",
    ),
    "upper_case_symbols": Rule(
        ("symbol",),
        _unlike(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*"),
        "the enum's symbol {name} is not in UPPER_CASE",
        "use upper-case words joined by underscores",
    ),
    "docs": Rule(
        ("type", "object", "field", "enum"),
        lambda element: element.doc is False,
        "{name} has no documentation",
        "describe it in `doc` (Avro) or `description` (JSON Schema)",
    ),
    "field_defaults": Rule(
        ("field",),
        lambda element: element.default is False,
        "the field {name} has no default",
        "give it a default, so that it can be added and removed compatibly",
    ),
    "enum_defaults": Rule(
        ("enum",),
        lambda element: element.default is False,
        "the enum {name} has no default",
        "give it a default, so that symbols can be added compatibly",
    ),
    "namespace": Rule(
        ("schema",),
        lambda element: element.namespace is False,
        "the schema has no namespace",
        "name a `namespace` (Avro) or `package` (Protobuf)",
    ),
}


def findings(elements: Iterable[Element], rules: Sequence[str]) -> tuple[Finding, ...]:
    """Return what breaks the ``rules``, names of :data:`RULES`, in the order of the text."""
    found: list[Finding] = []
    for element in elements:
        for name in rules:
            rule = RULES[name]
            if element.kind in rule.kinds and rule.broken(element):
                quoted = f"`{_cut(element.name)}`" if element.name else f"the {element.kind}"
                path = _cut(element.path) or "#"
                found.append(Finding(name, path, rule.message.format(name=quoted), rule.fix))
                if len(found) == FINDINGS_MAX:
                    return tuple(found)
    return tuple(found)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
