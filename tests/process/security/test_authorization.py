"""Rules in a real server, whose readers have shortcuts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.support.running import BOTH, PATIENT, Registry, until

# Of the password "secret", with parameters that make it fast.
SECRET = "$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHQ$apN7z2gpbX5hR28gblEBdA"
STRING = json.dumps({"schema": '"string"'})
ROOT = '[[allow]]\nprincipal = "root"\nrole = "admin"\nsubjects = "*"\n'
OWN = '[[allow]]\ngroup = "team"\nrole = "developer"\nsubjects = "{}-*"\n'


class Site(NamedTuple):
    registry: Registry
    rules: Path

    def write_rules(self, text: str) -> None:
        new = self.rules.with_name("new")
        new.write_text(text)
        new.replace(self.rules)

    def status(self, target: str, user: str = "alice", content: str | None = None) -> int:
        method = "GET" if content is None else "POST"
        url, auth = self.registry.url + target, (user, "secret")
        return httpx.request(method, url, content=content, auth=auth, timeout=PATIENT).status_code

    def names(self, user: str = "alice") -> list[str]:
        auth = (user, "secret")
        found: list[str] = httpx.get(f"{self.registry.url}/subjects", auth=auth, timeout=PATIENT).json()
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("authorization")
    users, rules = folder / "users", folder / "rules.toml"
    users.write_text(f"root:{SECRET}\nalice:{SECRET}:team\n")
    rules.write_text(ROOT + OWN.format("own"))
    registry = Registry(folder / "data", "--readers", "2", "--users", str(users), "--rules", str(rules))
    registry.headers["Authorization"] = "Basic " + base64.b64encode(b"root:secret").decode()
    try:
        registry.wait()
        found = Site(registry, rules)
        for subject, schema in (("own-value", '"string"'), ("other-value", '"int"')):
            target = f"/subjects/{subject}/versions"
            assert found.status(target, "root", json.dumps({"schema": schema})) == 200
        yield found
        assert registry.stop() == 0, registry.output
    finally:
        registry.kill()
    assert "Traceback" not in registry.output


def test_the_shortcuts_of_readers_honor_rules(site: Site) -> None:
    for _ in range(6):  # by all processes
        assert site.status("/schemas/ids/1") == 200
        assert site.status("/schemas/ids/2") == 404
        assert site.status("/schemas/ids/2", "root") == 200
        assert site.status("/subjects/own-value/versions/latest") == 200
        assert site.status("/subjects/other-value/versions/latest") == 403
        assert site.status("/subjects/missing/versions/latest") == 403
        assert site.status("/subjects/own-value/versions", content=STRING) == 200
        assert site.status("/subjects/other-value/versions", content=json.dumps({"schema": '"int"'})) == 403
        assert site.names() == ["own-value"]
        assert site.names("root") == ["other-value", "own-value"]
    assert site.status("/node") == 403
    assert site.status("/node", "root") == 200


@pytest.mark.logs_errors("'develper' is not one of")
def test_changed_rules_apply_without_a_restart_and_broken_ones_do_not(site: Site) -> None:
    site.write_rules(ROOT + OWN.format("other"))
    until(lambda: all(site.names() == ["other-value"] for _ in BOTH), 10.0, "the new rules")
    assert site.status("/schemas/ids/1") == 404
    assert site.status("/subjects/own-value/versions/latest") == 403
    site.write_rules(ROOT + OWN.format("own").replace("developer", "develper"))
    reason = f"{site.rules}, line 5: [[allow]] number 2: 'role': 'develper' is not one of reader"
    until(lambda: reason in site.registry.output, 10.0, "the broken rule to be logged")
    assert site.names() == ["other-value"]
    site.write_rules(ROOT + OWN.format("own"))
    until(lambda: all(site.names() == ["own-value"] for _ in BOTH), 10.0, "the first rules")


def test_a_search_for_duplicates_sees_what_may_be_read(site: Site) -> None:
    texts = [f'{{"type":"array","items":"int",{more}}}' for more in ('"x":1,"y":1', '"y":1,"x":1')]
    for name, text in zip(("own-twice", "other-twice"), texts, strict=True):
        target = f"/subjects/{name}/versions"
        assert site.status(target, "root", json.dumps({"schema": text})) == 200
    site.write_rules(
        f'{ROOT}{OWN.format("own")}[[allow]]\nprincipal = "alice"\noperations = ["admin"]\nsubjects = "*"\n'
    )
    until(lambda: all(site.status("/node") == 200 for _ in BOTH), 10.0, "the new rules")
    for user, groups in (("alice", 0), ("root", 1)):
        url, auth = f"{site.registry.url}/admin/duplicates", (user, "secret")
        *_, last = httpx.get(url, auth=auth, timeout=PATIENT).text.splitlines()
        assert json.loads(last) == {"found": {"groups": groups, "listed": groups}}
    site.write_rules(ROOT + OWN.format("own"))
    until(lambda: all(site.status("/node") == 403 for _ in BOTH), 10.0, "the first rules")
    assert site.status("/admin/duplicates") == 403


def test_a_refused_registration_shows_no_fields_of_schemas_that_may_not_be_read(site: Site) -> None:
    pay = {"type": "record", "name": "Pay", "fields": [{"name": "iban", "type": "string", "default": ""}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "pay", "type": "Pay"}]}
    used = [{"name": "Pay", "subject": "other-pay", "version": 1}]
    unlike = {**order, "fields": [{"name": "pay", "type": {**pay, "type": "enum", "symbols": ["A"]}}]}
    target = "/subjects/own-order/versions"
    for path, body in (
        ("/subjects/other-pay/versions", {"schema": json.dumps(pay)}),
        (target, {"schema": json.dumps(order), "references": used}),
    ):
        assert site.status(path, "root", json.dumps(body)) == 200
    content = json.dumps({"schema": json.dumps(unlike)})
    for user, shown in (("root", True), ("alice", False)):
        url, auth = site.registry.url + target, (user, "secret")
        reply = httpx.post(url, content=content, auth=auth, timeout=PATIENT)
        assert (reply.status_code, reply.json()["error_code"]) == (409, 40901)
        assert ("TYPE_MISMATCH" in reply.text, "{hidden:" in reply.text) == (shown, not shown)


def test_an_alias_that_is_set_during_writes_leads_none_of_them_to_another_subject(site: Site) -> None:
    def client(user: str) -> httpx.Client:
        return httpx.Client(base_url=site.registry.url, auth=(user, "secret"), timeout=PATIENT)

    with client("root") as root, client("alice") as alice, ThreadPoolExecutor(7) as pool:
        root.put("/config", json={"compatibility": "NONE"}).raise_for_status()
        before = root.get("/subjects/other-value/versions").json()
        statuses: set[int] = set()
        for turn in range(8):
            name = f"own-turn{turn}"
            schemas = [f'{{"type":"fixed","name":"F{turn}x{each}","size":1}}' for each in range(6)]
            writes = [
                pool.submit(alice.post, f"/subjects/{name}/versions", json={"schema": each})
                for each in schemas
            ]
            alias = pool.submit(root.put, f"/config/{name}", json={"alias": "other-value"})
            assert alias.result().status_code == 200
            statuses |= {each.result().status_code for each in writes}
        assert root.get("/subjects/other-value/versions").json() == before
    assert statuses <= {200, 403, 503}


def test_rules_need_clients_with_names(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(ROOT)
    registry = Registry(tmp_path / "data", "--rules", str(rules))
    try:
        assert registry.process.wait(30) == 1
        assert "needs clients with names" in registry.output
    finally:
        registry.kill()
