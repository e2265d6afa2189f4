"""Decisions on requests about associations, of one resource or of several with an answer for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec

from registry.domain.commands import (
    Associate,
    AssociationRequest,
    ChangeAssociations,
    Dissociate,
    ResourceRequest,
)
from registry.domain.errors import (
    ASSOCIATION_INVALID,
    ASSOCIATION_NOT_FOUND,
    INVALID_SCHEMA,
    NAMES_CHANGED,
    PASSAGES,
    Passage,
    RegistryError,
)
from registry.domain.log_format.records import AssociationKey
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying, together
from registry.domain.queries import associations, entities
from registry.domain.queries.associations import ONE_RESOURCE, AssociationRules, Filter
from registry.domain.queries.scope import Defaults
from registry.domain.rows.view import View

from .association_checks import CREATE, DELETE, UPSERT, check_request, check_types
from .decision import Decision, Draft
from .ids import Ids
from .resource_associations import put, remove

# The schemas registered for associations.
_Schemas = dict[AssociationKey, bytes]


def decide_associations(
    view: View,
    command: Associate | Dissociate | ChangeAssociations,
    ids: Ids,
    defaults: Defaults,
    memory: SchemaMemory,
) -> Querying[Decision]:
    """Decide a command about associations; ``ids`` as in :func:`.decide`."""
    draft, saved, stands = Draft(view, ids, defaults, memory), ids.save(), False
    try:
        decision = yield from _decide(draft, command)
        stands = not command.dry_run
    finally:
        if not stands:
            ids.restore(saved)
    return decision if stands else decision._replace(entries=[])


def _decide(draft: Draft, command: Associate | Dissociate | ChangeAssociations) -> Querying[Decision]:
    if isinstance(command, Dissociate):
        return _dissociate(draft, command)
    if isinstance(command, Associate):
        reply = yield from _associate(draft, command)
    else:
        reply = yield from _change(draft, command)
    return Decision(draft.entries, msgspec.json.encode(reply))


def _associate(draft: Draft, command: Associate) -> Querying[dict[str, Any]]:
    """Create or change the associations of a resource. Raises as :func:`.resource_associations.put` does."""
    op = CREATE if command.create else UPSERT
    wanted = [msgspec.structs.replace(each, op=op) for each in command.request.associations]
    request = msgspec.structs.replace(command.request, associations=wanted)
    request = check_request(
        request, command.context, draft.defaults.association_rules, dry_run=command.dry_run
    )
    written = yield from put(draft, request)
    infos = [
        entities.info(step.association, draft.defaults.association_rules, step.schema) for step in written
    ]
    return _response(request, [] if command.dry_run else infos)


def _dissociate(draft: Draft, command: Dissociate) -> Decision:
    """Remove associations of a resource. Raises 40410, and as :func:`.resource_associations.remove` does."""
    wanted = Filter(command.resource_type, tuple(command.association_types))
    found = wanted.select(associations.of_resource_id(draft.view, command.resource_id))
    if not found:
        raise ASSOCIATION_NOT_FOUND(command.resource_id)
    remove(draft, found, cascade=command.cascade, force=command.force)
    return Decision(draft.entries, b"")


def _change(draft: Draft, command: ChangeAssociations) -> Querying[dict[str, Any]]:
    """Change the associations of several resources; raises 42212 if there are none.

    Adjacent operations of one kind are decided together, or each by itself, as the rules say. One that is
    refused ends its request, and what was done before it stands (Confluent 8.4).
    """
    if not command.requests:
        raise ASSOCIATION_INVALID("requests", "cannot be null or empty")
    return {"results": (yield from together(_result(draft, command, each) for each in command.requests))}


def _result(draft: Draft, command: ChangeAssociations, request: ResourceRequest) -> Querying[dict[str, Any]]:
    if request.error is not None:
        return _error(request.error.code, request.error.message)
    schemas: _Schemas = {}
    rules = draft.defaults.association_rules
    try:
        request = check_request(request, command.context, rules, dry_run=command.dry_run)
        if rules.batch_in_runs:
            check_types(request.associations)
        runs = [
            _run(draft, msgspec.structs.replace(request, associations=run), dry_run=command.dry_run)
            for run in _runs(request.associations, rules)
        ]
        for registered in (yield from together(runs)):
            schemas |= registered
    except RegistryError as error:
        if error.code == NAMES_CHANGED.code:
            raise  # the whole batch is to be sent again
        # For a schema that cannot be parsed, the code differs from that of other requests (Confluent 8.3.1).
        code = ASSOCIATION_INVALID.code if error.code == INVALID_SCHEMA.code else error.code
        return _error(code, error.message, error.passages if command.passages else None)
    if command.dry_run:
        return {"result": _response(request, [])}
    left = associations.of_resource_id(draft.view, request.resource_id or "")
    return {
        "result": _response(request, [entities.info(each, rules, schemas.get(each.key)) for each in left])
    }


def _error(code: int, message: str, passages: list[Passage] | None = None) -> dict[str, Any]:
    shown = {} if passages is None else {PASSAGES: passages}
    return {"error": {"error_code": code, "message": message, **shown}}


def _runs(wanted: list[AssociationRequest], rules: AssociationRules) -> Iterator[list[AssociationRequest]]:
    """Yield groups of operations that are decided together, all or none."""
    if rules.batch_in_runs:
        return (list(run) for _, run in groupby(wanted, lambda each: each.op))
    return ([each] for each in wanted)


def _run(draft: Draft, request: ResourceRequest, *, dry_run: bool) -> Querying[_Schemas]:
    """Decide operations of one kind; return the schemas that they registered.

    In a dry run each operation sees the stored state, without those before it.
    """
    step, saved, stands = draft.step(), draft.ids.save(), False
    try:
        if request.associations[0].op == DELETE:
            schemas = _remove(step, request)
        else:
            schemas = yield from _put(step, request)
        stands = not dry_run
    finally:
        if not stands:
            draft.ids.restore(saved)
    if stands:
        draft.merge(step)
    return schemas


def _put(step: Draft, request: ResourceRequest) -> Querying[_Schemas]:
    written = yield from put(step, request)
    _check_one_name(step, request)
    return {each.association.key: each.schema for each in written if each.schema is not None}


def _check_one_name(step: Draft, request: ResourceRequest) -> None:
    """Refuse an id that already has another name: the answer has room for only one."""
    for each in associations.of_resource_id(step.view, request.resource_id or ""):
        if (each.resource_name, each.resource_namespace) != (request.name, request.namespace):
            raise ASSOCIATION_INVALID("resourceId", ONE_RESOURCE)


def _remove(step: Draft, request: ResourceRequest) -> _Schemas:
    """Remove associations; those that do not exist count as removed."""
    found = {
        each.association_type: each
        for each in associations.of_resource_id(step.view, request.resource_id or "")
    }
    for wanted in request.associations:
        one = found.get(wanted.association_type)
        if one is not None:
            remove(step, [one], cascade=wanted.cascade)
    return {}


def _response(request: ResourceRequest, infos: list[dict[str, Any]]) -> dict[str, Any]:
    named = (request.name, request.namespace, request.resource_id, request.resource_type)
    return entities.response(*named, infos)
