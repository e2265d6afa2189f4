"""Associations of resources with subjects (Confluent 8.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import orjson

from registry.domain import errors as e
from registry.domain.commands import Associate, ChangeAssociations, Command, Dissociate, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID, DENIED_IN_ALL, NOT_FOUND, RegistryError
from registry.domain.log_format.subject_values import LIFECYCLES
from registry.domain.model import DEFAULT_CONTEXT, LATEST, Subject
from registry.domain.queries import associations, entities, versions
from registry.domain.queries.associations import (
    ANY,
    ONE_RESOURCE,
    RESOURCE_TYPE,
    Association,
    AssociationRules,
    Filter,
)
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.security.gate import Access, Permission

from .answers import Answer
from .association_requests import (
    BatchGetItem,
    change_requests,
    get_requests,
    permit_requests,
    redact_answer,
    require_change,
    require_removal,
    resource_request,
    shown_of_batch,
)
from .listing import Listing
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Freshness, Operation, PendingSearch, Write
from .paging import page
from .parameters import CONTEXT, DRY_RUN, FORCE_DELETE, LIST_MAX, PAGE, flag, word, words
from .permissions import SHOWN, in_handler, on_subject


def of_subject(call: Call, view: View) -> Listing[Association]:
    """``GET /associations/subjects/{subject}``."""
    # Looked up as written: no subject is stored under a name that includes the default context.
    if call.requested_subject.qualified != call.path["subject"]:
        return _list(call, _nothing)
    return _list(call, partial(associations.list_of_subject, subject=call.subject))


def _nothing(view: View, wanted: Filter, after: associations.SortKey | None) -> Iterator[None]:
    return iter(())


def of_resource_id(call: Call, view: View) -> Listing[Association]:
    """``GET /associations/resources/{resource}``."""
    return _list(call, partial(associations.list_of_resource_id, resource_id=call.path["resource"]))


def of_resource_name(call: Call, view: View) -> Listing[Association]:
    """``GET /associations/resources/{namespace}/{name}``; ``-`` stands for any."""
    name, namespace = call.path["name"], call.path["namespace"]
    return _list(call, partial(_list_named(call.access, name, namespace), name=name, namespace=namespace))


def _list_named(access: Access, name: str, namespace: str) -> Callable[..., Iterator[Association | None]]:
    """Return the walk that reads the least: in part of the subjects, few of all resources have any."""
    one = ANY not in (name, namespace)
    everything = one or access.everywhere(Permission.READ)
    return associations.list_named if everything else associations.list_anywhere


def _list(call: Call, found: Callable[..., Iterator[Association | None]]) -> Listing[Association]:
    lifecycle = call.args["lifecycle"]
    if lifecycle and lifecycle not in LIFECYCLES:
        raise NOT_FOUND()  # like any unknown value of an enumeration in a URL (Confluent 8.x)
    wanted = Filter(_resource_type(call), call.args["associationType"], (lifecycle,) if lifecycle else ())
    printed = partial(_print, rules=call.settings.defaults.association_rules)

    def walk(view: View, mark: associations.SortKey | None) -> Iterator[Association | None]:
        return found(view, wanted=wanted, after=mark)

    return page(call, walk, printed, associations.sort_key, (str,) * 5, limit_max=LIST_MAX)


def _print(found: Association, rules: AssociationRules) -> bytes:
    return orjson.dumps(entities.entity(found, rules))


def _resource_type(call: Call) -> str:
    return call.args["resourceType"] or RESOURCE_TYPE


def create(call: Call, view: View) -> Write:
    """``POST /associations``."""
    request, context = resource_request(call.body, create=True), _context(call)
    require_change(call.access, view, request, context)
    command = Associate(request, context, create=True, dry_run=call.args["dryRun"])
    return Write(command, (), partial(redact_answer, call.sender.access))


def upsert(call: Call, view: View) -> Write:
    """``PUT /associations/resources/{resource}``."""
    request, resource_id = resource_request(call.body, create=False), call.path["resource"]
    if request.resource_id is None:
        request = msgspec.structs.replace(request, resource_id=resource_id)
    if request.resource_id != resource_id:
        detail = "Resource ID in the path parameter does not match the resource ID in the request body"
        raise ASSOCIATION_INVALID("resourceId", detail)
    context = _context(call)
    require_change(call.access, view, request, context)
    command = Associate(request, context, create=False, dry_run=call.args["dryRun"])
    return Write(command, (), partial(redact_answer, call.sender.access))


def delete(call: Call, view: View) -> Command:
    """``DELETE /associations/resources/{resource}``."""
    types = [*call.args["associationType"]]
    cascade, dry_run, force = (call.args[each] for each in ("cascadeLifecycle", "dryRun", "force"))
    if force and not call.access.everywhere(Permission.FORCE):
        raise DENIED_IN_ALL("Force")
    if not all(map(call.access.everywhere, (Permission.WRITE, Permission.DELETE))):
        wanted = Filter(_resource_type(call), tuple(types))
        stored = wanted.select(associations.of_resource_id(view, call.path["resource"]))
        require_removal(call.access, stored, cascade=cascade)
    return Dissociate(call.path["resource"], _resource_type(call), types, cascade, dry_run, force)


def get_batch(call: Call, view: View) -> PendingSearch[list[bytes]]:
    """``POST /associations:batchGet``: 207 with the associations of each resource, in order."""
    requests, include_schemas = get_requests(call.body), call.args["includeSchemas"]
    rules = call.settings.defaults.association_rules

    def search(view: View) -> Search[list[bytes]]:
        results = []
        for each in requests:
            result = yield from _load_entities(call.access, view, each, include_schemas, rules)
            results.append(msgspec.json.encode(result))
            yield
        return results

    return PendingSearch(search, lambda _, found: Answer(b'{"results":[' + b",".join(found) + b"]}", 207))


def _load_entities(
    access: Access, view: View, wanted: BatchGetItem, include_schemas: bool, rules: AssociationRules
) -> Search[dict[str, Any]]:
    resource = wanted.resource
    try:
        found = []
        for each in _of_resource(access, view, resource, wanted.filter):
            yield
            found += [] if each is None else [each]
        first = found[0] if found else Association()
        named = (
            resource.name or first.resource_name,
            resource.namespace or first.resource_namespace,
            resource.resource_id or first.resource_id,
        )
        if any((each.resource_name, each.resource_namespace, each.resource_id) != named for each in found):
            raise ASSOCIATION_INVALID("resourceId", ONE_RESOURCE)
    except RegistryError as error:
        return {"error": {"error_code": error.code, "message": error.message}}
    infos = []
    for each in found:
        schema = (yield from _latest_schema(view, each)) if include_schemas else None
        infos.append(entities.info(each, rules, schema))
    return {"result": entities.response(*named, resource.resource_type, infos)}


def _of_resource(
    access: Access, view: View, resource: ResourceRequest, wanted: Filter
) -> Iterator[Association | None]:
    """Walk a resource's associations: by its id, else by its name and namespace, which may be any.

    Raises 42212, where Confluent says 500.
    """
    if resource.resource_id:
        return associations.list_of_resource_id(view, resource.resource_id, wanted)
    if not resource.name:
        raise ASSOCIATION_INVALID("resourceId", "either resourceId or resourceName must be specified")
    if not resource.namespace:
        detail = "resourceNamespace is required when resourceName is specified"
        raise ASSOCIATION_INVALID("resourceNamespace", detail)
    if resource.name == ANY:
        return iter(())
    listed = _list_named(access, resource.name, resource.namespace)
    return listed(view, resource.name, resource.namespace, wanted)


def _latest_schema(view: View, found: Association) -> Search[bytes | None]:
    latest = yield from versions.find_named(view, Subject.parse(found.subject), LATEST)
    return None if latest is None else entities.schema_entity(latest.row)


def change_batch(call: Call, view: View) -> Write:
    """``POST /associations:batchMutate``: 207 with a result for each request, in order."""
    context = _context(call)
    requests = permit_requests(call.access, view, change_requests(call.body), context)
    limited = not call.access.everywhere(Permission.READ)
    command = ChangeAssociations(requests, context, call.args["dryRun"], limited)
    return Write(command, (), partial(shown_of_batch, call.sender.access))


def _context(call: Call) -> str:
    """Return the context of unqualified subjects; unless it has the form ``:.ctx:``, the default one."""
    match = _CONTEXT.fullmatch(call.args["context"])
    return DEFAULT_CONTEXT if match is None else match[1]


_CONTEXT = re.compile(r":(\.[^:]*):")
_KIND = word("resourceType", "Type of the resource", RESOURCE_TYPE)
_TYPES = words("associationType", "key or value")
_LISTED = (_KIND, _TYPES, word("lifecycle", "STRONG or WEAK"), *PAGE)
_CHANGING = (
    e.ASSOCIATION_INVALID,
    e.RESOURCE_ASSOCIATED,
    e.ASSOCIATION_EXISTS,
    e.STRONG_ASSOCIATION_EXISTS,
    e.NO_ACTIVE_VERSION,
    e.ASSOCIATION_FROZEN,
    e.SUBJECT_REFERENCED,
    e.INCOMPATIBLE_MESSAGES,
    e.INVALID_SCHEMA,
    e.INVALID_SUBJECT,
    e.INVALID_RULE_SET,
    e.SCHEMA_TOO_LARGE,
    *WRITE_ERRORS,
    *BODY_ERRORS,
)


OPERATIONS = (
    Operation(
        method="GET",
        path="/associations/subjects/{subject}",
        summary="The associations of a subject",
        permission=on_subject(Permission.READ),
        handler=of_subject,
        response_schema="Associations",
        parameters=_LISTED,
    ),
    Operation(
        method="GET",
        path="/associations/resources/{namespace}/{name}",
        summary="The associations of a resource; - for any namespace or name",
        permission=SHOWN,
        handler=of_resource_name,
        response_schema="Associations",
        parameters=_LISTED,
    ),
    Operation(
        method="GET",
        path="/associations/resources/{resource}",
        summary="The associations of a resource by its id",
        permission=SHOWN,
        handler=of_resource_id,
        response_schema="Associations",
        parameters=_LISTED,
    ),
    Operation(
        method="POST",
        path="/associations",
        summary="Associate a resource with subjects",
        permission=in_handler(Permission.WRITE, Permission.DELETE, Permission.READ),
        sees_all=True,
        handler=create,
        freshness=Freshness.DECIDED,
        request_schema="AssociationRequest",
        response_schema="AssociationResponse",
        parameters=(CONTEXT, DRY_RUN),
        errors=_CHANGING,
    ),
    Operation(
        method="PUT",
        path="/associations/resources/{resource}",
        summary="Associate a resource with subjects, or change its associations",
        permission=in_handler(Permission.WRITE, Permission.DELETE, Permission.READ),
        sees_all=True,
        handler=upsert,
        freshness=Freshness.DECIDED,
        request_schema="AssociationRequest",
        response_schema="AssociationResponse",
        parameters=(CONTEXT, DRY_RUN),
        errors=_CHANGING,
    ),
    Operation(
        method="DELETE",
        path="/associations/resources/{resource}",
        summary="Remove associations of a resource",
        permission=in_handler(Permission.WRITE, Permission.DELETE, Permission.READ),
        sees_all=True,
        handler=delete,
        freshness=Freshness.DECIDED,
        status=204,
        errors=(
            e.ASSOCIATION_NOT_FOUND,
            e.ASSOCIATION_FROZEN,
            e.ASSOCIATION_EXISTS,
            e.REFERENCE_EXISTS,
            e.DATA_NEEDS_VERSION,
            *WRITE_ERRORS,
        ),
        parameters=(
            _KIND,
            _TYPES,
            flag("cascadeLifecycle", "Permanently delete the subjects of strong associations"),
            DRY_RUN,
            FORCE_DELETE,
        ),
    ),
    Operation(
        method="POST",
        path="/associations:batchGet",
        summary="The associations of several resources",
        permission=SHOWN,
        handler=get_batch,
        request_schema="AssociationBatchGetRequest",
        response_schema="AssociationBatchResponse",
        status=207,
        parameters=(flag("includeSchemas", "Include the latest schemas of the subjects"),),
        errors=(e.ASSOCIATION_INVALID, *BODY_ERRORS),
    ),
    Operation(
        method="POST",
        path="/associations:batchMutate",
        summary="Change the associations of several resources, each with its own result",
        permission=in_handler(Permission.WRITE, Permission.DELETE, Permission.READ),
        sees_all=True,
        handler=change_batch,
        freshness=Freshness.DECIDED,
        request_schema="AssociationBatchRequest",
        response_schema="AssociationBatchResponse",
        status=207,
        parameters=(CONTEXT, DRY_RUN),
        errors=(e.ASSOCIATION_INVALID, *WRITE_ERRORS, *BODY_ERRORS),
    ),
)
