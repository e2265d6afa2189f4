"""Files of rules, in Registrar's format and Karapace's.

A resource in it is a regular expression that has to match the beginning of ``Subject:NAME`` or ``Config:``.
Lists of readable subjects need ranges of names, so an expression must be plain text with an optional ``.*``
or ``$`` at its end; others are refused.

::

    [[allow]]
    principal = "alice"                   # or a list; "*": every principal; "token:alice": of this kind alone
    role = "developer"
    subjects = ["payments-*", ":.team-a:*"]

    [[allow]]
    group = ["ops", "support"]
    operations = ["read", "config"]
    subjects = "*"

Rules only allow; everything else is denied.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from registry.domain.principal import kind_and_name
from registry.domain.subject_patterns import Pattern, parse_pattern
from registry.security.gate import Permission
from registry.security.watched_file import FileError

from .rules import ANYONE, PATTERNS_MAX, ROLES, Rule, Rules

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
        raise FileError(f"permission number {number}: needs the strings username, operation and resource")
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


RULES_MAX: Final = 10_000
_KEYS: Final = ("principal", "group", "role", "operations", "subjects")
_TABLE: Final = re.compile(rb"^[ \t]*\[\[[ \t]*(?:allow|\"allow\"|'allow')[ \t]*\]\]", re.MULTILINE)
_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


def parse(content: bytes) -> Rules:
    """Return the rules in a file's content. Raises :class:`FileError`."""
    return parse_permissions(content) if content.lstrip().startswith(b"{") else _parse_rules(content)


def _parse_rules(content: bytes) -> Rules:
    """Read TOML; the error names the table, the key and what is allowed."""
    try:
        document = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise FileError("is not UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    except (ValueError, RecursionError) as error:  # Also for a number with too many digits.
        at = _AT_LINE.search(str(error))
        reason = _AT_LINE.sub("", str(error)) or "nested too deeply"
        raise FileError(f"is not TOML: {reason}", int(at[1]) if at else 0) from None
    unknown = document.keys() - {"allow"}
    if unknown:
        raise FileError(f"unknown key {min(unknown)!r}; a file of rules has [[allow]] tables only")
    tables = document.get("allow", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise FileError("'allow' must be a table in double brackets: [[allow]]")
    if len(tables) > RULES_MAX:
        raise FileError(f"has more than {RULES_MAX} rules")
    lines = [content.count(b"\n", 0, found.start()) + 1 for found in _TABLE.finditer(content)]
    lines = lines if len(lines) == len(tables) else [0] * len(tables)
    rules = [_rule(number, *each) for number, each in enumerate(zip(lines, tables, strict=True), 1)]
    if sum(len(each.subjects) for each in rules) > PATTERNS_MAX:
        raise FileError(f"has more than {PATTERNS_MAX} subjects")
    return Rules(rules)


def _rule(number: int, line: int, table: Mapping[str, Any]) -> Rule:
    def fault(reason: str) -> FileError:
        return FileError(f"[[allow]] number {number}: {reason}", line)

    def texts(key: str) -> list[str]:
        value = table.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
            raise fault(f"{key!r} must be a non-empty string, or a list of such strings")
        if key in table and not listed:
            raise fault(f"{key!r} must not be empty")
        return listed

    unknown = table.keys() - set(_KEYS)
    if unknown:
        raise fault(f"unknown key {min(unknown)!r}; allowed: {', '.join(_KEYS)}")
    principals, groups = texts("principal"), texts("group")
    if not principals and not groups:
        raise fault("needs 'principal' or 'group'")
    for text in (*principals, *groups):
        kind, name = kind_and_name(text)
        if not name:
            raise fault(f"{text!r} needs a name after {kind}:")
    if any(kind_and_name(each)[1] == ANYONE for each in groups):
        raise fault("'group' must name groups; for everyone write principal = \"*\"")
    subjects = []
    for text in texts("subjects"):
        try:
            subjects.append(parse_pattern(text))
        except ValueError as error:
            raise fault(f"'subjects': {error}") from None
    if not subjects:
        raise fault("needs 'subjects'")
    try:
        permissions = _permissions(texts("role"), texts("operations"))
    except ValueError as error:
        raise fault(str(error)) from None
    return Rule(number, line, frozenset(principals), frozenset(groups), permissions, tuple(subjects))


def _permissions(roles: list[str], operations: list[str]) -> frozenset[Permission]:
    if bool(roles) == bool(operations):
        raise ValueError("needs either 'role' or 'operations'")
    found: set[Permission] = set()
    for name in roles:
        if name not in ROLES:
            raise ValueError(f"'role': {name!r} is not one of {', '.join(ROLES)}")
        found |= ROLES[name]
    for name in operations:
        try:
            found.add(Permission(name))
        except ValueError:
            allowed = ", ".join(each.value for each in Permission)
            raise ValueError(f"'operations': {name!r} is not one of {allowed}") from None
    return frozenset(found)
