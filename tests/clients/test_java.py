"""Confluent's Java client, alone and together with the Python one. Messages are those of Apache Flink."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.bridge import BridgeError
from tests.clients.java_client import Java, JavaClient
from tests.clients.samples import (
    ADA,
    USER,
    USER_TEXT,
    USER_WITH_AGE_TEXT,
    USER_WITH_EMAIL,
    USER_WITH_EMAIL_TEXT,
)
from tests.support.running import Served


def test_registers_and_fetches(java: Java, registry: Served, confluent_java: JavaClient, topic: str) -> None:
    schema_id = confluent_java.register(topic, USER_TEXT)
    # Another client, because this one remembers what it registered.
    other = java.open(registry.url)
    assert json.loads(other.getSchemaById(schema_id)) == USER
    assert other.getId(topic, USER_TEXT) == schema_id
    assert other.getVersion(topic, USER_TEXT) == 1
    assert other.register(topic, USER_TEXT) == schema_id
    assert json.loads(other.getLatestSchema(topic)) == USER
    assert topic in other.getAllSubjects()
    assert topic in other.getAllSubjectsById(schema_id)


def test_evolves_schemas_within_the_compatibility_level(confluent_java: JavaClient, topic: str) -> None:
    confluent_java.register(topic, USER_TEXT)
    assert confluent_java.updateCompatibility(topic, "BACKWARD") == "BACKWARD"
    assert confluent_java.getCompatibility(topic) == "BACKWARD"
    assert confluent_java.testCompatibility(topic, USER_WITH_EMAIL_TEXT)
    assert not confluent_java.testCompatibility(topic, USER_WITH_AGE_TEXT)
    assert confluent_java.register(topic, USER_WITH_EMAIL_TEXT) > 0
    assert json.loads(confluent_java.getLatestSchema(topic)) == USER_WITH_EMAIL
    assert confluent_java.getAllVersions(topic) == [1, 2]
    with pytest.raises(BridgeError) as caught:
        confluent_java.register(topic, USER_WITH_AGE_TEXT)
    assert (caught.value.status, caught.value.code) == (409, 40901)


def test_deletes(java: Java, registry: Served, confluent_java: JavaClient, topic: str) -> None:
    confluent_java.register(topic, USER_TEXT)
    confluent_java.register(topic, USER_WITH_EMAIL_TEXT)
    assert confluent_java.deleteSchemaVersion(topic, "1") == 1
    assert confluent_java.getAllVersions(topic) == [2]
    assert confluent_java.deleteSubject(topic, False) == [2]
    assert confluent_java.deleteSubject(topic, True) == [1, 2]
    other = java.open(registry.url)
    for missing in (
        lambda: other.getAllVersions(topic),
        lambda: other.getVersion(topic, USER_TEXT),
        lambda: other.getLatestSchema(topic),
    ):
        with pytest.raises(BridgeError) as caught:
            missing()
        assert (caught.value.status, caught.value.code) == (404, 40401)


def test_reads_the_messages_of_the_python_client(
    registry: Served, confluent_java: JavaClient, topic: str
) -> None:
    with SchemaRegistryClient({"url": registry.url}) as client:
        message = AvroSerializer(client, USER_TEXT)(ADA, SerializationContext(topic, MessageField.VALUE))
    assert confluent_java.deserialize(message) == ADA


def test_writes_messages_that_the_python_client_reads(
    registry: Served, confluent_java: JavaClient, topic: str
) -> None:
    message = confluent_java.serialize(f"{topic}-value", USER_TEXT, ADA)
    with SchemaRegistryClient({"url": registry.url}) as client:
        read = AvroDeserializer(client)(message, SerializationContext(topic, MessageField.VALUE))
    assert read == ADA
