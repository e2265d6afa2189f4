"""Associations of resources with subjects (Confluent 8.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import orjson

from registry.domain import associations
from registry.domain import errors as e
from registry.domain.associations import RESOURCE_TYPE, Association, Filter
from registry.domain.commands import Associate, ChangeAssociations, Command, Dissociate
from registry.domain.errors import ASSOCIATION_INVALID, BAD_REQUEST, NOT_FOUND
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows import View
from registry.domain.values import LIFECYCLES

from .answers import Answer
from .association_bodies import Wanted, change_requests, get_requests, resource_request
from .listing import Listing
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Fresh, Operation
from .paging import page
from .parameters import CONTEXT, DRY_RUN, LIST_MAX, PAGE, flag, word, words


def of_subject(call: Call, view: View) -> Listing[Association]:
    """``GET /associations/subjects/{subject}``."""
    return _listed(call, partial(associations.list_of_subject, subject=call.subject))


def of_resource_id(call: Call, view: View) -> Listing[Association]:
    """``GET /associations/resources/{resource}``."""
    return _listed(call, partial(associations.list_of_resource_id, resource_id=call.path["resource"]))


def of_resource_name(call: Call, view: View) -> Listing[Association]:
    """``GET /associations/resources/{namespace}/{name}``; ``-`` stands for any."""
    name, namespace = call.path["name"], call.path["namespace"]
    return _listed(call, partial(associations.list_named, name=name, namespace=namespace))


def _listed(call: Call, found: Callable[..., Iterator[Association | None]]) -> Listing[Association]:
    lifecycle = call.args["lifecycle"]
    if lifecycle and lifecycle not in LIFECYCLES:
        raise NOT_FOUND()  # as an unknown word of a path's or query's enumeration (Confluent 8.x)
    types = tuple(each for each in call.args["associationType"] if each)
    wanted = Filter(_resource_type(call), types, (lifecycle,) if lifecycle else ())

    def walk(view: View, mark: associations.Place | None) -> Iterator[Association | None]:
        return found(view, wanted=wanted, after=mark)

    return page(call, walk, _printed, associations.place_of, (str,) * 5, limit_max=LIST_MAX)


def _printed(found: Association) -> bytes:
    return orjson.dumps(associations.entity(found))


def _resource_type(call: Call) -> str:
    return call.args["resourceType"] or RESOURCE_TYPE


def create(call: Call, view: View) -> Command:
    """``POST /associations``."""
    request = resource_request(call.body)
    return Associate(request, _context(call), create=True, dry_run=call.args["dryRun"])


def upsert(call: Call, view: View) -> Command:
    """``PUT /associations/resources/{resource}``."""
    request, resource_id = resource_request(call.body), call.path["resource"]
    if request.resource_id is None:
        request = msgspec.structs.replace(request, resource_id=resource_id)
    if request.resource_id != resource_id:
        detail = "Resource ID in the path parameter does not match the resource ID in the request body"
        raise ASSOCIATION_INVALID("resourceId", detail)
    return Associate(request, _context(call), create=False, dry_run=call.args["dryRun"])


def delete(call: Call, view: View) -> Command:
    """``DELETE /associations/resources/{resource}``."""
    types = [each for each in call.args["associationType"] if each]
    cascade, dry_run = call.args["cascadeLifecycle"], call.args["dryRun"]
    return Dissociate(call.path["resource"], _resource_type(call), types, cascade, dry_run)


def get_batch(call: Call, view: View) -> Answer:
    """``POST /associations:batchGet``: for each request, in order, its resource's associations; 207."""
    results = [_got(view, each, call.args["includeSchemas"]) for each in get_requests(call.body)]
    return Answer(msgspec.json.encode({"results": results}), 207)


