"""Permissions for changes of associations, which name their subjects in bodies and in rows."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, Failure, ResourceRequest
from registry.domain.decide.association_requests import DELETE, default_subject
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.domain.queries import associations
from registry.domain.queries.associations import Association
from registry.domain.rows.view import View
from registry.security.access import Access, Permission

from .permissions import require, require_references, require_stored


def require_change(access: Access, view: View, request: ResourceRequest, context: str) -> None:
    """Raise 403 unless the principal may write to all subjects of a request.

    These are the ones that it names, the default ones where it names none, and those of stored associations
    that it would change or remove. ``context``: of subjects that name none.
    """
    if access.everywhere(Permission.WRITE) and access.everywhere(Permission.READ):
        return
    stored = _stored(view, request)
    for wanted in request.associations:
        kind = wanted.association_type or "value"
        same = [each for each in stored if each.association_type == kind]
        if wanted.op == DELETE:
            require_removal(access, same, cascade=wanted.cascade)
            continue
        named = _subject(request, wanted, kind, context)
        require(access, Permission.WRITE, named)
        for each in same:
            require_stored(access, Permission.WRITE, _subject_of(each), request.resource_id or "")
        if wanted.schema is not None:
            for subject in {named, *map(_subject_of, same)}:
                require_references(access, view, subject, wanted.schema.references or ())


def require_removal(access: Access, found: Iterable[Association], *, cascade: bool) -> None:
    """Raise 403 unless the principal may remove stored associations, and with ``cascade`` their subjects."""
    for each in found:
        resource = each.resource_id or ""
        require_stored(access, Permission.WRITE, _subject_of(each), resource)
        if cascade and each.strong:
            require_stored(access, Permission.DELETE, _subject_of(each), resource)


def permitted(
    access: Access, view: View, requests: Iterable[ResourceRequest], context: str
) -> list[ResourceRequest]:
    """Return the requests of a batch; those that are not permitted have that as their error."""
    return [_permitted(access, view, each, context) for each in requests]


def _permitted(access: Access, view: View, request: ResourceRequest, context: str) -> ResourceRequest:
    try:
        require_change(access, view, request, context)
    except RegistryError as error:
        return replace(request, error=Failure(error.code, error.message), associations=[])
    return request


def _stored(view: View, request: ResourceRequest) -> list[Association]:
    found = associations.of_resource_id(view, request.resource_id) if request.resource_id else []
    if request.name:
        found += associations.newest_of_resource(view, request.name, request.namespace or "")
    return found


def _subject(request: ResourceRequest, wanted: AssociationRequest, kind: str, context: str) -> Subject:
    named = wanted.subject
    return Subject.within(context, named) if named else Subject.parse(default_subject(request, kind))


def _subject_of(found: Association) -> Subject:
    return Subject.parse(found.subject)
