"""Principals in a cluster: their changes, sessions of the console and audit entries, through any node."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.node import Node
from tests.api.driver import record
from tests.api.permitting import rule
from tests.process.security.test_authentication import SECRET
from tests.support.receiver import Receiver
from tests.support.running import PATIENT, until

FLAGS = (
    *("--topic", "principals", "--group", "principals", "--replication-factor", "1"),
    *("--peer-secret", "p" * 16),
    *("--webhooks-secret", "w" * 32, "--webhooks-http", "true", "--webhooks-allow", "localhost"),
)


@pytest.fixture(scope="module")
def cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("principals")
    users, rules = folder / "users", folder / "rules.toml"
    users.write_text("".join(f"{name}:{SECRET}\n" for name in ("root", "zoë", "bob")))
    rules.write_text(
        rule("root", "admin", "*") + rule("zoë", "operator", "own-*") + rule("bob", "reader", "own-*")
    )
    flags = (*FLAGS, "--users", str(users), "--rules", str(rules))
    each = [("--audit-log", str(folder / f"audit-{number}.jsonl")) for number in range(3)]
    found = Cluster(folder, 3, settings=flags, each=each, kafka=kafka.address, front_by="")
    for node in found.nodes:
        node.headers = {"authorization": "Basic " + base64.b64encode(b"root:secret").decode()}
    try:
        yield found.start().wait()
    finally:
        found.stop()


def told(node: Node, path: str) -> list[tuple[str, str | None]]:
    """Return the kinds of the events that a node tells bob, and who made the changes."""
    with user("bob", node) as bob:
        events: list[dict[str, Any]] = bob.get(path).raise_for_status().json()["events"]
    return [(each["kind"], each.get("principal")) for each in events]


def user(name: str, node: Node) -> httpx.Client:
    return httpx.Client(base_url=node.url, auth=(name.encode(), b"secret"), timeout=PATIENT)


def test_a_change_made_through_any_node_is_reported_with_its_principal_by_every_other(
    cluster: Cluster,
) -> None:
    primary = cluster.primary()
    second, third = (node for node in cluster.nodes if node is not primary)
    with Receiver() as receiver, user("root", primary) as root, user("zoë", second) as zoe:
        hook = {"url": receiver.url, "subjectPrefix": "own-", "from": 0}
        root.put("/admin/webhooks/all", json=hook).raise_for_status()
        made = zoe.post("/subjects/own-orders/versions", json={"schema": '"int"'}).raise_for_status()
        root.put("/config/own-orders", json={"compatibility": "FULL"}).raise_for_status()
        gone = zoe.delete("/subjects/own-orders").raise_for_status()
        wanted = [("version_registered", "zoë"), ("config_set", "root"), ("subject_soft_deleted", "zoë")]
        offset = gone.headers["x-registry-offset"]
        for node in cluster.nodes:
            with user("bob", node) as bob:
                bob.get("/subjects", headers={"x-registry-min-offset": offset}).raise_for_status()
            assert told(node, "/changes?after=-1&subjectPrefix=own-") == wanted
            assert told(node, "/subjects/own-orders/history?order=asc") == wanted
        assert made.json()["id"] == 1
        until(lambda: len(receiver.received) >= len(wanted), 60, "all events")
        sent = [each.event for each in receiver.received]
        assert [(each["data"]["kind"], each["principal"]) for each in sent] == wanted
    third.stop()
    third.data.rename(third.folder / "lost")
    third.start().wait()
    assert told(third, "/changes?after=-1&subjectPrefix=own-") == wanted
    until(lambda: told(third, "/subjects/own-orders/history?order=asc") == wanted, 60, "the history again")
    with user("root", third) as root:
        events = root.get("/changes?after=-1").raise_for_status().json()["events"]
        assert not [each for each in events if each["kind"] == "epoch_started" and "principal" in each]
    # The primary says what its refusal shows, and the node of the client leaves that out.
    pay = record("Pay", "iban")
    order = '{"type":"record","name":"Order","fields":[{"name":"p","type":"Pay"}]}'
    used = {"schema": order, "references": [{"name": "Pay", "subject": "secret-pay", "version": 1}]}
    unlike = {"schema": order.replace('"Pay"', '"int"')}
    with user("root", second) as root, user("zoë", second) as zoe:
        root.post("/subjects/secret-pay/versions", json={"schema": pay}).raise_for_status()
        root.post("/subjects/own-used/versions", json=used).raise_for_status()
        refused = [each.post("/subjects/own-used/versions", json=unlike) for each in (root, zoe)]
        assert [each.status_code for each in refused] == [409, 409]
        assert [("TYPE_MISMATCH" in each.text, "{hidden:" in each.text) for each in refused] == [
            (True, False), (False, True),
        ]  # fmt: skip


PAGE = {"x-requested-with": "fetch"}  # as a page of the console asks


def signed_in(node: Node) -> dict[str, str]:
    """Sign bob in on a node; return the headers of his pages."""
    with user("bob", node) as bob:
        answer = bob.post("/me/session", json={}, headers=PAGE).raise_for_status()
    return {"cookie": answer.headers["set-cookie"].partition(";")[0], **PAGE}


def test_signing_out_on_one_node_ends_the_session_on_all_also_on_one_that_was_away(cluster: Cluster) -> None:
    first, second, third = cluster.nodes

    def statuses(page: dict[str, str]) -> list[int]:
        return [
            httpx.get(f"{node.url}/subjects", headers=page, timeout=PATIENT).status_code
            for node in cluster.nodes
        ]

    copied, other = signed_in(first), signed_in(second)
    assert statuses(copied) == [200] * 3
    httpx.delete(f"{second.url}/me/session", headers=copied, timeout=PATIENT).raise_for_status()
    until(lambda: statuses(copied) == [401] * 3, 60, "the end of the session on all nodes")
    assert statuses(other) == [200] * 3
    third.stop()
    httpx.delete(f"{second.url}/me/session", headers=other, timeout=PATIENT).raise_for_status()
    third.start().wait()
    until(lambda: statuses(other) == [401] * 3, 60, "the end of the session on the node that was away")


def test_the_audit_logs_of_all_nodes_are_one_list(cluster: Cluster) -> None:
    for number, node in enumerate(cluster.nodes):
        with user("zoë", node) as zoe:
            assert zoe.delete(f"/subjects/own-audited-{number}").status_code == 404
    wanted = {"subject": "own-audited-", "principal": "zoë"}

    def all_listed(root: httpx.Client) -> bool:
        found = root.get("/admin/audit", params=wanted).raise_for_status().json()
        asked = root.get("/usage/subjects/own-orders/askers").raise_for_status().json()
        return len(found["entries"]) == len(cluster.nodes) and not found["missing"] + asked["missing"]

    # Each is asked, because one of them has been given a new data folder, and so a new id.
    for node in cluster.nodes:
        with user("root", node) as root:
            until(lambda: all_listed(root), 30, f"the answers of all nodes at {node.url}")
    with user("root", cluster.nodes[1]) as root:
        wanted["limit"] = "2"
        found = root.get("/admin/audit", params=wanted).raise_for_status().json()
        wanted["cursor"] = found["cursor"]
        older = root.get("/admin/audit", params=wanted).raise_for_status().json()
    shown = [(each["subject"], each["node"], each["outcome"]) for each in found["entries"] + older["entries"]]
    assert shown == [(f"own-audited-{number}", cluster.nodes[number].url, "refused") for number in (2, 1, 0)]
    assert (found["missing"], {each["destination"] for each in found["nodes"]}) == ([], {"file"})
