"""Writes act only on subjects that were checked: aliases in bodies, rows that change meanwhile, batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from registry.api.backend import ApiSettings
from registry.domain.commands import Command, Dissociate, Outcome, PutConfig, Register
from registry.domain.model import Reference
from registry.domain.pending_command import NO_ORIGIN, Origin
from tests.api.associating import FORMER, resource, strong, weak
from tests.api.driver import ListBackend, Reply, record
from tests.api.permitting import PermittingApi, rule

SECRET = record("Secret", "salary")
SCHEMA = {"schema": record("Own", "a")}
ASSOCIATE = ("POST", "/associations")
UPSERT = ("PUT", "/associations/resources/r")
MUTATE = ("POST", "/associations:batchMutate")
# The default subject of the resource in :func:`resource`, the only one of frozen associations.
DEFAULT = ":.ns:n-value"


class RacingBackend(ListBackend):
    """Decides other commands ahead of the next one, as if they came first in the same batch."""

    def __init__(self, settings: ApiSettings | None = None) -> None:
        super().__init__(settings)
        self.ahead: list[Command] = []

    async def submit(self, command: Command, origin: Origin = NO_ORIGIN) -> Outcome:
        ahead, self.ahead = self.ahead, []
        for each in ahead:
            await super().submit(each)
        return await super().submit(command, origin)


@pytest.fixture
def api() -> Iterator[PermittingApi]:
    """Alice writes to ``a-*``, where ``a-alias`` leads to ``secret-f``; bob to all, but may not delete."""
    rules = (
        rule("alice", "operator", "a-*", ":.ns:*")
        + rule("bob", "developer", "*")
        + rule("writer", "write", "a-*")
    )
    # By the rules of 8.3, an association without a schema can be strong.
    with PermittingApi(rules, FORMER, RacingBackend(FORMER)) as found:
        found.register("secret-f", SECRET)
        found.register("a-own", SCHEMA["schema"])
        assert found.put("/config/a-alias", {"alias": "secret-f"}).status == 200
        yield found


def ask(api: PermittingApi, where: tuple[str, str], body: Any, user: str = "alice") -> Reply:
    method, target = where
    if ":batchMutate" in target:
        entries = [{"opType": "CREATE", **each} for each in body["associations"]]
        body = {"requests": [{**body, "associations": entries}]}
    return api.request(method, target, body, user=user)


def code(reply: Reply) -> int:
    if reply.status == 207:
        return int(reply.json["results"][0].get("error", {}).get("error_code", 207))
    return int(reply.json["error_code"]) if reply.status >= 400 else reply.status


@pytest.mark.parametrize("query", ["", "?dryRun=true"])
@pytest.mark.parametrize("where", [ASSOCIATE, UPSERT, MUTATE], ids=lambda each: each[1])
@pytest.mark.parametrize("wanted", [weak, strong], ids=["weak", "strong"])
def test_associations_need_the_permission_on_the_target_of_an_alias(
    api: PermittingApi, where: tuple[str, str], query: str, wanted: Any
) -> None:
    api.put(f"/config/{DEFAULT}", {"alias": ":.:secret-f"})
    association = weak("a-alias") if wanted is weak else strong()
    written = len(api.backend.log)
    reply = ask(api, (where[0], where[1] + query), resource(association))
    assert code(reply) == 40301
    assert b"salary" not in reply.body
    assert b"secret" not in reply.body
    assert len(api.backend.log) == written


def test_associations_follow_an_alias_for_those_who_may_write_to_its_target(api: PermittingApi) -> None:
    reply = ask(api, ASSOCIATE, resource(weak("a-alias")), user="bob")
    assert [each["subject"] for each in reply.json["associations"]] == ["secret-f"]


def test_an_association_without_a_text_shows_that_of_its_subject_only_to_readers(api: PermittingApi) -> None:
    association = {"subject": "a-own", "associationType": "value", "schema": {"schema": ""}}
    for where in (ASSOCIATE, UPSERT, MUTATE):
        reply = ask(api, where, resource(association), user="writer")
        assert code(reply) == 40301
        assert b"fields" not in reply.body


@pytest.mark.parametrize("user", ["root", "alice"])
def test_tags_act_on_the_subject_that_was_checked_and_resolve_no_second_alias(
    api: PermittingApi, user: str
) -> None:
    """An alias leads to a subject that is an alias itself."""
    for alias, target in (("a-1", "a-own"), ("a-own", "secret-f")):
        assert api.put(f"/config/{alias}", {"alias": target}).status == 200
    reply = api.request("POST", "/subjects/a-1/versions/1/tags", {"newVersion": 2}, user=user)
    assert (reply.status, reply.json["version"]) == (200, 2)
    assert b"salary" not in reply.body
    assert api.get("/subjects/secret-f/versions").json == [1]
    assert b"a-own" in (api.backend.log[-1].key or b"")


# Writes that act on ``a-free``, or on the default subject of their resource.
WRITES = [
    ("POST", "/subjects/a-free/versions", SCHEMA),
    ("POST", "/subjects/a-free/versions", {**SCHEMA, "propagateSchemaTags": True}),
    ("DELETE", "/subjects/a-free", None),
    ("DELETE", "/subjects/a-free/versions/1", None),
    (*ASSOCIATE, resource(weak("a-free"))),
    (*ASSOCIATE, resource(strong())),
    ("POST", "/associations?dryRun=true", resource(strong())),
    (*UPSERT, resource(weak("a-free"))),
    (*MUTATE, resource(weak("a-free"))),
    (*MUTATE, resource(strong())),
]


@pytest.mark.parametrize(("method", "target", "body"), WRITES)
def test_a_write_is_refused_if_its_name_gets_another_target_after_the_check(
    api: PermittingApi, method: str, target: str, body: Any
) -> None:
    api.register("a-free", record("Free", "x"))
    api.backend.ahead += [PutConfig(each, {"alias": ":.:secret-f"}) for each in ("a-free", DEFAULT)]
    written = len(api.backend.log)
    reply = ask(api, (method, target), body)
    assert (reply.status, reply.json["error_code"]) == (503, 503)
    assert "try again" in reply.json["message"]
    assert reply.headers["retry-after"] == "1"
    assert len(api.backend.log) == written + 2  # the aliases
    # Now the check sees the alias.
    assert code(ask(api, (method, target), body)) == 40301


@pytest.mark.parametrize(("method", "target", "body"), WRITES)
def test_who_may_do_everything_is_not_refused_because_of_an_alias(
    api: PermittingApi, method: str, target: str, body: Any
) -> None:
    api.register("a-free", record("Free", "x"))
    api.backend.ahead.append(PutConfig("a-free", {"alias": "a-own"}))
    assert ask(api, (method, target), body, user="root").status < 300


def test_an_association_that_has_moved_since_the_check_is_neither_changed_nor_removed(
    api: PermittingApi,
) -> None:
    assert ask(api, ASSOCIATE, resource(weak("a-own")), user="root").status == 200
    mine = api.backend.submitted[-1]
    wanted = [replace(each, subject="secret-f") for each in mine.request.associations]
    theirs = replace(mine, request=replace(mine.request, associations=wanted))
    for method, target, body in (
        ("DELETE", "/associations/resources/r", None),
        (*UPSERT, resource({"associationType": "value", "lifecycle": "STRONG"})),
        (*MUTATE, resource({"associationType": "value", "opType": "DELETE"})),
    ):
        api.backend.ahead += [Dissociate("r", "topic"), theirs]
        assert ask(api, (method, target), body).status == 503
        listed = api.get("/associations/resources/r").json
        assert [each["subject"] for each in listed] == ["secret-f"]
        api.backend.ahead += [Dissociate("r", "topic"), mine]
        assert ask(api, ASSOCIATE, resource(weak("a-own")), user="root").status == 200


def test_a_cascade_needs_delete_on_what_the_same_batch_makes_strong(api: PermittingApi) -> None:
    """Else who may write, but not delete, takes a subject into its possession and deletes it with it."""
    request = resource(
        {"subject": "a-own", "associationType": "value", "opType": "UPSERT", "lifecycle": "STRONG"},
        {"associationType": "value", "opType": "DELETE", "cascadeLifecycle": True},
    )
    for batch in ([request], [{**request, "associations": [each]} for each in request["associations"]]):
        reply = api.request("POST", MUTATE[1], {"requests": batch}, user="bob")
        assert reply.json["results"][-1]["error"]["error_code"] == 40301
        assert api.get("/subjects/a-own/versions").json == [1]
        api.delete("/associations/resources/r")
    assert api.request("POST", MUTATE[1], {"requests": [request]}, user="alice").status == 207
    assert api.get("/subjects/a-own/versions").status == 404


def test_a_cascade_needs_delete_also_where_everything_may_be_written_and_read(api: PermittingApi) -> None:
    assert ask(api, ASSOCIATE, resource(weak("a-own", lifecycle="STRONG")), user="root").status == 200
    removal = {"associationType": "value", "opType": "DELETE", "cascadeLifecycle": True}
    reply = ask(api, MUTATE, resource(removal), user="bob")
    assert code(reply) == 40301
    assert api.get("/subjects/a-own/versions").json == [1]


def test_the_answer_to_a_batch_names_no_other_subjects_of_the_resource(api: PermittingApi) -> None:
    assert ask(api, ASSOCIATE, resource(weak("secret-f", "key")), user="root").status == 200
    for user, wanted in (("alice", ["a-own"]), ("root", ["secret-f", "a-own"])):
        reply = ask(api, MUTATE, resource(weak("a-own")), user=user)
        listed = reply.json["results"][0]["result"]["associations"]
        assert sorted(each["subject"] for each in listed) == sorted(wanted)


def test_lint_does_not_report_the_target_of_an_alias(api: PermittingApi) -> None:
    reply = api.request(
        "POST", "/schemas/lint?subject=a-alias", SCHEMA, {"content-type": "application/json"}, user="alice"
    )
    assert code(reply) == 40301
    assert "secret" not in reply.json["message"]


def test_a_write_is_refused_if_what_it_uses_refers_to_an_unread_schema_after_the_check(
    api: PermittingApi,
) -> None:
    api.put("/config", {"compatibility": "NONE"})
    uses = record("Uses", "f").replace('"string","default":""', '"Own"')
    body = {"schema": uses, "references": [{"name": "Own", "subject": "a-own", "version": -1}]}
    secret = [Reference("Secret", "secret-f", 1)]
    text = SCHEMA["schema"].replace('"string","default":""', '"Secret"')
    api.backend.ahead.append(Register("a-own", text, references=secret))
    versions = "/subjects/a-new/versions?format=resolved"
    reply = ask(api, ("POST", versions), body)
    assert code(reply) == 503
    assert b"salary" not in reply.body
    assert code(ask(api, ("POST", versions), body)) == 40301
    assert b"salary" in ask(api, ("POST", versions), body, user="root").body


def test_nothing_is_carried_for_those_who_may_do_everything(api: PermittingApi) -> None:
    api.backend.origins.clear()
    for method, target, body in WRITES:
        ask(api, (method, target), body, user="root")
    assert {each.checked for each in api.backend.origins} == {None}
    ask(api, (WRITES[0][0], WRITES[0][1]), WRITES[0][2])
    assert api.backend.origins[-1].checked is not None
