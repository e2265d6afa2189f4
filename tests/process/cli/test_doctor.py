"""``registrar doctor`` on real brokers, a real ZooKeeper and real nodes: one thing is wrong in each test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deploy.local.broker import Broker
from deploy.local.zookeeper import ZooKeeper
from registry.domain.log_format.records import Entry, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.log.embedded.log import EmbeddedLog
from tests.process.cli.running_verbs import verb
from tests.support.guarded_broker import LOGIN, allow, allowed, guarded_broker
from tests.support.kafka_topics import admin, make_topic
from tests.support.running import Registry, Served, free_port, until

# Warnings that a broker of its own always causes.
ALONE = "has 1 of 3 replicas"
Findings = list[dict[str, str]]
Look = Callable[..., Findings]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as found:
        yield found


@pytest.fixture
def look(guarded: tuple[Broker, str], tmp_path: Path) -> Look:
    """Return a function that examines a topic on the broker; it returns what is not fine."""

    def examined(topic: str, *flags: str, kafka: str = guarded[0].address) -> Findings:
        words = ("--json", "--data", str(tmp_path), "--kafka", kafka, "--topic", topic, *flags)
        return wrong(*words)

    return examined


def wrong(*words: str) -> Findings:
    """Return what ``registrar doctor`` finds wrong; check that its exit status says the same."""
    done = verb("doctor", *words)
    assert not done.err
    severities = [each["severity"] for each in done.json["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "unknown", "fine"].index)
    assert done.json["verdict"] == severities[0]
    assert done.status == {"fine": 0, "unknown": 2}.get(severities[0], 1)
    return [
        each for each in done.json["findings"] if each["severity"] != "fine" and ALONE not in each["text"]
    ]


def only(findings: Findings) -> tuple[str, str, str]:
    """Return severity, subject and text of the only finding."""
    [found] = findings
    return found["severity"], found["about"], f"{found['text']} → {found['advice']}"


def test_a_topic_as_nodes_make_it_is_fine_apart_from_its_single_replica(
    guarded: tuple[Broker, str], look: Look
) -> None:
    assert not look(make_topic(guarded[0].address))
    assert not look("not-made-yet")


@pytest.mark.parametrize(
    ("settings", "severity", "text"),
    [
        ({"cleanup.policy": "delete"}, "error", "has cleanup.policy=delete: Kafka would delete schemas"),
        ({"delete.retention.ms": "1000"}, "warning", "has delete.retention.ms=1000, less than 604800000"),
        ({"min.compaction.lag.ms": "0"}, "warning", "has min.compaction.lag.ms=0, less than 86400000"),
        ({"max.message.bytes": "5000"}, "warning", "has max.message.bytes=5000, less than 1048588"),
        ({"min.insync.replicas": "2"}, "error", "min.insync.replicas=2 is more than its 1 replicas"),
        ({"unclean.leader.election.enable": "true"}, "warning", "unclean.leader.election.enable=true"),
    ],
    ids=str,
)
def test_each_setting_of_the_topic_that_is_wrong_is_found_with_advice(
    guarded: tuple[Broker, str], look: Look, settings: dict[str, str], severity: str, text: str
) -> None:
    topic = make_topic(guarded[0].address, settings)
    found = only(look(topic))
    assert found[:2] == (severity, f"topic {topic}")
    assert text in found[2]
    assert (
        next(iter(settings)) in found[2].partition(" → ")[2] + found[2].rpartition("Run ")[2]
        or "set it" in found[2]
    )


def test_several_partitions_are_an_error(guarded: tuple[Broker, str], look: Look) -> None:
    topic = make_topic(guarded[0].address, partitions=3)
    severity, about, text = only(look(topic))
    assert (severity, about) == ("error", f"topic {topic}")
    assert "has 3 partitions, but a log has exactly one" in text


def test_brokers_that_forget_producers_soon_are_an_error(guarded: tuple[Broker, str], look: Look) -> None:
    broker = guarded[0]
    topic = make_topic(broker.address)
    _set_on_broker(broker, "producer.id.expiration.ms", "30000")
    try:
        [found] = until(lambda: look(topic), 30, "the setting to be in force")
        assert (found["severity"], found["about"]) == ("error", "fence")
        assert "producer.id.expiration.ms=30000" in found["text"]
    finally:
        _set_on_broker(broker, "producer.id.expiration.ms", "86400000")
    until(lambda: not look(topic), 30, "the former setting to be in force")
    assert only(look(topic, "--fencing", "off"))[:2] == ("warning", "fence")


def _set_on_broker(broker: Broker, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.node_id), incremental_configs=[entry])
    client = admin(broker.address)  # Kept, because its pending calls would end with it.
    client.incremental_alter_configs([resource])[resource].result(30)


def test_a_record_from_the_future_is_a_clock_that_is_wrong(guarded: tuple[Broker, str], look: Look) -> None:
    topic = make_topic(guarded[0].address)
    producer = Producer({"bootstrap.servers": guarded[0].address})
    producer.produce(topic, key=b"k", value=b"v", timestamp=round((time.time() + 600) * 1000))
    assert producer.flush(30) == 0
    severity, about, text = only(look(topic))
    assert (severity, about) == ("warning", "clock")
    assert "s in the future" in text


def test_missing_permissions_are_named(guarded: tuple[Broker, str], look: Look) -> None:
    broker, users = guarded
    topic = make_topic(broker.address)
    transaction = f"registrar.schema-registry.{topic}"
    everything = [
        *allowed(
            ResourceType.TOPIC, topic,
            AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS,
        ),
        *allowed(ResourceType.TOPIC, f"{topic}_snapshots", AclOperation.READ),
        *allowed(ResourceType.GROUP, "schema-registry", AclOperation.READ),
        *allowed(ResourceType.TRANSACTIONAL_ID, transaction, AclOperation.WRITE),
        *allowed(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
    ]  # fmt: skip
    allow(broker, everything)
    assert not look(topic, *LOGIN, kafka=users)
    missing = {
        (ResourceType.TOPIC, topic, AclOperation.WRITE): f"needs Write on topic {topic}",
        (ResourceType.GROUP, "schema-registry", AclOperation.READ): "needs Read on group schema-registry",
        (ResourceType.TRANSACTIONAL_ID, transaction, AclOperation.WRITE): (
            f"needs Write on transactional id {transaction}"
        ),
    }
    gone = [each for each in everything if (each.restype, each.name, each.operation) not in missing]
    allow(broker, gone)
    told = [each["text"] for each in look(topic, *LOGIN, kafka=users) if each["about"] == "permissions"]
    assert sorted(told) == sorted(f"this client {each}" for each in missing.values())
    allow(broker, [])
    refused = look(topic, *LOGIN, kafka=users)
    assert any("may not describe it" in each["text"] for each in refused)


def test_a_login_that_the_broker_refuses_names_the_setting(guarded: tuple[Broker, str], look: Look) -> None:
    flags = [*LOGIN[:-1], "another password"]
    severity, about, text = only(look("t", *flags, kafka=guarded[1]))
    assert (severity, about) == ("error", "kafka")
    assert "kafka_sasl_password" in text
    severity, about, text = only(look("t", *LOGIN))
    assert (severity, about) == ("error", "kafka")
    assert "kafka_security_protocol" in text


def test_kafka_that_does_not_answer_is_an_error(look: Look) -> None:
    severity, about, text = only(look("t", kafka=f"127.0.0.1:{free_port()}"))
    assert (severity, about) == ("error", "kafka")
    assert "Kafka does not answer" in text


def test_zookeeper_is_examined_where_it_elects(
    guarded: tuple[Broker, str], look: Look, zookeeper: ZooKeeper
) -> None:
    topic = make_topic(guarded[0].address)
    flags = ("--election", "zookeeper", "--zookeeper")
    assert not look(topic, *flags, f"{zookeeper.address}/doctor")
    severity, about, text = only(look(topic, *flags, f"127.0.0.1:{free_port()}/x"))
    assert (severity, about) == ("error", "zookeeper")
    assert "cannot be reached" in text


def test_settings_that_are_refused_leave_no_verdict(tmp_path: Path) -> None:
    done = verb("doctor", "--kafka", "no address:")
    assert done.status == 2
    assert "kafka" in done.err


@pytest.mark.parametrize("left", ["snapshots/any/manifest.json", "store/current"])
def test_a_log_that_is_lost_is_found(tmp_path: Path, left: str) -> None:
    (tmp_path / left).parent.mkdir(parents=True)
    assert wrong("--json", "--data", str(tmp_path)) == [], "an attempt to start may have made the folder"
    (tmp_path / left).write_text("store-1 a-log")
    (lost,) = wrong("--json", "--data", str(tmp_path))
    assert lost["severity"] == "error"
    assert lost["text"].startswith(f"there is no log in {tmp_path / 'log'}, but what was made of one in ")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "data.mdb").touch()
    assert wrong("--json", "--data", str(tmp_path)) == []


def test_people_read_lines(tmp_path: Path) -> None:
    done = verb("doctor", "--data", str(tmp_path), "--kafka", f"127.0.0.1:{free_port()}")
    assert done.status == 1
    first, second, *_ = done.out.splitlines()
    assert first.startswith("error    kafka: Kafka does not answer")
    assert second == "         → check the addresses in the setting kafka, and the network"


def test_a_running_node_is_examined_by_its_url(registry: Served) -> None:
    assert not [each for each in wrong("--json", registry.url) if each["about"] not in ("log", registry.url)]


def test_one_node_under_two_addresses_and_one_that_does_not_run_are_found(registry: Served) -> None:
    other, gone = registry.url.replace("127.0.0.1", "localhost"), f"http://127.0.0.1:{free_port()}"
    found = {each["about"]: each for each in wrong("--json", f"{registry.url},{other},{gone}")}
    assert f"{registry.url} and {other} have the same node id" in found["nodes"]["text"]
    assert found[gone]["text"].startswith(f"nothing listens at {gone}")


def test_quarantined_records_and_clashing_ids_are_found(tmp_path: Path) -> None:
    with closing(EmbeddedLog(tmp_path / "data" / "log", map_bytes=64 << 20)) as log:
        log.append([_imported("a", '"int"'), _imported("b", '"long"'), Entry(b'{"keytype":"CONFIG"}', b"?")])
    registry = Registry(tmp_path / "data", "--readers", "1").wait()
    try:
        unread, clash = wrong("--json", registry.url)
    finally:
        registry.stop()
    assert (unread["severity"], unread["text"]) == ("warning", "1 records could not be interpreted")
    assert (clash["severity"], clash["about"]) == ("warning", "log")
    assert "1 versions have an id that stands for another content too" in clash["text"]


def _imported(subject: str, text: str) -> Entry:
    """Return the record of version 1, which has the id 77."""
    name = Subject.parse(subject)
    return Entry(schema_key(name, 1), schema_value(name, 1, 77, text))
