"""Policies of registrations in running registries: applied, read again when they change, never half."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.support.running import PATIENT, Registry, until

NODE_REFUSED = re.compile(r" node +\S+policies.toml, line 4: not TOML: ")
DENIED = '[[policy]]\nsubjects = ["orders-*"]\nregister = []\n'


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry whose file of policies is ``policies.toml`` next to its data, empty at first."""
    policies = tmp_path / "policies.toml"
    policies.write_text("")
    flags = ("--policies", str(policies), "--readers", "1")
    with closing(_Stopped(Registry(tmp_path / "data", *flags).wait())) as running:
        yield running.registry


class _Stopped:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def close(self) -> None:
        assert self.registry.stop() == 0


def register(registry: Registry, subject: str, schema: str = '"string"') -> httpx.Response:
    return httpx.post(f"{registry.url}/subjects/{subject}/versions", json={"schema": schema}, timeout=PATIENT)


def write(registry: Registry, text: str) -> None:
    """Replace the policies at once, as careful tools do."""
    policies = registry.data.with_name("policies.toml")
    new = policies.with_suffix(".new")
    new.write_text(text)
    new.replace(policies)


def answers(registry: Registry, status: int) -> None:
    """Wait until a schema that is never registered is refused with this status."""
    until(lambda: register(registry, "orders-value", '"int"').status_code == status, 30, f"status {status}")


@pytest.mark.logs_errors("not TOML")
def test_a_changed_file_applies_without_a_restart_and_a_broken_one_changes_nothing(
    registry: Registry,
) -> None:
    first = register(registry, "orders-value").json()["id"]
    write(registry, DENIED)
    answers(registry, 403)  # before, it was incompatible
    denied = register(registry, "orders-value", '"int"')
    assert (denied.status_code, denied.json()["error_code"]) == (403, 40381)
    assert register(registry, "orders-value").json()["id"] == first
    assert register(registry, "payments-value", '"long"').status_code == 200

    write(registry, DENIED + "versions_max = many")
    until(lambda: NODE_REFUSED.search(registry.output), 30, "the node to refuse the file")
    assert register(registry, "orders-value", '"int"').status_code == 403

    write(registry, "")
    answers(registry, 409)


def test_more_writes_than_a_minute_allows_are_refused_until_later(registry: Registry) -> None:
    register(registry, "orders-value")
    write(registry, f"writes_per_minute = 2\n{DENIED}")
    answers(registry, 403)
    assert [register(registry, f"s{at}").status_code for at in range(2)] == [200, 200]
    refused = register(registry, "s2")
    assert (refused.status_code, refused.json()["error_code"]) == (429, 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert register(registry, "s1").status_code == 200  # it exists, so nothing is written
    assert httpx.get(f"{registry.url}/subjects/s2/versions", timeout=PATIENT).status_code == 404


def test_a_start_with_policies_that_are_not_understood_is_refused(tmp_path: Path) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text("[[policy]]\nsubject = ['a']\n")
    registry = Registry(tmp_path / "data", "--policies", str(policies))
    until(lambda: registry.process.poll() is not None, 30, "the start to be refused")
    assert registry.process.returncode != 0
    assert f"{policies}, line 1: policy 1: unknown key subject; allowed are" in registry.output
