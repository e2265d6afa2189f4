"""References in both directions, directly and not."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.api.backend import ApiSettings
from registry.domain.queries.scope import Defaults
from tests.api.driver import Api
from tests.api.permitting import PermittingApi, rule


def using(name: str, *used: str) -> str:
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate(used)]
    return orjson.dumps({"type": "record", "name": name, "fields": fields}).decode()


def to(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


@pytest.fixture
def chain(api: Api) -> Api:
    """``top`` uses ``middle``, which uses ``base``; ``side`` uses ``base`` too."""
    fill(api)
    return api


def fill(api: Api) -> None:
    api.register("base", using("Base"))
    api.register("middle", using("Middle", "Base"), references=[to("Base", "base")])
    api.register("side", using("Side", "Base"), references=[to("Base", "base")])
    api.register("top", using("Top", "Middle"), references=[to("Middle", "middle")])


def test_references_of_the_past_come_without_referrers(chain: Api) -> None:
    now = graph(chain, "top")
    then = len(chain.backend.log) - 1
    for permanent in ("", "?permanent=true"):
        chain.request("DELETE", f"/subjects/top{permanent}")
    found = chain.get(f"/subjects/top/versions/1/graph?atOffset={then}").json
    assert found == now
    side = chain.get(f"/subjects/base/versions/1/graph?atOffset={then}").json
    assert [each["subject"] for each in side["nodes"]] == ["base"]
    cut = chain.get(f"/subjects/top/versions/1/graph?atOffset={then}&limit=2").json
    assert ([each["subject"] for each in cut["nodes"]], cut["complete"]) == (["top", "middle"], False)


def graph(api: Api, subject: str, query: str = "") -> Any:
    reply = api.get(f"/subjects/{subject}/versions/latest/graph{query}")
    assert reply.status == 200, reply.body
    return reply.json


def depths(found: Any) -> dict[str, int]:
    return {each["subject"]: each["depth"] for each in found["nodes"]}


def test_both_directions_are_followed_to_their_ends(chain: Api) -> None:
    found = graph(chain, "middle")
    assert found == {
        "nodes": [
            {"subject": "middle", "version": 1, "depth": 0, "id": 2, "schemaType": "AVRO", "deleted": False},
            {"subject": "base", "version": 1, "depth": 1, "id": 1, "schemaType": "AVRO", "deleted": False},
            {"subject": "top", "version": 1, "depth": -1, "id": 4, "schemaType": "AVRO", "deleted": False},
        ],
        "edges": [{"from": 0, "to": 1, "name": "Base"}, {"from": 2, "to": 0, "name": "Middle"}],
        "complete": True,
    }
    assert depths(graph(chain, "base")) == {"base": 0, "middle": -1, "side": -1, "top": -2}
    assert depths(graph(chain, "top")) == {"top": 0, "middle": 1, "base": 2}


def test_the_nearest_are_shown_if_there_are_too_many(chain: Api) -> None:
    found = graph(chain, "base", "?limit=3")
    assert depths(found) == {"base": 0, "middle": -1, "side": -1}
    assert not found["complete"]
    assert graph(chain, "base", "?limit=4")["complete"]


def test_soft_deleted_versions_are_shown_as_such(chain: Api) -> None:
    chain.delete("/subjects/side")
    deleted = {each["subject"]: each["deleted"] for each in graph(chain, "base")["nodes"]}
    assert deleted == {"base": False, "middle": False, "side": True, "top": False}


def test_references_in_other_contexts_are_qualified(chain: Api) -> None:
    chain.register(":.x:other", using("Other", "Base"), references=[to("Base", ":.:base")])
    assert depths(graph(chain, ":.x:other")) == {":.x:other": 0, "base": 1}
    assert ":.x:other" in depths(graph(chain, "base"))


def test_a_version_that_does_not_exist(chain: Api) -> None:
    assert chain.get("/subjects/none/versions/1/graph").error[:2] == (404, 40401)
    assert chain.get("/subjects/base/versions/9/graph").error[:2] == (404, 40402)


def test_subjects_that_may_not_be_read_are_no_nodes_but_missing_references() -> None:
    with PermittingApi(rule("bob", "reader", "middle")) as api:
        fill(api)
        found = api.request("GET", "/subjects/middle/versions/1/graph", user="bob").json
        assert [(each["subject"], each.get("missing", False)) for each in found["nodes"]] == [
            ("middle", False), ("base", True),
        ]  # fmt: skip


def test_strict_references_refuse_a_format_of_a_stored_graph_with_two_versions_of_a_name(api: Api) -> None:
    def register(subject: str, schema: str, **used: int) -> None:
        listed = [{"name": f"{each}.proto", "subject": each, "version": used[each]} for each in used]
        body = {"schemaType": "PROTOBUF", "schema": schema, "references": listed}
        assert api.post(f"/subjects/{subject}/versions", body).status == 200

    register("base", "message Base { optional string a = 1; }")
    register("base", "message Base { optional string a = 1; optional string b = 2; }")
    register("mid", 'import "base.proto"; message Mid { optional Base b = 1; }', base=1)
    top = 'import "base.proto"; import "mid.proto"; message Top { optional Base b = 1; optional Mid m = 2; }'
    register("top", top, base=2, mid=1)
    schema_id = api.get("/subjects/top/versions/1").json["id"]
    shown = (
        "/subjects/top/versions/1?format=serialized",
        "/subjects/top/versions/1/schema?format=serialized",
        "/subjects/top/versions/1?format=logical",
        "/subjects/top/versions/1?findTags=*",
        f"/schemas/ids/{schema_id}?format=serialized",
        f"/schemas/ids/{schema_id}/schema?format=serialized",
    )
    assert [api.get(each).status for each in shown] == [200] * len(shown)
    front = "Invalid schema of type PROTOBUF, details: "
    text = 'Conflicting reference versions for "base.proto": version 2 and version 1'
    strict = ApiSettings(defaults=Defaults(strict_references=True))
    with Api(api.backend, strict) as later:
        assert {later.get(each).error for each in shown} == {(422, 42201, front + front + text)}
        assert later.get("/subjects/top/versions/1").status == 200
        assert later.get("/subjects/mid/versions/1?format=serialized").status == 200
