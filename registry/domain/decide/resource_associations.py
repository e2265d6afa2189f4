"""Decisions on associations of one resource and their schemas, all or none (in Confluent 8.4's order)."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from registry.domain import errors
from registry.domain.commands import AssociationRequest, DeleteSubject, Register, ResourceRequest
from registry.domain.compatibility.results import Incompatible
from registry.domain.errors import ASSOCIATION_INVALID
from registry.domain.fold.versions import tombstones
from registry.domain.log_format import subject_values
from registry.domain.lookup import find
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying, together
from registry.domain.queries import associations, versions
from registry.domain.queries.associations import STRONG, WEAK, Association
from registry.domain.queries.scope import resolve_alias, with_own_config
from registry.domain.rows.view import View

from .association_checks import (
    CREATE,
    PendingAssociation,
    check_active,
    check_alone,
    check_can_freeze,
    check_frozen,
    check_lifecycle,
    check_placed,
    check_types,
    check_unreferenced,
    check_writable,
    default_subject,
    fill_subject,
    implied_frozen,
    imports,
    weak_with_schema,
)
from .decision import Draft, check_checked, check_subject
from .deletes import delete_subject
from .register import register

_SCHEMA_IN_UPSERT = (
    "cannot be provided when adding an association to an existing topic; "
    "an association with a schema must be created with the topic"
)
_STRONG_IN_UPSERT = (
    "cannot be STRONG when creating an association; STRONG associations must be created with the topic"
)


def create_step(
    draft: Draft, request: ResourceRequest, wanted: AssociationRequest
) -> Querying[PendingAssociation]:
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
    return PendingAssociation(wanted, _with_time_of_former(draft, association), None, writes=True)


def _with_time_of_former(draft: Draft, association: Association) -> Association:
    """Return the association with the creation time of the one whose record it replaces.

    A record's key holds the resource's name, and only the value its id. So a resource with the same name and
    another id replaces the record.
    """
    former = associations.with_key(draft.view, association.key)
    if former is None or not association.guid:
        return association
    guid = subject_values.guid_with_time(association.guid, former.created_ms)
    return replace(association, guid=guid, create_ts=former.created_ms)


def _fill_upsert(draft: Draft, request: ResourceRequest, wanted: AssociationRequest) -> AssociationRequest:
    """Return what an upsert creates, with defaults filled in; frozen ones are only created in IMPORT mode."""
    rules = draft.defaults.association_rules
    lifecycle = wanted.lifecycle or (WEAK if wanted.schema is None else STRONG)
    if wanted.schema is not None and rules.upsert_creates_weak:
        raise ASSOCIATION_INVALID("schema", _SCHEMA_IN_UPSERT)
    if wanted.schema is not None and wanted.frozen:
        raise ASSOCIATION_INVALID("frozen", "cannot be true when creating via upsert; use create instead")
    frozen = implied_frozen(lifecycle, rules) if wanted.frozen is None else wanted.frozen
    wanted = replace(wanted, lifecycle=lifecycle, frozen=frozen)
    check_lifecycle(wanted, rules)
    wanted = fill_subject(request, wanted)
    check_placed(request, wanted)
    strong = lifecycle == STRONG
    if strong and rules.upsert_creates_weak and not imports(draft.view, Subject.parse(wanted.subject or "")):
        raise ASSOCIATION_INVALID("lifecycle", _STRONG_IN_UPSERT)
    return wanted


def repeat_step(
    draft: Draft, request: ResourceRequest, wanted: AssociationRequest, old: Association
) -> Querying[PendingAssociation]:
    """Return the step for an association that is already stored. Raises 42212, and 40903 if it differs."""
    if draft.defaults.association_rules.strong_is_frozen:
        _check_frozen_subject(request, wanted, old)
    same = _equivalent(wanted, old)
    if same and wanted.schema is not None:
        place = with_own_config(draft.view, Subject.parse(old.subject))
        found = yield from find.lookup_in(draft.view, draft.memory, place, wanted.schema, draft.defaults)
        same = found is not None
    if not same:
        raise errors.RESOURCE_ASSOCIATED(wanted.association_type, old.resource_name)
    return PendingAssociation(wanted, old, old, writes=False)


def change_step(
    draft: Draft, request: ResourceRequest, wanted: AssociationRequest, old: Association
) -> PendingAssociation:
    """Return the step that changes a stored association. Raises 42212, 40908."""
    stored = STRONG if old.strong else WEAK
    lifecycle, subject = wanted.lifecycle or stored, wanted.subject or old.subject
    if lifecycle == WEAK and wanted.schema is not None:
        raise weak_with_schema()
    own = default_subject(request, wanted.association_type)
    if lifecycle == WEAK and subject == own:
        raise ASSOCIATION_INVALID("subject", f"WEAK associations cannot use subject '{own}'")
    frozen = old.is_frozen if wanted.frozen is None else wanted.frozen
    if draft.defaults.association_rules.strong_is_frozen:
        check_frozen(lifecycle, frozen, draft.defaults.association_rules)
    _check_frozen_subject(request, wanted, old)
    if _equivalent(wanted, old):
        return PendingAssociation(wanted, old, old, writes=False)
    if wanted.lifecycle is None and wanted.schema is None:
        raise ASSOCIATION_INVALID("lifecycle", "at least lifecycle or schema must be provided for update")
    if subject != old.subject:
        detail = f"subject of association cannot be changed from '{old.subject}' to '{subject}'"
        raise ASSOCIATION_INVALID("subject", detail)
    if wanted.frozen is not None and wanted.frozen != old.is_frozen:
        raise ASSOCIATION_INVALID("frozen", "frozen attribute of association cannot be changed")
    if old.is_frozen:
        raise errors.ASSOCIATION_FROZEN(wanted.association_type, old.subject)
    return PendingAssociation(wanted, replace(old, lifecycle=lifecycle), old, writes=True)


def _check_frozen_subject(request: ResourceRequest, wanted: AssociationRequest, old: Association) -> None:
    own = default_subject(request, wanted.association_type)
    if old.is_frozen and (wanted.subject or old.subject) != own:
        raise ASSOCIATION_INVALID("subject", f"frozen associations must use subject '{own}'")


def _equivalent(wanted: AssociationRequest, old: Association) -> bool:
    """Return true if a request asks only for what is stored."""
    stored = STRONG if old.strong else WEAK
    return (
        wanted.subject in (None, old.subject)
        and wanted.lifecycle in (None, stored)
        and wanted.frozen in (None, old.is_frozen)
    )


# What is done to the subjects of associations, as rules say it.
WRITE, DELETE = "write", "delete"
# The members of ``Schema`` that the answer shows, in their order; without times.
_SCHEMA = ("version", "id", "guid", "schemaType", "references", "metadata", "schema", "ruleSet")


def register_schema(draft: Draft, step: PendingAssociation) -> Querying[None]:
    """Register the schema that comes with an association, or find it."""
    if step.wanted.schema is not None:
        step.schema = yield from _register_schema(draft, step.subject, step.wanted.schema)


def _register_schema(draft: Draft, subject: Subject, schema: Register) -> Querying[bytes]:
    """Register a schema or find it; return it as ``Schema``."""
    command, place = replace(schema, subject=subject.qualified), with_own_config(draft.view, subject)
    try:
        decision = yield from register(draft.view, place, command, draft.ids, draft.defaults, draft.memory)
    except Incompatible as error:  # only its messages (Confluent 8.x, only for associations)
        raise Incompatible(errors.INCOMPATIBLE_MESSAGES, error.reasons) from None
    draft.add(decision.entries)
    reply: dict[str, Any] = orjson.loads(decision.reply)
    members = {"subject": subject.qualified} | {name: reply[name] for name in _SCHEMA if name in reply}
    return msgspec.json.encode(members)


def put(draft: Draft, request: ResourceRequest) -> Querying[list[PendingAssociation]]:
    """Create or change associations; return the steps that changed one. Equivalent ones are not written.

    Raises 42208, 503, 42205, 42212, 40903, 40907, 40908, 40904, 40905, 42206, and the errors of a
    registration.
    """
    wanted = [_resolve_alias(draft, each) for each in request.associations]
    check_types(wanted)
    found = _stored_associations(draft.view, request)
    for each in wanted:
        _check_checked(draft, request, each, found.get(each.association_type))
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
        if rules.strong_excludes_references:
            check_unreferenced(draft.view, step)
    for step in steps:
        yield from register_schema(draft, step)
    if rules.strong_excludes_references and len(steps) > 1:
        for step in steps:  # the schema of one may refer to the subject of another
            check_unreferenced(draft.view, step)
    written = [step for step in steps if step.writes]
    draft.add(step.association.entry() for step in written)
    return written


def _resolve_alias(draft: Draft, wanted: AssociationRequest) -> AssociationRequest:
    """Return the association with its alias resolved; the subject must be valid, checked and writable."""
    if wanted.subject is None:
        return wanted
    subject = resolve_alias(draft.view, Subject.parse(wanted.subject))
    if draft.defaults.reject_empty_subject:
        check_subject(subject, subject.qualified, reject_empty=True)
    check_checked(draft.defaults.checked, WRITE, subject.qualified)
    check_writable(draft.view, subject)
    return replace(wanted, subject=subject.qualified)


def _check_checked(
    draft: Draft, request: ResourceRequest, wanted: AssociationRequest, old: Association | None
) -> None:
    """Refuse subjects that the request does not name and that were not checked (503)."""
    if draft.defaults.checked is None:
        return
    if old is not None:
        check_checked(draft.defaults.checked, WRITE, old.subject)
    elif wanted.subject is None:
        own = default_subject(request, wanted.association_type)
        check_checked(draft.defaults.checked, WRITE, own)


def _stored_associations(view: View, request: ResourceRequest) -> dict[str | None, Association]:
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
) -> Querying[PendingAssociation]:
    own = default_subject(request, wanted.association_type) if old is None else old.subject
    subject = Subject.parse(wanted.subject or own)
    if wanted.schema is not None and imports(draft.view, subject):
        detail = f"cannot be provided while subject '{subject.qualified}' is in IMPORT mode"
        raise ASSOCIATION_INVALID("schema", detail)
    if old is None:
        return (yield from create_step(draft, request, wanted))
    if wanted.op == CREATE:
        return (yield from repeat_step(draft, request, wanted, old))
    return change_step(draft, request, wanted, old)


def _check_uniform(found: dict[str | None, Association], steps: list[PendingAssociation]) -> None:
    """Refuse different lifecycles among the associations of one resource (42212)."""
    after = {**found, **{step.association.association_type: step.association for step in steps}}
    if any(step.writes for step in steps) and len({each.strong for each in after.values()}) > 1:
        named = ", ".join(f"{kind}={STRONG if each.strong else WEAK}" for kind, each in after.items())
        detail = f"all associations for a resource must have the same lifecycle, but got {named}"
        raise ASSOCIATION_INVALID("lifecycle", detail)


def remove(draft: Draft, found: list[Association], *, cascade: bool, force: bool = False) -> None:
    """Remove associations; with ``cascade``, strong ones permanently delete their subjects, too.

    Raises 503, 42205, 40908, 40904, 42206, and 40984 without ``force``. A subject that is being imported
    stays, because another registry decides which versions it has.
    """
    checked = draft.defaults.checked
    for each in found:
        check_checked(checked, WRITE, each.subject)
        if cascade and each.strong:
            check_checked(checked, DELETE, each.subject)
            if force:
                check_checked(checked, "force", each.subject)
        check_writable(draft.view, Subject.parse(each.subject))
        if each.is_frozen and not cascade:
            raise errors.ASSOCIATION_FROZEN(each.association_type, each.subject)
    owned = {each.subject for each in found if cascade and each.strong}
    for position, each in enumerate(found, 1):
        draft.add(tombstones(draft.view, each.key))
        # Keys and values may share a subject; it is deleted with the last association.
        last = all(later.subject != each.subject for later in found[position:])
        if last and each.subject in owned and not imports(draft.view, Subject.parse(each.subject)):
            _purge(draft, Subject.parse(each.subject), force=force)


def _purge(draft: Draft, subject: Subject, *, force: bool) -> None:
    for permanent in (False, True):
        if versions.exists(draft.view, subject, deleted=permanent):
            command = DeleteSubject(subject.qualified, permanent, force)
            draft.add(delete_subject(draft.view, subject, command, draft.defaults).entries)
