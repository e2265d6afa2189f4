"""Permissions for changes of associations, which name their subjects in bodies and in rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import orjson
from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, Failure, ResourceRequest
from registry.domain.decide.association_requests import DELETE, default_subject
from registry.domain.errors import RegistryError
from registry.domain.model import Subject
from registry.domain.queries import associations
from registry.domain.queries.associations import Association
from registry.domain.rows.view import View
from registry.security.access import Access, Permission

from .answers import Answer
from .permissions import require_resolved, require_stored, require_uses

# The subjects that earlier operations of a batch may own, by the id of their resource and the type.
_Owned = defaultdict[tuple[str | None, str], set[Subject]]


def require_change(access: Access, view: View, request: ResourceRequest, context: str) -> None:
    """Raise 403 unless the principal may write to all subjects of a request.

    These are the ones that it names, with aliases resolved, the default ones where it names none, and those
    of stored associations that it would change or remove. ``context``: of subjects that name none.
    """
    _require_change(access, view, request, context, defaultdict(set))


def _require_change(
    access: Access, view: View, request: ResourceRequest, context: str, owned: _Owned
) -> None:
    if all(map(access.everywhere, (Permission.WRITE, Permission.DELETE, Permission.READ))):
        return
    stored = _stored(view, request)
    for wanted in request.associations:
        kind = wanted.association_type or "value"
        same = [each for each in stored if each.association_type == kind]
        before = owned[request.resource_id, kind]
        if wanted.op == DELETE:
            require_removal(access, same, cascade=wanted.cascade)
            for owner in before if wanted.cascade else ():
                require_stored(access, Permission.DELETE, owner, request.resource_id or "")
            continue
        named = _subject(request, wanted, kind, context)
        used = {require_resolved(access, Permission.WRITE, view, named), *map(_subject_of, same)}
        for each in same:
            require_stored(access, Permission.WRITE, _subject_of(each), request.resource_id or "")
        before |= used
        if wanted.schema is not None:
            for subject in used:
                require_uses(access, view, subject, wanted.schema)


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
    owned: _Owned = defaultdict(set)
    return [_permitted(access, view, each, context, owned) for each in requests]


def _permitted(
    access: Access, view: View, request: ResourceRequest, context: str, owned: _Owned
) -> ResourceRequest:
    try:
        _require_change(access, view, request, context, owned)
    except RegistryError as error:
        return replace(request, error=Failure(error.code, error.message), associations=[])
    return request


def shown(access: Access, answer: Answer) -> Answer:
    """Return the answer to a batch without the resources' associations of subjects that may not be seen."""
    if access.everywhere(Permission.READ):
        return answer
    found: dict[str, Any] = orjson.loads(answer.body)
    for each in found["results"]:
        listed = each.get("result", {}).get("associations")
        if listed:
            each["result"]["associations"] = [one for one in listed if _seen(access, one["subject"])]
    return answer._replace(body=orjson.dumps(found))


def _seen(access: Access, name: str) -> bool:
    subject = Subject.parse(name)
    return access.may(Permission.READ, subject) or access.may(Permission.WRITE, subject)


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
