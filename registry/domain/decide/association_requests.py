"""Checks of requests about associations before any stored data is read (Confluent 8.3.1). All raise 42212."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID, RegistryError
from registry.domain.model import Subject
from registry.domain.queries.associations import (
    ASSOCIATION_TYPES,
    RESOURCE_TYPE,
    STRONG,
    WEAK,
    AssociationRules,
)

CREATE, UPSERT, DELETE = "CREATE", "UPSERT", "DELETE"
# The maximum length of a resource's name or namespace, in UTF-16 units.
NAME_MAX = 256
_EMPTY = "cannot be null or empty"


def checked(
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
            raise ASSOCIATION_INVALID(
                "associationType", f"Duplicate association type: {each.association_type}"
            )
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


def filled(request: ResourceRequest, wanted: AssociationRequest) -> AssociationRequest:
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
    if wanted.lifecycle == WEAK and wanted.frozen:
        raise ASSOCIATION_INVALID("frozen", "association with lifecycle of WEAK cannot be frozen")
    if rules.strong_is_frozen and wanted.lifecycle == STRONG and wanted.frozen is False:
        raise unfrozen()


def weak_with_schema() -> RegistryError:
    """Return the error for a weak association with a schema."""
    return ASSOCIATION_INVALID("lifecycle", "cannot be WEAK when schema is provided")


def unfrozen() -> RegistryError:
    """Return the error for a strong association that is not frozen."""
    return ASSOCIATION_INVALID("frozen", "association with lifecycle of STRONG cannot be frozen=false")


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
        wanted = filled(request, wanted)
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
            raise ASSOCIATION_INVALID("frozen", "cannot be false when schema is provided for create")
        return replace(wanted, lifecycle=STRONG, frozen=True)
    lifecycle = wanted.lifecycle or WEAK
    frozen = implied_frozen(lifecycle, rules) if wanted.frozen is None else wanted.frozen
    wanted = replace(wanted, lifecycle=lifecycle, frozen=frozen)
    check_lifecycle(wanted, rules)
    return wanted


def implied_frozen(lifecycle: str | None, rules: AssociationRules) -> bool:
    """Return the value of ``frozen`` for a new association that leaves it out."""
    return rules.strong_is_frozen and lifecycle == STRONG
