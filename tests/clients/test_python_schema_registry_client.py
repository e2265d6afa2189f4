"""python-schema-registry-client: blocking and asyncio client, and its message serializer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient
from schema_registry.client.errors import ClientError
from schema_registry.client.schema import AvroSchema
from schema_registry.serializers import AsyncAvroMessageSerializer, AvroMessageSerializer

from tests.clients.samples import ADA, USER, USER_WITH_AGE, USER_WITH_EMAIL
from tests.support.running import PATIENT, Served

Call = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_client(kind: str, registry: Served) -> Callable[[], Any]:
    """Return a function that makes a client with empty caches, whose methods all block."""

    def make() -> Any:
        make_one = SchemaRegistryClient if kind == "blocking" else AsyncSchemaRegistryClient
        return _Blocking(make_one({"url": registry.url}, timeout=PATIENT))

    return make


class _Blocking:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Call:
        method = getattr(self.inner, name)

        def call(*given: Any, **named: Any) -> Any:
            answer = method(*given, **named)
            return asyncio.run(_wait(answer)) if isinstance(answer, Awaitable) else answer

        return call


async def _wait(answer: Awaitable[Any]) -> Any:
    return await answer


@pytest.fixture
def client(new_client: Callable[[], Any]) -> Any:
    return new_client()


def test_registers_and_fetches(client: Any, new_client: Callable[[], Any], topic: str) -> None:
    schema_id = client.register(topic, AvroSchema(USER))
    other = new_client()
    assert other.get_by_id(schema_id) == AvroSchema(USER)
    latest = other.get_schema(topic)
    assert (latest.schema_id, latest.version) == (schema_id, 1)
    assert other.get_schema(topic, 1).schema == AvroSchema(USER)
    assert other.check_version(topic, AvroSchema(USER)).version == 1
    assert other.register(topic, AvroSchema(USER)) == schema_id
    assert other.get_versions(topic) == [1]
    assert topic in other.get_subjects()
    versions = other.get_schema_subject_versions(schema_id)
    assert (topic, 1) in [(each.subject, each.version) for each in versions]


def test_what_is_missing(client: Any, topic: str) -> None:
    assert client.get_by_id(2_000_000_000) is None
    assert client.get_schema(topic) is None
    assert client.check_version(topic, AvroSchema(USER)) is None
    assert client.get_versions(topic) == []
    assert client.delete_subject(topic) == []
    assert client.delete_version(topic, 1) is None


def test_compatibility(client: Any, topic: str) -> None:
    client.register(topic, AvroSchema(USER))
    assert client.test_compatibility(topic, AvroSchema(USER_WITH_EMAIL))
    verdict = client.test_compatibility(topic, AvroSchema(USER_WITH_AGE), verbose=True)
    assert verdict["is_compatible"] is False
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in message for message in verdict["messages"])
    with pytest.raises(ClientError) as caught:
        client.register(topic, AvroSchema(USER_WITH_AGE))
    assert caught.value.http_code == 409


def test_compatibility_level(client: Any, topic: str) -> None:
    assert client.get_compatibility() == "BACKWARD"
    assert client.update_compatibility("FORWARD", topic)
    assert client.get_compatibility(topic) == "FORWARD"


def test_deletes(client: Any, new_client: Callable[[], Any], topic: str) -> None:
    client.register(topic, AvroSchema(USER))
    client.register(topic, AvroSchema(USER_WITH_EMAIL))
    assert client.delete_version(topic, 1) == 1
    assert client.delete_version(topic) == 2
    assert new_client().get_schema(topic) is None
    client.register(f"{topic}-b", AvroSchema(USER))
    assert client.delete_subject(f"{topic}-b") == [1]


def test_writes_and_reads_a_message(kind: str, registry: Served, topic: str) -> None:
    where = {"url": registry.url}
    if kind == "blocking":
        serializer = AvroMessageSerializer(SchemaRegistryClient(where, timeout=PATIENT))
        message = serializer.encode_record_with_schema(topic, AvroSchema(USER), ADA)
        reader = AvroMessageSerializer(SchemaRegistryClient(where, timeout=PATIENT))
        assert reader.decode_message(message) == ADA
    else:

        async def both() -> None:
            serializer = AsyncAvroMessageSerializer(AsyncSchemaRegistryClient(where, timeout=PATIENT))
            message = await serializer.encode_record_with_schema(topic, AvroSchema(USER), ADA)
            reader = AsyncAvroMessageSerializer(AsyncSchemaRegistryClient(where, timeout=PATIENT))
            assert await reader.decode_message(message) == ADA

        asyncio.run(both())
