"""Checks of associations against what is stored, and of other commands against them (Confluent 8.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from registry.domain import errors
from registry.domain.commands import AssociationRequest
from registry.domain.errors import ASSOCIATION_INVALID
from registry.domain.lookup import find
from registry.domain.model import Reference, Subject
from registry.domain.parsing.querying import Querying
from registry.domain.queries import associations, versions
from registry.domain.queries.associations import Association, some_of_subject
from registry.domain.queries.scope import READ_ONLY, TAKES_IDS, mode_in_scope
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .association_requests import CREATE
from .decision import Draft


def check_not_strong(view: View, subject: Subject, references: Sequence[Reference]) -> None:
    """Refuse references to subjects that a resource owns (42205)."""
    for each in references:
        target = Subject.within(subject.context, each.subject)
        if any(found.strong for found in some_of_subject(view, target)):
            refusal = f"Subject '{target.qualified}' has a strong association and cannot be referenced"
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
class Step:
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


def check_active(view: View, step: Step) -> None:
    """Refuse a subject without active versions, unless the request brings a schema (40907)."""
    if step.wanted.schema is None and not versions.exists(view, step.subject):
        raise errors.NO_ACTIVE_VERSION(step.association.subject)


def check_alone(view: View, step: Step) -> None:
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


def check_unreferenced(view: View, step: Step) -> None:
    """Refuse a strong association of a subject that any version refers to, soft-deleted or not (42206)."""
    subject = step.subject
    prefix = layout.REFERRER + layout.part(subject.context) + layout.part(subject.name)
    referrers = (versions.at(view, layout.VERSION + key[len(prefix) + 4 :]) for key, _ in scan(view, prefix))
    if step.association.strong and any(referrers):
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
    elif not draft.defaults.association_rules.frozen_needs_empty_subject:
        found = yield from find.lookup_in(draft.view, draft.memory, subject, wanted.schema, draft.defaults)
        if latest.version == 1 and found is not None:
            return
    detail = "cannot create a frozen association when schemas already exist in the subject"
    raise ASSOCIATION_INVALID("frozen", detail)


def imports(view: View, subject: Subject) -> bool:
    """Return true if the subject gets its versions from another registry."""
    return mode_in_scope(view, subject) in TAKES_IDS
