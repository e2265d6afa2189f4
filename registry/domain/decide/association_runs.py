"""Decisions on associations of one resource, all or none (in the order of Confluent 8.3.1's steps)."""

from __future__ import annotations

from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying, together
from registry.domain.queries import associations
from registry.domain.queries.associations import Association
from registry.domain.queries.scope import aliased
from registry.domain.rows.view import View

from .association_changes import changed, created, repeated
from .association_checks import Step, check_active, check_alone, check_unreferenced, check_writable
from .association_requests import CREATE, check_types
from .association_schemas import take_schema
from .draft import Draft


def put(draft: Draft, request: ResourceRequest) -> Querying[list[Step]]:
    """Create or change associations; return the steps that changed one. Equivalent ones are not written.

    Raises 42205, 42212, 40903, 40907, 40908, 40904, 40905, 42206, and the errors of a registration.
    """
    wanted = [_led(draft.view, each) for each in request.associations]
    check_types(wanted)
    found = _stored(draft.view, request)
    steps = yield from together(
        _step(draft, request, each, found.get(each.association_type)) for each in wanted
    )
    rules = draft.defaults.association_rules
    if rules.one_lifecycle:
        _check_uniform(found, steps)
    for step in steps:
        check_active(draft.view, step)
    for step in steps:
        check_alone(draft.view, step)
        if rules.strong_excludes_references and step.writes:
            check_unreferenced(draft.view, step)
    for step in steps:
        yield from take_schema(draft, step)
    written = [step for step in steps if step.writes]
    draft.add(step.association.entry() for step in written)
    return written


def _led(view: View, wanted: AssociationRequest) -> AssociationRequest:
    """Return the association with its alias resolved; the subject must be writable."""
    if wanted.subject is None:
        return wanted
    subject = aliased(view, Subject.parse(wanted.subject))
    check_writable(view, subject)
    return replace(wanted, subject=subject.qualified)


def _stored(view: View, request: ResourceRequest) -> dict[str | None, Association]:
    """Return the associations of the resource, by type.

    They are found by the resource's id. Only a dry run may leave it out; then the name counts. An empty id
    finds nothing.
    """
    if request.resource_id is None:
        found = associations.newest_of_resource(view, request.name or "", request.namespace or "")
    elif request.resource_id:
        found = associations.of_resource_id(view, request.resource_id)
    else:
        found = []
    return {each.association_type: each for each in found if each.resource_type == request.resource_type}


def _step(
    draft: Draft, request: ResourceRequest, wanted: AssociationRequest, old: Association | None
) -> Querying[Step]:
    if old is None:
        return (yield from created(draft, request, wanted))
    if wanted.op == CREATE:
        return (yield from repeated(draft, wanted, old))
    return changed(draft, request, wanted, old)


def _check_uniform(found: dict[str | None, Association], steps: list[Step]) -> None:
    """Refuse different lifecycles among the associations of one resource (42212)."""
    after = {**found, **{step.association.association_type: step.association for step in steps}}
    if any(step.writes for step in steps) and len({each.strong for each in after.values()}) > 1:
        detail = "all associations for a resource must have the same lifecycle"
        raise ASSOCIATION_INVALID("lifecycle", detail)
