"""Deciding requests about associations: one resource's, or those of several with an answer for each."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from registry.domain import associations
from registry.domain.associations import Filter
from registry.domain.commands import Associate, ChangeAssociations, Dissociate, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID, RegistryError
from registry.domain.ids import Ids
from registry.domain.parser import Parser, TooMuchText, together
from registry.domain.rows import View
from registry.domain.scope import Defaults

from .association_removal import remove
from .association_requests import CREATE, DELETE, UPSERT, checked
from .association_runs import put
from .decision import Decision
from .draft import Draft

_Infos = dict[str, dict[str, Any]]
"""What there is to say of associations, by their types."""


def decide_associations(
    view: View,
    command: Associate | Dissociate | ChangeAssociations,
    ids: Ids,
    defaults: Defaults,
    parser: Parser,
) -> Decision:
    """Decide a command about associations; ``ids`` as in :func:`.decide`."""
    draft, saved, stands = Draft(view, ids, defaults, parser), ids.saved(), False
    try:
        decision = _decided(draft, command)
        stands = not command.dry_run
    finally:
        if not stands:
            ids.restore(saved)
    return decision if stands else decision._replace(entries=[])


def _decided(draft: Draft, command: Associate | Dissociate | ChangeAssociations) -> Decision:
    if isinstance(command, Dissociate):
        return _dissociate(draft, command)
    reply = _associate(draft, command) if isinstance(command, Associate) else _change(draft, command)
    return Decision(draft.entries, msgspec.json.encode(reply))


def _associate(draft: Draft, command: Associate) -> dict[str, Any]:
    """Make or change the associations of a resource. Raises as :func:`.association_runs.put` does."""
    op = CREATE if command.create else UPSERT
    wanted = [msgspec.structs.replace(each, op=op) for each in command.request.associations]
    request = msgspec.structs.replace(command.request, associations=wanted)
    request = checked(request, command.context, dry_run=command.dry_run)
    infos = put(draft, request, command.context)
    return _response(request, [] if command.dry_run else infos)


def _dissociate(draft: Draft, command: Dissociate) -> Decision:
    """Remove associations of a resource. Raises as :func:`.association_removal.remove` does."""
    wanted = Filter(command.resource_type, tuple(command.association_types))
    found = wanted.chosen(associations.of_resource_id(draft.view, command.resource_id))
    remove(draft, found, command.resource_id, cascade=command.cascade)
    return Decision(draft.entries, b"")


def _change(draft: Draft, command: ChangeAssociations) -> dict[str, Any]:
    """Change the associations of several resources; raises 42212 where none is named.

    Adjacent operations of one kind are one run: all or nothing. A run that is refused ends its request, and
    what was done before it stands (Confluent 8.x). What has to be asked of schemas is asked for all requests
    at once, lest a batch be begun anew for each of them.
    """
    if not command.requests:
        raise ASSOCIATION_INVALID("requests", "cannot be null or empty")
    results: list[dict[str, Any]] = []
    asked: list[TooMuchText] = []
    for request in command.requests:
        try:
            results.append(_result(draft, command, request))
        except TooMuchText as too_much:
            asked.append(too_much)  # the rest may ask, too: one way there and back for all
    if asked:
        raise together(asked)
    return {"results": results}


def _result(draft: Draft, command: ChangeAssociations, request: ResourceRequest) -> dict[str, Any]:
    try:
        request = checked(request, command.context, dry_run=command.dry_run)
        infos: _Infos = {}
        for op, run in groupby(request.associations, lambda each: each.op):
            part = msgspec.structs.replace(request, associations=list(run))
            infos = _run(draft, op, part, command.context, infos)
    except RegistryError as error:
        return {"error": {"error_code": error.code, "message": error.message}}
    return {"result": _response(request, [] if command.dry_run else [*infos.values()])}


def _run(draft: Draft, op: str, request: ResourceRequest, context: str, infos: _Infos) -> _Infos:
    """Decide one run as a whole; what there is to say of the resource after it."""
    step, saved, stands = draft.step(), draft.ids.saved(), False
    try:
        after = _removed(step, request, infos) if op == DELETE else infos | _put(step, request, context)
        stands = True
    finally:
        if not stands:
            draft.ids.restore(saved)
    draft.take(step)
    return after


def _put(step: Draft, request: ResourceRequest, context: str) -> _Infos:
    return {each["associationType"]: each for each in put(step, request, context)}


def _removed(step: Draft, request: ResourceRequest, infos: _Infos) -> _Infos:
    found = {each.association_type: each for each in associations.of_resource(step.view, request)}
    about = request.resource_id or request.name or ""
    for wanted in request.associations:
        one = found.get(wanted.association_type)
        remove(step, [] if one is None else [one], about, cascade=wanted.cascade)
    left = {each.association_type or "": each for each in associations.of_resource(step.view, request)}
    return {kind: infos.get(kind) or associations.info(each) for kind, each in left.items()}


def _response(request: ResourceRequest, infos: list[dict[str, Any]]) -> dict[str, Any]:
    named = (request.name, request.namespace, request.resource_id, request.resource_type)
    return associations.response(*named, infos)
