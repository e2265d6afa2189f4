"""Nodes on brokers that forget idle producers soon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local.broker import Broker
from deploy.local.node import Node
from registry.domain.errors import NO_PRIMARY
from tests.running import until

SETTING = "producer.id.expiration.ms"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker", settings={SETTING: "4000"}) as running:
        yield running


@pytest.fixture
def node(broker: Broker, tmp_path: Path) -> Iterator[Node]:
    flags = ("--kafka", broker.address, "--request-timeout-s", "2")
    with Node(tmp_path / "node", flags) as running:
        yield running


def remember_producers(broker: Broker, ms: int) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.node_id))
    entry = ConfigEntry(SETTING, str(ms), incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    client = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    client.incremental_alter_configs([resource])[resource].result(30)


def register(node: Node, subject: str) -> httpx.Response:
    return httpx.post(f"{node.url}/subjects/{subject}/versions", json={"schema": '"int"'}, timeout=30)


def test_a_node_whose_fence_would_not_last_reads_and_says_why_it_does_not_write(
    broker: Broker, node: Node
) -> None:
    until(lambda: f"{SETTING}=4000" in node.status().get("election", ""), 30, "the reason")
    assert node.role == "following"
    assert register(node, "s").json()["error_code"] == NO_PRIMARY.code
    assert node.ready()
    assert httpx.get(f"{node.url}/subjects").json() == []
    assert f"no node may become primary: the brokers have {SETTING}=4000" in node.output
    remember_producers(broker, 60_000)
    until(lambda: node.role == "primary", 60, "it to write once the brokers remember for long enough")
    assert register(node, "s").status_code == httpx.codes.OK


@pytest.mark.long
def test_a_primary_renews_its_fence_as_often_as_its_brokers_need_it(broker: Broker, node: Node) -> None:
    remember_producers(broker, 60_000)
    until(lambda: node.role == "primary", 60, "it to write")
    end = node.status()["end"]
    until(lambda: node.status()["end"] > end, 60, "a no-op, although RENEW_S is an hour")
    remember_producers(broker, 4000)
    until(lambda: node.role != "primary", 120, "it to cease to write")
