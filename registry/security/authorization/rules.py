"""Rules that allow principals and groups to do something to subjects, and their TOML file.

::

    [[allow]]
    principal = "alice"                   # or a list; "*": every principal
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
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from registry.domain.model import Subject
from registry.domain.principal import Principal
from registry.domain.subject_patterns import Pattern, parse_pattern
from registry.security.access import Access, Permission
from registry.security.watched_file import FileError

from .roles import ROLES
from .rule_access import RuleAccess

ANYONE: Final = "*"
RULES_MAX: Final = 10_000
PATTERNS_MAX: Final = 100_000  # In all rules together.
_ACCESS_MAX: Final = 4096  # Principals whose access is cached.
_KEYS: Final = ("principal", "group", "role", "operations", "subjects")
_TABLE: Final = re.compile(rb"^[ \t]*\[\[[ \t]*(?:allow|\"allow\"|'allow')[ \t]*\]\]", re.MULTILINE)
_AT_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


class Rule(NamedTuple):
    """One rule: some principals and groups may do something to some subjects."""

    number: int  # of its table in the file, from 1
    line: int  # where the table begins, from 1; 0: unknown
    principals: frozenset[str]
    groups: frozenset[str]
    permissions: frozenset[Permission]
    subjects: tuple[Pattern, ...]


class Rules:
    """All rules of a file. Immutable, except for the accesses that it caches."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_principal: dict[str, list[int]] = {}
        self._by_group: dict[str, list[int]] = {}
        for index, rule in enumerate(self.rules):
            for name in rule.principals:
                self._by_principal.setdefault(name, []).append(index)
            for name in rule.groups:
                self._by_group.setdefault(name, []).append(index)
        self._accesses: OrderedDict[Principal, Access] = OrderedDict()

    def access(self, principal: Principal) -> Access:
        """Return the access of a principal; the same object each time, as long as it is in use."""
        found = self._accesses.get(principal)
        if found is None:
            mine = self.concerning(principal)
            found = self._accesses[principal] = RuleAccess((each.permissions, each.subjects) for each in mine)
            if len(self._accesses) > _ACCESS_MAX:
                self._accesses.popitem(last=False)
        else:
            self._accesses.move_to_end(principal)
        return found

    def deciding(self, principal: Principal, permission: Permission, subject: Subject) -> Rule | None:
        """Return the first rule that allows this; ``None`` if none does, so that it is denied."""
        for rule in self.concerning(principal):
            if permission in rule.permissions and any(each.covers(subject) for each in rule.subjects):
                return rule
        return None

    def concerning(self, principal: Principal) -> list[Rule]:
        """Return the rules about a principal, in the order of the file."""
        found: set[int] = set()
        if principal.name:
            found.update(self._by_principal.get(principal.name, ()), self._by_principal.get(ANYONE, ()))
        for group in principal.groups:
            found.update(self._by_group.get(group, ()))
        return [self.rules[index] for index in sorted(found)]


def parse_rules(content: bytes) -> Rules:
    """Read a rules file. Raises :class:`FileError`, which names the table, the key and what is allowed."""
    try:
        document = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise FileError("is not UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
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
    if ANYONE in groups:
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
