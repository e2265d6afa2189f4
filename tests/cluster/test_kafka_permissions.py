"""The Kafka permissions that deploy/README.md lists are sufficient."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.node import Node
from tests.support.guarded_broker import LOGIN, PASSWORD, allow, allowed, guarded_broker
from tests.support.running import ROOT, until

KINDS = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as found:
        yield found


def told() -> list[AclBinding]:
    """Return the permissions that the commands in the README grant."""
    text = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    bindings = []
    for line in re.findall(r"^acls (--.*)$", text, re.MULTILINE):
        (kind, name), *operations = zip(*[iter(shlex.split(line))] * 2, strict=True)
        for _, operation in operations:
            what = OPERATIONS[operation.lower()]
            bindings += allowed(KINDS[kind], name, what)
    return bindings


# The broker learns of permissions one after another.
@pytest.mark.logs_errors("Kafka refused: this client needs")
def test_a_node_that_may_not_claim_the_log_serves_and_says_what_it_lacks(
    guarded: tuple[Broker, str], tmp_path: Path
) -> None:
    broker, users = guarded
    allow(broker, [each for each in told() if each.restype is not ResourceType.TRANSACTIONAL_ID])
    node = Node(tmp_path / "node", ["--kafka", users, *LOGIN, "--snapshots-builder", "none"])
    with node:
        until(lambda: "on transactional id" in node.status().get("cannot_lead", ""), 60, "what it lacks")
        assert node.role == "following"
        assert node.ready()
        assert httpx.get(f"{node.url}/subjects").json() == []
        allow(broker, told())
        until(lambda: node.role == "primary", 60, "it to lead once it is allowed to")


def test_a_node_with_the_documented_permissions_makes_its_topics_leads_and_writes(
    guarded: tuple[Broker, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    broker, users = guarded
    assert len(told()) == 10
    allow(broker, told())
    flags = [*LOGIN, "--snapshots-builder", "local"]
    folder = tmp_path_factory.mktemp("allowed")
    with Cluster(folder, 1, settings=flags, kafka=users, front_by="") as cluster:
        body = {"schema": '"string"'}
        answer = httpx.post(f"{cluster.url}/subjects/a/versions", json=body, timeout=60)
        assert answer.json().get("id") == 1, cluster.nodes[0].output
        asked = httpx.post(f"{cluster.url}/admin/snapshots", timeout=60)
        assert asked.status_code == 202, asked.text
        assert PASSWORD not in cluster.nodes[0].output
