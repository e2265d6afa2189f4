"""Checks of requests about associations, first without stored data, then against it (Confluent 8.4)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from registry.domain import errors
from registry.domain.commands import AssociationRequest, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID, RegistryError
from registry.domain.lookup import find
from registry.domain.model import Reference, Subject
from registry.domain.parsing.querying import Querying
from registry.domain.queries import associations, versions
from registry.domain.queries.associations import (
    ASSOCIATION_TYPES,
    RESOURCE_TYPE,
    STRONG,
    WEAK,
    Association,
    AssociationRules,
    some_of_subject,
)
from registry.domain.queries.scope import READ_ONLY, TAKES_IDS, mode_in_scope, with_own_config
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .decision import Draft

CREATE, UPSERT, DELETE = "CREATE", "UPSERT", "DELETE"
# The maximum length of a resource's name or namespace, in UTF-16 units.
NAME_MAX = 256
_EMPTY = "cannot be null or empty"


def check_request(
    request: ResourceRequest, context: str, rules: AssociationRules, *, dry_run: bool
) -> ResourceRequest:
    """Return the request with qualified subjects and the defaults that do not depend on stored data."""
    _check_name(request.name, "resourceName")
    _check_name(request.namespace, "resourceNamespace")
    if not request.resource_id and not dry_run:
        raise ASSOCIATION_INVALID("resourceId", _EMPTY)
    if request.resource_type and request.resource_type != RESOURCE_TYPE:
        raise ASSOCIATION_INVALID("resourceType", f"must be '{RESOURCE_TYPE}'")
    if not request.associations:
        raise ASSOCIATION_INVALID("associations", _EMPTY)
    wanted = [_check_association(request, context, rules, each) for each in request.associations]
    return replace(request, resource_type=RESOURCE_TYPE, associations=wanted)


def check_types(associations: Iterable[AssociationRequest]) -> None:
    """Refuse a type that is named twice."""
    seen: set[str | None] = set()
    for each in associations:
        if each.association_type in seen:
            detail = f"may only appear once per request, but '{each.association_type}' appears more than once"
            raise ASSOCIATION_INVALID("associationType", detail)
        seen.add(each.association_type)


def default_subject(request: ResourceRequest, kind: str | None) -> str:
    """Return the default subject for a resource's keys or values, regardless of the request's context."""
    return Subject.parse(f":.{request.namespace}:{request.name}-{kind}").qualified


def check_placed(request: ResourceRequest, wanted: AssociationRequest) -> None:
    """Refuse a wrong subject: frozen associations must have the default one, weak ones a different one."""
    own = default_subject(request, wanted.association_type)
    if wanted.frozen and wanted.subject != own:
        raise ASSOCIATION_INVALID("subject", f"frozen associations must use subject '{own}'")
    if wanted.lifecycle == WEAK and wanted.subject == own:
        raise ASSOCIATION_INVALID("subject", f"WEAK associations cannot use subject '{own}'")


def fill_subject(request: ResourceRequest, wanted: AssociationRequest) -> AssociationRequest:
    """Return a new association with its subject; weak ones must name it."""
    if wanted.subject is not None:
        return wanted
    if wanted.lifecycle == WEAK:
        raise ASSOCIATION_INVALID("subject", "must be provided for WEAK associations")
    return replace(wanted, subject=default_subject(request, wanted.association_type))


def check_lifecycle(wanted: AssociationRequest, rules: AssociationRules) -> None:
    """Refuse what contradicts the lifecycle."""
    if wanted.lifecycle == WEAK and wanted.schema is not None:
        raise weak_with_schema()
    check_frozen(wanted.lifecycle, wanted.frozen, rules)


def check_frozen(lifecycle: str | None, frozen: bool | None, rules: AssociationRules) -> None:
    """Refuse a weak association that is frozen, and a strong one that is not, if the rules say so."""
    wrong = lifecycle == WEAK and frozen
    if wrong or (rules.strong_is_frozen and lifecycle == STRONG and frozen is False):
        detail = f"association with lifecycle of {lifecycle} cannot be frozen={str(frozen).lower()}"
        raise ASSOCIATION_INVALID("frozen", detail)


def weak_with_schema() -> RegistryError:
    """Return the error for a weak association with a schema."""
    return ASSOCIATION_INVALID("lifecycle", "cannot be WEAK when schema is provided")


def _check_name(name: str | None, member: str) -> None:
    if not name:
        raise ASSOCIATION_INVALID(member, _EMPTY)
    if len(name) + sum(each > "\uffff" for each in name) > NAME_MAX:
        raise ASSOCIATION_INVALID(member, f"exceeds max length of {NAME_MAX}")
    for each in name:
        # Letters and digits as Java counts them: one UTF-16 unit at a time.
        if each > "\uffff" or not (each.isalpha() or each.isdecimal() or each in "_-"):
            raise ASSOCIATION_INVALID(member, f"illegal character '{each}'")


def _check_association(
    request: ResourceRequest, context: str, rules: AssociationRules, wanted: AssociationRequest
) -> AssociationRequest:
    kind = wanted.association_type or "value"
    if wanted.op == DELETE:
        _check_kind(kind)
        return replace(wanted, association_type=kind)
    if wanted.subject is not None:
        _check_subject(wanted.subject)
        wanted = replace(wanted, subject=Subject.within(context, wanted.subject).qualified)
    if wanted.op == CREATE:
        wanted = _complete(wanted, rules)
    _check_kind(kind)
    wanted = replace(wanted, association_type=kind)
    check_lifecycle(wanted, rules)
    if wanted.op == CREATE:
        wanted = fill_subject(request, wanted)
        check_placed(request, wanted)
    return wanted


def _check_kind(kind: str) -> None:
    if kind not in ASSOCIATION_TYPES:
        raise ASSOCIATION_INVALID("associationType", "must be either 'key' or 'value'")


def _check_subject(subject: str) -> None:
    if not subject or any(unicodedata.category(each) == "Cc" for each in subject):
        raise ASSOCIATION_INVALID("subject", "must not be empty")


def _complete(wanted: AssociationRequest, rules: AssociationRules) -> AssociationRequest:
    """Return a new association with its lifecycle: strong and frozen with a schema, else weak by default."""
    if wanted.schema is not None:
        if wanted.lifecycle == WEAK:
            raise weak_with_schema()
        if wanted.frozen is False:
            raise ASSOCIATION_INVALID("frozen", "cannot be false when a schema is provided")
        return replace(wanted, lifecycle=STRONG, frozen=True)
    lifecycle = wanted.lifecycle or WEAK
    frozen = implied_frozen(lifecycle, rules) if wanted.frozen is None else wanted.frozen
    wanted = replace(wanted, lifecycle=lifecycle, frozen=frozen)
    check_lifecycle(wanted, rules)
    return wanted


def implied_frozen(lifecycle: str | None, rules: AssociationRules) -> bool:
    """Return the value of ``frozen`` for a new association that leaves it out."""
    return rules.strong_is_frozen and lifecycle == STRONG


def check_not_strong(view: View, subject: Subject, references: Sequence[Reference]) -> None:
    """Refuse references to subjects that a resource owns (42205)."""
    for each in references:
        target = Subject.within(subject.context, each.subject)
        if any(found.strong for found in some_of_subject(view, target)):
            refusal = f"Subject '{each.subject}' has a strong association and cannot be referenced"
            raise errors.NOT_PERMITTED(refusal)


def check_no_associations(view: View, subject: Subject) -> None:
    """Refuse to delete a subject that has associations (40904)."""
    if some_of_subject(view, subject):
        raise errors.ASSOCIATION_EXISTS(subject.qualified)


def check_stays_active(view: View, subject: Subject, version: int) -> None:
    """Refuse to delete the last active version of a subject that has associations (40907).

    Confluent 8.x intends the same, but answers 500.
    """
    if not some_of_subject(view, subject):
        return
    if all(each.version == version for each in versions.versions(view, subject)):
        raise errors.NO_ACTIVE_VERSION(subject.qualified)


@dataclass(slots=True)
class PendingAssociation:
    """One association of a request while it is being decided."""

    wanted: AssociationRequest
    # The association as it will be stored.
    association: Association
    # The association as it is stored; None if it is new.
    old: Association | None
    writes: bool
    # The ``Schema`` that was registered for it.
    schema: bytes | None = None

    @property
    def subject(self) -> Subject:
        """The subject of the association."""
        return Subject.parse(self.association.subject)


def check_writable(view: View, subject: Subject) -> None:
    """Refuse a subject whose mode is read-only (42205)."""
    if mode_in_scope(view, subject) in READ_ONLY:
        raise errors.NOT_PERMITTED(
            f"Subject {subject.name} in context {subject.context} is in read-only mode"
        )


def check_active(view: View, step: PendingAssociation) -> None:
    """Refuse a subject without active versions, unless the request brings a schema (40907)."""
    if step.wanted.schema is None and not versions.exists(view, step.subject):
        raise errors.NO_ACTIVE_VERSION(step.association.subject)


def check_alone(view: View, step: PendingAssociation) -> None:
    """Refuse other associations of a subject that has a strong one (40904, 40905)."""
    others = [
        each
        for each in associations.some_of_subject(view, step.subject)
        if step.old is None or each.key != step.old.key
    ]
    if others and step.association.strong:
        raise errors.ASSOCIATION_EXISTS(step.association.subject)
    if any(each.strong for each in others):
        raise errors.STRONG_ASSOCIATION_EXISTS(step.association.subject)


def check_unreferenced(view: View, step: PendingAssociation) -> None:
    """Refuse a strong association of a subject that any version refers to, soft-deleted or not (42206)."""
    subject = step.subject
    prefix = layout.REFERRER + layout.part(subject.context) + layout.part(subject.name)
    referrers = (versions.at(view, layout.VERSION + key[len(prefix) + 4 :]) for key, _ in scan(view, prefix))
    if step.writes and step.association.strong and any(referrers):
        raise errors.SUBJECT_REFERENCED(step.association.subject)


def check_can_freeze(draft: Draft, wanted: AssociationRequest, subject: Subject) -> Querying[None]:
    """Refuse to create a frozen association unless the given schema is the subject's first (42212, 40907).

    Not checked in IMPORT mode.
    """
    latest = versions.latest(draft.view, subject)
    if wanted.schema is None:
        if wanted.op == CREATE:
            detail = "schema must be provided when creating a frozen association"
            raise ASSOCIATION_INVALID("schema", detail)
        if latest is None:
            raise errors.NO_ACTIVE_VERSION(subject.qualified)
    elif latest is None:
        return
    else:
        place = with_own_config(draft.view, subject)
        found = yield from find.lookup_in(draft.view, draft.memory, place, wanted.schema, draft.defaults)
        if latest.version == 1 and found is not None:
            return
    detail = "cannot create a frozen association when schemas already exist in the subject"
    raise ASSOCIATION_INVALID("frozen", detail)


def imports(view: View, subject: Subject) -> bool:
    """Return true if the subject gets its versions from another registry."""
    return mode_in_scope(view, subject) in TAKES_IDS
