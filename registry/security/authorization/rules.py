"""Rules that allow principals and groups to do something to subjects; everything else is denied."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from registry.domain.lru import Lru
from registry.domain.model import Subject
from registry.domain.principal import Principal, names_in_rules
from registry.domain.subject_patterns import Pattern, SubjectRange, union
from registry.security.gate import Access, Permission

ANYONE: Final = "*"
PATTERNS_MAX: Final = 100_000  # In all rules of a file together.
_ACCESS_MAX: Final = 4096  # Principals whose access is cached.
_SHOWN: Final = 20  # Rules that an explanation names.

_READER = frozenset({Permission.READ, Permission.COMPATIBILITY})
_DEVELOPER = _READER | {Permission.WRITE}

ROLES: Final = {
    "reader": _READER,
    "developer": _DEVELOPER,
    "operator": _DEVELOPER | {Permission.DELETE, Permission.CONFIG, Permission.MODE},
    "admin": frozenset(Permission),
}


class Rule(NamedTuple):
    """One rule: some principals and groups may do something to some subjects."""

    number: int  # of its table in the file, from 1
    line: int  # where the table begins, from 1; 0: unknown
    principals: frozenset[str]  # names, some with a kind: see :func:`.kind_and_name`
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
        self._accesses = Lru[tuple[Principal, str], Access](_ACCESS_MAX)

    def names(self) -> Iterable[str]:
        """Return the principals and groups that rules name."""
        return {*self._by_principal, *self._by_group}

    def access(self, principal: Principal, kind: str = "") -> Access:
        """Return the access of a principal; the same object each time, as long as it is in use."""
        found = self._accesses.get((principal, kind))
        if found is None:
            mine = self.rules_of(principal, kind)
            found = RuleAccess((each.permissions, each.subjects) for each in mine)
            self._accesses.put((principal, kind), found)
        return found

    def deciding_rule(
        self, principal: Principal, permission: Permission, subject: Subject, kind: str = ""
    ) -> Rule | None:
        """Return the first rule that allows this; ``None`` if none does, so that it is denied."""
        for rule in self.rules_of(principal, kind):
            if permission in rule.permissions and any(each.covers(subject) for each in rule.subjects):
                return rule
        return None

    def rules_of(self, principal: Principal, kind: str = "") -> list[Rule]:
        """Return the rules about a principal of a kind, in the order of the file; "": an unknown kind."""
        found: set[int] = set()
        if principal.name:
            for name in (*names_in_rules(principal.name, kind), *names_in_rules(ANYONE, kind)):
                found.update(self._by_principal.get(name, ()))
        for group in principal.groups:
            for name in names_in_rules(group, kind):
                found.update(self._by_group.get(name, ()))
        return [self.rules[index] for index in sorted(found)]


class RuleAccess:
    """The union of allow rules: everything else is denied. Immutable."""

    def __init__(self, granted: Iterable[tuple[frozenset[Permission], tuple[Pattern, ...]]]) -> None:
        """``granted``: pairs of permissions and the subjects to which they apply."""
        patterns: dict[Permission, list[Pattern]] = {each: [] for each in Permission}
        for permissions, subjects in granted:
            for permission in permissions:
                patterns[permission] += subjects
        self._ranges = {permission: union(found) for permission, found in patterns.items()}

    def may(self, permission: Permission, subject: Subject) -> bool:
        """Return true if a rule allows this for ``subject``, which may be a whole context."""
        ranges = self._ranges[permission]
        if ranges is None:
            return True
        name = subject.name.encode()
        # The last range that begins at or before the name: no end is greater than this one.
        at = bisect_right(ranges, (subject.context, name, b"\xff"))
        found = ranges[at - 1] if at else None
        return found is not None and found.context == subject.context and (not found.end or name < found.end)

    def everywhere(self, permission: Permission) -> bool:
        """Return true if a rule allows this for all subjects and contexts."""
        return self._ranges[permission] is None

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        """Return the subjects to which rules allow this: sorted, disjoint ranges of names."""
        found = self._ranges[permission]
        assert found is not None, "it is permitted everywhere"
        return found


class Explanation(NamedTuple):
    """A decision and its reason."""

    allowed: bool
    reason: str


def explain(
    rules: Rules, principal: Principal, permission: Permission, subject: Subject, kind: str = ""
) -> Explanation:
    """Return the decision, and the first rule that allows it or the reason why none does."""
    rule = rules.deciding_rule(principal, permission, subject, kind)
    if rule is not None:
        pattern = next(each.text for each in rule.subjects if each.covers(subject))
        place = f"[[allow]] number {rule.number}" + (f", line {rule.line}" if rule.line else "")
        return Explanation(True, f"allowed by {place}: subjects {pattern!r}")
    mine = rules.rules_of(principal, kind)
    if not mine:
        return Explanation(False, "denied: no rule names this principal or its groups")
    if not any(permission in each.permissions for each in mine):
        numbers = ", ".join(str(each.number) for each in mine[:_SHOWN])
        return Explanation(
            False, f"denied: no rule for this principal allows {permission.value!r} (its rules: {numbers})"
        )
    able = [str(each.number) for each in mine if permission in each.permissions]
    shown = ", ".join(able[:_SHOWN])
    return Explanation(
        False, f"denied: the rules that allow {permission.value!r} (number {shown}) are for other subjects"
    )
