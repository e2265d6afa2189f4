"""Requests of web pages: writes from other sites, and hosts that only resolve to this machine."""

from __future__ import annotations

import pytest

from registry.api.backend import ApiSettings
from registry.api.browsers import PageGuard, hosts_of
from tests.api.driver import Api

SCHEMA = {"schema": '"string"'}
PATH = "/subjects/a/versions"
HERE = "registry.example:8081"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://registry.example"},  # Another port is another site.
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": f"http://{HERE}", "sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json"])
def test_pages_of_other_sites_write_nothing(headers: dict[str, str], content_type: str) -> None:
    with Api() as api:
        given = {"host": HERE, **headers, **({"content-type": content_type} if content_type else {})}
        status, code, message = api.post(PATH, SCHEMA, **given).error
        assert (status, code) == (403, 403)
        assert "cors_origins" in message
        assert api.put("/config", {"compatibility": "NONE"}, **given).status == 403
        assert api.delete("/subjects/a", **given).status == 403
        assert api.backend.submitted == []
        assert api.get("/subjects", host=HERE, **headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin", "origin": "https://proxied.example"},
        {"sec-fetch-site": "none"},
        {"origin": f"http://{HERE}"},
        {"origin": "https://proxied.example", "x-forwarded-host": "proxied.example"},
    ],
)
def test_clients_and_pages_of_this_server_write(headers: dict[str, str]) -> None:
    with Api() as api:
        assert api.post(PATH, SCHEMA, host=HERE, **headers).status == 200


@pytest.mark.parametrize("origins", [("https://ui.example",), ("*",)])
def test_pages_of_allowed_origins_write(origins: tuple[str, ...]) -> None:
    with Api(settings=ApiSettings(cors_origins=origins)) as api:
        headers = {"host": HERE, "origin": "https://ui.example", "sec-fetch-site": "cross-site"}
        assert api.post(PATH, SCHEMA, **headers).status == 200


def test_other_hosts_are_refused_where_some_are_allowed() -> None:
    with Api(settings=ApiSettings(allowed_hosts=("Registry.example", "[::1]"))) as api:
        for host in ("registry.example", "REGISTRY.example:80", "registry.example.", "[::1]:8081"):
            assert api.get("/subjects", host=host).status == 200
        assert api.get("/subjects").status == 200
        for host in ("evil.example", "registry.example.evil", "", "127.0.0.1:8081", "[::2]:8081"):
            status, code, message = api.get("/subjects", host=host).error
            assert (status, code) == (403, 403)
            assert "allowed_hosts" in message


def test_a_loopback_listener_allows_loopback_names_by_default() -> None:
    guard = PageGuard(hosts_of((), ["127.0.0.7"], "http://registrar-1:8081"))
    for host in (b"localhost:8081", b"127.0.0.1", b"127.0.0.7:1", b"[::1]:8081", b"registrar-1:8081"):
        assert guard.allows_host(host)
    assert not guard.allows_host(b"evil.example:8081")
    assert PageGuard(hosts_of(("*",), ["localhost"], "")).allows_host(b"evil.example")
    assert PageGuard(hosts_of((), ["127.0.0.1", "0.0.0.0"], "")).allows_host(b"evil.example")
    assert not PageGuard(hosts_of(("a",), ["0.0.0.0"], "")).allows_host(b"evil.example")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_own_operations_take_no_types_that_forms_can_send(content_type: str) -> None:
    with Api() as api:
        for target in ("/admin/snapshots", "/compatibility/explain"):
            assert api.post(target, {}, content_type=content_type).error[:2] == (415, 415)
        assert api.backend.submitted == []


def test_a_body_of_an_own_operation_is_called_json() -> None:
    with Api() as api:
        assert api.post("/compatibility/explain", {}, content_length="2").error[:2] == (415, 415)
        assert api.post("/admin/snapshots").status == 202
        assert api.post("/admin/snapshots", {}, content_type="application/json; charset=utf-8").status == 202
