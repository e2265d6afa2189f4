"""The access log of running registries: who sent each request, from where, and its id."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from tests.process.security.test_authentication import ALICE, SECRET
from tests.support.running import PATIENT, Registry, until


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry behind a proxy on this machine, with the user alice."""
    folder = tmp_path_factory.mktemp("access")
    users = folder / "users"
    users.write_text(f"alice:{SECRET}\n")
    registry = Registry(
        folder / "data",
        *("--readers", "1", "--users", str(users), "--trusted-proxies", "127.0.0.1"),
        *("--access-log", "--log-format", "json"),
    )
    registry.headers["Authorization"] = "Basic " + base64.b64encode(b"alice:secret").decode()
    try:
        registry.wait()
        known = f"{registry.url}/subjects/known/versions"
        httpx.post(known, json={"schema": '"int"'}, auth=ALICE, timeout=PATIENT).raise_for_status()
        yield registry
        assert registry.stop() == 0, registry.output
    finally:
        registry.kill()


def line_of(registry: Registry, request_id: str) -> dict[str, Any]:
    lines = (json.loads(line) for line in registry.output.splitlines() if line.startswith("{"))
    return next((line for line in lines if line.get("request_id") == request_id), {})


@pytest.mark.parametrize("target", ["/schemas/ids/1", "/subjects/known/versions/latest", "/subjects", "/no"])
def test_a_line_names_the_principal_and_the_address_that_the_proxy_names(
    registry: Registry, target: str
) -> None:
    headers = {"X-Forwarded-For": "198.51.100.7", "X-Request-ID": f"r-{target}"}
    reply = httpx.get(registry.url + target, headers=headers, auth=ALICE, timeout=PATIENT)
    assert reply.headers["x-request-id"] == f"r-{target}"
    line = until(partial(line_of, registry, f"r-{target}"), 30, "the line")
    assert (line["target"], line["address"], line["principal"]) == (target, "198.51.100.7", "alice")


@pytest.mark.parametrize("target", ["/schemas/ids/1", "/subjects"])
def test_an_id_that_the_registry_chose_is_in_the_line(registry: Registry, target: str) -> None:
    reply = httpx.get(registry.url + target, auth=ALICE, timeout=PATIENT)
    assert until(partial(line_of, registry, reply.headers["x-request-id"]), 30, "the line")


def test_who_is_not_admitted_has_no_name_in_the_line(registry: Registry) -> None:
    reply = httpx.get(f"{registry.url}/subjects", auth=("alice", "wrong"), timeout=PATIENT)
    line = until(partial(line_of, registry, reply.headers["x-request-id"]), 30, "the line")
    assert (line["status"], line["principal"], line["address"]) == (401, "", "127.0.0.1")


def test_a_code_that_an_issuer_sends_back_to_the_console_is_not_in_the_line(registry: Registry) -> None:
    headers = {"X-Request-ID": "r-console"}
    httpx.get(f"{registry.url}/ui/?code=one-time&state=s", headers=headers, timeout=PATIENT)
    line = until(partial(line_of, registry, "r-console"), 30, "the line")
    assert line["target"] == "/ui/"
    assert "one-time" not in registry.output
