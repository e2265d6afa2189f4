"""Permissions: every operation of the table, with every role, on own, other and missing subjects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from registry.api.operations import Operation
from registry.api.routes import document, operations
from registry.security.authorization.rules import ROLES
from tests.api.driver import Reply, record
from tests.api.permitting import PermittingApi, rule

OPEN, SHOWN, ADMIN = "open", "shown", "registry"
# What each operation needs: ``OPEN`` nothing; ``SHOWN`` nothing, but only what may be read is shown;
# ``ADMIN`` admin on the whole registry; else the permission on the subject in the path or in the body, and on
# a context or the top level another one.
NEEDED: dict[tuple[str, str], str] = {
    ("GET", "/"): OPEN,
    ("POST", "/"): OPEN,
    ("GET", "/_health"): OPEN,
    ("GET", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("GET", "/health/started"): OPEN,
    ("GET", "/master_available"): OPEN,
    ("GET", "/me"): OPEN,
    ("POST", "/me/session"): OPEN,
    ("DELETE", "/me/session"): OPEN,
    ("GET", "/metrics"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/schemas/types"): OPEN,
    ("GET", "/v1/metadata/deployment"): OPEN,
    ("GET", "/v1/metadata/id"): OPEN,
    ("GET", "/v1/metadata/version"): OPEN,
    ("POST", "/compatibility/explain"): OPEN,
    ("POST", "/schemas/lint"): OPEN,
    ("POST", "/schemas/differences"): SHOWN,
    ("POST", "/schemas/comparison"): OPEN,
    ("GET", "/schemas/lookup"): SHOWN,
    ("GET", "/scopes"): "config",
    ("GET", "/node"): ADMIN,
    ("GET", "/admin/cluster"): ADMIN,
    ("GET", "/quarantine"): ADMIN,
    ("GET", "/admin/configs"): ADMIN,
    ("GET", "/admin/modes"): ADMIN,
    ("GET", "/admin/ids"): ADMIN,
    ("POST", "/admin/ids/release"): ADMIN,
    ("GET", "/admin/duplicates"): ADMIN,
    ("GET", "/admin/audit"): ADMIN,
    ("GET", "/admin/snapshots"): ADMIN,
    ("POST", "/admin/snapshots"): ADMIN,
    ("GET", "/admin/snapshots/{snapshot}"): ADMIN,
    ("DELETE", "/admin/snapshots/{snapshot}"): ADMIN,
    ("GET", "/admin/webhooks"): ADMIN,
    ("GET", "/admin/webhooks/{webhook}"): ADMIN,
    ("PUT", "/admin/webhooks/{webhook}"): ADMIN,
    ("DELETE", "/admin/webhooks/{webhook}"): ADMIN,
    ("POST", "/admin/webhooks/{webhook}/rotate"): ADMIN,
    ("POST", "/admin/webhooks/{webhook}/position"): ADMIN,
    ("POST", "/admin/webhooks/{webhook}/test"): ADMIN,
    ("GET", "/usage/census"): SHOWN,
    ("GET", "/usage/subjects"): SHOWN,
    ("GET", "/usage/schemas/{id}"): SHOWN,
    ("GET", "/usage/subjects/{subject}"): "read",
    ("GET", "/usage/subjects/{subject}/askers"): "read",
    ("GET", "/usage/schemas/{id}/askers"): ADMIN,
    ("GET", "/usage/unknown"): ADMIN,
    ("PUT", "/usage/census"): ADMIN,
    ("GET", "/usage/sources"): ADMIN,
    ("GET", "/usage/sources/{source}"): ADMIN,
    ("PUT", "/usage/sources/{source}"): ADMIN,
    ("DELETE", "/usage/sources/{source}"): ADMIN,
    ("GET", "/subjects"): SHOWN,
    ("GET", "/search"): SHOWN,
    ("GET", "/schemas"): SHOWN,
    ("GET", "/changes"): SHOWN,
    ("GET", "/contexts"): SHOWN,
    ("GET", "/schemas/ids/{id}"): SHOWN,
    ("GET", "/schemas/ids/{id}/schema"): SHOWN,
    ("GET", "/schemas/ids/{id}/subjects"): SHOWN,
    ("GET", "/schemas/ids/{id}/versions"): SHOWN,
    ("GET", "/schemas/guids/{guid}"): SHOWN,
    ("GET", "/schemas/guids/{guid}/ids"): SHOWN,
    ("GET", "/associations/resources/{resource}"): SHOWN,
    ("GET", "/associations/resources/{namespace}/{name}"): SHOWN,
    ("POST", "/associations:batchGet"): SHOWN,
    ("GET", "/associations/subjects/{subject}"): "read",
    ("POST", "/subjects/{subject}"): "read",
    ("GET", "/subjects/{subject}/history"): "read",
    ("GET", "/subjects/{subject}/metadata"): "read",
    ("GET", "/subjects/{subject}/versions"): "read",
    ("GET", "/subjects/{subject}/versions/{version}"): "read",
    ("GET", "/subjects/{subject}/versions/{version}/schema"): "read",
    ("GET", "/subjects/{subject}/versions/{version}/referencedby"): "read",
    ("GET", "/subjects/{subject}/versions/{version}/graph"): "read",
    ("GET", "/subjects/{subject}/versions/{version}/fields"): "read",
    ("GET", "/subjects/{subject}/versions/{version}/explain"): "read",
    ("GET", "/subjects/{subject}/versions/{version}/comparison"): "read",
    ("GET", "/subjects/{subject}/timeline"): "read",
    ("GET", "/subjects/{subject}/summary"): "read",
    ("POST", "/subjects/{subject}/versions"): "write",
    ("POST", "/subjects/{subject}/versions/{version}/tags"): "write",
    ("POST", "/associations"): "write",
    ("PUT", "/associations/resources/{resource}"): "write",
    ("DELETE", "/associations/resources/{resource}"): "write",
    ("POST", "/associations:batchMutate"): "write",
    ("DELETE", "/subjects/{subject}"): "delete",
    ("DELETE", "/subjects/{subject}/versions/{version}"): "delete",
    ("DELETE", "/contexts/{context}"): "delete",
    ("POST", "/compatibility/subjects/{subject}/explain"): "compatibility",
    ("POST", "/compatibility/subjects/{subject}/versions"): "compatibility",
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): "compatibility",
    ("GET", "/config/{subject}"): "read",
    ("PUT", "/config/{subject}"): "config",
    ("DELETE", "/config/{subject}"): "config",
    ("GET", "/mode/{subject}"): "read",
    ("PUT", "/mode/{subject}"): "mode",
    ("DELETE", "/mode/{subject}"): "mode",
    ("GET", "/config"): "config",
    ("PUT", "/config"): "config",
    ("DELETE", "/config"): "config",
    ("GET", "/mode"): "mode",
    ("PUT", "/mode"): "mode",
    ("DELETE", "/mode"): "mode",
}

# Need nothing but to read the references in the body.
REFERRING = ("/compatibility/explain", "/schemas/comparison", "/schemas/lint")
CENSUS = {"id": "c", "location": "/c", "sha256": "0", "started": 1, "ended": 2, "complete": True}
SCHEMA = {"schema": record("R", "a")}


async def metrics() -> bytes:
    return b""


TABLE = operations("1", metrics)
GRANTED = {role: {each.value for each in permissions} for role, permissions in ROLES.items()} | {
    "nobody": set()
}


def test_every_operation_of_the_table_has_a_permission() -> None:
    assert {(each.method, each.path) for each in TABLE} == set(NEEDED)


def test_the_description_names_the_refusal_of_operations_that_need_a_permission() -> None:
    paths = document(TABLE, "1")["paths"]
    for each in TABLE:
        needs = NEEDED[each.method, each.path] not in (OPEN, SHOWN) or each.path in REFERRING
        described = paths[each.path][each.method.lower()]["responses"].get("403", {"description": ""})
        assert ("40301" in described["description"]) is needs


class Place(NamedTuple):
    """A subject, and the associated resource with its name."""

    subject: str

    def target(self, operation: Operation) -> str:
        values = {
            "subject": self.subject, "version": "1", "id": "1", "guid": "0" * 32,
            "context": f".{self.subject}", "snapshot": "none", "webhook": "none", "source": "none",
            "resource": f"id-{self.subject}", "namespace": "-", "name": "-",
        }  # fmt: skip
        return operation.path.format(**values)

    def body(self, operation: Operation) -> Any:
        resource = {"resourceName": "r", "resourceNamespace": "n", "resourceId": f"id-{self.subject}"}
        wanted = {"subject": self.subject, "associationType": "key", "lifecycle": "WEAK"}
        match operation.request_schema:
            case "AssociationRequest":
                return {**resource, "associations": [wanted]}
            case "AssociationBatchRequest":
                return {"requests": [{**resource, "associations": [{**wanted, "opType": "CREATE"}]}]}
            case "AssociationBatchGetRequest":
                return {"requests": [resource]}
            case "ConfigUpdateRequest":
                return {"compatibility": "NONE"}
            case "WebhookRequest":
                return {"url": "https://receiver.example"}
            case "IdRelease":
                return {"from": 1000}
            case "Usage":
                return {"census": "c", "state": "read"}
            case "Census":
                return CENSUS
            case "WebhookPosition":
                return {"offset": 0}
            case "ModeUpdateRequest":
                return {"mode": "READWRITE"}
            case "TagSchemaRequest":
                return {"rulesToRemove": ["none"]}
            case "ExplainRequest" | "ComparedSchemas" | "ComparisonRequest":
                return {"old": SCHEMA, "new": SCHEMA}
            case "":
                return None
            case _:
                return SCHEMA


OWN, OWN_MISSING = Place("own-value"), Place("own-missing")
OTHER, OTHER_MISSING = Place("other-value"), Place("other-missing")


@pytest.fixture
def api() -> Iterator[PermittingApi]:
    rules = [rule(role, role, "own-*", ":.own-value:*", ":.own-missing:*") for role in ROLES]
    with PermittingApi("".join(rules)) as found:
        for place in (OTHER, OWN):
            found.register(place.subject, SCHEMA["schema"])
            body = place.body(next(each for each in TABLE if each.path == "/associations"))
            assert found.post("/associations", body).status == 200
        yield found


def send(api: PermittingApi, operation: Operation, place: Place, user: str) -> Reply:
    headers = {"content-type": "application/json"} if operation.request_schema else {}
    return api.request(operation.method, place.target(operation), place.body(operation), headers, user=user)


def code(reply: Reply) -> int:
    """The error's code; that of the only result of a batch."""
    if reply.status == 207:
        return int(reply.json["results"][0].get("error", {}).get("error_code", 207))
    return int(reply.json["error_code"]) if reply.status >= 400 else reply.status


