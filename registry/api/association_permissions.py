"""Permissions for changes of associations, which name their subjects in bodies and in rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import orjson
from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, Failure, ResourceRequest
from registry.domain.decide.association_requests import DELETE, default_subject
from registry.domain.errors import PASSAGES, Passage, RegistryError
from registry.domain.model import Subject
from registry.domain.queries import associations
from registry.domain.queries.associations import Association
from registry.domain.rows.view import View
from registry.security.access import Access, Permission

from .answers import Answer
from .permissions import require_resolved, require_stored, require_uses, without_hidden, without_inherited

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
    stored = _stored_associations(view, request)
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
        subject = require_resolved(access, Permission.WRITE, view, named)
        used = {named, subject, *map(_subject_of, same)}
        for each in same:
            require_stored(access, Permission.WRITE, _subject_of(each), request.resource_id or "")
        before |= used
        if wanted.schema is not None:
            for each_used in used:
                require_uses(access, view, each_used, wanted.schema)


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
    return [_check_request(access, view, each, context, owned) for each in requests]


def _check_request(
    access: Access, view: View, request: ResourceRequest, context: str, owned: _Owned
) -> ResourceRequest:
    try:
        _require_change(access, view, request, context, owned)
    except RegistryError as error:
        return replace(request, error=Failure(error.code, error.message), associations=[])
    return request


def shown(access: Access, answer: Answer) -> Answer:
    """Return the answer about a resource without what it shows of subjects and schemas that are hidden."""
    if access.everywhere(Permission.READ):
        return answer
    return answer._replace(body=orjson.dumps(_hide_unreadable(access, orjson.loads(answer.body))))


def shown_of_batch(access: Access, answer: Answer) -> Answer:
    """Return the answer to a batch without what it shows of subjects and schemas that are hidden."""
    if access.everywhere(Permission.READ):
        return answer
    results = orjson.loads(answer.body)["results"]
    return answer._replace(body=orjson.dumps({"results": [_shown_result(access, each) for each in results]}))


def _shown_result(access: Access, result: dict[str, Any]) -> dict[str, Any]:
    if "result" in result:
        return {"result": _hide_unreadable(access, result["result"])}
    return {"error": _shown_error(access, result["error"])}


def _hide_unreadable(access: Access, response: dict[str, Any]) -> dict[str, Any]:
    """Return an ``AssociationResponse`` without the subjects that may be neither read nor written."""
    if "associations" not in response:
        return response
    found = []
    for each in response["associations"]:
        subject = Subject.parse(each["subject"])
        if access.may(Permission.READ, subject):
            found.append(each)
        elif access.may(Permission.WRITE, subject):
            found.append({**each, "schema": without_inherited(each["schema"])} if "schema" in each else each)
    return {**response, "associations": found}


def _shown_error(access: Access, error: dict[str, Any]) -> dict[str, Any]:
    passages = error.get(PASSAGES)
    listed = None if passages is None else [Passage(*each) for each in passages]
    found = without_hidden(RegistryError(error["error_code"], error["message"], listed), access)
    return {"error_code": found.code, "message": found.message}


def _stored_associations(view: View, request: ResourceRequest) -> list[Association]:
    found = associations.of_resource_id(view, request.resource_id) if request.resource_id else []
    if request.name:
        found += associations.newest_of_resource(view, request.name, request.namespace or "")
    return found


def _subject(request: ResourceRequest, wanted: AssociationRequest, kind: str, context: str) -> Subject:
    named = wanted.subject
    return Subject.within(context, named) if named else Subject.parse(default_subject(request, kind))


def _subject_of(found: Association) -> Subject:
    return Subject.parse(found.subject)
