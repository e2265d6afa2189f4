"""Changes with their principals, as every node tells them, through any node to which the request came."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
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


@pytest.fixture
def cluster(kafka: Broker, tmp_path: Path) -> Iterator[Cluster]:
    users, rules = tmp_path / "users", tmp_path / "rules.toml"
    users.write_text("".join(f"{name}:{SECRET}\n" for name in ("root", "zoë", "bob")))
    rules.write_text(
        rule("root", "admin", "*") + rule("zoë", "operator", "own-*") + rule("bob", "reader", "own-*")
    )
    flags = (*FLAGS, "--users", str(users), "--rules", str(rules))
    found = Cluster(tmp_path, 3, settings=flags, kafka=kafka.address, front_by="")
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
