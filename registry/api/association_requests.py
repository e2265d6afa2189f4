"""Requests about associations: their bodies, and the permissions they need."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import orjson
from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, Failure, Register, ResourceRequest
from registry.domain.decide.association_checks import DELETE, default_subject
from registry.domain.errors import ASSOCIATION_INVALID, BAD_REQUEST, PASSAGES, Passage, RegistryError
from registry.domain.log_format import subject_values
from registry.domain.log_format.subject_values import LIFECYCLES
from registry.domain.model import Subject
from registry.domain.queries import associations
from registry.domain.queries.associations import ASSOCIATION_TYPES, RESOURCE_TYPE, Association, Filter
from registry.domain.rows.view import View
from registry.security.gate import Access, Permission

from .answers import Answer
from .bodies import schema_members
from .json_input import (
    BATCH_ENTRIES_MAX,
    boolean,
    check_entries,
    document,
    integer,
    listing,
    members,
    refuse,
    text,
)
from .permissions import require_resolved, require_stored, require_uses, without_hidden, without_inherited

T = TypeVar("T")

# Resources in one batch of changes, which is decided at once: 0.2 s if each has a schema.
CHANGES_MAX = 200
# Operations in one batch of changes.
OPERATIONS_MAX = CHANGES_MAX * len(ASSOCIATION_TYPES)
READS_MAX = 1000  # resources in one batch of reads
# Associations read of one resource: one more than there are types names a type twice, which is refused.
_PER_RESOURCE_MAX = len(ASSOCIATION_TYPES) + 1
_OPERATIONS = ("CREATE", "UPSERT", "DELETE")


class BatchGetItem(NamedTuple):
    """One request of ``batchGet``."""

    resource: ResourceRequest
    filter: Filter


def resource_request(body: bytes, *, create: bool) -> ResourceRequest:
    """Read an ``AssociationCreateOrUpdateRequest``; raises 400, 422."""
    name = "createAssociation.request" if create else "createOrUpdateAssociation.request"
    return _resource(document(body, name), "request", _association, _PER_RESOURCE_MAX)


def change_requests(body: bytes) -> list[ResourceRequest]:
    """Read an ``AssociationBatchRequest``; raises 400, 422, 42212."""

    def read(value: Any, member: str) -> ResourceRequest | None:
        source = members(value, member)
        if source is None:
            return None
        error = members(source.get("error"), f"{member}.error")
        if error is not None:
            return ResourceRequest(error=_failure(error, f"{member}.error"))
        return _resource(source, member, _operation, OPERATIONS_MAX + 1)

    found = _batch(body, "mutateAssociations.request", read, CHANGES_MAX)
    if sum(len(each.associations) for each in found) > OPERATIONS_MAX:
        raise ASSOCIATION_INVALID("associations", f"cannot be more than {OPERATIONS_MAX} in a batch")
    return found


def get_requests(body: bytes) -> list[BatchGetItem]:
    """Read an ``AssociationBatchGetRequest``; raises 400, 422, 42212."""
    return _batch(body, "getAssociations.request", _read_item, READS_MAX)


def _batch(body: bytes, name: str, read: Callable[[Any, str], T | None], most: int) -> list[T]:
    requests = document(body, name).get("requests")
    if isinstance(requests, list) and len(requests) > most:
        raise ASSOCIATION_INVALID("requests", f"cannot be more than {most}")
    check_entries(requests, "requests", BATCH_ENTRIES_MAX)
    found = listing(read)(requests, "requests")
    if not found:
        raise ASSOCIATION_INVALID("requests", "cannot be null or empty")
    return found


def _failure(source: dict[str, Any], member: str) -> Failure:
    code = integer(source.get("error_code"), f"{member}.error_code")
    return Failure(code or 0, text(source.get("message"), f"{member}.message") or "")


def _resource_members(source: dict[str, Any], member: str) -> ResourceRequest:
    names = ("resourceName", "resourceNamespace", "resourceId", "resourceType")
    name, namespace, resource_id, kind = (text(source.get(each), f"{member}.{each}") for each in names)
    return ResourceRequest(name, namespace, resource_id, kind)


def _resource(
    source: dict[str, Any], member: str, read: Callable[[Any, str], AssociationRequest | None], most: int
) -> ResourceRequest:
    listed = source.get("associations")
    if isinstance(listed, list):
        listed = listed[:most]
    wanted = listing(read)(listed, f"{member}.associations")
    return replace(_resource_members(source, member), associations=wanted or [])


def _association(value: Any, member: str) -> AssociationRequest | None:
    source = members(value, member)
    return None if source is None else _members_of(source, member)


def _operation(value: Any, member: str) -> AssociationRequest | None:
    source = members(value, member)
    if source is None:
        return None
    op = _one_of(*_OPERATIONS)(source.get("opType"), f"{member}.opType")
    if op is None:
        raise BAD_REQUEST(f"Cannot read '{member}': opType is missing")
    if op != "DELETE":
        return _members_of(source, member, op=op)
    kind = text(source.get("associationType"), f"{member}.associationType")
    cascade = boolean(source.get("cascadeLifecycle"), f"{member}.cascadeLifecycle")
    return AssociationRequest(kind, op=op, cascade=bool(cascade))


def _members_of(source: dict[str, Any], member: str, **options: Any) -> AssociationRequest:
    return AssociationRequest(
        association_type=text(source.get("associationType"), f"{member}.associationType"),
        subject=text(source.get("subject"), f"{member}.subject"),
        lifecycle=_one_of(*LIFECYCLES)(source.get("lifecycle"), f"{member}.lifecycle"),
        frozen=boolean(source.get("frozen"), f"{member}.frozen"),
        schema=_schema(source, member),
        guid=subject_values.new_guid(time.time_ns() // 1_000_000, secrets.token_bytes(10)),
        **options,
    )


def _schema(source: dict[str, Any], member: str) -> Register | None:
    normalize = boolean(source.get("normalize"), f"{member}.normalize")
    schema = members(source.get("schema"), f"{member}.schema")
    return None if schema is None else schema_members(schema, "", normalize=bool(normalize))


def _read_item(value: Any, member: str) -> BatchGetItem | None:
    source = members(value, member)
    if source is None:
        return None
    resource = _resource_members(source, member)
    types = listing(text)(source.get("associationTypes"), f"{member}.associationTypes")
    lifecycle = _one_of(*LIFECYCLES)(source.get("lifecycle"), f"{member}.lifecycle")
    if not resource.resource_type:
        resource = replace(resource, resource_type=RESOURCE_TYPE)
    lifecycles = () if lifecycle is None else (lifecycle,)
    return BatchGetItem(resource, Filter(resource.resource_type, tuple(types or ()), lifecycles))


def _one_of(*words: str) -> Callable[[Any, str], str | None]:
    def read(value: Any, member: str) -> str | None:
        if value is not None and value not in words:
            refuse(member, "one of " + ", ".join(words), value)
        return None if value is None else str(value)

    return read


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


def permit_requests(
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


def redact_answer(access: Access, answer: Answer) -> Answer:
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
