"""The two JavaScript clients, alone and together with the Python ones."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from schema_registry.client import SchemaRegistryClient as OtherClient
from schema_registry.serializers import AvroMessageSerializer

from tests.clients.bridge import BridgeError
from tests.clients.javascript import JavaScript
from tests.clients.samples import (
    ADA,
    ADDRESS_TEXT,
    EVE,
    PERSON_TEXT,
    USER,
    USER_TEXT,
    USER_WITH_AGE_TEXT,
    USER_WITH_EMAIL,
    USER_WITH_EMAIL_TEXT,
)
from tests.support.running import PATIENT, Served

AVRO = {"schemaType": "AVRO"}


def python_writes(registry: Served, topic: str) -> bytes:
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer = AvroSerializer(client, USER_TEXT)
        message: bytes = serializer(ADA, SerializationContext(topic, MessageField.VALUE))
        return message


def python_reads(registry: Served, topic: str, message: bytes) -> list[object]:
    """Return the result of reading ``message`` with each of the two Python libraries."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        first = AvroDeserializer(client)(message, SerializationContext(topic, MessageField.VALUE))
    other = OtherClient({"url": registry.url}, timeout=PATIENT)
    return [first, AvroMessageSerializer(other).decode_message(message)]


class TestKafkajs:
    def test_registers_and_fetches(self, kafkajs: JavaScript, topic: str) -> None:
        schema_id = kafkajs.register(USER, {"subject": topic})["id"]
        kafkajs.forget()
        assert kafkajs.getRegistryId(topic, 1) == schema_id
        assert kafkajs.getRegistryId(topic, "latest") == schema_id
        assert kafkajs.getLatestSchemaId(topic) == schema_id
        assert kafkajs.getRegistryIdBySchema(topic, USER) == schema_id
        assert kafkajs.getSchema(schema_id)["name"] == "org.example.User"
        assert kafkajs.register(USER, {"subject": topic})["id"] == schema_id

    def test_takes_the_subject_from_the_record(self, kafkajs: JavaScript) -> None:
        schema_id = kafkajs.register(USER)["id"]
        assert kafkajs.getLatestSchemaId("org.example.User") == schema_id

    def test_sets_compatibility_at_the_first_registration(self, kafkajs: JavaScript, topic: str) -> None:
        kafkajs.register(USER, {"subject": topic, "compatibility": "NONE"})
        kafkajs.register(json.loads(USER_WITH_AGE_TEXT), {"subject": topic, "compatibility": "NONE"})
        with pytest.raises(BridgeError, match="Compatibility does not match"):
            kafkajs.register(USER_WITH_EMAIL, {"subject": topic, "compatibility": "FULL"})

    def test_incompatible_schema_is_refused(self, kafkajs: JavaScript, topic: str) -> None:
        kafkajs.register(USER, {"subject": topic})
        with pytest.raises(BridgeError) as caught:
            kafkajs.register(json.loads(USER_WITH_AGE_TEXT), {"subject": topic})
        assert caught.value.status == 409

    def test_what_is_missing(self, kafkajs: JavaScript, topic: str) -> None:
        with pytest.raises(BridgeError) as caught:
            kafkajs.getLatestSchemaId(topic)
        assert caught.value.status == 404
        with pytest.raises(BridgeError) as caught:
            kafkajs.getSchema(2_000_000_000)
        assert caught.value.status == 404

    def test_references(self, kafkajs: JavaScript, topic: str) -> None:
        kafkajs.register({"type": "AVRO", "schema": ADDRESS_TEXT}, {"subject": f"{topic}-address"})
        reference = {"name": "org.example.Address", "subject": f"{topic}-address", "version": 1}
        person = {"type": "AVRO", "schema": PERSON_TEXT, "references": [reference]}
        schema_id = kafkajs.register(person, {"subject": f"{topic}-value"})["id"]
        kafkajs.forget()
        message = kafkajs.encode(schema_id, EVE)
        kafkajs.forget()
        assert kafkajs.decode(message) == EVE

    def test_reads_what_python_wrote(self, kafkajs: JavaScript, registry: Served, topic: str) -> None:
        assert kafkajs.decode(python_writes(registry, topic)) == ADA

    def test_writes_what_python_reads(self, kafkajs: JavaScript, registry: Served, topic: str) -> None:
        schema_id = kafkajs.register(USER, {"subject": f"{topic}-value"})["id"]
        assert python_reads(registry, topic, kafkajs.encode(schema_id, ADA)) == [ADA, ADA]


