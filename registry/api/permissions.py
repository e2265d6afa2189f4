"""Permissions that operations need, and their checks.

A check comes before anything is said about the subject, so that the answer is the same whether or not it
exists. Rows are shown through a view that lacks all other subjects, see :func:`readable`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from registry.domain.commands import Register
from registry.domain.compatibility import results
from registry.domain.compatibility.results import MayRead
from registry.domain.errors import (
    DENIED,
    DENIED_IN_ALL,
    DENIED_ON_RESOURCE,
    INCOMPATIBLE,
    INCOMPATIBLE_UNEXPLAINED,
    INVALID_SCHEMA,
    ErrorKind,
    RegistryError,
)
from registry.domain.model import Reference, Subject
from registry.domain.parsing.stored import subjects_used
from registry.domain.queries import entities, scope, versions
from registry.domain.rows.view import View
from registry.domain.schemas import InvalidSchema
from registry.security.authorization.permitted_view import PermittedView, spans_of
from registry.security.gate import FULL_ACCESS, Access, Permission, everywhere_in

# Errors whose messages show stored schemas. Older releases of Confluent's registry use the short code.
_SHOWING = frozenset({INCOMPATIBLE.code, 409})


class PermissionScope(Enum):
    """The object for which an operation needs its permission."""

    NOTHING = "no permission is needed"
    SUBJECT = "the subject or context in the path, else the top level"
    SHOWN = "what is shown: nothing is refused, but the rest is left out"
    HANDLER = "what the handler finds in the path, the body or the rows, and checks"
    REGISTRY = "the whole registry"


class RequiredPermission(NamedTuple):
    """A permission that an operation needs; one of several suffices."""

    on: PermissionScope
    any_of: tuple[Permission, ...] = ()
    of_context: tuple[Permission, ...] = ()  # instead, if the path names a context
    also: tuple[Permission, ...] = ()  # further ones, which the handler checks for some requests

    @property
    def errors(self) -> tuple[ErrorKind, ...]:
        """The errors of requests that are not permitted."""
        if self.on is PermissionScope.REGISTRY:
            return (DENIED_IN_ALL,)
        return (DENIED,) if self.on in (PermissionScope.SUBJECT, PermissionScope.HANDLER) else ()


OPEN: Final = RequiredPermission(PermissionScope.NOTHING)
SHOWN: Final = RequiredPermission(PermissionScope.SHOWN, (Permission.READ,))
ADMINS: Final = RequiredPermission(PermissionScope.REGISTRY, (Permission.ADMIN,))


def on_subject(
    *any_of: Permission, of_context: tuple[Permission, ...] = (), also: tuple[Permission, ...] = ()
) -> RequiredPermission:
    """Return the need of one of these permissions on the subject in the path."""
    return RequiredPermission(PermissionScope.SUBJECT, any_of, of_context or any_of, also)


def in_handler(permission: Permission, *also: Permission) -> RequiredPermission:
    """Return the need of a permission that the handler checks."""
    return RequiredPermission(PermissionScope.HANDLER, (permission,), also=also)


def check_registry(needed: RequiredPermission, access: Access) -> None:
    """Raise 403 if an operation on the whole registry is not permitted."""
    if needed.on is PermissionScope.REGISTRY and not any(access.everywhere(each) for each in needed.any_of):
        raise DENIED_IN_ALL(_format(needed.any_of[0]))


def check_subject(needed: RequiredPermission, access: Access, asked: Subject, subject: Subject) -> None:
    """Raise 403 if an operation is not permitted on the subject in its path, which may be an alias.

    ``asked``: the subject as the client named it, and as the message does; ``subject``: with its alias
    resolved. The operation must be permitted on both.
    """
    if access is FULL_ACCESS or needed.on is not PermissionScope.SUBJECT:
        return
    _require_both(needed.of_context if subject.is_context else needed.any_of, access, asked, subject)


def require(access: Access, permission: Permission, subject: Subject) -> None:
    """Raise 403 if this is not permitted on a subject, or on a context."""
    if not access.may(permission, subject):
        raise DENIED(_format(permission), subject.qualified)


def require_all(access: Access, permission: Permission, context: str) -> None:
    """Raise 403 if this is not permitted on a context and on every subject in it."""
    if not everywhere_in(access, permission, context):
        raise DENIED(_format(permission), Subject(context, "*").qualified)


def limit_import(access: Access, request: Register, context: str) -> Register:
    """Return the request such that its id may be far above all others only if that is permitted.

    Ids in between are lost to the whole context, so that needs ``mode`` on all of it.
    """
    if request.schema_id < 0 or everywhere_in(access, Permission.MODE, context):
        return request
    return replace(request, far_ids=False)


def require_alias(access: Access, alias: Subject, target: Subject) -> None:
    """Raise 403 if the principal may do anything to ``alias`` that it may not do to ``target``.

    So an alias never permits anything new, not even while other nodes do not know of it yet.
    """
    for permission in Permission:
        if access.may(permission, alias):
            require(access, permission, target)


def require_stored(access: Access, permission: Permission, subject: Subject, resource: str) -> None:
    """Raise 403 if this is not permitted on a subject that rows name and the client did not.

    The message names the ``resource`` through which it was found, which keeps the name secret.
    """
    if not access.may(permission, subject):
        raise DENIED_ON_RESOURCE(_format(permission), resource)


def require_references(access: Access, view: View, subject: Subject, references: Iterable[Reference]) -> None:
    """Raise 403 if a schema under ``subject`` would use another one, directly or not, that may not be read.

    ``view`` shows all rows. References that do not exist are left to the handler.
    """
    if access.everywhere(Permission.READ):
        return
    try:
        for target in subjects_used(view, subject.context, references):
            require(access, Permission.READ, target)
    except InvalidSchema as error:  # there are too many to look at
        raise INVALID_SCHEMA(str(error)) from None


def require_uses(access: Access, view: View, subject: Subject, request: Register) -> None:
    """Raise 403 if a schema under ``subject`` refers to, or repeats, one that may not be read."""
    if access is FULL_ACCESS:
        return
    require_references(access, view, subject, request.references or ())
    taken = not request.schema.strip() or request.propagate_tags
    if taken and not access.everywhere(Permission.READ):
        # The text, or its tags, and so the answer, are the latest version's.
        require(access, Permission.READ, subject)
        latest = versions.latest(view, subject)
        require_references(access, view, subject, () if latest is None else entities.references(latest.row))


def require_resolved(access: Access, permission: Permission, view: View, asked: Subject) -> Subject:
    """Return the subject that ``asked`` stands for as an alias; raise 403 unless both are permitted.

    For subjects that a body or the query names; those in the path are checked before the handler is called.
    """
    subject = scope.resolve_alias(view, asked)
    _require_both((permission,), access, asked, subject)
    return subject


def _require_both(any_of: tuple[Permission, ...], access: Access, asked: Subject, subject: Subject) -> None:
    for either in dict.fromkeys((asked, subject)):
        if not any(access.may(each, either) for each in any_of):
            raise DENIED(_format(any_of[0]), asked.qualified)


def without_inherited(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the entity of a registered schema without what it may have from the version before."""
    return {name: value for name, value in reply.items() if name not in ("metadata", "ruleSet")}


def may_read(access: Access) -> MayRead | None:
    """Return the predicate for the subjects whose schemas answers may show; ``None``: all."""
    return None if access.everywhere(Permission.READ) else partial(access.may, Permission.READ)


def without_hidden(error: RegistryError, access: Access) -> RegistryError:
    """Return an error of the primary without what its message shows of schemas that may not be read."""
    readable = may_read(access)
    if readable is None or error.code not in _SHOWING:
        return error
    if error.passages is None:  # the primary is of an older release, or of another registry
        return RegistryError(error.code, INCOMPATIBLE_UNEXPLAINED.template)
    return RegistryError(error.code, results.visible_message(error.message, error.passages, readable))


def readable(view: View, access: Access) -> View:
    """Return the view without the subjects that may not be read; the same view if all may be."""
    return view if access.everywhere(Permission.READ) else PermittedView(view, spans_of(access))


def _format(permission: Permission) -> str:
    return permission.value.capitalize()
