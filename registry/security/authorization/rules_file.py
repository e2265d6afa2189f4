"""The file of rules: TOML of our own, or Karapace's JSON, recognised by its content.

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

from registry.domain.principal import kind_and_name
from registry.domain.subject_patterns import parse_pattern
from registry.security.access import Permission
from registry.security.watched_file import FileError

from .karapace import parse_permissions
from .rules import ANYONE, PATTERNS_MAX, ROLES, Rule, Rules

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
    def broken(reason: str) -> FileError:
        return FileError(f"[[allow]] number {number}: {reason}", line)

    def texts(key: str) -> list[str]:
        value = table.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
            raise broken(f"{key!r} must be a text that is not empty, or a list of such texts")
        if key in table and not listed:
            raise broken(f"{key!r} must not be empty")
        return listed

    unknown = table.keys() - set(_KEYS)
    if unknown:
        raise broken(f"unknown key {min(unknown)!r}; allowed: {', '.join(_KEYS)}")
    principals, groups = texts("principal"), texts("group")
    if not principals and not groups:
        raise broken("needs 'principal' or 'group'")
    for text in (*principals, *groups):
        kind, name = kind_and_name(text)
        if not name:
            raise broken(f"{text!r} needs a name after {kind}:")
    if any(kind_and_name(each)[1] == ANYONE for each in groups):
        raise broken("'group' must name groups; for everyone write principal = \"*\"")
    subjects = []
    for text in texts("subjects"):
        try:
            subjects.append(parse_pattern(text))
        except ValueError as error:
            raise broken(f"'subjects': {error}") from None
    if not subjects:
        raise broken("needs 'subjects'")
    try:
        permissions = _permissions(texts("role"), texts("operations"))
    except ValueError as error:
        raise broken(str(error)) from None
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
