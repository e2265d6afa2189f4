"""Topics on a real broker, through another client than the log's own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.support.running import until

COMPACT = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(7 * 86_400_000),
    "min.compaction.lag.ms": str(86_400_000),
}


def admin(servers: str, **settings: str) -> AdminClient:
    return AdminClient(
        {"bootstrap.servers": servers, "socket.timeout.ms": 20_000, "log_level": 0, **settings}
    )


def make_topic(
    servers: str,
    settings: Mapping[str, str] | None = None,
    *,
    name: str = "",
    partitions: int = 1,
    replicas: int = 1,
) -> str:
    """Create a topic, wait until the broker knows it, and return its name."""
    name = name or f"schemas-{secrets.token_hex(4)}"
    topic = NewTopic(name, partitions, replicas, config={**COMPACT, **(settings or {})})
    client = admin(servers)  # Kept, because its pending calls would end with it.
    until(lambda: _create(client, topic), 60, "a controller, and a former topic of that name to be gone")
    # The controller has answered; the broker learns of it after that.
    until(lambda: name in client.list_topics(timeout=30).topics, 30, "the topic to be there")
    return name


def _create(client: AdminClient, topic: NewTopic) -> bool:
    """Create it; return False if there is no controller to ask, or it still has a topic of that name.

    With ZooKeeper, brokers forget a deleted topic before the controller does.
    """
    try:
        client.create_topics([topic])[topic.topic].result(30)
    except KafkaException as error:
        if (
            error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            or "waiting for controller" in error.args[0].str()
        ):
            return False
        raise
    return True


def set_of_topic(servers: str, name: str, setting: str, value: str) -> None:
    """Change a setting of a topic that is in use."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    client = admin(servers)
    client.incremental_alter_configs([resource])[resource].result(30)


def delete_topic(servers: str, name: str) -> None:
    """Delete a topic and wait until the broker has forgotten it."""
    client = admin(servers)
    # A broker that has just started may not know it yet.
    until(lambda: name in client.list_topics(timeout=30).topics, 30, "the topic to be known")
    client.delete_topics([name])[name].result(30)
    until(lambda: name not in client.list_topics(timeout=30).topics, 30, "the topic to be gone")


def consumed(servers: str, topic: str) -> list[Message]:
    """Return all messages of a topic's only partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "log_level": 0})
    begin, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, begin)])
    found: list[Message] = []
    try:
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            found += consumer.consume(1_000, 1.0)
    finally:
        consumer.close()
    return found
