"""Request bodies about associations: Confluent's entities, read into the fields of commands."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from registry.domain.commands import AssociationRequest, Failure, Register, ResourceRequest
from registry.domain.errors import ASSOCIATION_INVALID, BAD_REQUEST
from registry.domain.log_format import association_values
from registry.domain.log_format.association_values import LIFECYCLES
from registry.domain.queries.associations import ASSOCIATION_TYPES, RESOURCE_TYPE, Filter

from .bodies import schema_members
from .json_input import (
    BATCH_ENTRIES_MAX,
    boolean,
    check_entries,
    document,
    integer,
    listing,
    members,
    refuse,
    text,
)

T = TypeVar("T")

# Resources in one batch of changes, which is decided at once: 0.2 s if each has a schema.
CHANGES_MAX = 200
# Operations in one batch of changes.
OPERATIONS_MAX = CHANGES_MAX * len(ASSOCIATION_TYPES)
READS_MAX = 1000  # resources in one batch of reads
# Associations read of one resource: one more than there are types names a type twice, which is refused.
_PER_RESOURCE_MAX = len(ASSOCIATION_TYPES) + 1
_OPERATIONS = ("CREATE", "UPSERT", "DELETE")


class BatchGetItem(NamedTuple):
    """One request of ``batchGet``."""

    resource: ResourceRequest
    filter: Filter


def resource_request(body: bytes, *, create: bool) -> ResourceRequest:
    """Read an ``AssociationCreateOrUpdateRequest``; raises 400, 422."""
    name = "createAssociation.request" if create else "createOrUpdateAssociation.request"
    return _resource(document(body, name), "request", _association, _PER_RESOURCE_MAX)


def change_requests(body: bytes) -> list[ResourceRequest]:
    """Read an ``AssociationBatchRequest``; raises 400, 422, 42212."""

    def read(value: Any, member: str) -> ResourceRequest | None:
        source = members(value, member)
        if source is None:
            return None
        error = members(source.get("error"), f"{member}.error")
        if error is not None:
            return ResourceRequest(error=_failure(error, f"{member}.error"))
        return _resource(source, member, _operation, OPERATIONS_MAX + 1)

    found = _batch(body, "mutateAssociations.request", read, CHANGES_MAX)
    if sum(len(each.associations) for each in found) > OPERATIONS_MAX:
        raise ASSOCIATION_INVALID("associations", f"cannot be more than {OPERATIONS_MAX} in a batch")
    return found


def get_requests(body: bytes) -> list[BatchGetItem]:
    """Read an ``AssociationBatchGetRequest``; raises 400, 422, 42212."""
    return _batch(body, "getAssociations.request", _read_item, READS_MAX)


def _batch(body: bytes, name: str, read: Callable[[Any, str], T | None], most: int) -> list[T]:
    requests = document(body, name).get("requests")
    if isinstance(requests, list) and len(requests) > most:
        raise ASSOCIATION_INVALID("requests", f"cannot be more than {most}")
    check_entries(requests, "requests", BATCH_ENTRIES_MAX)
    found = listing(read)(requests, "requests")
    if not found:
        raise ASSOCIATION_INVALID("requests", "cannot be null or empty")
    return found


def _failure(source: dict[str, Any], member: str) -> Failure:
    code = integer(source.get("error_code"), f"{member}.error_code")
    return Failure(code or 0, text(source.get("message"), f"{member}.message") or "")


def _resource_members(source: dict[str, Any], member: str) -> ResourceRequest:
    names = ("resourceName", "resourceNamespace", "resourceId", "resourceType")
    name, namespace, resource_id, kind = (text(source.get(each), f"{member}.{each}") for each in names)
    return ResourceRequest(name, namespace, resource_id, kind)


def _resource(
    source: dict[str, Any], member: str, read: Callable[[Any, str], AssociationRequest | None], most: int
) -> ResourceRequest:
    listed = source.get("associations")
    if isinstance(listed, list):
        listed = listed[:most]
    wanted = listing(read)(listed, f"{member}.associations")
    return replace(_resource_members(source, member), associations=wanted or [])


def _association(value: Any, member: str) -> AssociationRequest | None:
    source = members(value, member)
    return None if source is None else _members_of(source, member)


def _operation(value: Any, member: str) -> AssociationRequest | None:
    source = members(value, member)
    if source is None:
        return None
    op = _one_of(*_OPERATIONS)(source.get("opType"), f"{member}.opType")
    if op is None:
        raise BAD_REQUEST(f"Cannot read '{member}': opType is missing")
    if op != "DELETE":
        return _members_of(source, member, op=op)
    kind = text(source.get("associationType"), f"{member}.associationType")
    cascade = boolean(source.get("cascadeLifecycle"), f"{member}.cascadeLifecycle")
    return AssociationRequest(kind, op=op, cascade=bool(cascade))


def _members_of(source: dict[str, Any], member: str, **options: Any) -> AssociationRequest:
    return AssociationRequest(
        association_type=text(source.get("associationType"), f"{member}.associationType"),
        subject=text(source.get("subject"), f"{member}.subject"),
        lifecycle=_one_of(*LIFECYCLES)(source.get("lifecycle"), f"{member}.lifecycle"),
        frozen=boolean(source.get("frozen"), f"{member}.frozen"),
        schema=_schema(source, member),
        guid=association_values.new_guid(time.time_ns() // 1_000_000, secrets.token_bytes(10)),
        **options,
    )


def _schema(source: dict[str, Any], member: str) -> Register | None:
    normalize = boolean(source.get("normalize"), f"{member}.normalize")
    schema = members(source.get("schema"), f"{member}.schema")
    return None if schema is None else schema_members(schema, "", normalize=bool(normalize))


def _read_item(value: Any, member: str) -> BatchGetItem | None:
    source = members(value, member)
    if source is None:
        return None
    resource = _resource_members(source, member)
    types = listing(text)(source.get("associationTypes"), f"{member}.associationTypes")
    lifecycle = _one_of(*LIFECYCLES)(source.get("lifecycle"), f"{member}.lifecycle")
    if not resource.resource_type:
        resource = replace(resource, resource_type=RESOURCE_TYPE)
    lifecycles = () if lifecycle is None else (lifecycle,)
    return BatchGetItem(resource, Filter(resource.resource_type, tuple(types or ()), lifecycles))


def _one_of(*words: str) -> Callable[[Any, str], str | None]:
    def read(value: Any, member: str) -> str | None:
        if value is not None and value not in words:
            refuse(member, "one of " + ", ".join(words), value)
        return None if value is None else str(value)

    return read