class TestConfluentJavaScript:
    @pytest.fixture
    def client(self, confluent_javascript: JavaScript) -> JavaScript:
        confluent_javascript.forget()
        return confluent_javascript

    def test_registers_and_fetches(self, client: JavaScript, topic: str) -> None:
        user = {**AVRO, "schema": USER_TEXT}
        schema_id = client.register(topic, user)
        client.forget()
        assert json.loads(client.getBySubjectAndId(topic, schema_id)["schema"]) == USER
        latest = client.getLatestSchemaMetadata(topic)
        assert (latest["id"], latest["version"], latest["subject"]) == (schema_id, 1, topic)
        assert json.loads(client.getByGuid(latest["guid"])["schema"]) == USER
        assert client.getSchemaMetadata(topic, 1)["guid"] == latest["guid"]
        assert client.getId(topic, user) == schema_id
        assert client.getVersion(topic, user) == 1
        assert client.getAllVersions(topic) == [1]
        assert topic in client.getAllSubjects()
        client.forget()
        assert client.registerFullResponse(topic, user)["guid"] == latest["guid"]

    def test_compatibility_and_config(self, client: JavaScript, topic: str) -> None:
        client.register(topic, {**AVRO, "schema": USER_TEXT})
        assert client.testSubjectCompatibility(topic, {**AVRO, "schema": USER_WITH_EMAIL_TEXT}) is True
        assert client.testCompatibility(topic, 1, {**AVRO, "schema": USER_WITH_AGE_TEXT}) is False
        assert client.getDefaultCompatibility() == "BACKWARD"
        assert client.updateCompatibility(topic, "FORWARD") == "FORWARD"
        assert client.getCompatibility(topic) == "FORWARD"
        client.updateConfig(topic, {"compatibility": "NONE", "normalize": True})
        assert client.getConfig(topic) == {"compatibilityLevel": "NONE", "normalize": True}

    def test_errors_carry_confluents_codes(self, client: JavaScript, topic: str) -> None:
        with pytest.raises(BridgeError) as caught:
            client.getLatestSchemaMetadata(topic)
        assert (caught.value.status, caught.value.code) == (404, 40401)
        client.register(topic, {**AVRO, "schema": USER_TEXT})
        with pytest.raises(BridgeError) as caught:
            client.register(topic, {**AVRO, "schema": USER_WITH_AGE_TEXT})
        assert (caught.value.status, caught.value.code) == (409, 40901)

    def test_deletes(self, client: JavaScript, topic: str) -> None:
        client.register(topic, {**AVRO, "schema": USER_TEXT})
        client.register(topic, {**AVRO, "schema": USER_WITH_EMAIL_TEXT})
        assert client.deleteSubjectVersion(topic, 1, False) == 1
        assert client.deleteSubject(topic, False) == [2]
        assert client.deleteSubject(topic, True) == [1, 2]

    def test_metadata(self, client: JavaScript, topic: str) -> None:
        metadata = {"properties": {"owner": "ada"}}
        client.register(topic, {**AVRO, "schema": USER_TEXT, "metadata": metadata})
        assert client.getLatestWithMetadata(topic, {"owner": "ada"})["metadata"] == metadata

    def test_no_associations(self, client: JavaScript, topic: str) -> None:
        assert client.getAssociationsByResourceName(topic, "-", "topic", ["value"], None, 0, -1) == []

    def test_latest_version_and_references(self, client: JavaScript, topic: str) -> None:
        client.register(f"{topic}-address", {**AVRO, "schema": ADDRESS_TEXT})
        reference = {"name": "org.example.Address", "subject": f"{topic}-address", "version": 1}
        client.register(f"{topic}-value", {**AVRO, "schema": PERSON_TEXT, "references": [reference]})
        message = client.serialize(topic, EVE, {"useLatestVersion": True})
        client.forget()
        assert client.deserialize(topic, message) == EVE

    def test_registers_what_it_writes(self, client: JavaScript, topic: str) -> None:
        message = client.serialize(topic, ADA, {"autoRegisterSchemas": True})
        assert client.getAllVersions(f"{topic}-value") == [1]
        client.forget()
        assert client.deserialize(topic, message) == ADA

    def test_reads_what_python_wrote(self, client: JavaScript, registry: Served, topic: str) -> None:
        assert client.deserialize(topic, python_writes(registry, topic)) == ADA

    def test_writes_what_python_reads(self, client: JavaScript, registry: Served, topic: str) -> None:
        client.register(f"{topic}-value", {**AVRO, "schema": USER_TEXT})
        message = client.serialize(topic, ADA, {"useLatestVersion": True})
        assert python_reads(registry, topic, message) == [ADA, ADA]


def test_each_javascript_client_reads_what_the_other_wrote(
    kafkajs: JavaScript, confluent_javascript: JavaScript, topic: str
) -> None:
    schema_id = kafkajs.register(USER, {"subject": f"{topic}-value"})["id"]
    assert confluent_javascript.deserialize(topic, kafkajs.encode(schema_id, ADA)) == ADA
    message = confluent_javascript.serialize(topic, ADA, {"useLatestVersion": True})
    kafkajs.forget()
    assert kafkajs.decode(message) == ADA
