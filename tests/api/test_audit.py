"""Entries of the audit log: for which requests, and with what."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.api.node_queries import AUDIT
from registry.audit.log import RequestEntry
from registry.audit.tail import AuditEntries, AuditFilter, AuditQuery, NodeAudit, Position
from registry.webhooks.message import Signer
from tests.api.driver import Api, ListBackend
from tests.api.permitting import PermittingApi, rule
from tests.api.test_admission import PasswordGate

ALICE = {"authorization": "Basic right", "x-request-id": "r-1"}


def audited(**options: Any) -> tuple[Api, list[RequestEntry]]:
    entries: list[RequestEntry] = []
    return Api(gate=PasswordGate(), audit=entries.extend, **options), entries


def test_a_write_is_recorded_with_who_what_and_where_in_the_log() -> None:
    api, entries = audited()
    with api:
        reply = api.request("POST", "/subjects/a%2Fb/versions", {"schema": '"int"'}, ALICE)
        assert reply.status == 200
    assert entries == [
        RequestEntry(
            operation="POST /subjects/{subject}/versions",
            request_id="r-1",
            principal="alice",
            address="127.0.0.1",
            subject="a/b",
            status=200,
            offset=int(reply.headers["x-registry-offset"]),
        )
    ]


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("PUT", "/config", {"compatibility": "FULL"}),
        ("PUT", "/mode/s", {"mode": "READONLY"}),
        ("DELETE", "/subjects/s", None),
        ("DELETE", "/admin/snapshots/none", None),
    ],
)
def test_every_kind_of_write_is_recorded(method: str, target: str, body: Any) -> None:
    api, entries = audited()
    with api:
        reply = api.request(method, target, body, ALICE)
    assert [(each.operation.split()[0], each.status) for each in entries] == [(method, reply.status)]


def test_a_refused_write_is_recorded_with_its_error() -> None:
    api, entries = audited()
    with api:
        api.request("DELETE", "/subjects/missing", None, ALICE)
    (entry,) = entries
    assert (entry.status, entry.error_code, entry.outcome, entry.offset) == (404, 40401, "refused", None)


def test_reads_and_what_is_registered_already_are_not_recorded() -> None:
    api, entries = audited()
    with api:
        api.request("POST", "/subjects/s/versions", {"schema": '"int"'}, ALICE)
        entries.clear()
        api.request("POST", "/subjects/s/versions", {"schema": '"int"'}, ALICE)
        api.request("POST", "/subjects/s", {"schema": '"int"'}, ALICE)
        for target in ("/subjects", "/schemas/ids/1", "/subjects/none/versions/1", "/config"):
            api.get(target, **ALICE)
    assert entries == []


def test_who_is_not_admitted_is_recorded_for_reads_too_and_without_the_credentials() -> None:
    api, entries = audited()
    with api:
        assert api.get("/subjects/s/versions?token=secret", authorization="Basic d3JvbmcK").status == 401
    (entry,) = entries
    assert (entry.operation, entry.principal, entry.error_code) == ("GET /subjects/s/versions", "", 401)
    assert "d3JvbmcK" not in repr(entry)
    assert "secret" not in repr(entry)


def test_the_address_is_the_one_that_a_trusted_proxy_names() -> None:
    api, entries = audited(settings=ApiSettings(trusted_proxies=("127.0.0.1",)))
    with api:
        api.request("PUT", "/config", {}, {**ALICE, "x-forwarded-for": "203.0.113.9, 198.51.100.7"})
    assert entries[0].address == "198.51.100.7"


def test_the_address_that_a_client_claims_is_not_believed() -> None:
    api, entries = audited()
    with api:
        api.request("PUT", "/config", {}, {**ALICE, "x-forwarded-for": "203.0.113.9"})
    assert entries[0].address == "127.0.0.1"


class _Broken(ListBackend):
    async def submit(self, command: Any, origin: Any = None) -> Any:
        raise RuntimeError


def test_an_unexpected_error_in_a_write_is_recorded() -> None:
    api, entries = audited(backend=_Broken())
    with api:
        assert api.request("PUT", "/config", {"compatibility": "NONE"}, ALICE).status == 500
    assert [each.status for each in entries] == [500]


SNAPSHOTS = "/admin/snapshots"
HOOK = "/admin/webhooks/h"
WEAK = {"subject": "s", "associationType": "value", "lifecycle": "WEAK"}
RESOURCE = {"resourceName": "r", "resourceNamespace": "n", "resourceId": "i"}


@pytest.mark.parametrize(
    ("method", "target", "body", "named", "options"),
    [
        ("DELETE", "/subjects/s?permanent=true", None, {}, {"permanent": True}),
        ("DELETE", "/subjects/s/versions/1?permanent=true", None, {"version": "1"}, {"permanent": True}),
        ("PUT", "/mode/s?force=true", {"mode": "IMPORT"}, {"mode": "IMPORT"}, {"force": True}),
        ("DELETE", "/mode/s?recursive=true", None, {}, {"recursive": True}),
        ("PUT", "/config/s", {"alias": "t"}, {"alias": "t"}, {}),
        ("DELETE", "/contexts/.c", None, {"context": ":.c:"}, {}),
        ("DELETE", f"{SNAPSHOTS}/7", None, {"snapshot": "7"}, {}),
        ("DELETE", HOOK, None, {"webhook": "h"}, {}),
        (
            "POST", "/associations?dryRun=true", {**RESOURCE, "associations": [WEAK]},
            {**RESOURCE, "subjects": ["s"]}, {"dryRun": True},
        ),
        (
            "PUT", "/associations/resources/i?context=:.c:", {"resourceName": "r", "associations": [WEAK]},
            {"resource": "i", "resourceName": "r", "subjects": ["s"]}, {"context": ":.c:"},
        ),
        (
            "DELETE", "/associations/resources/i?cascadeLifecycle=true&associationType=key", None,
            {"resource": "i"},
            {"cascadeLifecycle": True, "associationType": ["key"], "resourceType": "topic"},
        ),
    ],
)  # fmt: skip
def test_an_entry_names_the_object_and_the_options(
    method: str, target: str, body: Any, named: dict[str, Any], options: dict[str, Any]
) -> None:
    api, entries = audited()
    with api:
        api.request("POST", "/subjects/s/versions", {"schema": '"int"'}, ALICE)
        entries.clear()
        api.request(method, target, body, ALICE)
    (entry,) = entries
    assert (entry.target, entry.options) == (named, options)
    assert entry.offset is None or not options.get("dryRun")


def test_a_new_address_of_a_webhook_is_visible_and_its_secrets_are_not() -> None:
    api, entries = audited(settings=ApiSettings(webhook_signer=Signer("secret")))
    with api:
        for url in ("https://a.example/hooks/T0K3N?key=K", "https://a.example/hooks/0TH3R"):
            assert api.request("PUT", HOOK, {"url": url}, ALICE).status == 200
    first, second = (each.target for each in entries)
    assert first["webhook"] == "h"
    assert {each["server"] for each in (first, second)} == {"https://a.example"}
    assert first["url_sha256"] != second["url_sha256"]
    assert "T0K3N" not in repr(entries)


def test_a_requested_snapshot_is_named() -> None:
    api, entries = audited()
    with api:
        made = api.request("POST", SNAPSHOTS, None, ALICE).json["id"]
    assert [each.target for each in entries] == [{"made": made}]


def test_each_part_of_a_batch_has_an_entry_with_its_own_outcome() -> None:
    api, entries = audited()
    created = {**WEAK, "opType": "CREATE"}
    parts = [
        {**RESOURCE, "associations": [created]},
        {**RESOURCE, "resourceId": "j", "associations": [{**created, "subject": "missing"}]},
    ]
    with api:
        api.request("POST", "/subjects/s/versions", {"schema": '"int"'}, ALICE)
        entries.clear()
        reply = api.request("POST", "/associations:batchMutate", {"requests": parts}, ALICE)
    assert reply.status == 207
    assert [(each.outcome, each.error_code, each.offset is None) for each in entries] == [
        ("done", 0, False), ("refused", 40907, True),
    ]  # fmt: skip
    assert [each.target["request"] for each in entries] == [0, 1]
    assert [(each.target["resourceId"], each.target["subjects"]) for each in entries] == [
        ("i", ["s"]), ("j", ["missing"]),
    ]  # fmt: skip
    assert len({each.request_id for each in entries}) == 1


def test_no_spelling_of_a_body_hides_what_it_names() -> None:
    api, entries = audited()
    body = json.dumps({**RESOURCE, "associations": [WEAK]}).encode("utf-16")
    with api:
        api.request("POST", "/associations", body, {**ALICE, "content-type": "application/json"})
    assert [each.target for each in entries] == [{**RESOURCE, "subjects": ["s"]}]


@pytest.mark.parametrize(
    "body", [[], {"associations": {}}, {"associations": [1, {"subject": 1}]}, {"url": 1, "mode": None}]
)
def test_what_cannot_be_read_is_recorded_without_names(body: Any) -> None:
    api, entries = audited()
    with api:
        assert api.request("POST", "/associations", body, ALICE).status >= 400
    assert [each.target for each in entries] == [{}]


def test_only_who_was_admitted_is_distinguished() -> None:
    api, entries = audited()
    with api:
        api.get("/subjects", authorization="Basic wrong")
        api.request("DELETE", "/subjects/none", None, ALICE)
    assert [each.admitted for each in entries] == [False, True]


def test_entries_are_read_back_by_administrators_with_filters_and_a_cursor() -> None:
    asked: list[AuditQuery] = []
    found = AuditEntries(
        [{"node": "http://n", "time": "t"}], {"n1": Position(7, 900)},
        [NodeAudit("http://n", "file", "", "t", "")], ["http://m"],
    )  # fmt: skip
    with PermittingApi(rule("admin", "admin", "*") + rule("reader", "reader", "*")) as api:
        ask = api.backend.ask

        async def answer(query: Any, request: Any) -> Any:
            if query is not AUDIT:
                return await ask(query, request)
            asked.append(request)
            return found

        api.backend.ask = answer  # type: ignore[method-assign]
        wanted = "principal=a&operation=put&subject=s&outcome=done&limit=9"
        wanted += "&since=2026-01-01&until=1767225600000"
        reply = api.request("GET", f"/admin/audit?{wanted}", user="admin")
        members = reply.json
        assert members.keys() == {"entries", "cursor", "nodes", "missing"}
        again = api.request("GET", f"/admin/audit?cursor={members['cursor']}", user="admin")
        assert again.status == 200
        bad = (
            "limit=0",
            "limit=501",
            "outcome=x",
            "since=x",
            "until=99999999999999999",
            "cursor=x",
            "cursor=eA",
            "cursor=" + base64.urlsafe_b64encode(b'{"n1":[7,' + b"9" * 30 + b"]}").decode(),
        )
        for query in (*bad, "cursor=eA=="):
            assert api.request("GET", f"/admin/audit?{query}", user="admin").error[:2] == (400, 400), query
        assert api.request("GET", "/admin/audit", user="reader").status == 403
    times = ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")
    assert asked == [
        AuditQuery(AuditFilter("a", "put", "s", "done", *times), 9),
        AuditQuery(AuditFilter(), 100, {"n1": Position(7, 900)}),
    ]
