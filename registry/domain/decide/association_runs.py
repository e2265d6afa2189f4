"""Deciding about the associations of one resource, all of a run or none (Confluent 8.x's rules)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from registry.domain import associations, errors
from registry.domain.associations import STRONG, WEAK, Association
from registry.domain.commands import ResourceRequest, WantedAssociation
from registry.domain.errors import ASSOCIATION_INVALID
from registry.domain.model import Subject
from registry.domain.rows import View

from .association_checks import Step, check, imports
from .association_requests import CREATE, placed, unfrozen
from .association_schemas import is_registered, registered
from .draft import Draft


def put(draft: Draft, request: ResourceRequest, context: str) -> list[dict[str, Any]]:
    """Make or change associations; what there is to say of them. What is there just so is left out.

    Raises 42212, 40903, 40908, 42205, 40904, 40905, 40907, 42206, and what a registration raises.
    """
    found = {each.association_type: each for each in associations.of_resource(draft.view, request)}
    steps: list[Step] = []
    for wanted in request.associations:
        old = found.get(wanted.association_type)
        if old is None:
            steps.append(_new(draft, request, context, wanted))
        else:
            step = _again(draft, request, context, wanted, old)
            steps += [] if step is None else [step]
    _check_uniform(found, steps)
    for step in steps:
        check(draft.view, request, step)
    for step in steps:
        if step.wanted.schema is not None:
            step.schema = registered(draft, step.subject, step.wanted.schema)
    draft.add(step.association.entry() for step in steps if step.writes)
    return [associations.info(step.association, step.schema) for step in steps]


def _new(draft: Draft, request: ResourceRequest, context: str, wanted: WantedAssociation) -> Step:
    if wanted.op != CREATE:
        wanted = _upserted(draft.view, request, context, wanted)
    association = Association(
        subject=wanted.subject or "",
        guid=wanted.guid,
        resource_name=request.name,
        resource_namespace=request.namespace,
        resource_id=request.resource_id,
        resource_type=request.resource_type,
        association_type=wanted.association_type,
        lifecycle=wanted.lifecycle,
        frozen=wanted.lifecycle == STRONG,
    )
    return Step(wanted, Subject.parse(association.subject), association, writes=True, new=True)


def _upserted(
    view: View, request: ResourceRequest, context: str, wanted: WantedAssociation
) -> WantedAssociation:
    """An upsert makes weak associations only: strong ones come with their resource, or by import."""
    if wanted.schema is not None:
        raise ASSOCIATION_INVALID("schema", "cannot be provided when an upsert creates the association")
    wanted = placed(request, context, replace(wanted, lifecycle=wanted.lifecycle or WEAK))
    if wanted.lifecycle == STRONG and not imports(view, Subject.parse(wanted.subject or "")):
        raise ASSOCIATION_INVALID("lifecycle", "cannot be STRONG when an upsert creates the association")
    if wanted.lifecycle == WEAK and wanted.frozen:
        raise ASSOCIATION_INVALID("frozen", "association with lifecycle of WEAK cannot be frozen")
    return wanted


def _again(
    draft: Draft, request: ResourceRequest, context: str, wanted: WantedAssociation, old: Association
) -> Step | None:
    """An association that is there already; ``None`` where nothing is to be done."""
    subject, create = Subject.parse(old.subject), wanted.op == CREATE
    other = wanted.subject is not None and Subject.within(context, wanted.subject) != subject
    unfreezes = wanted.frozen is not None and wanted.frozen != old.is_frozen
    lifecycle = STRONG if old.strong else WEAK
    same = not (other or unfreezes) and wanted.lifecycle in (None, lifecycle)
    if create:
        if same and (wanted.schema is None or is_registered(draft, subject, wanted.schema)):
            return None
        resource = request.resource_id or request.name
        raise errors.RESOURCE_ASSOCIATED(wanted.association_type, resource)
    if same:
        if wanted.schema is None:
            return None
        if lifecycle == WEAK:
            raise ASSOCIATION_INVALID("lifecycle", "cannot be WEAK when schema is provided")
        return Step(wanted, subject, old, writes=False)
    if other:
        raise ASSOCIATION_INVALID("subject", "subject of association cannot be changed")
    if unfreezes:
        raise ASSOCIATION_INVALID("frozen", "frozen attribute of association cannot be changed")
    if old.is_frozen:
        raise errors.ASSOCIATION_FROZEN(wanted.association_type, old.subject)
    if wanted.lifecycle == STRONG:
        raise unfrozen()
    # What is left was written by others: strong, and not frozen.
    return Step(wanted, subject, replace(old, lifecycle=wanted.lifecycle), writes=True)


def _check_uniform(found: dict[str | None, Association], steps: list[Step]) -> None:
    """All associations of a resource own their subjects, or none does."""
    after = {**found, **{step.association.association_type: step.association for step in steps}}
    if steps and len({each.strong for each in after.values()}) > 1:
        detail = "all associations for a resource must have the same lifecycle"
        raise ASSOCIATION_INVALID("lifecycle", detail)
