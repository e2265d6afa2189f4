"""Entries of the audit log: for which requests, and with what."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.audit.entry import RequestEntry
from tests.api.driver import Api, ListBackend
from tests.api.test_admission import PasswordGate

ALICE = {"authorization": "Basic right", "x-request-id": "r-1"}


def audited(**options: Any) -> tuple[Api, list[RequestEntry]]:
    entries: list[RequestEntry] = []
    return Api(gate=PasswordGate(), audit=entries.append, **options), entries


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
