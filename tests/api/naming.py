"""Where names can stand in a request, and requests that name the same subject at each of these places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from registry.api.operations import Operation
from tests.api.driver import FIRST_TS, record

# Subjects that only root may use, one of them in a context and one associated with a resource, and aliases of
# them. Limited principals may use ``own-*`` in the default context.
OTHER, HELD, DEEP = "other-value", "other-held", ":.hidden:own-value"
ALIAS, DEEP_ALIAS, FORMER_ALIAS = "own-alias", "own-deep", "own-former"
ALIASES = (ALIAS, DEEP_ALIAS, FORMER_ALIAS)
OTHER_ID, OTHER_VERSION = 424242, 77777
SECRET, OWN = record("Secret", "salary"), record("Own", "a")
USES = '{"type":"record","name":"Uses","fields":[{"name":"f","type":"Secret"}]}'
LIKE = USES.replace('"Secret"', record("Secret", "a").replace(',"default":""', ""))

_SUBJECTS = (OTHER, DEEP, ALIAS, DEEP_ALIAS)
_REFERENCED = (":.:other-value", DEEP)
_RESOURCES = {
    "associations.subject": _SUBJECTS,
    "associations.schema.references.subject": _REFERENCED,
    "resourceId": ("id-hid",),
    "resourceName": ("res-hid",),
    "resourceNamespace": ("ns-hid", "hidden"),
}
# The members of bodies, path and query parameters that name subjects, contexts, resources or content, and the
# names that are tried there. ``GUID`` and ``CURSOR`` stand for ones of the other subjects.
NAMES: dict[str, tuple[str, ...]] = {
    "path subject": (*_SUBJECTS, HELD),
    "path context": (".hidden",),
    "path id": (str(OTHER_ID),),
    "path guid": ("GUID",),
    "path resource": ("id-hid",),
    "path namespace": ("ns-hid",),
    "path name": ("res-hid",),
    "query subject": _SUBJECTS,
    "query subjectPrefix": ("other", ":.hidden:", ":*:", ""),
    "query contextPrefix": (".h",),
    "query context": (":.hidden:",),
    "query after": ("alone",),
    "query againstSubject": _SUBJECTS,
    "query id": (str(OTHER_ID),),
    "query guid": ("GUID",),
    "query atOffset": (FORMER_ALIAS, ALIAS, OTHER),
    "query atTime": (FORMER_ALIAS,),
    "query cursor": ("CURSOR",),
    "body context": (".hidden",),
    "body alias": (OTHER, DEEP),
    "body subjectPrefix": ("other",),
    "body references.subject": _REFERENCED,
    "body old.references.subject": _REFERENCED,
    "body new.references.subject": _REFERENCED,
    **{f"body {place}": names for place, names in _RESOURCES.items()},
    **{f"body requests.{place}": names for place, names in _RESOURCES.items()},
}
# All others. Of members of bodies the last part counts; ``aliasForDeks`` is stored, and never followed here.
NAMELESS = {
    "path": "version snapshot webhook source",
    "query": """
        against aliases associationType below cascadeLifecycle clashes compatibilityLevel compatibilityPolicy
        defaultToGlobal deleted deletedAsNegative deletedOnly detail dryRun entity fetchMaxId findTags for
        force format include includeSchemas includeSubjects key kind latestOnly level lifecycle limit mode
        normalize offset operation order outcome permanent principal query recursive referenceFormat
        resourceType reverse ruleType schemaType since sort target until unused value verbose version wait_ms
    """,
    "body": """
        aliasForDeks associationType associationTypes base cascadeLifecycle census compatibility
        compatibilityGroup compatibilityPolicy compatibilityUsed complete enabled ended from frozen id kinds
        lifecycle location
        messages mode ms name newVersion normalize offset opType partitions patterns propagateSchemaTags
        reason resourceType schema schemaType sha256 source sources started state targets to unread url uses
        validateFields validateNewSchemas validateRules version
    """,
}
# Members of bodies that hold no names at any depth.
_NAMELESS_INSIDE = {
    "defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet", "metadata", "ruleSet",
    "rulesToMerge", "rulesToRemove", "schemaTagsToAdd", "schemaTagsToRemove", "tagsToAdd", "tagsToRemove",
}  # fmt: skip
# Query parameters with which an answer shows the most.
_MOST = {
    "aliases": "true", "clashes": "true", "deleted": "true", "detail": "true",
    "findTags": "*", "includeSchemas": "true", "includeSubjects": "true", "level": "FULL", "limit": "100",
    "verbose": "true",
}  # fmt: skip
_CHANGES = ({"opType": "CREATE"}, {"opType": "UPSERT"}, {"opType": "DELETE", "cascadeLifecycle": True})


class Case(NamedTuple):
    """An operation, a place in its requests, and the name that stands there."""

    operation: Operation
    place: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation.method} {self.operation.path} {self.place}={self.name}"


class Request(NamedTuple):
    method: str
    target: str
    body: Any


class Found(NamedTuple):
    """Values behind names that a case cannot know."""

    guid: str
    # An offset at which :data:`FORMER_ALIAS` led to :data:`OTHER`.
    moment: int
    # Of root's second page.
    cursor: str


def places(operation: Operation, components: dict[str, Any]) -> list[str]:
    """Return all path and query parameters and members of bodies of an operation."""
    path = re.findall(r"{(\w+)}", operation.path)
    query = [each.name for each in operation.parameters]
    body = _members(components[operation.request_schema], components) if operation.request_schema else ()
    named = {"path": path, "query": query, "body": body}
    return [f"{kind} {each}" for kind, listed in named.items() for each in listed]


def _members(schema: dict[str, Any], components: dict[str, Any]) -> Iterator[str]:
    """Walk the members of an object in a body down to its leaves, with dots between them."""
    if "$ref" in schema:
        yield from _members(components[schema["$ref"].rpartition("/")[2]], components)
    for each in (*schema.get("anyOf", ()), schema.get("items", {})):
        if each:
            yield from _members(each, components)
    for name, member in schema.get("properties", {}).items():
        if name not in _NAMELESS_INSIDE:
            deeper = list(_members(member, components))
            yield from (f"{name}.{each}" for each in deeper) if deeper else (name,)


def is_nameless(place: str) -> bool:
    kind, _, member = place.partition(" ")
    return member.rpartition(".")[2] in NAMELESS[kind].split()


def absent(name: str) -> str:
    """Return a name like this one under which nothing is stored."""
    if name in ALIASES:
        return "own-absent"
    if name.isdecimal():
        return "999999"
    return name.replace("other", "absent").replace("hid", "non")


def requests(case: Case, found: Found) -> list[Request]:
    """Return the requests of a case, with different bodies; at all other places stand names of the sender."""
    operation, place, name = case
    kind, _, member = place.partition(" ")
    text = {"GUID": found.guid, "CURSOR": found.cursor}.get(name, name)
    path = {
        "subject": "own-value", "version": "latest", "context": ".own", "id": "1", "guid": "0" * 32,
        "resource": "id-own", "namespace": "-", "name": "-", "snapshot": "none", "webhook": "none",
        "source": "none",
    }  # fmt: skip
    known = {each.name for each in operation.parameters}
    query = {key: value for key, value in _MOST.items() if key in known}
    if operation.path == "/changes":
        query["after"] = "-1"
    if kind == "path":
        path[member] = text
    elif member in ("atOffset", "atTime"):
        path["subject"] = text
        query[member] = str(found.moment + (FIRST_TS if member == "atTime" else 0))
    elif kind == "query":
        path |= {"id": str(OTHER_ID)}
        query[member] = text
    if operation.path == "/schemas/lookup" and member not in ("id", "guid"):
        query["id"] = str(OTHER_ID)
    if member == "cursor":
        path |= {"subject": HELD, "resource": "id-hid"}
        query["limit"] = "1"
    elif member == "resourceId":
        path["resource"] = name
    target = operation.path.format(**{key: quote(value, safe="") for key, value in path.items()})
    target += f"?{urlencode(query)}" if query else ""
    at = {"resource": "resourceId"}.get(member, member) if kind == "body" or member == "resource" else ""
    return [Request(operation.method, target, body) for body in _bodies(operation, at, name)]


def _bodies(operation: Operation, member: str, name: str) -> list[Any]:
    uses = _using(name)
    match operation.request_schema:
        case "RegisterSchemaRequest" if member:
            return [uses, {**uses, "schema": LIKE}]
        case "RegisterSchemaRequest":
            changing = {"schema": OWN, "propagateSchemaTags": True}
            return [{"schema": SECRET}, {"schema": OWN}, changing, {"schema": ""}]
        case "ExplainRequest" | "ComparisonRequest":
            old, new = uses, {"schema": LIKE}
            return [{"old": old, "new": new} if member.startswith("old") else {"old": new, "new": old}]
        case "AssociationRequest":
            return [_resource(member, name, each) for each in _associations(member, name)]
        case "AssociationBatchRequest":
            inner = member.removeprefix("requests.")
            return [
                {
                    "requests": [
                        _resource(inner, name, {**each, "opType": op, "cascadeLifecycle": op == "DELETE"})
                    ]
                }
                for op in ("CREATE", "UPSERT", "DELETE")
                for each in _associations(inner, name)
            ]
        case "AssociationBatchGetRequest":
            by_id = member.endswith("resourceId")
            named = {} if by_id else {"resourceName": "res-hid", "resourceNamespace": "ns-hid"}
            return [{"requests": [{**named, member.rpartition(".")[2]: name}]}]
        case "ConfigUpdateRequest":
            return [{"alias": name}] if member else [{"compatibility": "NONE"}, {"alias": OTHER}]
        case "ModeUpdateRequest":
            return [{"mode": "READONLY"}]
        case "TagSchemaRequest":
            return [{"rulesToRemove": ["none"]}]
        case "IdRelease":
            return [{"context": name or ".", "from": OTHER_ID + 1}]
        case "WebhookRequest":
            return [{"url": "https://receiver.example", "subjectPrefix": name}]
        case "Usage":
            return [{"census": "c", "state": "read", "context": name or "."}]
        case "Census":
            return [{"id": "c", "location": "", "sha256": "", "started": 1, "ended": 2, "complete": True}]
        case "WebhookPosition":
            return [{"offset": 0}]
        case _:
            return [None]


def _using(name: str) -> dict[str, Any]:
    return {"schema": USES, "references": [{"name": "Secret", "subject": name, "version": OTHER_VERSION}]}


def _associations(member: str, name: str) -> list[dict[str, Any]]:
    """Return associations: with a subject, and of the default one with and without a schema."""
    subject = name if member == "associations.subject" else "own-value"
    schema = _using(name) if member.endswith("references.subject") else {"schema": OWN}
    value = {"associationType": "value"}
    return [{**value, "subject": subject}, {**value, "schema": schema}, {**value, "lifecycle": "STRONG"}]


def _resource(member: str, name: str, association: dict[str, Any]) -> dict[str, Any]:
    found = {"resourceName": "own", "resourceNamespace": "ns-own", "resourceId": "id-own"}
    return {**found, **({member: name} if member in found else {}), "associations": [association]}
