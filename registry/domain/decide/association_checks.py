"""What an association may be beside all that is stored (Confluent 8.x's rules)."""

from __future__ import annotations

from dataclasses import dataclass

from registry.domain import associations, errors, rows, versions
from registry.domain.associations import Association
from registry.domain.commands import ResourceRequest, WantedAssociation
from registry.domain.errors import ASSOCIATION_INVALID
from registry.domain.model import Subject
from registry.domain.rows import View
from registry.domain.scope import TAKES_IDS, mode_in_scope

from .decision import check_writable, not_permitted


@dataclass(slots=True)
class Step:
    """One association on its way."""

    wanted: WantedAssociation
    subject: Subject
    association: Association
    """As it will be."""
    writes: bool
    new: bool = False
    schema: bytes | None = None
    """The ``Schema`` that was registered for it."""


def check(view: View, request: ResourceRequest, step: Step) -> None:
    """Raises 42205, 40904, 40905, 42212, 40907, 42206, in this order."""
    subject, name = step.subject, step.subject.qualified
    check_writable(view, subject, name)
    if step.wanted.schema is not None and imports(view, subject):
        raise not_permitted(subject, name, "read-write")
    if not step.writes:
        return
    others = [each for each in associations.of_subject(view, subject) if not _is(each, request, step)]
    if others and step.association.strong:
        raise errors.ASSOCIATION_EXISTS(name)
    if any(each.strong for each in others):
        raise errors.STRONG_ASSOCIATION_EXISTS(name)
    active = versions.exists(view, subject)
    if step.new and step.association.strong and not imports(view, subject):
        _check_fresh(step, active=active)
    if step.wanted.schema is None and not active:
        raise errors.NO_ACTIVE_VERSION(name)
    if step.association.strong and _is_referenced(view, subject):
        raise errors.SUBJECT_REFERENCED(name)


def _check_fresh(step: Step, *, active: bool) -> None:
    """A strong association begins its subject: the first schema comes with it."""
    if step.wanted.schema is None:
        raise ASSOCIATION_INVALID("schema", "schema must be provided when creating a frozen association")
    if active:
        detail = "cannot create a frozen association when schemas already exist in the subject"
        raise ASSOCIATION_INVALID("frozen", detail)


def _is(found: Association, request: ResourceRequest, step: Step) -> bool:
    """Whether an association of the subject is the one that the step is about."""
    kinds = (found.resource_type, found.association_type)
    if kinds != (request.resource_type, step.association.association_type):
        return False
    if request.resource_id:
        return found.resource_id == request.resource_id
    return (found.resource_name, found.resource_namespace) == (request.name, request.namespace)


def _is_referenced(view: View, subject: Subject) -> bool:
    """Whether any version, soft-deleted or not, refers to the subject."""
    prefix = rows.REFERRER + rows.part(subject.context) + rows.part(subject.name)
    return any(versions.at(view, rows.VERSION + key[len(prefix) + 4 :]) for key, _ in rows.scan(view, prefix))


def imports(view: View, subject: Subject) -> bool:
    """Whether the subject gets its versions from another registry."""
    return mode_in_scope(view, subject) in TAKES_IDS
