"""Schemas that the client may not read: no answer shows them, neither directly nor by references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from registry.api.operations import Operation
from registry.api.routes import operations
from registry.domain.commands import Command, Outcome, Refused
from registry.domain.compatibility.results import HIDDEN, SUBJECTS_MAX
from registry.domain.parsing import stored
from registry.domain.pending_command import NO_ORIGIN, Origin
from tests.api.associating import FORMER
from tests.api.driver import ListBackend, Reply
from tests.api.permitting import PermittingApi, rule

RULES = (
    rule("bob", "read,write,compatibility", "shop-*", ":.n:*")
    + rule("carol", "write,compatibility", "shop-*", ":.n:*")
    + rule("owner", "operator", "shop-*", ":.n:*")
    + rule("erin", "read,write,compatibility", "shop-*", ":.n:*", "secret-*")
)


def text(value: Any) -> str:
    return orjson.dumps(value).decode()


def avro(name: str, *fields: tuple[str, Any]) -> str:
    listed = [{"name": field, "type": kind} for field, kind in fields]
    return text({"type": "record", "name": name, "fields": listed})


def json(**properties: Any) -> str:
    return text({"type": "object", "properties": properties, "additionalProperties": False})


def refers(name: str, subject: str, version: int = 1) -> list[dict[str, Any]]:
    return [{"name": name, "subject": subject, "version": version}]


# For each format: what may not be read, a schema that refers to it, one that refers to that, and one that is
# incompatible with the last.
FORMATS: dict[str, tuple[dict[str, Any], ...]] = {
    "AVRO": (
        {"schema": avro("Pay", ("iban", "string"))},
        {"schema": avro("Mid", ("pay", "Pay")), "references": refers("Pay", "secret-pay")},
        {"schema": avro("Order", ("mid", "Mid")), "references": refers("Mid", "shop-mid")},
        {"schema": avro("Order", ("mid", {
            "type": "record", "name": "Mid", "fields": [{"name": "pay", "type": {
                "type": "record", "name": "Pay", "fields": [{"name": "other", "type": "int"}],
            }}],
        }))},
    ),
    "JSON": (
        {"schema": json(iban={"type": "string"})},
        {"schema": json(pay={"$ref": "pay.json"}), "references": refers("pay.json", "secret-pay")},
        {"schema": json(mid={"$ref": "mid.json"}), "references": refers("mid.json", "shop-mid")},
        {"schema": json(mid=orjson.loads(json(pay=orjson.loads(json(other={"type": "string"})))))},
    ),
}  # fmt: skip


MID = {"AVRO": "Mid", "JSON": "mid.json"}


@pytest.fixture(params=sorted(FORMATS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def api(kind: str) -> Iterator[PermittingApi]:
    # By the rules of 8.3, an association that becomes strong can bring a schema.
    with PermittingApi(RULES, FORMER) as found:
        for scope in ("/config", "/config/:.n:"):
            found.request("PUT", scope, {"compatibility": "FULL_TRANSITIVE"})
        for subject, body in zip(("secret-pay", "shop-mid", "shop-order"), FORMATS[kind], strict=False):
            reply = found.request("POST", f"/subjects/{subject}/versions", {"schemaType": kind, **body})
            assert reply.status == 200, reply.body
        owned = {**FORMATS[kind][2], "references": refers(MID[kind], ":.:shop-mid")}
        reply = found.request("POST", "/associations", associating({"schemaType": kind, **owned}))
        assert reply.status == 200, reply.body
        yield found


def incompatible(kind: str) -> dict[str, Any]:
    return {"schemaType": kind, **FORMATS[kind][3]}


def associating(schema: dict[str, Any], name: str = "r", **more: Any) -> dict[str, Any]:
    """A request to own the subject ``:.n:NAME-value`` with a schema."""
    named = {"resourceName": name, "resourceNamespace": "n", "resourceId": name}
    return {**named, "associations": [{"associationType": "value", **more, "schema": schema}]}


def requests(kind: str) -> list[tuple[str, str, Any, dict[str, str]]]:
    """All requests whose answers explain why a schema is incompatible."""
    body = incompatible(kind)
    checks = "/compatibility/subjects/shop-order/versions"
    plain = {"accept": "text/plain", "content-type": "application/json"}
    batch = {"requests": [associating(body, opType="UPSERT")]}
    return [
        ("POST", f"{checks}?verbose=true", body, {}),
        ("POST", f"{checks}/1?verbose=true", body, {}),
        ("POST", f"{checks}/latest?verbose=true", body, {}),
        ("POST", checks, body, plain),
        ("POST", f"{checks}/1", body, plain),
        ("POST", "/subjects/shop-order/versions", body, {}),
        ("PUT", "/associations/resources/r", associating(body), {}),
        ("PUT", "/associations/resources/r?dryRun=true", associating(body), {}),
        ("POST", "/associations:batchMutate", batch, {}),
    ]


def answers(api: PermittingApi, kind: str, user: str) -> list[Reply]:
    return [
        api.request(method, target, body, headers, user=user)
        for method, target, body, headers in requests(kind)
    ]


def test_reasons_name_nothing_of_referenced_schemas_that_may_not_be_read(
    api: PermittingApi, kind: str
) -> None:
    for full, reply in zip(answers(api, kind, "erin"), answers(api, kind, "bob"), strict=True):
        assert b"iban" in full.body
        assert b"passages" not in full.body + reply.body
        assert b"iban" not in reply.body
        assert reply.status == full.status
        assert HIDDEN.encode() in reply.body or reply.body == (
            b"Incompatible: subject shop-order at FULL_TRANSITIVE\n\n"
            b"What concerns schemas that you may not read is not shown.\n"
        )
    of_root, of_erin = ([each.body for each in answers(api, kind, user)] for user in ("root", "erin"))
    assert of_root == of_erin


def test_the_verdict_says_what_is_left_out_and_which_version_failed(api: PermittingApi, kind: str) -> None:
    checks = "/compatibility/subjects/shop-order/versions?verbose=true"
    reply = api.request("POST", checks, incompatible(kind), user="bob").json
    assert (reply["is_compatible"], reply["changes"]) == (False, [])
    assert reply["messages"][:2] == [HIDDEN, "{oldSchemaVersion: 1}"]
    assert "oldSchema:" in reply["messages"][2]  # which may be read
    refused = api.request("POST", "/subjects/shop-order/versions", incompatible(kind), user="bob")
    assert (refused.status, refused.json["error_code"]) == (409, 40901)
    assert refused.json["message"].endswith(f"details: [{', '.join(reply['messages'])}]")


def test_who_may_write_but_not_read_gets_no_text_of_earlier_versions(api: PermittingApi, kind: str) -> None:
    api.request("POST", "/subjects/shop-plain/versions", {"schemaType": kind, **FORMATS[kind][0]})
    body = {"schemaType": kind, "schema": FORMATS[kind][0]["schema"].replace("string", "boolean")}
    for target in (
        "/subjects/shop-plain/versions",
        "/compatibility/subjects/shop-plain/versions?verbose=true",
    ):
        full, reply = (api.request("POST", target, body, user=user) for user in ("bob", "carol"))
        assert b"oldSchema:" in full.body
        assert b"oldSchema:" not in reply.body
        assert b"oldSchemaVersion: 1" in reply.body
        # What does not fit is no secret: who may not see it could not correct it.
        assert b"errorType:" in reply.body
        if "changes" in full.json:
            assert {each["old"] is None for each in full.json["changes"]} == {False}
            assert {each["old"] for each in reply.json["changes"]} == {None}


def test_versions_are_not_compared_by_schemas_that_may_not_be_read(api: PermittingApi, kind: str) -> None:
    api.request("PUT", "/config/shop-order", {"compatibility": "NONE"})
    assert api.request("POST", "/subjects/shop-order/versions", incompatible(kind)).json["version"] == 2
    api.request("PUT", "/config/shop-order", {"compatibility": "BACKWARD"})
    of_erin, of_bob = (
        api.request("GET", "/subjects/shop-order/versions/2/explain", user=user) for user in ("erin", "bob")
    )
    assert b"iban" in of_erin.body
    assert b"iban" not in of_bob.body
    assert of_bob.error[:2] == (422, 42201)
    # The verdict is remembered by now, but not for whoever may not know of it.
    of_erin, of_bob = (
        api.request("GET", "/subjects/shop-order/timeline", user=user).json["versions"][0]
        for user in ("erin", "bob")
    )
    assert of_erin.pop("compatible") is False
    assert of_bob == of_erin


def test_tags_make_no_version_of_a_schema_that_refers_to_one_that_may_not_be_read(
    api: PermittingApi,
) -> None:
    body = {"rulesToRemove": ["none"]}
    for subject in ("shop-mid", "shop-order"):
        target = f"/subjects/{subject}/versions/1/tags"
        reply = api.request("POST", target, body, user="bob")
        message = "User is denied operation Read on Subject: secret-pay"
        assert reply.error == (403, 40301, message)
        assert api.get(f"/subjects/{subject}/versions").json == [1]
        assert api.request("POST", target, body, user="erin").status == 200


@pytest.mark.parametrize("wanted", [{"schema": ""}, {"propagateSchemaTags": True}])
def test_what_is_taken_from_the_latest_version_needs_read(
    api: PermittingApi, kind: str, wanted: dict[str, Any]
) -> None:
    body = {"schemaType": kind, **FORMATS[kind][0], **wanted}
    asked = [
        ("POST", "/subjects/shop-order/versions", body),
        ("POST", "/associations", associating(body)),
        ("PUT", "/associations/resources/r", associating(body)),
    ]
    for method, target, each in asked:
        for user in ("bob", "carol"):
            reply = api.request(method, target, each, user=user)
            assert reply.error == (403, 40301, reply.json["message"])
    batch = {"requests": [associating(body, opType="CREATE")]}
    for user in ("bob", "carol"):
        (result,) = api.request("POST", "/associations:batchMutate", batch, user=user).json["results"]
        assert result["error"]["error_code"] == 40301


@pytest.mark.parametrize(("user", "shown"), [("bob", True), ("carol", False)])
def test_who_may_not_read_gets_no_metadata_that_a_version_inherits(
    api: PermittingApi, kind: str, user: str, shown: bool
) -> None:
    text = FORMATS[kind][0]["schema"]
    first = {"schemaType": kind, "schema": text, "metadata": {"properties": {"owner": "secret-team"}}}
    assert api.request("POST", "/subjects/shop-meta/versions", first).status == 200
    api.request("PUT", "/config/shop-meta", {"compatibility": "NONE"})
    for body in (text, text.replace("iban", "next")):  # the first of them is registered already
        wanted = {"schemaType": kind, "schema": body}
        reply = api.request("POST", "/subjects/shop-meta/versions", wanted, user=user)
        assert (reply.status, b"secret-team" in reply.body) == (200, shown)
        assert reply.json["id"] > 0
    weak = {"subject": "shop-meta", "associationType": "value", "lifecycle": "WEAK"}
    owner = {"resourceName": "m", "resourceNamespace": "n", "resourceId": "m"}
    assert api.post("/associations", {**owner, "associations": [weak]}).status == 200
    strong = {**weak, "lifecycle": "STRONG", "schema": {**wanted, "schema": text.replace("iban", "last")}}
    reply = api.request("PUT", "/associations/resources/m", {**owner, "associations": [strong]}, user=user)
    assert (reply.status, b"secret-team" in reply.body) == (200, shown)
    assert reply.json["associations"][0]["schema"]["version"] == 3


def test_a_schema_is_not_hidden_behind_more_references_than_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored, "DEPENDENCIES_MAX", 3)
    with PermittingApi(rule("bob", "developer", "shop-*")) as api:
        api.register("secret-pay", avro("Pay", ("iban", "string")))
        listed = []
        for number in range(5):
            api.register(f"shop-{number}", avro("N", (f"f{number}", "int")))
            listed += refers("N", f"shop-{number}")  # of one name, so only the first one is used
        api.register("shop-order", avro("Order", ("pay", "int")))
        listed += refers("Pay", "secret-pay")
        body = {"schema": avro("Order", ("pay", "Pay")), "references": listed}
        for target in (
            "/compatibility/subjects/shop-order/versions?verbose=true",
            "/subjects/shop-order?format=resolved",
            "/subjects/shop-order/versions?format=resolved",
            "/schemas/lint",
        ):
            reply = api.request("POST", target, body, user="bob")
            message = "The schema uses more than 3 other schemas"
            assert reply.error == (422, 42201, message), target


# Words that make an answer show more than it usually does.
WORDS = {"format": "resolved", "findTags": "*", "subject": "shop-order", "level": "FULL"}
# Operations that show the hidden fields to those who may read them.
SHOWING = {
    ("GET", "/subjects/{subject}/versions/{version}"),
    ("GET", "/subjects/{subject}/versions/{version}/schema"),
    ("POST", "/subjects/{subject}/versions"),
    ("POST", "/subjects/{subject}/versions/{version}/tags"),
    ("POST", "/compatibility/subjects/{subject}/versions"),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"),
    ("POST", "/compatibility/explain"),
    ("PUT", "/associations/resources/{resource}"),
    ("POST", "/associations:batchMutate"),
}
BODIES = {
    "AssociationBatchGetRequest": {"requests": [{"resourceId": "r"}]},
    "ConfigUpdateRequest": {"validateFields": True},
    "ModeUpdateRequest": {"mode": "READWRITE"},
    "TagSchemaRequest": {"rulesToRemove": ["none"]},
}


async def metrics() -> bytes:
    return b""


TABLE = operations("1", metrics)


def request_of(operation: Operation, subject: str, *, more: bool) -> tuple[str, Any]:
    """Return the target and body of a request that could show a schema; ``more``: with all parameters."""
    values = {
        "subject": subject, "version": "1", "id": "3", "guid": "0" * 32, "context": ".n", "snapshot": "none",
        "webhook": "none", "source": "none", "resource": "r", "namespace": "n", "name": "r",
    }  # fmt: skip
    known = {each.name: "true" for each in operation.parameters if each.kind == "flag"} | WORDS
    names = [each.name for each in operation.parameters if each.name in known]
    listed = "&".join(f"{name}={known[name]}" for name in names)
    named = incompatible("AVRO")
    old = {**FORMATS["AVRO"][2], "schemaType": "AVRO"}
    bodies = BODIES | {
        "": None,
        "AssociationRequest": associating(named),
        "AssociationBatchRequest": {"requests": [associating(named, opType="UPSERT")]},
        "ExplainRequest": {"schemaType": "AVRO", "old": old, "new": named},
    }
    target = operation.path.format(**values)
    return f"{target}?{listed}" if more else target, bodies.get(operation.request_schema, named)


@pytest.mark.parametrize("operation", TABLE, ids=lambda each: f"{each.method} {each.path}")
@pytest.mark.parametrize("kind", ["AVRO"], indirect=True)
def test_no_operation_shows_fields_of_a_schema_that_may_not_be_read(
    api: PermittingApi, operation: Operation
) -> None:
    headers = {"content-type": "application/json"} if operation.request_schema else {}
    shown = False
    for subject in ("shop-mid", "shop-order", ":.n:r-value", "secret-pay"):
        for more in (False, True):
            target, body = request_of(operation, subject, more=more)
            reply = api.request(operation.method, target, body, headers, user="owner")
            assert b"iban" not in reply.body, (target, reply.body)
            assert reply.status != 500
            showing = api.request(operation.method, target, body, headers)
            shown = shown or b"iban" in showing.body
    assert shown or (operation.method, operation.path) not in SHOWING


class _OldPrimary(ListBackend):
    """Refuses as releases do that do not say what their messages show."""

    async def submit(self, command: Command, origin: Origin = NO_ORIGIN) -> Outcome:
        outcome = await super().submit(command, origin)
        return Refused(outcome.code, outcome.message) if isinstance(outcome, Refused) else outcome


def test_nothing_is_shown_of_messages_of_an_older_primary() -> None:
    with PermittingApi(RULES, backend=_OldPrimary()) as api:
        api.register("shop-a", avro("A", ("secret", "string")))
        body = {"schema": avro("A", ("other", "string"))}
        for user, shown in (("bob", False), ("root", True)):
            reply = api.request("POST", "/subjects/shop-a/versions", body, user=user)
            assert (reply.status, reply.json["error_code"]) == (409, 40901)
            assert (b"secret" in reply.body) is shown


def test_schemas_with_very_many_references_are_explained_to_those_who_may_read_all() -> None:
    with PermittingApi(rule("bob", "read,write", "shop-*")) as api:
        names = [f"T{each}" for each in range(SUBJECTS_MAX + 1)]
        for each in names:
            api.register(f"shop-{each}", avro(each, ("a", "int")))
        fields = [(each.lower(), each) for each in names]
        listed = [refers(each, f"shop-{each}")[0] for each in names]
        wanted = {"schema": avro("All", *fields), "references": listed}
        assert api.request("POST", "/subjects/shop-all/versions", wanted).status == 200
        body = {"schema": avro("All", ("unlike", "int"))}
        for user, shown in (("bob", False), ("root", True)):
            reply = api.request("POST", "/subjects/shop-all/versions", body, user=user)
            assert reply.status == 409
            assert (b"unlike" in reply.body) is shown