def _got(view: View, wanted: Wanted, include_schemas: bool) -> dict[str, Any]:
    resource = wanted.resource
    if not resource.resource_id and not (resource.name and resource.namespace):
        error = ASSOCIATION_INVALID("resourceId", "cannot be null or empty without a name and a namespace")
        return {"error": {"error_code": error.code, "message": error.message}}
    found = associations.of_resource(view, resource)
    first = found[0] if found else Association()
    result = associations.response(
        resource.name or first.resource_name,
        resource.namespace or first.resource_namespace,
        resource.resource_id or first.resource_id,
        resource.resource_type,
        [_info(view, each, include_schemas) for each in wanted.filter.chosen(found)],
    )
    return {"result": result}


def _info(view: View, found: Association, include_schemas: bool) -> dict[str, Any]:
    schema = associations.latest_schema(view, Subject.parse(found.subject)) if include_schemas else None
    return associations.info(found, schema)


def change_batch(call: Call, view: View) -> Command:
    """``POST /associations:batchMutate``: each request is answered by itself, in order; 207."""
    return ChangeAssociations(change_requests(call.body), _context(call), call.args["dryRun"])


def _context(call: Call) -> str:
    """The context of unqualified subjects: ``:.ctx:``, ``.ctx`` or ``ctx``."""
    name: str = call.args["context"].removeprefix(":").removesuffix(":")
    if ":" in name:
        raise BAD_REQUEST("Context name cannot contain a colon")
    return name if name.startswith(".") else DEFAULT_CONTEXT + name


_KIND = word("resourceType", "The kind of resource", RESOURCE_TYPE)
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
        handler=of_subject,
        gives="Associations",
        parameters=_LISTED,
    ),
    Operation(
        method="GET",
        path="/associations/resources/{namespace}/{name}",
        summary="The associations of a resource; - for any namespace or name",
        handler=of_resource_name,
        gives="Associations",
        parameters=_LISTED,
    ),
    Operation(
        method="GET",
        path="/associations/resources/{resource}",
        summary="The associations of a resource by its id",
        handler=of_resource_id,
        gives="Associations",
        parameters=_LISTED,
    ),
    Operation(
        method="POST",
        path="/associations",
        summary="Associate a resource with subjects",
        handler=create,
        fresh=Fresh.DECIDED,
        takes="AssociationRequest",
        gives="AssociationResponse",
        parameters=(CONTEXT, DRY_RUN),
        errors=_CHANGING,
    ),
    Operation(
        method="PUT",
        path="/associations/resources/{resource}",
        summary="Associate a resource with subjects, or change its associations",
        handler=upsert,
        fresh=Fresh.DECIDED,
        takes="AssociationRequest",
        gives="AssociationResponse",
        parameters=(CONTEXT, DRY_RUN),
        errors=_CHANGING,
    ),
    Operation(
        method="DELETE",
        path="/associations/resources/{resource}",
        summary="Remove associations of a resource",
        handler=delete,
        fresh=Fresh.DECIDED,
        status=204,
        errors=(e.ASSOCIATION_NOT_FOUND, e.ASSOCIATION_FROZEN, e.REFERENCE_EXISTS, *WRITE_ERRORS),
        parameters=(
            _KIND,
            _TYPES,
            flag("cascadeLifecycle", "Delete the subjects of strong ones for good"),
            DRY_RUN,
        ),
    ),
    Operation(
        method="POST",
        path="/associations:batchGet",
        summary="The associations of several resources",
        handler=get_batch,
        takes="AssociationBatchGetRequest",
        gives="AssociationBatchResponse",
        status=207,
        parameters=(flag("includeSchemas", "With the latest schemas of their subjects"),),
        errors=(e.ASSOCIATION_INVALID, *BODY_ERRORS),
    ),
    Operation(
        method="POST",
        path="/associations:batchMutate",
        summary="Change the associations of several resources, each answered by itself",
        handler=change_batch,
        fresh=Fresh.DECIDED,
        takes="AssociationBatchRequest",
        gives="AssociationBatchResponse",
        status=207,
        parameters=(CONTEXT, DRY_RUN),
        errors=(e.ASSOCIATION_INVALID, *WRITE_ERRORS, *BODY_ERRORS),
    ),
)
