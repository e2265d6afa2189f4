"""Deciding about the associations of one resource, all of a run or none (Confluent 8.x's rules)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from registry.domain import associations, errors, rows, versions
from registry.domain.associations import STRONG, WEAK, Association
from registry.domain.commands import DeleteSubject, Register, ResourceRequest, WantedAssociation
from registry.domain.errors import ASSOCIATION_INVALID, RegistryError
from registry.domain.model import Subject
from registry.domain.rows import View
from registry.domain.scope import TAKES_IDS, mode_in_scope
from registry.domain.tombstones import tombstones

from .association_requests import CREATE, placed, unfrozen
from .decision import check_writable, not_permitted
from .deletes import delete_subject
from .draft import Draft
from .register import register

_SCHEMA = (
    "version", "id", "guid", "schemaType", "references", "metadata", "schema", "ts", "deleted", "ruleSet",
)  # fmt: skip
"""The members of ``Schema`` that a registration answers, in the order of ``Schema``."""


@dataclass(slots=True)
class _Step:
    """One association on its way."""

    wanted: WantedAssociation
    subject: Subject
    association: Association
    """As it will be."""
    writes: bool
    new: bool = False
    schema: bytes | None = None
    """The ``Schema`` that was registered for it."""


def put(draft: Draft, request: ResourceRequest, context: str) -> list[dict[str, Any]]:
    """Make or change associations; what there is to say of them. What is there just so is left out.

    Raises 42212, 40903, 40908, 42205, 40904, 40905, 40907, 42206, and what a registration raises.
    """
    found = {each.association_type: each for each in associations.of_resource(draft.view, request)}
    steps: list[_Step] = []
    for wanted in request.associations:
        old = found.get(wanted.association_type)
        if old is None:
            steps.append(_new(draft, request, context, wanted))
        else:
            step = _again(draft, request, context, wanted, old)
            steps += [] if step is None else [step]
    _check_uniform(found, steps)
    for step in steps:
        _check(draft, request, step)
    for step in steps:
        if step.wanted.schema is not None:
            step.schema = _registered(draft, step.subject, step.wanted.schema)
    draft.add(step.association.entry() for step in steps if step.writes)
    return [associations.info(step.association, step.schema) for step in steps]


def _new(draft: Draft, request: ResourceRequest, context: str, wanted: WantedAssociation) -> _Step:
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
    return _Step(wanted, Subject.parse(association.subject), association, writes=True, new=True)


def _upserted(
    view: View, request: ResourceRequest, context: str, wanted: WantedAssociation
) -> WantedAssociation:
    """An upsert makes weak associations only: strong ones come with their resource, or by import."""
    if wanted.schema is not None:
        raise ASSOCIATION_INVALID("schema", "cannot be provided when an upsert creates the association")
    wanted = placed(request, context, replace(wanted, lifecycle=wanted.lifecycle or WEAK))
    if wanted.lifecycle == STRONG and not _imports(view, Subject.parse(wanted.subject or "")):
        raise ASSOCIATION_INVALID("lifecycle", "cannot be STRONG when an upsert creates the association")
    if wanted.lifecycle == WEAK and wanted.frozen:
        raise ASSOCIATION_INVALID("frozen", "association with lifecycle of WEAK cannot be frozen")
    return wanted


def _again(
    draft: Draft, request: ResourceRequest, context: str, wanted: WantedAssociation, old: Association
) -> _Step | None:
    """An association that is there already; ``None`` where nothing is to be done."""
    subject, create = Subject.parse(old.subject), wanted.op == CREATE
    other = wanted.subject is not None and Subject.within(context, wanted.subject) != subject
    unfreezes = wanted.frozen is not None and wanted.frozen != old.is_frozen
    lifecycle = STRONG if old.strong else WEAK
    same = not (other or unfreezes) and wanted.lifecycle in (None, lifecycle)
    if create:
        if same and (wanted.schema is None or _is_registered(draft, subject, wanted.schema)):
            return None
        resource = request.resource_id or request.name
        raise errors.RESOURCE_ASSOCIATED(wanted.association_type, resource)
    if same:
        if wanted.schema is None:
            return None
        if lifecycle == WEAK:
            raise ASSOCIATION_INVALID("lifecycle", "cannot be WEAK when schema is provided")
        return _Step(wanted, subject, old, writes=False)
    if other:
        raise ASSOCIATION_INVALID("subject", "subject of association cannot be changed")
    if unfreezes:
        raise ASSOCIATION_INVALID("frozen", "frozen attribute of association cannot be changed")
    if old.is_frozen:
        raise errors.ASSOCIATION_FROZEN(wanted.association_type, old.subject)
    if wanted.lifecycle == STRONG:
        raise unfrozen()
    # What is left was written by others: strong, and not frozen.
    return _Step(wanted, subject, replace(old, lifecycle=wanted.lifecycle), writes=True)


def _check_uniform(found: dict[str | None, Association], steps: list[_Step]) -> None:
    """All associations of a resource own their subjects, or none does."""
    after = {**found, **{step.association.association_type: step.association for step in steps}}
    if steps and len({each.strong for each in after.values()}) > 1:
        detail = "all associations for a resource must have the same lifecycle"
        raise ASSOCIATION_INVALID("lifecycle", detail)


def _check(draft: Draft, request: ResourceRequest, step: _Step) -> None:
    view, subject, name = draft.view, step.subject, step.subject.qualified
    check_writable(view, subject, name)
    if step.wanted.schema is not None and _imports(view, subject):
        raise not_permitted(subject, name, "read-write")
    if not step.writes:
        return
    others = [each for each in associations.of_subject(view, subject) if not _is(each, request, step)]
    if others and step.association.strong:
        raise errors.ASSOCIATION_EXISTS(name)
    if any(each.strong for each in others):
        raise errors.STRONG_ASSOCIATION_EXISTS(name)
    active = versions.exists(view, subject)
    if step.new and step.association.strong and not _imports(view, subject):
        _check_fresh(step, active=active)
    if step.wanted.schema is None and not active:
        raise errors.NO_ACTIVE_VERSION(name)
    if step.association.strong and _is_referenced(view, subject):
        raise errors.SUBJECT_REFERENCED(name)


def _check_fresh(step: _Step, *, active: bool) -> None:
    """A strong association begins its subject: the first schema comes with it."""
    if step.wanted.schema is None:
        raise ASSOCIATION_INVALID("schema", "schema must be provided when creating a frozen association")
    if active:
        detail = "cannot create a frozen association when schemas already exist in the subject"
        raise ASSOCIATION_INVALID("frozen", detail)


def _is(found: Association, request: ResourceRequest, step: _Step) -> bool:
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


def _imports(view: View, subject: Subject) -> bool:
    return mode_in_scope(view, subject) in TAKES_IDS


def _is_registered(draft: Draft, subject: Subject, schema: Register) -> bool:
    """Whether a schema is registered under the subject already; refused where it is none at all."""
    ids = draft.ids.saved()
    step = draft.step()
    try:
        _registered(step, subject, schema)
    except RegistryError as error:
        if error.code != errors.INCOMPATIBLE.code:
            raise
        return False
    finally:
        draft.ids.restore(ids)
    return not step.entries


def _registered(draft: Draft, subject: Subject, schema: Register) -> bytes:
    """Register a schema; what stands there then, as ``Schema``."""
    command = replace(schema, subject=subject.qualified)
    try:
        decision = register(draft.view, command, draft.ids, draft.defaults, draft.parser)
    except RegistryError as error:
        raise _messages_alone(error, subject) from None
    draft.add(decision.entries)
    reply: dict[str, Any] = orjson.loads(decision.reply)
    members = {"subject": subject.qualified} | {name: reply[name] for name in _SCHEMA if name in reply}
    return msgspec.json.encode(members)


def _messages_alone(error: RegistryError, subject: Subject) -> RegistryError:
    """In answers about associations an incompatible schema's messages stand alone (Confluent 8.x)."""
    if error.code != errors.INCOMPATIBLE.code:
        return error
    before, after = (errors.INCOMPATIBLE.template % (subject.qualified, "\0")).split("\0")
    return errors.INCOMPATIBLE_MESSAGES(error.message.removeprefix(before).removesuffix(after))


def remove(draft: Draft, found: list[Association], about: str, *, cascade: bool) -> None:
    """Remove associations; where it cascades, strong ones take their subjects along, for good.

    ``about``: what the client asked for. Raises 40410, 42205, 40908, 42206. A subject that is being imported
    stays: its versions come and go with those of another registry.
    """
    if not found:
        raise errors.ASSOCIATION_NOT_FOUND(about)
    for each in found:
        check_writable(draft.view, Subject.parse(each.subject), each.subject)
        if each.is_frozen and not cascade:
            raise errors.ASSOCIATION_FROZEN(each.association_type, each.subject)
    for each in found:
        draft.add(tombstones(draft.view, each.key))
    for each in found:
        if cascade and each.strong and not _imports(draft.view, Subject.parse(each.subject)):
            _purge(draft, Subject.parse(each.subject))


def _purge(draft: Draft, subject: Subject) -> None:
    for permanent in (False, True):
        if versions.exists(draft.view, subject, deleted=permanent):
            draft.add(delete_subject(draft.view, DeleteSubject(subject.qualified, permanent)).entries)
