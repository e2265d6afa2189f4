"""Roles: named sets of permissions for rules."""

from __future__ import annotations

from typing import Final

from registry.security.access import Permission

_READER = frozenset({Permission.READ, Permission.COMPATIBILITY})
_DEVELOPER = _READER | {Permission.WRITE}

ROLES: Final = {
    "reader": _READER,
    "developer": _DEVELOPER,
    "operator": _DEVELOPER | {Permission.DELETE, Permission.CONFIG, Permission.MODE},
    "admin": frozenset(Permission),
}
