"""Schemas that are equal once normalized: listed for clean-up, and reported at registration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.domain.lookup.duplicates import (
    COLLECTING,
    NORMALIZING,
    Bounds,
    DuplicateGroup,
    TooManySchemas,
    find_groups,
)
from registry.domain.model import guid_text
from registry.domain.queries.walks import run_search
from registry.domain.rows.memory_views import MovingView
from registry.domain.schemas import FORMATS
from tests.api.driver import Api, Reply, Requests
from tests.api.permitting import PermittingApi, rule

JSON, PROTOBUF = Requests("JSON"), Requests("PROTOBUF")
ONE, OTHER = '{"type":"string","title":"t"}', '{"title":"t","type":"string"}'
AVRO_ONE = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"d"}],"x":1,"y":2}'
AVRO_OTHER = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"d"}],"y":2,"x":1}'
PROTO_ONE = 'syntax = "proto3"; message M { string a = 1; string b = 2; }'
PROTO_OTHER = 'syntax = "proto3"; message M { string b = 2; string a = 1; }'


def groups_of(api: Api, prefix: str = "", *, deleted: bool = False) -> list[DuplicateGroup]:
    with api.backend.view() as view:
        return run_search(find_groups(view, prefix, deleted=deleted)).groups


def found(api: Api, prefix: str = "", *, deleted: bool = False) -> list[list[list[str]]]:
    """Return, for each group and each content, the versions that hold it."""
    return printed(groups_of(api, prefix, deleted=deleted))


def printed(groups: list[DuplicateGroup]) -> list[list[list[str]]]:
    return [
        [
            [f"{each.subject.qualified} {each.version}" for each in content.places]
            for content in group.contents.values()
        ]
        for group in groups
    ]


def sets(groups: list[list[list[str]]]) -> set[frozenset[str]]:
    return {frozenset(place for content in group for place in content) for group in groups}


def pairs(*groups: str) -> set[frozenset[str]]:
    return {frozenset(group.split(", ")) for group in groups}


@pytest.fixture
def twice(api: Api) -> Api:
    """Return each content in two spellings, the first of them under two subjects."""
    for subject in ("a", "a2"):
        JSON.register(api, subject, ONE)
    JSON.register(api, "b", OTHER)
    api.register("c", AVRO_ONE)
    api.register("d", AVRO_OTHER)
    PROTOBUF.register(api, "e", PROTO_ONE)
    PROTOBUF.register(api, "f", PROTO_OTHER)
    api.register("single", '"int"')
    JSON.register(api, ":.x:a", OTHER)
    return api


class TestList:
    def test_equal_contents_of_all_types(self, twice: Api) -> None:
        assert sets(found(twice)) == pairs("a 1, a2 1, b 1", "c 1, d 1", "e 1, f 1")

    def test_a_group_names_its_normal_form_and_ids(self, twice: Api) -> None:
        [group] = [each for each in groups_of(twice) if each.schema_type == "JSON"]
        guid = JSON.register(twice, "again", ONE)["guid"]
        reply = twice.post("/subjects/normal/versions?normalize=true", JSON.body(ONE))
        assert guid_text(group.normal_form) == reply.json["guid"]
        contents = {
            guid_text(md5): [(each.subject.qualified, *each[1:]) for each in content.places]
            for md5, content in group.contents.items()
        }
        assert contents == {guid: [("a", 1, 1), ("a2", 1, 1)], guid_text(group.normal_form): [("b", 1, 2)]}

    @pytest.mark.parametrize(
        ("prefix", "groups"),
        [
            ("a", []),
            ("b", []),
            (":.x:", []),
            (":*:", ["a 1, a2 1, b 1, :.x:a 1", "c 1, d 1", "e 1, f 1"]),
            (":*:a", ["a 1, a2 1, :.x:a 1"]),
        ],
    )
    def test_prefixes(self, twice: Api, prefix: str, groups: list[str]) -> None:
        assert sets(found(twice, prefix)) == pairs(*groups)

    def test_a_context(self, twice: Api) -> None:
        assert found(twice, ":.x:") == []
        JSON.register(twice, ":.x:b", ONE)
        assert sets(found(twice, ":.x:")) == pairs(":.x:a 1, :.x:b 1")

    def test_soft_deleted_versions_where_asked_for(self, twice: Api) -> None:
        twice.delete("/subjects/d")
        assert sets(found(twice)) == pairs("a 1, a2 1, b 1", "e 1, f 1")
        assert sets(found(twice, deleted=True)) == pairs("a 1, a2 1, b 1", "c 1, d 1", "e 1, f 1")
        twice.delete("/subjects/d?permanent=true")
        assert sets(found(twice, deleted=True)) == pairs("a 1, a2 1, b 1", "e 1, f 1")

    def test_what_was_cleaned_up_is_gone_and_what_is_new_is_there(self, twice: Api) -> None:
        found(twice)
        twice.delete("/subjects/b")
        PROTOBUF.register(twice, "e2", PROTO_OTHER)
        assert sets(found(twice)) == pairs("c 1, d 1", "e 1, f 1, e2 1")

    def test_progress_counts_versions(self, twice: Api) -> None:
        told: list[tuple[str, int, int]] = []
        with twice.backend.view() as view:
            run_search(find_groups(view, ":*:", deleted=False, progress=lambda *step: told.append(step)))
        assert told == [(step, done, 9) for step in (NORMALIZING, COLLECTING) for done in range(1, 10)]

    def test_what_is_listed_is_bounded_and_the_rest_is_counted(self, twice: Api) -> None:
        for number in range(3, 7):
            JSON.register(twice, f"a{number}", ONE)
        with twice.backend.view() as view:
            found = run_search(find_groups(view, "", deleted=False, bounds=Bounds(groups=2, versions=1)))
        assert (found.total, [group.schema_type for group in found.groups]) == (3, ["JSON", "AVRO"])
        first, second = found.groups[0].contents.values()
        assert ([each.subject.name for each in first.places], first.count) == (["a"], 6)
        assert ([each.subject.name for each in second.places], second.count) == (["b"], 1)
        assert found.groups[0].distinct == 2

    def test_it_stops_when_there_are_too_many_schemas(self, twice: Api) -> None:
        with twice.backend.view() as view, pytest.raises(TooManySchemas):
            run_search(find_groups(view, ":*:", deleted=False, bounds=Bounds(schemas=6)))
        with twice.backend.view() as view:
            run_search(find_groups(view, ":*:", deleted=False, bounds=Bounds(schemas=7)))

    def test_a_search_goes_on_over_newer_rows(self, twice: Api) -> None:
        rows = MovingView()
        search = find_groups(rows, "", deleted=False)
        with twice.backend.view() as view:
            rows.show(view)
            for _ in range(10):
                next(search)
        JSON.register(twice, "a1", OTHER)
        twice.delete("/subjects/d")
        with twice.backend.view() as view:
            rows.show(view)
            found = run_search(search)
        assert sets(printed(found.groups)) == pairs("a 1, a2 1, a1 1, b 1", "e 1, f 1")
        assert found.total == 2

    def test_metadata_rules_and_references_count(self, api: Api) -> None:
        api.register("base", '{"type":"enum","name":"E","symbols":["A"]}')
        listed = [{"name": "E", "subject": "base", "version": 1}]
        for subject, body in {
            "a": JSON.body(ONE), "b": JSON.body(OTHER, metadata={"properties": {"k": "v"}}),
            "c": {"schema": '{"type":"array","items":"E","x":1,"y":1}', "references": listed},
            "d": {"schema": '{"type":"array","items":"E","y":1,"x":1}', "references": listed},
        }.items():  # fmt: skip
            assert api.post(f"/subjects/{subject}/versions", body).status == 200
        assert sets(found(api)) == pairs("c 1, d 1")

    def test_one_text_that_breaks_its_parser_leaves_the_others_their_groups(
        self, twice: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        avro = type(FORMATS["AVRO"])
        parse = avro.parse

        def broken(self: Any, text: str, *rest: Any, **options: Any) -> Any:
            if text == '"int"':
                raise RecursionError
            return parse(self, text, *rest, **options)

        monkeypatch.setattr(avro, "parse", broken)
        assert sets(found(twice)) == pairs("a 1, a2 1, b 1", "c 1, d 1", "e 1, f 1")

    def test_a_schema_that_cannot_be_read_any_more_is_left_alone(self, api: Api) -> None:
        api.put("/mode", {"mode": "IMPORT"})
        for number, text in enumerate(("nonsense", " nonsense", '{"$ref":"#/no"}'), 1):
            body = {"schema": text, "schemaType": "JSON" if "ref" in text else "AVRO", "id": number}
            api.post(f"/subjects/s{number}/versions", body)
        assert found(api) == []


class TestEqualTo:
    HEADER = "x-registry-equal-to"

    def register(self, api: Api, schema: str, **members: Any) -> str | None:
        reply = api.post("/subjects/s/versions", {"schema": schema, **members})
        assert reply.status == 200, reply.body
        return reply.headers.get(self.HEADER)

    @pytest.mark.parametrize(
        ("schema_type", "one", "other"), [("JSON", ONE, OTHER), ("PROTOBUF", PROTO_ONE, PROTO_OTHER)]
    )
    def test_a_new_version_that_says_the_same_names_the_earlier(
        self, api: Api, schema_type: str, one: str, other: str
    ) -> None:
        assert self.register(api, one, schemaType=schema_type) is None
        assert self.register(api, other, schemaType=schema_type) == "1"
        assert api.get("/subjects/s/versions").json == [1, 2]

    def test_the_newest_of_several_is_named(self, api: Api) -> None:
        texts = [json.dumps(dict(items)) for items in (
            (("title", "t"), ("type", "string"), ("x", 1)), (("type", "string"), ("title", "t"), ("x", 1)),
            (("x", 1), ("title", "t"), ("type", "string")),
        )]  # fmt: skip
        assert [self.register(api, text, schemaType="JSON") for text in texts] == [None, "1", "2"]
        assert api.delete("/subjects/s/versions/3").status == 200
        assert self.register(api, '{"x":1,"type":"string","title":"t"}', schemaType="JSON") == "2"

    def test_a_version_that_says_something_else_names_none(self, api: Api) -> None:
        first = '{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}'
        second = first.replace('"string"', '["string","null"]')
        assert self.register(api, first, schemaType="JSON") is None
        assert self.register(api, second, schemaType="JSON") is None
        assert api.get("/subjects/s/versions").json == [1, 2]

    def test_what_is_registered_already_names_none(self, api: Api) -> None:
        JSON.register(api, "s", ONE)
        assert self.register(api, ONE, schemaType="JSON") is None

    def test_metadata_counts(self, api: Api) -> None:
        self.register(api, ONE, schemaType="JSON")
        assert self.register(api, OTHER, schemaType="JSON", metadata={"properties": {"k": "v"}}) is None

    def test_too_large_schemas_are_let_be(self, api: Api) -> None:
        long = json.dumps({"type": "string", "description": "x" * 70_000})
        assert self.register(api, long, schemaType="JSON") is None
        swapped = json.dumps({"description": "x" * 70_000, "type": "string"})
        assert self.register(api, swapped, schemaType="JSON") is None
        assert api.get("/subjects/s/versions").json == [1, 2]


def searched(reply: Reply) -> list[dict[str, Any]]:
    assert (reply.status, reply.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in reply.body.splitlines()]


class TestSearch:
    def test_each_group_is_a_line_and_the_last_line_counts_them(self, twice: Api) -> None:
        *groups, last = searched(twice.get("/admin/duplicates"))
        assert [each["group"]["schemaType"] for each in groups] == ["JSON", "AVRO", "PROTOBUF"]
        assert last == {"found": {"groups": 3, "listed": 3}}
        _, last = searched(twice.get("/admin/duplicates?limit=1&subjectPrefix="))
        assert last == {"found": {"groups": 3, "listed": 1}}
        assert len(searched(twice.get("/admin/duplicates?subjectPrefix=a"))) == 1
        twice.delete("/subjects/f")
        assert searched(twice.get("/admin/duplicates?deleted=true"))[-1]["found"]["groups"] == 3
        assert searched(twice.get("/admin/duplicates?deleted=false"))[-1]["found"]["groups"] == 2

    @pytest.mark.parametrize("limit", ["0", "201", "-1"])
    def test_the_limit_is_bounded(self, twice: Api, limit: str) -> None:
        status, code, text = twice.get(f"/admin/duplicates?limit={limit}").error
        assert (status, code, text) == (400, 400, "limit is not between 1 and 200")

    def test_an_administrator_sees_only_what_may_be_read(self) -> None:
        rules = rule("clerk", "admin,mode", "*")
        with PermittingApi(rules + rule("clerk", "reader", "own-*")) as api:
            for subject, text in (("own-a", ONE), ("other-b", OTHER), ("own-c", ONE)):
                JSON.register(api, subject, text)
            assert searched(api.get("/admin/duplicates"))[-1]["found"]["groups"] == 1
            clerk = {"user": "clerk"}
            assert len(searched(api.request("GET", "/admin/duplicates", **clerk))) == 1
            JSON.register(api, "own-d", OTHER)
            group, _ = searched(api.request("GET", "/admin/duplicates", **clerk))
            names = [at["subject"] for each in group["group"]["contents"] for at in each["versions"]]
            assert names == ["own-a", "own-c", "own-d"]
