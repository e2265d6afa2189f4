"""Karapace's permissions: the same file as its users, read as rules.

A resource in it is a regular expression that has to match the beginning of ``Subject:NAME`` or ``Config:``.
Lists of readable subjects need ranges of names, so an expression must be plain text with an optional ``.*``
or ``$`` at its end; others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from registry.domain.subject_patterns import Pattern, parse_pattern
from registry.security.access import Permission
from registry.security.watched_file import FileError

from .rules import PATTERNS_MAX, ROLES, Rule, Rules

# Compatibility checks need Read there, deletes and configs of subjects need Write.
_SUBJECT: Final = {"Read": ROLES["reader"], "Write": ROLES["operator"]}
# The top-level config and mode: to see, or to change.
_TOP: Final = {
    "Read": frozenset({Permission.ADMIN}),
    "Write": frozenset({Permission.ADMIN, Permission.CONFIG, Permission.MODE}),
}
_TOP_LEVEL: Final = (parse_pattern(":.:"),)
_EVERYTHING: Final = ("", ".*", ".*$")
_PLAIN: Final = re.compile(r"((?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s])*)(\.\*\$?|\$)?", re.DOTALL)
_ALLOWED: Final = r"plain text with an optional .* or $ at its end, where \. stands for a dot"


def parse_permissions(content: bytes) -> Rules:
    """Read the permissions of Karapace's file. Raises :class:`FileError`, which names the entry."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise FileError(f"is not JSON: {error}", error.lineno) from None
    entries = document.get("permissions", []) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise FileError("needs a list 'permissions'")
    if len(entries) > PATTERNS_MAX:
        raise FileError(f"has more than {PATTERNS_MAX} permissions")
    return Rules(rule for number, each in enumerate(entries, 1) for rule in _rules(number, each))


def _rules(number: int, entry: Any) -> list[Rule]:
    source: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    name, operation, resource = (source.get(key) for key in ("username", "operation", "resource"))
    if not (isinstance(name, str) and name and isinstance(resource, str)):
        raise FileError(f"permission number {number}: needs the texts username, operation and resource")
    if not isinstance(operation, str) or operation not in _SUBJECT:
        raise FileError(f"permission number {number}: operation {operation!r} is not one of Read, Write")
    try:
        granted = _grant(operation, resource)
    except ValueError as error:
        raise FileError(f"permission number {number}: {error}") from None
    who = frozenset({name})
    return [Rule(number, 0, who, frozenset(), permissions, subjects) for permissions, subjects in granted]


def _grant(operation: str, resource: str) -> list[tuple[frozenset[Permission], tuple[Pattern, ...]]]:
    expression = resource.removeprefix("^")
    kind, colon, rest = expression.partition(":")
    top = (_TOP[operation], _TOP_LEVEL)
    if expression in _EVERYTHING:
        return [(_SUBJECT[operation], (parse_pattern("*"),)), top]
    if colon and kind == "Config" and rest in (*_EVERYTHING, "$"):
        return [top]
    if not colon or kind != "Subject":
        raise ValueError(f"resource {resource!r} must begin with Subject: or be Config: or .*")
    if rest in _EVERYTHING:
        return [(_SUBJECT[operation], (parse_pattern("*"),))]
    found = _PLAIN.fullmatch(rest)
    if found is None:
        raise ValueError(f"resource {resource!r}: the part after Subject: must be {_ALLOWED}")
    text = re.sub(r"\\(.)", r"\1", found[1])
    if "*" in text:
        raise ValueError(f"resource {resource!r}: names with * are not supported")
    return [(_SUBJECT[operation], (parse_pattern(text if found[2] == "$" else f"{text}*"),))]
