"""Permissions of one principal: the decisions of authorisation, as the API asks for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from enum import Enum
from typing import Protocol

from registry.domain.model import Subject
from registry.domain.principal import CheckedNames
from registry.domain.subject_patterns import SubjectRange


class Permission(Enum):
    """A kind of operation, as rules name it."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    COMPATIBILITY = "compatibility"
    CONFIG = "config"
    MODE = "mode"
    ADMIN = "admin"


# What changes nothing.
READING = frozenset({Permission.READ, Permission.COMPATIBILITY})


class Access(Hashable, Protocol):
    """Permissions of one principal. Implementations are immutable, so that they can be cached."""

    def may(self, permission: Permission, subject: Subject) -> bool:
        """Return true if the principal may do this to ``subject``, which may be a whole context."""
        ...

    def everywhere(self, permission: Permission) -> bool:
        """Return true if the principal may do this to every subject and context."""
        ...

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        """Return the subjects to which the principal may do this: sorted, disjoint ranges of names.

        Lists read only these, so that a page costs what it holds. Not to be called for permissions that hold
        everywhere.
        """
        ...


def everywhere_in(access: Access, permission: Permission, context: str) -> bool:
    """Return true if the principal may do this to a context and to every subject in it."""
    whole = SubjectRange(context, b"", b"")
    return access.everywhere(permission) or whole in access.ranges(permission)


class RecordingAccess:
    """The access of a principal that remembers what was checked and permitted.

    So a write carries what its handler has checked, and no handler needs to say so.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._everywhere: set[str] = set()
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    @property
    def checked(self) -> CheckedNames:
        """The names that were checked so far."""
        names = {operation: frozenset(found) for operation, found in self._names.items()}
        return CheckedNames(frozenset(self._everywhere), names)

    def may(self, permission: Permission, subject: Subject) -> bool:
        """Return true if the principal may do this to ``subject``."""
        permitted = self._access.may(permission, subject)
        if permitted:
            self._names[permission.value].add(subject.qualified)
        return permitted

    def everywhere(self, permission: Permission) -> bool:
        """Return true if the principal may do this to every subject and context."""
        permitted = self._access.everywhere(permission)
        if permitted:
            self._everywhere.add(permission.value)
        return permitted

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        """Return the subjects to which the principal may do this."""
        return self._access.ranges(permission)


class _FullAccess:
    """Access without any limit."""

    def may(self, permission: Permission, subject: Subject) -> bool:
        return True

    def everywhere(self, permission: Permission) -> bool:
        return True

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        raise AssertionError("everything is permitted everywhere")


class _NoAccess:
    """Access to nothing."""

    def may(self, permission: Permission, subject: Subject) -> bool:
        return False

    def everywhere(self, permission: Permission) -> bool:
        return False

    def ranges(self, permission: Permission) -> tuple[SubjectRange, ...]:
        return ()


FULL_ACCESS: Access = _FullAccess()
NO_ACCESS: Access = _NoAccess()
