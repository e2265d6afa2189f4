"""The access of one principal by rules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from registry.domain.model import Subject
from registry.domain.subject_patterns import Pattern, SubjectRange, union
from registry.security.access import Permission


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
