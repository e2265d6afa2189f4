"""Conditional writes: ``If-Match`` and ``If-None-Match`` (RFC 9110, section 13.1)."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from tests.api.driver import Api, ListBackend, record

VERSIONS = "/subjects/orders/versions"
LATEST = f"{VERSIONS}/latest"
FIRST, SECOND = {"schema": record("R", "a")}, {"schema": record("R", "a", "b")}
# Writes, what is read before them, and what changes that in between.
WRITES: dict[str, tuple[str, str, Any, str, tuple[str, str, Any]]] = {
    "a registration": (
        "POST", VERSIONS, SECOND, LATEST, ("POST", VERSIONS, {"schema": record("R", "a", "c")})
    ),
    # Although it would change nothing.
    "a repeated registration": ("POST", VERSIONS, FIRST, LATEST, ("POST", VERSIONS, SECOND)),
    "new tags": (
        "POST", f"{VERSIONS}/1/tags", {"metadata": {"properties": {"owner": "me"}}}, LATEST,
        ("POST", VERSIONS, SECOND),
    ),
    "the deletion of a subject": ("DELETE", "/subjects/orders", None, LATEST, ("POST", VERSIONS, SECOND)),
    "the deletion of a version": (
        "DELETE", f"{VERSIONS}/1?permanent=true", None, f"{VERSIONS}/1?deleted=true",
        ("DELETE", f"{VERSIONS}/1", None),
    ),
    "a config": (
        "PUT", "/config/orders", {"compatibility": "FULL"}, "/config/orders",
        ("PUT", "/config/orders", {"alias": "others"}),
    ),
    "a config of all": (
        "PUT", "/config", {"compatibility": "FULL"}, "/config",
        ("PUT", "/config", {"compatibility": "NONE"}),
    ),
    "the removal of a config": (
        "DELETE", "/config/orders", None, "/config/orders", ("PUT", "/config/orders", {"normalize": True})
    ),
    "a mode": ("PUT", "/mode/orders", {"mode": "READONLY"}, "/mode/orders",
               ("PUT", "/mode/orders", {"mode": "READONLY_OVERRIDE"})),
    "the removal of a mode": (
        "DELETE", "/mode/orders", None, "/mode/orders", ("PUT", "/mode/orders", {"mode": "READONLY"})
    ),
}  # fmt: skip


def prepare(api: Api) -> None:
    api.post(VERSIONS, FIRST)
    api.put("/config/orders", {"compatibility": "NONE"})
    api.put("/mode/orders", {"mode": "READWRITE"})


@pytest.mark.parametrize("name", WRITES)
def test_a_write_goes_through_only_while_what_it_changes_is_what_was_read(api: Api, name: str) -> None:
    method, target, body, read, (other, place, change) = WRITES[name]
    prepare(api)
    stale = api.get(read).headers["etag"]
    changed = api.request(other, place, change)
    assert changed.status == 200, changed.body
    before = list(api.backend.log)
    refused = api.request(method, target, body, {"if-match": stale})
    assert refused.error[:2] == (412, 41280)
    now = api.get(read).headers["etag"] if api.get(read).status == 200 else ""
    assert now != stale
    assert f"its ETag is {now}" in refused.error[2]
    assert api.backend.log == before
    done = api.request(method, target, body, {"if-match": f'"other", {now}'})
    assert done.status == 200, done.body


def test_what_does_not_exist_has_no_tag_and_can_be_required_not_to_exist(api: Api) -> None:
    config, mode = {"compatibility": "FULL"}, {"mode": "READONLY"}
    for target, body in ((VERSIONS, FIRST), ("/config/orders", config), ("/mode/orders", mode)):
        method = "POST" if body is FIRST else "PUT"
        for tag in ("*", '"1-0"'):
            assert api.request(method, target, body, {"if-match": tag}).error[:2] == (412, 41280)
        assert api.request(method, target, body, {"if-none-match": "*"}).status == 200
        again = api.request(method, target, body, {"if-none-match": "*"})
        assert again.error[:2] == (412, 41280)
    api.delete("/mode/orders")
    assert api.request("POST", VERSIONS, FIRST, {"if-match": "*"}).status == 200
    tag = api.get(LATEST).headers["etag"]
    assert api.request("POST", VERSIONS, FIRST, {"if-none-match": f"W/{tag}"}).status == 412
    assert api.request("POST", VERSIONS, FIRST, {"if-none-match": '"9-9"'}).status == 200


def test_the_deletion_of_what_does_not_exist_is_not_found_whatever_is_required(api: Api) -> None:
    for target in ("/subjects/orders", "/config/orders", "/mode/orders"):
        assert api.request("DELETE", target, None, {"if-match": '"1-0"'}).error[:2] == (404, 40401)
    api.register("orders", FIRST["schema"])
    assert api.delete(f"{VERSIONS}/2", if_match='"1-0"').error[:2] == (404, 40402)


def test_a_deleted_subject_is_deleted_permanently_by_the_tag_of_its_highest_version(api: Api) -> None:
    prepare(api)
    live = api.get(LATEST).headers["etag"]
    assert api.delete("/subjects/orders", if_match=live).status == 200
    assert api.delete("/subjects/orders?permanent=true", if_match=live).status == 412
    deleted = api.get(f"{VERSIONS}/1?deleted=true").headers["etag"]
    assert api.delete("/subjects/orders?permanent=true", if_match=deleted).status == 200


def test_weak_tags_never_match(api: Api) -> None:
    prepare(api)
    tag = api.get(LATEST).headers["etag"]
    assert api.request("POST", VERSIONS, SECOND, {"if-match": f"W/{tag}"}).status == 412
    assert api.request("POST", VERSIONS, SECOND, {"if-match": f'W/"x",\t{tag}'}).status == 200


@pytest.mark.parametrize(
    "text", ["1-0", '"1-0', 'W/ "a"', '"a" "b"', '"a", *', "", '"\x7f"', ", ".join(['"a"'] * 17)]
)
def test_what_is_no_list_of_tags_is_refused(api: Api, text: str) -> None:
    prepare(api)
    for name in ("if-match", "if-none-match"):
        before = list(api.backend.log)
        assert api.request("POST", VERSIONS, SECOND, {name: text}).error[:2] == (400, 400)
        assert api.backend.log == before


def test_writes_that_know_no_conditions_refuse_them(api: Api) -> None:
    for method, target, body in (
        ("DELETE", "/contexts/.c", None), ("POST", "/associations", {"resourceId": "r"}),
    ):  # fmt: skip
        refused = api.request(method, target, body, {"if-match": "*"})
        assert refused.error[0] == 400
        assert "cannot be made conditional" in refused.error[2]


def test_a_compressed_answer_has_a_tag_of_its_own_that_works_as_well() -> None:
    with Api() as api:
        api.register("orders", record("R", *(f"field{number}" for number in range(100))))
        plain = api.get(LATEST).headers["etag"]
        packed = api.get(LATEST, accept_encoding="gzip")
        assert gzip.decompress(packed.body) == api.get(LATEST).body
        assert packed.headers["etag"] == f'{plain[:-1]}-gzip"'
        for tag in (plain, packed.headers["etag"]):
            assert api.get(LATEST, if_none_match=tag).status == 304
        assert api.delete(f"{VERSIONS}/latest", if_match=packed.headers["etag"]).status == 200


def test_a_condition_is_decided_by_the_primary_even_if_the_answer_is_known_here() -> None:
    settings = ApiSettings(cluster=True)
    with Api(ListBackend(settings), settings) as api:
        prepare(api)
        tag, sent = api.get(LATEST).headers["etag"], len(api.backend.submitted)
        assert api.request("POST", VERSIONS, FIRST, {"if-match": tag}).status == 200
        assert len(api.backend.submitted) == sent + 1
        assert api.request("POST", VERSIONS, FIRST).status == 200
        assert len(api.backend.submitted) == sent + 1


def test_effective_settings_have_no_tag(api: Api) -> None:
    for what in ("config", "mode"):
        answer = api.get(f"/{what}/orders?defaultToGlobal=true")
        assert answer.status == 200
        assert "etag" not in answer.headers
        assert api.get(f"/{what}", if_none_match=api.get(f"/{what}").headers["etag"]).status == 304


def test_the_chain_of_scopes_has_the_tags_of_each(api: Api) -> None:
    prepare(api)
    own, *_, everywhere = api.get("/scopes?subject=orders").json["scopes"]
    top = api.get("/scopes?subject=").json["scopes"][0]
    for what in ("config", "mode"):
        assert own["etags"][what] == api.get(f"/{what}/orders").headers["etag"]
        assert top["etags"][what] == api.get(f"/{what}").headers["etag"]
        assert everywhere["etags"][what] == api.get(f"/{what}/:.__GLOBAL:").headers["etag"]
    assert api.get("/scopes?subject=new").json["scopes"][0]["etags"] == {"config": None, "mode": None}
