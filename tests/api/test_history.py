"""``GET /subjects/{subject}/history``: what happened to a subject."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from registry.api.backend import ApiSettings
from tests.api.driver import FIRST_TS, Api, ListBackend, record
from tests.api.permitting import PermittingApi, rule


def history(api: Any, subject: str, query: str = "") -> dict[str, Any]:
    reply = api.get(f"/subjects/{subject}/history{query}")
    assert reply.status == 200, reply.body
    return dict(reply.json)


def kinds(api: Any, subject: str, query: str = "") -> list[str]:
    return [each["kind"] for each in history(api, subject, query)["events"]]


def test_a_history_reports_the_newest_event_first_with_what_its_record_says(api: Api) -> None:
    api.register("orders", record("R", "a"))
    api.register("other", record("R", "a"))
    api.put("/config/orders", {"compatibility": "FULL"})
    api.delete("/subjects/orders/versions/1")
    found = history(api, "orders")
    offsets = [each["offset"] for each in found["events"]]
    assert offsets == sorted(offsets, reverse=True)
    assert (found["completeFrom"], found["filling"]) == (0, False)
    common = {"context": ".", "subject": "orders"}
    assert [{**each, "offset": 0} for each in found["events"]] == [
        {**common, "offset": 0, "time": FIRST_TS + offset, **more}
        for offset, more in zip(
            offsets,
            (
                {"kind": "version_soft_deleted", "version": 1, "id": 1, "type": "AVRO"},
                {"kind": "config_set", "level": "FULL"},
                {"kind": "version_registered", "version": 1, "id": 1, "type": "AVRO"},
            ),
            strict=True,
        )
    ]


def test_a_history_is_there_after_the_subject_is_gone(api: Api) -> None:
    api.register("orders", record("R", "a"))
    api.delete("/subjects/orders")
    api.delete("/subjects/orders?permanent=true")
    assert api.get("/subjects/orders/versions").status == 404
    assert kinds(api, "orders", "?order=asc")[0] == "version_registered"
    assert "version_deleted" in kinds(api, "orders")


def test_pages_of_a_history_hold_every_event_once_in_either_order(api: Api) -> None:
    for level in ("FULL", "NONE", "BACKWARD", "FORWARD", "FULL_TRANSITIVE"):
        api.put("/config/orders", {"compatibility": level})
    for order in ("asc", "desc"):
        whole = history(api, "orders", f"?order={order}")["events"]
        found, target = [], f"/subjects/orders/history?order={order}&limit=2"
        while target:
            reply = api.get(target)
            found += reply.json["events"]
            target = reply.headers.get("link", "").partition(">")[0][1:]
        assert found == whole
        assert len(found) == 5


def test_a_history_of_a_context_and_of_a_subject_in_it_differ(api: Api) -> None:
    api.put("/config/:.c:", {"compatibility": "FULL"})
    api.put("/config/:.c:s", {"compatibility": "NONE"})
    for target in ("/subjects/:.c:s/history", "/contexts/.c/subjects/s/history"):
        (event,) = api.get(target).json["events"]
        assert (event["subject"], event["context"], event["level"]) == (":.c:s", ".c", "NONE")
    found = history(api, ":.c:")["events"]
    assert [each["level"] for each in found if each["kind"] == "config_set"] == ["FULL"]
    assert all("subject" not in each and each["context"] == ".c" for each in found)


def test_an_alias_leads_to_the_history_of_its_subject(api: Api) -> None:
    api.register("orders", record("R", "a"))
    api.put("/config/alias", {"alias": "orders"})
    assert kinds(api, "alias") == ["version_registered"]


def test_what_never_was_has_no_history_unless_it_is_still_being_read(api: Api) -> None:
    api.register("orders", record("R", "a"))
    assert api.get("/subjects/never/history").json["error_code"] == 40401
    api.backend.history_from, api.backend.filling = 1, True
    assert history(api, "never") == {"completeFrom": 1, "filling": True, "events": []}
    api.backend.filling = False
    assert api.get("/subjects/never/history").status == 404
    assert history(api, "orders")["completeFrom"] == 1


@pytest.mark.parametrize("name", ["x" * 300, "a/b", "Ä", "%"])
def test_any_name_has_its_history(api: Api, name: str) -> None:
    api.register(quote(name, safe=""), record("R", "a"))
    (event,) = history(api, quote(name, safe=""))["events"]
    assert event["subject"] == name


def test_an_unknown_order_is_refused(api: Api) -> None:
    assert api.get("/subjects/orders/history?order=random").status == 422


def test_a_server_without_history_says_so() -> None:
    api = Api(settings=ApiSettings(history=False))
    api.register("orders", record("R", "a"))
    reply = api.get("/subjects/orders/history")
    assert reply.status == 501
    assert "setting history" in reply.json["message"]
    api.close()


def test_a_history_takes_the_permission_to_read_the_subject() -> None:
    rules = rule("reads", "reader", "orders*") + rule("writes", "write", "*")
    with PermittingApi(rules) as api:
        api.register("orders", record("R", "a"))
        api.register("other", record("R", "a"))
        api.put("/config/orders-alias", {"alias": "other"})
        seen = {
            (user, subject): api.request("GET", f"/subjects/{subject}/history", user=user).status
            for user in ("reads", "writes", "nobody")
            for subject in ("orders", "other", "orders-alias")
        }
        assert seen == {pair: 200 if pair == ("reads", "orders") else 403 for pair in seen}


def test_config_and_mode_of_a_context_are_in_its_history_for_those_who_may_read_them() -> None:
    rules = (
        rule("reads", "reader", ":.c:*")
        + rule("sets", "read,config", ":.c:*")
        + rule("locks", "read,mode", ":.c:*")
        + rule("admin", "read,admin", ":.c:*")
    )
    with PermittingApi(rules) as api:
        api.register(":.c:s", record("R", "a"))
        api.put("/config/:.c:s", {"compatibility": "NONE"})
        api.put("/config/:.c:", {"compatibility": "FULL"})
        api.put("/mode/:.c:", {"mode": "READONLY"})
        seen = {
            user: [
                each["kind"]
                for page in ("?order=asc&limit=2", "?order=asc&limit=2&offset=2")
                for each in api.request("GET", f"/subjects/:.c:/history{page}", user=user).json["events"]
            ]
            for user in ("reads", "sets", "locks", "admin")
        }
        assert seen == {
            "reads": ["context_created"],
            "sets": ["context_created", "config_set"],
            "locks": ["context_created", "mode_set"],
            "admin": ["context_created", "config_set", "mode_set"],
        }
        of_subject = api.request("GET", "/subjects/:.c:s/history", user="reads").json["events"]
        assert [each["kind"] for each in of_subject] == ["config_set", "version_registered"]


class OlderStore(ListBackend):
    """Rows of an older release, which kept no history."""

    def history(self) -> None:
        return None


def test_a_history_that_no_node_has_begun_is_to_be_asked_for_again() -> None:
    with Api(OlderStore()) as api:
        api.register("orders", record("R", "a"))
        assert api.get("/subjects/orders/history").status == 503


def test_a_history_and_the_feed_name_who_made_a_change() -> None:
    with PermittingApi(rule("alice", "operator", "orders*") + rule("bob", "reader", "orders")) as api:
        schema = {"schema": '"int"'}
        assert api.request("POST", "/subjects/orders/versions", schema, user="alice").status == 200
        assert api.put("/config/orders", {"compatibility": "FULL"}).status == 200
        assert api.request("DELETE", "/subjects/orders", user="alice").status == 200
        told = [("version_registered", "alice"), ("config_set", "root"), ("subject_soft_deleted", "alice")]
        for target in ("/subjects/orders/history?order=asc", "/changes?after=-1"):
            events = api.request("GET", target, user="bob").json["events"]
            assert [(each["kind"], each["principal"]) for each in events] == told
        assert api.request("GET", "/subjects/orders/history", user="mallory").status == 403


def test_what_nobody_with_a_name_has_done_names_nobody(api: Api) -> None:
    api.register("orders", record("R", "a"))
    (event,) = history(api, "orders")["events"]
    assert "principal" not in event
