"""JSON schemas by Confluent's serializers: Python's, blocking and asyncio, and JavaScript's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry._async.json_schema import AsyncJSONDeserializer, AsyncJSONSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tests.clients.bridge import BridgeError
from tests.clients.javascript import JavaScript
from tests.support.running import Served

USER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "http://example.com/user.json",
    "title": "User",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "tags": {"type": ["array", "null"]},
    },
    "required": ["id"],
    "additionalProperties": False,
}
ADDRESS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "http://example.com/address.json",
    "title": "Address",
    "type": "object",
    "properties": {"street": {"type": "string"}, "country": {"$ref": "http://example.com/country.json"}},
}
COUNTRY = {"$schema": ADDRESS["$schema"], "$id": "http://example.com/country.json", "enum": ["CH", "NZ"]}
PERSON = {
    "$schema": ADDRESS["$schema"],
    "$id": "http://example.com/person.json",
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "homes": {"type": "array", "items": {"$ref": "http://example.com/address.json"}},
        "friends": {"type": "array", "items": {"$ref": "#"}},
    },
}
ADA = {"id": 7, "name": "Ada Lovelace", "tags": ["x", 1.5, None]}
EVE = {"name": "Eve", "homes": [{"street": "Main", "country": "CH"}], "friends": [{"name": "Bob"}]}


@pytest.fixture
def client(registry: Served) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        yield client


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def json_schema(schema: Any, *references: SchemaReference) -> Schema:
    return Schema(json.dumps(schema), "JSON", list(references))


def register_person(client: SchemaRegistryClient, topic: str) -> Schema:
    country = SchemaReference(COUNTRY["$id"], f"{topic}-country", 1)
    client.register_schema(country.subject, json_schema(COUNTRY))
    address = SchemaReference(ADDRESS["$id"], f"{topic}-address", 1)
    client.register_schema(address.subject, json_schema(ADDRESS, country))
    return json_schema(PERSON, address)


def test_registers_and_fetches(client: SchemaRegistryClient, registry: Served, topic: str) -> None:
    schema_id = client.register_schema(topic, json_schema(USER))
    with SchemaRegistryClient({"url": registry.url}) as other:
        found = other.get_schema(schema_id)
        assert (json.loads(found.schema_str), found.schema_type) == (USER, "JSON")
        assert other.lookup_schema(topic, json_schema(USER)).version == 1
        assert "JSON" in other.get_schema_types()
        assert other.test_compatibility(topic, json_schema({**USER, "required": []}))
        assert not other.test_compatibility(topic, json_schema({**USER, "required": ["id", "name"]}))
        with pytest.raises(SchemaRegistryError) as refused:
            other.register_schema(topic, json_schema({**USER, "required": ["id", "name"]}))
        assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)


def test_messages_go_round(client: SchemaRegistryClient, registry: Served, topic: str) -> None:
    message = JSONSerializer(json.dumps(USER), client)(ADA, value_of(topic))
    assert message is not None
    assert int.from_bytes(message[1:5], "big") == client.get_latest_version(f"{topic}-value").schema_id
    with SchemaRegistryClient({"url": registry.url}) as other:
        reader = JSONDeserializer(None, schema_registry_client=other)
        assert reader(message, value_of(topic)) == ADA
    with pytest.raises((SerializationError, ValueError)):
        JSONSerializer(json.dumps(USER), client)({"id": "seven"}, value_of(topic))


def test_references_of_references(client: SchemaRegistryClient, registry: Served, topic: str) -> None:
    person = register_person(client, topic)
    message = JSONSerializer(person, client)(EVE, value_of(topic))
    with SchemaRegistryClient({"url": registry.url}) as other:
        reader = JSONDeserializer(None, schema_registry_client=other)
        assert reader(message, value_of(topic)) == EVE
        found = other.get_latest_version(f"{topic}-value").schema
        assert [(each.name, each.subject, each.version) for each in found.references] == [
            (ADDRESS["$id"], f"{topic}-address", 1)
        ]
        assert other.lookup_schema(f"{topic}-value", person).version == 1
    wrong = {"homes": [{"country": "XX"}]}
    with pytest.raises((SerializationError, ValueError)):
        JSONSerializer(person, client)(wrong, value_of(topic))


def test_latest_versions_and_normalized_ones(client: SchemaRegistryClient, topic: str) -> None:
    client.register_schema(f"{topic}-value", json_schema(USER), normalize_schemas=True)
    latest = JSONSerializer(None, client, conf={"use.latest.version": True, "auto.register.schemas": False})
    message = latest(ADA, value_of(topic))
    assert JSONDeserializer(None, schema_registry_client=client)(message, value_of(topic)) == ADA
    shuffled = json.dumps(dict(reversed(USER.items())))
    writer = JSONSerializer(shuffled, client, conf={"normalize.schemas": True})
    assert writer(ADA, value_of(topic))[:5] == message[:5]
    assert client.get_versions(f"{topic}-value") == [1]


def test_asyncio_clients_go_round(client: SchemaRegistryClient, registry: Served, topic: str) -> None:
    person = register_person(client, topic)

    async def round_trip() -> Any:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as other:
            writer = await AsyncJSONSerializer(person, other)
            message = await writer(EVE, value_of(topic))
            reader = await AsyncJSONDeserializer(None, schema_registry_client=other)
            return await reader(message, value_of(topic))

    assert asyncio.run(round_trip()) == EVE


def test_javascript_and_python_read_each_other(
    client: SchemaRegistryClient, confluent_javascript: JavaScript, topic: str
) -> None:
    person = register_person(client, topic)
    message = JSONSerializer(person, client)(EVE, value_of(topic))
    confluent_javascript.forget()
    assert confluent_javascript.deserializeJson(topic, message) == EVE
    written = confluent_javascript.serializeJson(topic, EVE, {"useLatestVersion": True})
    assert written[:5] == message[:5]
    assert JSONDeserializer(None, schema_registry_client=client)(written, value_of(topic)) == EVE


def test_javascript_validates(confluent_javascript: JavaScript, topic: str) -> None:
    schema = {"schemaType": "JSON", "schema": json.dumps(USER)}
    assert confluent_javascript.register(f"{topic}-value", schema) > 0
    conf = {"useLatestVersion": True, "validate": True}
    message = confluent_javascript.serializeJson(topic, ADA, conf)
    assert confluent_javascript.deserializeJson(topic, message) == ADA
    with pytest.raises(BridgeError):
        confluent_javascript.serializeJson(topic, {"id": "seven"}, conf)
