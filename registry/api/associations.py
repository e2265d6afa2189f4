"""Associations, answered as a registry answers that has none: they can be read, not yet made."""

from __future__ import annotations

from typing import Any

from registry.domain import errors as e
from registry.domain.errors import ASSOCIATION_INVALID, ASSOCIATION_NOT_FOUND, RegistryError
from registry.domain.rows import View

from .answers import Answer, json_answer
from .json_input import document, listing, members, text
from .operations import BODY_ERRORS, Call, Operation
from .parameters import CONTEXT, DRY_RUN, PAGE, flag, page, word, words

_NAMES = ("resourceName", "resourceNamespace", "resourceId", "resourceType")


def list_associations(call: Call, view: View) -> Answer:
    """All lists of associations: empty."""
    page(call.args)
    return Answer(b"[]")


def make_association(call: Call, view: View) -> Answer:
    """``POST /associations`` and ``PUT /associations/resources/{id}``: refused with 42212."""
    _request(document(call.body), "request")
    raise _refused()


def delete_association(call: Call, view: View) -> Answer:
    """``DELETE /associations/resources/{id}``: there is none."""
    raise ASSOCIATION_NOT_FOUND(call.path["resource"])


def get_associations(call: Call, view: View) -> Answer:
    """``POST /associations:batchGet``: each resource has none; 207."""
    results = []
    for request in _requests(call.body):
        resource = {name: request[name] for name in _NAMES if request[name] is not None}
        results.append({"result": {**resource, "associations": []}})
    return json_answer({"results": results}, 207)


def change_associations(call: Call, view: View) -> Answer:
    """``POST /associations:batchMutate``: each request is refused by itself; 207."""
    error = _refused()
    results = [{"error": {"error_code": error.code, "message": error.message}} for _ in _requests(call.body)]
    return json_answer({"results": results}, 207)


def _requests(body: bytes) -> list[dict[str, Any]]:
    return listing(_request)(document(body).get("requests"), "requests") or []


def _request(value: Any, member: str) -> dict[str, Any] | None:
    source = members(value, member)
    if source is None:
        return None
    listing(members)(source.get("associations"), f"{member}.associations")
    return {name: text(source.get(name), f"{member}.{name}") for name in _NAMES}


def _refused() -> RegistryError:
    return ASSOCIATION_INVALID("associations", "this server does not keep associations")


_ASSOCIATED = (
    word("resourceType", "The kind of resource", "topic"),
    words("associationType", "key or value"),
    word("lifecycle", "STRONG or WEAK"),
    *PAGE,
)


OPERATIONS = (
    Operation(
        method="GET",
        path="/associations/subjects/{subject}",
        summary="The associations of a subject",
        handler=list_associations,
        gives="Associations",
        parameters=_ASSOCIATED,
    ),
    Operation(
        method="GET",
        path="/associations/resources/{namespace}/{name}",
        summary="The associations of a resource",
        handler=list_associations,
        gives="Associations",
        parameters=_ASSOCIATED,
    ),
    Operation(
        method="GET",
        path="/associations/resources/{resource}",
        summary="The associations of a resource by its id",
        handler=list_associations,
        gives="Associations",
        parameters=_ASSOCIATED,
    ),
    Operation(
        method="POST",
        path="/associations",
        summary="Make associations: not served, always refused",
        handler=make_association,
        takes="AssociationRequest",
        gives="AssociationResponse",
        parameters=(CONTEXT, DRY_RUN),
        errors=(e.ASSOCIATION_INVALID, *BODY_ERRORS),
    ),
    Operation(
        method="PUT",
        path="/associations/resources/{resource}",
        summary="Change associations: always refused",
        handler=make_association,
        takes="AssociationRequest",
        gives="AssociationResponse",
        parameters=(CONTEXT, DRY_RUN),
        errors=(e.ASSOCIATION_INVALID, *BODY_ERRORS),
    ),
    Operation(
        method="DELETE",
        path="/associations/resources/{resource}",
        summary="Remove associations: there are none",
        handler=delete_association,
        status=204,
        errors=(e.ASSOCIATION_NOT_FOUND,),
        parameters=(
            *_ASSOCIATED[:2],
            flag("cascadeLifecycle", "Delete the subjects of strong ones"),
            DRY_RUN,
        ),
    ),
    Operation(
        method="POST",
        path="/associations:batchGet",
        summary="The associations of several resources",
        handler=get_associations,
        takes="AssociationBatchRequest",
        gives="AssociationBatchResponse",
        status=207,
        parameters=(flag("includeSchemas", "With their schemas"),),
        errors=BODY_ERRORS,
    ),
    Operation(
        method="POST",
        path="/associations:batchMutate",
        summary="Change several associations: each is refused",
        handler=change_associations,
        takes="AssociationBatchRequest",
        gives="AssociationBatchResponse",
        status=207,
        parameters=(CONTEXT, DRY_RUN),
        errors=BODY_ERRORS,
    ),
)
