"""Lists, ids, guids and references as a principal sees them that may read only some subjects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from registry.api.backend import ApiSettings, Slicing
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View
from tests.api.driver import ListBackend, Reply, record
from tests.api.permitting import PermittingApi, rule
from tests.support.counting_view import CountingView

SHARED = record("Shared", "a")
DENIED = (403, 40301)


@pytest.fixture(scope="module")
def api() -> Iterator[PermittingApi]:
    """Subjects a1 to a3 and b1 to b3 in two contexts, with a shared schema, associations and references."""
    rules = rule("alice", "operator", "a*", ":.x:a*") + rule("bob", "operator", "b*", ":.x:b*")
    with PermittingApi(rules) as found:
        found.put("/config", {"compatibility": "NONE"})
        found.put("/config/:.x:", {"compatibility": "NONE"})
        for context in ("", ":.x:"):
            for name in ("b1", "a1", "b2", "a2"):
                found.register(f"{context}{name}", SHARED)
                found.register(f"{context}{name}", record(f"Own{name}", "f"))
                resource = {
                    "resourceName": f"t-{name}",
                    "resourceNamespace": "n",
                    "resourceId": f"{context}{name}",
                }
                wanted = {"subject": f"{context}{name}", "associationType": "value", "lifecycle": "WEAK"}
                assert found.post("/associations", {**resource, "associations": [wanted]}).status == 200
        for name in ("a3", "b3"):
            uses = [{"name": "Owna1", "subject": "a1", "version": 2}]
            found.register(
                name,
                record(f"Uses{name}", "x").replace('"string"', '"Owna1"').replace(',"default":""', ""),
                references=uses,
            )
        found.put("/config/a2", {"compatibility": "FULL"})
        found.put("/config/b2", {"compatibility": "FULL"})
        yield found


def get(api: PermittingApi, target: str, user: str = "alice") -> Reply:
    return api.request("GET", target, user=user)


@pytest.mark.parametrize(
    "target",
    [
        "/subjects",
        "/subjects?deleted=true",
        "/subjects?subjectPrefix=:.x:",
        "/subjects?sort=-name",
        "/subjects?sort=id",
        "/subjects?sort=-id&deleted=true",
        "/subjects?sort=-id&detail=true",
        "/subjects?compatibilityLevel=FULL",
        "/subjects?compatibilityLevel=FULL&sort=-name",
        "/subjects?compatibilityLevel=FULL&sort=-id&detail=true",
        "/subjects?compatibilityLevel=NONE&mode=READWRITE&sort=-name",
        "/schemas?subjectPrefix=:*:",
        "/schemas?subjectPrefix=:*:&latestOnly=true",
        "/schemas/ids/1/subjects",
        "/schemas/ids/1/versions",
        "/schemas/ids/1/subjects?subject=:.x:",
        "/associations/resources/-/-",
        "/associations/resources/n/-",
        "/associations/resources/-/t-a1",
        "/associations/resources/n/t-a1",
        "/associations/resources/a1",
        "/subjects/a1/versions/2/referencedby",
    ],
)
def test_lists_are_those_of_a_registry_without_the_other_subjects(api: PermittingApi, target: str) -> None:
    def mine(item: Any) -> bool:
        if isinstance(item, int):
            return bool(item == api.get("/subjects/a3/versions/1").json["id"])
        name = item if isinstance(item, str) else item["subject"]
        return str(name).removeprefix(":.x:").startswith("a")

    shown, everything = get(api, target), api.get(target)
    assert shown.status == everything.status == 200
    wanted = [each for each in everything.json if mine(each)]
    order = str if "/ids/" in target else lambda _: 0
    assert sorted(shown.json, key=order) == sorted(wanted, key=order)
    assert wanted
    assert len(wanted) < len(everything.json) or "t-a1" in target or target.endswith("/a1")
    pages: list[Any] = []
    following = f"{target}{'&' if '?' in target else '?'}limit=1"
    while following:
        page = get(api, following)
        assert len(page.json) <= 1
        pages += page.json
        link = re.match(r'<([^>]*)>; rel="next"', page.headers.get("link", ""))
        following = link[1] if link else ""
    assert pages == shown.json
    for offset in range(len(wanted) + 1):
        skipped = get(api, f"{target}{'&' if '?' in target else '?'}offset={offset}")
        assert skipped.json == shown.json[offset:]


@pytest.mark.parametrize("target", ["/subjects", "/schemas", "/associations/resources/b1"])
def test_who_may_read_nothing_sees_empty_lists(api: PermittingApi, target: str) -> None:
    assert get(api, target, "nobody").json == []


def test_positions_in_lists_are_not_shared_between_principals(api: PermittingApi) -> None:
    target = "/subjects?subjectPrefix=&limit=1&offset="
    assert get(api, f"{target}1", "alice").json == ["a2"]  # the position after it is remembered
    assert get(api, f"{target}2", "bob").json == ["b3"]
    assert get(api, f"{target}2", "alice").json == ["a3"]


def test_contexts_are_shown_if_something_in_them_may_be_read(api: PermittingApi) -> None:
    assert get(api, "/contexts").json == [".", ".x"]
    assert get(api, "/contexts", "nobody").json == ["."]


def test_an_id_is_answered_through_a_subject_that_may_be_read(api: PermittingApi) -> None:
    for user, name in (("alice", "a1"), ("bob", "b1")):
        assert get(api, "/schemas/ids/1", user).json["subject"] == name
        assert get(api, "/schemas/ids/1/schema", user).status == 200
        assert get(api, "/schemas/ids/1?includeSubjects=true", user).json["subjects"] == [name, f"{name[0]}2"]
    theirs = api.get("/subjects/b1/versions/2").json
    for target in (
        f"/schemas/ids/{theirs['id']}",
        f"/schemas/ids/{theirs['id']}?subject=b1",
        f"/schemas/ids/{theirs['id']}/schema",
        f"/schemas/ids/{theirs['id']}/subjects",
        f"/schemas/ids/{theirs['id']}/versions",
        f"/schemas/guids/{theirs['guid']}",
    ):
        reply, missing = get(api, target), get(api, target.replace(str(theirs["id"]), "999", 1))
        assert reply.status == 404
        if "guids" not in target:
            assert reply.body == missing.body.replace(b"999", b"%d" % theirs["id"])
        assert get(api, target, "bob").status == 200
    assert get(api, f"/schemas/guids/{theirs['guid']}/ids").json == []


def test_the_subject_of_a_question_for_an_id_is_respected(api: PermittingApi) -> None:
    assert get(api, "/schemas/ids/1?subject=a2").json["subject"] == "a2"
    assert get(api, "/schemas/ids/1?subject=b2").json["subject"] == "a1"  # as if b2 did not exist
    assert get(api, "/schemas/ids/1?subject=:.x:b2").status == 404


def test_the_highest_id_is_for_those_who_may_read_the_whole_context(api: PermittingApi) -> None:
    reply = get(api, "/schemas/ids/1?fetchMaxId=true")
    assert (reply.status, reply.json["error_code"]) == DENIED
    assert api.get("/schemas/ids/1?fetchMaxId=true").json["maxId"] > 1


def test_a_schema_is_not_resolved_with_one_that_may_not_be_read(api: PermittingApi) -> None:
    assert b"Owna1" in api.get("/subjects/b3/versions/1?format=resolved").body
    schema_id = api.get("/subjects/b3/versions/1").json["id"]
    for target in (
        "/subjects/b3/versions/1?format=resolved",
        "/subjects/b3/versions/1/schema?format=resolved",
        f"/schemas/ids/{schema_id}?format=resolved",
    ):
        reply = get(api, target, "bob")
        assert reply.status == 422
        assert b'"f"' not in reply.body
        assert get(api, target.replace("?format=resolved", ""), "bob").status == 200


def test_references_must_be_readable_directly_and_indirectly(api: PermittingApi) -> None:
    direct = {"schema": SHARED, "references": [{"name": "n", "subject": "a1", "version": 1}]}
    indirect = {"schema": SHARED, "references": [{"name": "n", "subject": "b3", "version": 1}]}
    for body in (direct, indirect):
        for target in ("/subjects/b9/versions", "/subjects/b1", "/compatibility/subjects/b1/versions"):
            reply = api.request("POST", target, body, user="bob")
            assert (reply.status, reply.json["error_code"]) == DENIED
            assert "a1" in reply.json["message"]
    both = {"old": direct, "new": {"schema": SHARED}}
    reply = api.request(
        "POST", "/compatibility/explain", both, {"content-type": "application/json"}, user="bob"
    )
    assert reply.status == 403


def test_a_look_up_finds_nothing_in_contexts_that_may_not_be_read(api: PermittingApi) -> None:
    rules = rule("carol", "reader", "a1", "only") + rule("dave", "reader", "only", ":.x:*")
    with PermittingApi(rules) as own:
        own.register(":.x:only", SHARED)
        body = {"schema": SHARED}
        assert own.request("POST", "/subjects/only", body, user="carol").status == 404
        assert own.request("POST", "/subjects/only", body, user="dave").json["subject"] == ":.x:only"
        assert own.request("GET", "/subjects/only/versions/1", user="carol").status == 404


def test_an_alias_needs_the_permission_on_itself_and_on_its_target() -> None:
    rules = (
        rule("alice", "operator", "a*") + rule("bob", "operator", "a*", "b*") + rule("carol", "reader", "b*")
    )
    with PermittingApi(rules) as own:
        own.register("b1", SHARED)
        reply = own.request("PUT", "/config/a9", {"alias": "b1"}, user="alice")
        assert (reply.status, reply.json["error_code"]) == DENIED
        assert own.request("PUT", "/config/a9", {"alias": "b1"}, user="bob").status == 200
        for method, target, body in (
            ("GET", "/subjects/a9/versions", None),
            ("POST", "/subjects/a9/versions", {"schema": SHARED}),
            ("DELETE", "/subjects/a9", None),
        ):
            for user in ("alice", "carol"):
                reply = own.request(method, target, body, user=user)
                assert reply.error == (403, 40301, reply.json["message"])
                assert "b1" not in reply.json["message"]
            assert own.request(method, target, body, user="bob").status == 200


def test_a_refused_change_of_a_resource_does_not_report_the_subjects_of_its_associations(
    api: PermittingApi,
) -> None:
    for method, body in (
        ("DELETE", None),
        ("PUT", {"resourceName": "t-a1", "resourceNamespace": "n", "associations": [{"subject": "b7"}]}),
    ):
        reply = api.request(method, "/associations/resources/a1", body, user="bob")
        message = "User is denied operation Write on the associations of resource 'a1'"
        assert reply.error == (403, 40301, message)
    assert get(api, "/associations/resources/a1").json != []


def test_configs_of_contexts_are_for_those_who_may_change_them() -> None:
    rules = rule("alice", "reader", "*") + rule("bob", "config", ":.:")
    with PermittingApi(rules) as own:
        own.put("/config/a1", {"compatibility": "FULL"})
        assert own.request("GET", "/config", user="alice").status == 403
        assert own.request("GET", "/config/a1", user="alice").json == {"compatibilityLevel": "FULL"}
        assert own.request("GET", "/config", user="bob").status == 200
        assert own.request("PUT", "/config", {"compatibility": "NONE"}, user="bob").status == 200
        assert own.request("GET", "/config/:.x:", user="bob").status == 403
        assert own.request("GET", "/mode", user="bob").status == 403


def test_modes_of_a_context_are_removed_by_those_who_may_change_all_of_them() -> None:
    with PermittingApi(rule("alice", "mode", ":.x:") + rule("bob", "mode", ":.x:*")) as own:
        own.put("/mode/:.x:", {"mode": "READONLY"})
        assert own.request("DELETE", "/mode/:.x:?recursive=true", user="alice").status == 403
        assert own.request("DELETE", "/mode/:.x:?recursive=true", user="bob").status == 200


def test_changed_rules_apply_to_the_next_request() -> None:
    with PermittingApi(rule("alice", "reader", "a*")) as own:
        own.register("b1", SHARED)
        assert own.request("GET", "/subjects", user="alice").json == []
        own.gate.replace(rule("alice", "reader", "b*"))
        assert own.request("GET", "/subjects", user="alice").json == ["b1"]


class LargeBackend(ListBackend):
    """100,000 subjects with the same schema."""

    def __init__(self) -> None:
        super().__init__(ApiSettings())
        rows: dict[bytes, bytes] = {}
        nothing = DictView()
        for number in range(100_000):
            subject = Subject(".", f"s{number:05}")
            changes = apply(
                nothing,
                Record(number, 1000, schema_key(subject, 1), schema_value(subject, 1, 1, SHARED)),
            )
            rows.update((key, row) for key, row in changes if row is not None)
        self.counting = CountingView(rows.items())

    @contextmanager
    def view(self) -> Iterator[View]:
        yield self.counting


@pytest.fixture(scope="module")
def large() -> Iterator[PermittingApi]:
    rules = rule("alice", "reader", "s5000*") + rule("bob", "reader", "none")
    settings = ApiSettings(slicing=Slicing(slice_s=1, first_s=60))
    with PermittingApi(rules, settings, LargeBackend()) as found:
        found.get("/subjects?limit=1")
        yield found


@pytest.mark.parametrize(
    ("target", "count", "reads"),
    [
        ("/subjects", 10, 100),
        ("/subjects?offset=8", 2, 100),
        ("/subjects?limit=3", 3, 60),
        ("/subjects?sort=-name", 10, 100),
        ("/subjects?sort=-id", 10, 200),
        ("/subjects?sort=id&limit=3", 3, 200),
        ("/schemas", 10, 200),
        ("/schemas/ids/1/subjects", 10, 600),
        ("/schemas/ids/1/versions", 10, 600),
        ("/schemas/ids/1", None, 300),
        ("/schemas/ids/1?fetchMaxId=false&subject=s50001", None, 600),
        ("/contexts", 1, 60),
        ("/associations/resources/-/-", 0, 60),
    ],
)
def test_what_is_read_depends_on_what_may_be_read(
    large: PermittingApi, target: str, count: int | None, reads: int
) -> None:
    counting = large.backend.counting
    counting.reads = 0
    reply = get(large, target)
    assert reply.status == 200
    assert counting.reads < reads
    if count is not None:
        assert len(reply.json) == count
    counting.reads = 0
    assert get(large, target, "bob").status in (200, 404)
    assert counting.reads < reads
