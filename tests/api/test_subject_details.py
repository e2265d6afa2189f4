"""``GET /subjects?detail=true``: everything that a table of subjects shows, in one request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from registry.domain.log_format.records import clear_subject_key
from registry.domain.log_format.values import clear_subject_value
from registry.domain.model import Subject
from tests.api.driver import Api, record
from tests.api.permitting import PermittingApi, rule

FIELDS = {"a": record("R", "a"), "ab": record("R", "a", "b"), "abc": record("R", "a", "b", "c")}


@pytest.fixture
def filled(api: Api) -> Iterator[Api]:
    for text in FIELDS.values():
        api.register("orders", text)
    api.register("base", '{"type":"record","name":"Base","fields":[]}')
    uses = '{"type":"record","name":"Uses","fields":[{"name":"f","type":"Base"}]}'
    api.register(":.c:uses", uses, references=[{"name": "Base", "subject": ":.:base", "version": 1}])
    api.register("json", '{"type":"object"}', schemaType="JSON")
    assert api.delete("/subjects/orders/versions/2").status == 200
    assert api.delete("/subjects/json").status == 200
    return api


def details(api: Any, query: str = "", **options: Any) -> list[dict[str, Any]]:
    target = f"/subjects?detail=true{query}"
    reply = api.request("GET", target, **options) if options else api.get(target)
    assert reply.status == 200, reply.body
    return list(reply.json)


def test_a_subject_has_its_latest_version_counts_and_what_is_in_force(filled: Api) -> None:
    filled.put("/config/orders", {"compatibility": "FULL"})
    filled.put("/mode/orders", {"mode": "READONLY"})
    latest = filled.get("/subjects/orders/versions/latest").json
    found = next(each for each in details(filled) if each["subject"] == "orders")
    assert found == {
        "subject": "orders",
        "version": 3,
        "id": latest["id"],
        "guid": latest["guid"],
        "schemaType": "AVRO",
        "ts": latest["ts"],
        "deleted": False,
        "versions": 2,
        "deletedVersions": 1,
        "size": len(FIELDS["abc"].replace('"', '\\"')),
        "references": 0,
        "compatibilityLevel": "FULL",
        "mode": "READONLY",
        "associations": 0,
    }


def test_subjects_come_in_the_order_of_names_like_the_plain_list(filled: Api) -> None:
    for query in ("", "&deleted=true", "&deletedOnly=true", "&subjectPrefix=:.c:"):
        assert [each["subject"] for each in details(filled, query)] == filled.get(f"/subjects?{query}").json


def test_a_deleted_subject_shows_its_newest_deleted_version(filled: Api) -> None:
    (found,) = details(filled, "&deletedOnly=true")
    assert (found["subject"], found["version"], found["deleted"]) == ("json", 1, True)
    assert (found["versions"], found["deletedVersions"]) == (0, 1)


def test_versions_that_a_clear_made_the_registry_forget_do_not_count(filled: Api) -> None:
    filled.backend.append(
        clear_subject_key(Subject.parse("orders")), clear_subject_value(Subject.parse("orders"))
    )
    (found,) = details(filled, "&subjectPrefix=orders")
    assert (found["versions"], found["deletedVersions"]) == (2, 0)


def test_level_and_mode_are_those_in_force_wherever_they_are_set(filled: Api) -> None:
    filled.put("/config", {"compatibility": "NONE"})
    filled.put("/config/:.c:", {"compatibility": "FORWARD"})
    filled.put("/mode/:.c:", {"mode": "READONLY"})
    found = {each["subject"]: (each["compatibilityLevel"], each["mode"]) for each in details(filled)}
    assert found == {
        "base": ("NONE", "READWRITE"),
        "orders": ("NONE", "READWRITE"),
        ":.c:uses": ("FORWARD", "READONLY"),
    }


def test_references_and_associations_are_counted(filled: Api) -> None:
    wanted = {"subject": ":.c:uses", "associationType": "value", "lifecycle": "WEAK"}
    resource = {"resourceName": "t", "resourceNamespace": "n", "resourceId": "i", "resourceType": "topic"}
    assert filled.post("/associations", {**resource, "associations": [wanted]}).status == 200
    (found,) = details(filled, "&subjectPrefix=:.c:")
    assert (found["references"], found["associations"]) == (1, 1)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("&schemaType=json&deleted=true", ["json"]),
        ("&schemaType=PROTOBUF", []),
        ("&compatibilityLevel=full", ["orders"]),
        ("&mode=readonly", [":.c:uses"]),
        ("&compatibilityLevel=BACKWARD&schemaType=AVRO&mode=READWRITE", ["base"]),
    ],
)
def test_filters_are_by_what_the_entries_show(filled: Api, query: str, names: list[str]) -> None:
    filled.put("/config/orders", {"compatibility": "FULL"})
    filled.put("/mode/:.c:", {"mode": "READONLY"})
    assert [each["subject"] for each in details(filled, query)] == names
    assert filled.get(f"/subjects?{query[1:]}").json == names


@pytest.mark.parametrize("query", ["", "&deleted=true", "&deletedOnly=true", "&subjectPrefix=:.c:"])
@pytest.mark.parametrize("sort", ["name", "-name", "id", "-id"])
def test_every_order_is_that_of_the_plain_list(filled: Api, sort: str, query: str) -> None:
    plain = filled.get(f"/subjects?sort={sort}{query}").json
    assert [each["subject"] for each in details(filled, f"&sort={sort}{query}")] == plain


def test_ids_are_sorted_by_context_and_then_the_newest_first(filled: Api) -> None:
    assert filled.get("/subjects?sort=-id&deleted=true").json == ["json", "base", "orders", ":.c:uses"]
    assert filled.get("/subjects?sort=id").json == ["orders", "base", ":.c:uses"]
    filled.register("orders", record("R", "z"))
    assert filled.get("/subjects?sort=-id").json == ["orders", "base", ":.c:uses"]


def test_a_subject_stands_at_its_latest_version_that_is_not_deleted(filled: Api) -> None:
    assert filled.delete("/subjects/orders/versions/3").status == 200
    found = [(each["subject"], each["id"]) for each in details(filled, "&sort=-id&subjectPrefix=:.:")]
    assert [name for name, _ in found] == ["base", "orders"]
    assert found[1][1] == filled.get("/subjects/orders/versions/1").json["id"]


@pytest.mark.parametrize("sort", ["", "ID", "--id", "+id", "version", "id,name"])
def test_an_unknown_order_is_422(filled: Api, sort: str) -> None:
    error = (422, 422, "sort must be one of name, -name, id, -id")
    assert filled.get(f"/subjects?sort={sort}").error == error
    assert filled.get(f"/subjects?detail=true&sort={sort}").error == error


def test_named_subjects_cannot_be_sorted(filled: Api) -> None:
    assert filled.get("/subjects?detail=true&subject=orders&sort=-id").status == 422
    assert filled.get("/subjects?detail=true&subject=orders&sort=name").status == 200


def test_an_alias_is_shown_with_the_subject_that_has_it(filled: Api) -> None:
    filled.put("/config/base", {"alias": "orders"})
    shown = {each["subject"]: each.get("alias") for each in details(filled)}
    assert shown == {"base": "orders", "orders": None, ":.c:uses": None}


def test_only_what_may_be_read_is_shown_with_level_and_mode_in_force() -> None:
    with PermittingApi(rule("alice", "reader", "a*")) as api:
        api.put("/config", {"compatibility": "NONE"})
        for name in ("a1", "b1", "a2"):
            api.register(name, FIELDS["a"])
        found = details(api, user="alice")
    assert [(each["subject"], each["compatibilityLevel"]) for each in found] == [
        ("a1", "NONE"),
        ("a2", "NONE"),
    ]


def test_named_subjects_come_alone_and_in_the_order_asked_for(filled: Api) -> None:
    named = "&subject=orders&subject=:.c:uses&subject=nobody&subject=base&subject=orders&subject=json"
    assert [each["subject"] for each in details(filled, named)] == ["orders", ":.c:uses", "base"]
    deleted = details(filled, f"{named}&deleted=true")
    assert [each["subject"] for each in deleted] == ["orders", ":.c:uses", "base", "json"]
    assert [each["subject"] for each in details(filled, f"{named}&deletedOnly=true")] == ["json"]
    assert [each["subject"] for each in details(filled, f"{named}&subjectPrefix=o")] == ["orders"]
    plain = {each["subject"]: each for each in details(filled, "&deleted=true")}
    assert deleted == [plain[each["subject"]] for each in deleted]


def test_named_subjects_come_in_pages(filled: Api) -> None:
    target, found = "/subjects?detail=true&limit=1&subject=orders&subject=:.c:uses&subject=base", []
    while target:
        reply = filled.get(target)
        found += [each["subject"] for each in reply.json]
        link = reply.headers.get("link", "")
        target = link[1 : link.index(">")] if link else ""
    assert found == ["orders", ":.c:uses", "base"]


def test_too_many_names_and_names_without_details_are_refused(filled: Api) -> None:
    assert filled.get("/subjects?detail=true" + "&subject=a" * 201).status == 422
    assert filled.get("/subjects?subject=a").status == 422


def test_a_named_subject_that_may_not_be_read_is_left_out() -> None:
    with PermittingApi(rule("alice", "reader", "a*")) as api:
        for name in ("a1", "b1"):
            api.register(name, FIELDS["a"])
        found = details(api, "&subject=b1&subject=a1", user="alice")
    assert [each["subject"] for each in found] == ["a1"]
