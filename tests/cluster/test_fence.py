"""Nodes on brokers that forget idle producers soon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local.broker import Broker
from deploy.local.node import Node
from registry.domain.errors import NO_PRIMARY
from tests.faults.rig import CLOCK
from tests.support.kafka_topics import make_topic, set_of_topic
from tests.support.running import until

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


def test_a_secondary_whose_clock_is_ahead_serves_and_says_why_it_leads_nobody(
    kafka: Broker, tmp_path: Path
) -> None:
    topic, clock = make_topic(kafka.address), tmp_path / "clock"
    clock.write_text("7200")
    flags = ("--kafka", kafka.address, "--topic", topic, "--group", topic, "--readers", "1")
    right, ahead = Node(tmp_path / "right", flags), Node(tmp_path / "ahead", flags)
    assert ahead.environment is not None
    path = os.pathsep.join([str(CLOCK), ahead.environment["PYTHONPATH"]])
    ahead.environment |= {"PYTHONPATH": path, "SHIFT_CLOCK_BY": str(clock)}
    with right:
        until(lambda: right.role == "primary", 60, "a primary")
        with ahead:
            until(ahead.ready, 60, "the secondary")
            assert register(ahead, "s").status_code == httpx.codes.OK
            assert ahead.status()["cannot_lead"] == "", "nothing shows it before it was elected"
            right.stop()
            until(lambda: ahead.status().get("cannot_lead"), 60, "the reason")
            assert "set the clock of this host" in ahead.status()["election"]
            assert httpx.get(f"{ahead.url}/schemas/ids/1").status_code == httpx.codes.OK
            health = httpx.get(f"{ahead.url}/health/ready")
            assert (health.status_code, health.json()["cannot_lead"]) == (200, ahead.status()["cannot_lead"])
            assert "\nregistrar_cannot_lead 1.0\n" in httpx.get(f"{ahead.url}/metrics").text
            assert "set the clock of this host" in ahead.output
            right.start()
            until(lambda: right.role == "primary", 60, "the other node to lead again")
            until(lambda: ahead.role == "secondary", 60, "the node to follow it")
            assert register(ahead, "t").status_code == httpx.codes.OK
            clock.write_text("0")
            until(lambda: ahead.status()["cannot_lead"] == "", 60, "the right time")
            right.stop()
            until(lambda: ahead.role == "primary", 60, "the node to lead")


def test_a_node_starts_and_serves_but_does_not_lead_while_kafka_would_delete_what_it_writes(
    kafka: Broker, tmp_path: Path
) -> None:
    topic = make_topic(kafka.address)
    flags = ("--kafka", kafka.address, "--topic", topic, "--group", topic, "--request-timeout-s", "2")
    with Node(tmp_path / "node", flags) as node:
        until(lambda: node.role == "primary", 60, "a primary")
        assert register(node, "s").status_code == httpx.codes.OK
    set_of_topic(kafka.address, topic, "cleanup.policy", "compact,delete")
    with node:
        why = until(lambda: node.status().get("cannot_lead"), 60, "the reason")
        assert "cleanup.policy=compact,delete" in why
        assert httpx.get(f"{node.url}/schemas/ids/1").status_code == httpx.codes.OK
        assert register(node, "t").json()["error_code"] == NO_PRIMARY.code
        assert "--add-config cleanup.policy=compact" in node.output
        set_of_topic(kafka.address, topic, "cleanup.policy", "compact")
        until(lambda: node.role == "primary", 60, "it to write again")
        assert register(node, "t").status_code == httpx.codes.OK


@pytest.mark.long
def test_a_primary_stops_writing_once_kafka_would_delete_what_it_writes(
    kafka: Broker, tmp_path: Path
) -> None:
    topic = make_topic(kafka.address)
    flags = ("--kafka", kafka.address, "--topic", topic, "--group", topic, "--request-timeout-s", "2")
    with Node(tmp_path / "node", flags) as node:
        until(lambda: node.role == "primary", 60, "a primary")
        set_of_topic(kafka.address, topic, "cleanup.policy", "delete")
        until(lambda: node.role == "following", 90, "an idle primary to resign")
        assert register(node, "t").json()["error_code"] == NO_PRIMARY.code
        assert httpx.get(f"{node.url}/subjects").json() == []