@pytest.mark.parametrize("user", sorted(GRANTED))
@pytest.mark.parametrize("operation", TABLE, ids=lambda each: f"{each.method} {each.path}")
def test_every_operation_with_every_role(api: PermittingApi, operation: Operation, user: str) -> None:
    needed, granted = NEEDED[operation.method, operation.path], GRANTED[user]
    removes = (operation.method, operation.path) == ("DELETE", "/associations/resources/{resource}")
    for place in (OTHER, OTHER_MISSING):
        reply = send(api, operation, place, user)
        # Nothing is removed from a resource without associations, so nothing is refused.
        free = needed in (OPEN, SHOWN) or (removes and place is OTHER_MISSING)
        assert (code(reply) == 40301) is not free
        assert free or reply.status in (403, 207)
        assert b'"subject":"other-value"' not in reply.body
        assert b'["other-value' not in reply.body
    for place in (OWN_MISSING, OWN):
        reply = send(api, operation, place, user)
        free = needed in (OPEN, SHOWN) or (removes and place is OWN_MISSING)
        elsewhere = needed == ADMIN or operation.path in ("/config", "/mode", "/scopes")
        assert (code(reply) != 40301) is (free or (needed in granted and not elsewhere)), reply.body
        assert reply.status != 500


@pytest.mark.parametrize("operation", TABLE, ids=lambda each: f"{each.method} {each.path}")
def test_an_administrator_of_everything_may_do_everything(api: PermittingApi, operation: Operation) -> None:
    for place in (OWN, OTHER, OTHER_MISSING):
        assert code(send(api, operation, place, "root")) != 40301


@pytest.mark.parametrize("operation", TABLE, ids=lambda each: f"{each.method} {each.path}")
@pytest.mark.parametrize("user", ["admin", "nobody"])
def test_a_refusal_is_the_same_whether_or_not_the_subject_exists(
    api: PermittingApi, operation: Operation, user: str
) -> None:
    if "{subject}" in operation.path:
        replies = [send(api, operation, each, user) for each in (OTHER, OTHER_MISSING)]
        texts = [each.body.replace(b"other-value", b"X").replace(b"other-missing", b"X") for each in replies]
        assert texts[0] == texts[1]
        assert replies[0].status == replies[1].status == 403
