"""Decisions on one association of a request: create it or change the stored one (Confluent 8.3.1)."""

from __future__ import annotations

from msgspec.structs import replace

from registry.domain import errors
from registry.domain.commands import AssociationRequest, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID
from registry.domain.log_format import association_values
from registry.domain.lookup import find
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying
from registry.domain.queries import associations
from registry.domain.queries.associations import STRONG, WEAK, Association

from .association_checks import Step, check_can_freeze, imports
from .association_requests import (
    CREATE,
    check_lifecycle,
    check_placed,
    default_subject,
    filled,
    implied_frozen,
    unfrozen,
    weak_with_schema,
)
from .decision import Draft


def created(draft: Draft, request: ResourceRequest, wanted: AssociationRequest) -> Querying[Step]:
    """Return the step that creates an association. Raises 42212, 40907."""
    if wanted.op != CREATE:
        wanted = _fill_upsert(draft, request, wanted)
    subject = Subject.parse(wanted.subject or "")
    if wanted.frozen and not imports(draft.view, subject):
        yield from check_can_freeze(draft, wanted, subject)
    association = Association(
        subject=subject.qualified,
        guid=wanted.guid,
        resource_name=request.name,
        resource_namespace=request.namespace,
        resource_id=request.resource_id,
        resource_type=request.resource_type,
        association_type=wanted.association_type,
        lifecycle=wanted.lifecycle,
        frozen=wanted.frozen,
    )
    return Step(wanted, _with_time_of_former(draft, association), None, writes=True)


def _with_time_of_former(draft: Draft, association: Association) -> Association:
    """Return the association with the creation time of the one whose record it replaces.

    A record's key holds the resource's name, and only the value its id. So a resource with the same name and
    another id replaces the record.
    """
    former = associations.with_key(draft.view, association.key)
    if former is None or not association.guid:
        return association
    guid = association_values.guid_with_time(association.guid, former.created)
    return replace(association, guid=guid, create_ts=former.created)


def _fill_upsert(draft: Draft, request: ResourceRequest, wanted: AssociationRequest) -> AssociationRequest:
    """Return what an upsert creates, with defaults filled in; frozen ones are only created in IMPORT mode."""
    rules = draft.defaults.association_rules
    lifecycle = wanted.lifecycle or (WEAK if wanted.schema is None else STRONG)
    if wanted.schema is not None and rules.upsert_creates_weak:
        raise ASSOCIATION_INVALID("schema", "cannot be provided when an upsert creates the association")
    if wanted.schema is not None and wanted.frozen:
        raise ASSOCIATION_INVALID("frozen", "cannot be true when creating via upsert; use create instead")
    frozen = implied_frozen(lifecycle, rules) if wanted.frozen is None else wanted.frozen
    wanted = replace(wanted, lifecycle=lifecycle, frozen=frozen)
    check_lifecycle(wanted, rules)
    wanted = filled(request, wanted)
    check_placed(request, wanted)
    strong = lifecycle == STRONG
    if strong and rules.upsert_creates_weak and not imports(draft.view, Subject.parse(wanted.subject or "")):
        raise ASSOCIATION_INVALID("lifecycle", "cannot be STRONG when an upsert creates the association")
    return wanted


def repeated(draft: Draft, wanted: AssociationRequest, old: Association) -> Querying[Step]:
    """Return the step for an association that is already stored; raises 40903 if it differs."""
    same = _equivalent(wanted, old)
    if same and wanted.schema is not None:
        subject = Subject.parse(old.subject)
        found = yield from find.lookup_in(draft.view, draft.memory, subject, wanted.schema, draft.defaults)
        same = found is not None
    if not same:
        raise errors.RESOURCE_ASSOCIATED(wanted.association_type, old.resource_name)
    return Step(wanted, old, old, writes=False)


def changed(draft: Draft, request: ResourceRequest, wanted: AssociationRequest, old: Association) -> Step:
    """Return the step that changes a stored association. Raises 42212, 40908."""
    stored = STRONG if old.strong else WEAK
    lifecycle, subject = wanted.lifecycle or stored, wanted.subject or old.subject
    if lifecycle == WEAK and wanted.schema is not None:
        raise weak_with_schema()
    own = default_subject(request, wanted.association_type)
    if lifecycle == WEAK and subject == own:
        raise ASSOCIATION_INVALID("subject", f"WEAK associations cannot use subject '{own}'")
    if old.is_frozen and subject != own:
        raise ASSOCIATION_INVALID("subject", f"frozen associations must use subject '{own}'")
    if _equivalent(wanted, old):
        return Step(wanted, old, old, writes=False)
    if wanted.lifecycle is None and wanted.schema is None:
        raise ASSOCIATION_INVALID("lifecycle", "at least lifecycle or schema must be provided for update")
    if subject != old.subject:
        detail = f"subject of association cannot be changed from '{old.subject}' to '{subject}'"
        raise ASSOCIATION_INVALID("subject", detail)
    if wanted.frozen is not None and wanted.frozen != old.is_frozen:
        raise ASSOCIATION_INVALID("frozen", "frozen attribute of association cannot be changed")
    if old.is_frozen:
        raise errors.ASSOCIATION_FROZEN(wanted.association_type, old.subject)
    if draft.defaults.association_rules.strong_is_frozen and lifecycle == STRONG:
        raise unfrozen()
    return Step(wanted, replace(old, lifecycle=lifecycle), old, writes=True)


def _equivalent(wanted: AssociationRequest, old: Association) -> bool:
    """Return true if a request asks only for what is stored."""
    stored = STRONG if old.strong else WEAK
    return (
        wanted.subject in (None, old.subject)
        and wanted.lifecycle in (None, stored)
        and wanted.frozen in (None, old.is_frozen)
    )
