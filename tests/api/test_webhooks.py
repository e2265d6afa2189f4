"""Requests about webhooks: bodies, secrets, and what is refused before the primary sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.domain.commands import AskWebhooks, MoveWebhook, PingWebhook, PutWebhook
from registry.webhooks.message import Signer
from tests.api.driver import Api

PATH = "/admin/webhooks"
URL = "https://receiver.example/events"
SIGNER = Signer("a secret of the cluster")


@pytest.fixture
def api() -> Iterator[Api]:
    with Api(settings=ApiSettings(webhook_signer=SIGNER)) as found:
        yield found


def put(api: Api, name: str = "h", **members: Any) -> Any:
    return api.put(f"{PATH}/{name}", {"url": URL, **members}, content_type="application/json")


def post(api: Api, path: str, body: Any = None) -> Any:
    return api.post(f"{PATH}/{path}", body, content_type="application/json")


def sent(api: Api) -> Any:
    return api.backend.submitted[-1]


def test_only_the_answer_to_a_new_webhook_shows_its_secret(api: Api) -> None:
    made = put(api)
    assert (made.status, made.headers["content-type"]) == (200, "application/json")
    assert made.headers["cache-control"] == "no-store"
    assert made.json["secret"] == SIGNER.encoded_secret(made.json["id"], 0)
    assert "secret" not in put(api, enabled=False).json
    api.delete(f"{PATH}/h")
    again = put(api)
    assert again.json["secret"] not in ("", made.json["secret"])


def test_no_record_holds_a_secret(api: Api) -> None:
    secrets = [put(api).json["secret"], post(api, "h/rotate").json["secret"]]
    log = b"".join(each.key + (each.value or b"") for each in api.backend.log)
    assert SIGNER.fingerprint.encode() in log
    assert not [each for each in (*secrets, "a secret of the cluster") if each.encode() in log]


def test_a_rotation_shows_the_new_secret(api: Api) -> None:
    made = put(api).json
    rotated = post(api, "h/rotate").json
    assert (rotated["id"], rotated["rotations"]) == (made["id"], 1)
    assert rotated["secret"] == SIGNER.encoded_secret(made["id"], 1) != made["secret"]
    assert rotated["rotated"] > 1_700_000_000_000


def test_members_reach_the_primary(api: Api) -> None:
    put(api, kinds=["mode_set"], subjectPrefix="orders", enabled=False, **{"from": 2**40})
    command = sent(api)
    assert isinstance(command, PutWebhook)
    assert (command.name, command.url, command.kinds) == ("h", URL, ["mode_set"])
    assert (command.subject_prefix, command.enabled, command.start) == ("orders", False, 2**40)
    assert command.key == SIGNER.fingerprint
    put(api, "i", **{"from": "now"})
    assert (sent(api).start, sent(api).enabled, sent(api).kinds) == (-1, True, [])


def test_positions_and_questions_reach_the_primary(api: Api) -> None:
    put(api)
    assert post(api, "h/position", {"offset": 7}).status == 200
    assert sent(api) == MoveWebhook("h", 7)
    post(api, "h/position", {"offset": "now"})
    assert sent(api) == MoveWebhook("h", -1)
    api.get(PATH)
    assert sent(api) == AskWebhooks()
    api.get(f"{PATH}/h")
    assert sent(api) == AskWebhooks("h")
    post(api, "h/test")
    assert sent(api) == PingWebhook("h")


@pytest.mark.parametrize(
    ("method", "place", "body"),
    [
        ("PUT", "", {"url": URL, "enabled": False}), ("POST", "/rotate", {}),
        ("POST", "/position", {"offset": 0}), ("DELETE", "", None),
    ],
)  # fmt: skip
def test_a_webhook_is_changed_only_while_it_is_what_was_read(
    api: Api, method: str, place: str, body: Any
) -> None:
    assert api.request("PUT", f"{PATH}/h", {"url": URL}, {"if-none-match": "*"}).status == 200
    stale = api.get(f"{PATH}/h").headers["etag"]
    put(api, kinds=["mode_set"])
    assert api.request("PUT", f"{PATH}/h", {"url": URL}, {"if-none-match": "*"}).error[0] == 412
    before = list(api.backend.log)
    refused = api.request(method, f"{PATH}/h{place}", body, {"if-match": stale})
    assert refused.error[:2] == (412, 41280)
    assert api.backend.log == before
    now = api.get(f"{PATH}/h")
    assert refused.error[2].startswith("The webhook 'h' does not meet the condition")
    assert now.headers["etag"] == now.json["etag"] == api.get(PATH).json[0]["etag"] != stale
    assert api.request(method, f"{PATH}/h{place}", body, {"if-match": now.headers["etag"]}).status < 300
    assert api.request("DELETE", f"{PATH}/other", None, {"if-match": stale}).error[:2] == (404, 40481)


def test_deliveries_are_shown_to_a_client_that_knows_the_etag(api: Api) -> None:
    put(api)
    etag = api.get(f"{PATH}/h").headers["etag"]
    reply = api.request("GET", f"{PATH}/h", None, {"if-none-match": etag})
    assert (reply.status, reply.json["name"]) == (200, "h")
    paths = api.get("/openapi.json").json["paths"]
    described = paths["/admin/webhooks/{webhook}"]["get"]
    assert "304" not in described["responses"]
    assert "If-None-Match" not in str(described)
    assert "304" in paths["/config"]["get"]["responses"]


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"url": None}, 42282), ({"url": 7}, 42282), ({"url": {}}, 400), ({"url": "http://a.example"}, 42282),
        ({"url": "https://10.0.0.1/"}, 42282), ({"url": "https://[::1/"}, 42282),
        ({"kinds": "mode_set"}, 400), ({"kinds": [None]}, 400), ({"kinds": ["mode_set"] * 101}, 42282),
        ({"kinds": ["x"]}, 42282),
        ({"enabled": "perhaps"}, 400), ({"from": -1}, 400), ({"from": "then"}, 400), ({"from": 2**63}, 400),
        ({"from": True}, 400), ({"subjectPrefix": []}, 400), ({"subjectPrefix": "x" * 1001}, 42282),
    ],
)  # fmt: skip
def test_what_is_no_webhook_is_refused(api: Api, members: dict[str, Any], code: int) -> None:
    assert put(api, **members).error[1] == code
    assert api.backend.log == []


@pytest.mark.parametrize("body", [None, {}, {"offset": None}, {"offset": -1}, {"offset": 1.5}, [], b"{"])
def test_what_is_no_position_is_refused(api: Api, body: Any) -> None:
    put(api)
    before = len(api.backend.log)
    assert post(api, "h/position", body).status in (400, 422)
    assert len(api.backend.log) == before


def test_other_names_are_refused(api: Api) -> None:
    assert put(api, "a%2Fb").error[1] == 42282
    for method, path in ("DELETE", "h"), ("POST", "h/rotate"):
        assert api.request(method, f"{PATH}/{path}").error == (404, 40481, "Webhook 'h' not found.")


def test_without_a_secret_nothing_can_be_registered() -> None:
    with Api() as api:
        for refused in put(api), post(api, "h/rotate"):
            assert refused.error[:2] == (409, 40981)
            assert "webhooks_secret_file" in refused.error[2]
        assert api.backend.submitted == []
