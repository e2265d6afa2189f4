"""What a request about associations may say, whatever is stored (Confluent 8.x); all refusals are 42212."""

from __future__ import annotations

import unicodedata
from collections import Counter

from msgspec.structs import replace

from registry.domain.associations import ASSOCIATION_TYPES, RESOURCE_TYPE, STRONG, WEAK
from registry.domain.commands import ResourceRequest, WantedAssociation
from registry.domain.errors import ASSOCIATION_INVALID, RegistryError
from registry.domain.model import Subject

CREATE, UPSERT, DELETE = "CREATE", "UPSERT", "DELETE"
NAME_MAX = 256
"""Characters of a resource's name or namespace."""
_EMPTY = "cannot be null or empty"


def checked(request: ResourceRequest, context: str, *, dry_run: bool) -> ResourceRequest:
    """The request with its defaults filled in, as far as they do not rest on what is stored."""
    _check_name(request.name, "resourceName")
    _check_name(request.namespace, "resourceNamespace")
    if not request.resource_id and not dry_run:
        raise ASSOCIATION_INVALID("resourceId", _EMPTY)
    if request.resource_type and request.resource_type != RESOURCE_TYPE:
        raise ASSOCIATION_INVALID("resourceType", f"must be '{RESOURCE_TYPE}'")
    if not request.associations:
        raise ASSOCIATION_INVALID("associations", _EMPTY)
    request = replace(request, resource_type=RESOURCE_TYPE)
    wanted = [_checked(request, context, each) for each in request.associations]
    for kind, count in Counter(each.association_type for each in wanted).items():
        if count > 1:
            raise ASSOCIATION_INVALID("associationType", f"'{kind}' may be given once in a request")
    return replace(request, associations=wanted)


def _check_name(name: str | None, member: str) -> None:
    if not name:
        raise ASSOCIATION_INVALID(member, _EMPTY)
    if len(name) > NAME_MAX:
        raise ASSOCIATION_INVALID(member, f"exceeds max length of {NAME_MAX}")
    for each in name:
        # Letters and digits as Java counts them: one character of UTF-16 at a time.
        if each > "\uffff" or not (each.isalpha() or each.isdecimal() or each in "_-"):
            raise ASSOCIATION_INVALID(member, f"illegal character '{each}'")


def _checked(request: ResourceRequest, context: str, wanted: WantedAssociation) -> WantedAssociation:
    kind = wanted.association_type or "value"
    if kind not in ASSOCIATION_TYPES:
        raise ASSOCIATION_INVALID("associationType", "must be either 'key' or 'value'")
    wanted = replace(wanted, association_type=kind)
    if wanted.op == DELETE:
        return wanted
    if wanted.op == CREATE:
        wanted = _created(wanted)
    if wanted.subject is not None:
        _check_subject(wanted.subject)
    _check_lifecycle(wanted)
    return placed(request, context, wanted) if wanted.op == CREATE else wanted


def _created(wanted: WantedAssociation) -> WantedAssociation:
    """With a schema a new association is strong; else it is weak unless it says otherwise."""
    if wanted.schema is None:
        lifecycle = wanted.lifecycle or WEAK
        return replace(
            wanted,
            lifecycle=lifecycle,
            frozen=lifecycle == STRONG if wanted.frozen is None else wanted.frozen,
        )
    if wanted.lifecycle == WEAK:
        raise ASSOCIATION_INVALID("lifecycle", "cannot be WEAK when schema is provided for create")
    if wanted.frozen is False:
        raise ASSOCIATION_INVALID("frozen", "cannot be false when schema is provided for create")
    return replace(wanted, lifecycle=STRONG, frozen=True)


def _check_subject(subject: str) -> None:
    if not subject or any(unicodedata.category(each) == "Cc" for each in subject):
        raise ASSOCIATION_INVALID("subject", "must not be empty")


def _check_lifecycle(wanted: WantedAssociation) -> None:
    if wanted.lifecycle == WEAK and wanted.schema is not None:
        raise ASSOCIATION_INVALID("lifecycle", "cannot be WEAK when schema is provided")
    if wanted.lifecycle == WEAK and wanted.frozen:
        raise ASSOCIATION_INVALID("frozen", "association with lifecycle of WEAK cannot be frozen")
    if wanted.lifecycle == STRONG and wanted.frozen is False:
        raise unfrozen()


def unfrozen() -> RegistryError:
    """The refusal of a strong association that is not frozen."""
    return ASSOCIATION_INVALID("frozen", "association with lifecycle of STRONG cannot be frozen=false")


def placed(request: ResourceRequest, context: str, wanted: WantedAssociation) -> WantedAssociation:
    """A new association with its subject, qualified: a strong one has the resource's own, a weak one not."""
    own = Subject.parse(f":.{request.namespace}:{request.name}-{wanted.association_type}")
    strong = wanted.lifecycle == STRONG
    if wanted.subject is None:
        if not strong:
            raise ASSOCIATION_INVALID("subject", "must be provided for non-frozen associations")
        return replace(wanted, subject=own.qualified)
    given = Subject.within(context, wanted.subject)
    if strong and given != own:
        raise ASSOCIATION_INVALID("subject", f"frozen associations must use subject '{own.qualified}'")
    if not strong and given == own:
        raise ASSOCIATION_INVALID("subject", f"WEAK associations cannot use subject '{own.qualified}'")
    return replace(wanted, subject=given.qualified)
