"""Associations through a real server, and through the clients that support them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry._async.avro import AsyncAvroSerializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.bridge import BridgeError
from tests.clients.javascript import JavaScript
from tests.clients.samples import ADA, USER_TEXT, USER_WITH_EMAIL_TEXT
from tests.support.running import Served

NAMESPACE = "lkc-1"
ASSOCIATED = {
    "auto.register.schemas": False,
    "use.latest.version": True,
    "subject.name.strategy.type": "ASSOCIATED",
    "subject.name.strategy.conf": {"subject.name.strategy.kafka.cluster.id": NAMESPACE},
}


@pytest.fixture
def http(registry: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=registry.url, timeout=60) as client:
        yield client


def resource(topic: str, *associations: dict[str, Any]) -> dict[str, Any]:
    named = {"resourceName": topic, "resourceNamespace": NAMESPACE, "resourceId": f"id-{topic}"}
    return named | {"associations": [*associations]}


def test_all_eight_resources_answer_what_was_written_before(http: httpx.Client, topic: str) -> None:
    own = f":.{NAMESPACE}:{topic}-value"
    body = resource(topic, {"associationType": "value", "schema": {"schema": USER_TEXT}})
    assert http.post("/associations", params={"dryRun": True}, json=body).json().get("associations") is None
    made = http.post("/associations", json=body).raise_for_status()
    assert made.json()["associations"][0]["subject"] == own
    for path in (f"subjects/{own}", f"resources/id-{topic}", f"resources/{NAMESPACE}/{topic}"):
        listed = http.get(
            f"/associations/{path}", headers={"x-registry-min-offset": made.headers["x-registry-offset"]}
        )
        assert [each["subject"] for each in listed.json()] == [own]
    body = resource(topic, {"associationType": "value", "schema": {"schema": USER_WITH_EMAIL_TEXT}})
    changed = http.put(f"/associations/resources/id-{topic}", json=body).raise_for_status()
    assert "associations" not in changed.json()
    assert http.get(f"/subjects/{own}/versions").json() == [1, 2]
    assert int(changed.headers["x-registry-offset"]) > int(made.headers["x-registry-offset"])
    got = http.post("/associations:batchGet", json={"requests": [{"resourceId": f"id-{topic}"}]})
    assert (got.status_code, len(got.json()["results"][0]["result"]["associations"])) == (207, 1)
    operation = {"opType": "DELETE", "associationType": "value", "cascadeLifecycle": True}
    gone = http.post("/associations:batchMutate", json={"requests": [resource(topic, operation)]})
    assert gone.status_code == 207
    assert "associations" not in gone.json()["results"][0]["result"]
    assert http.delete(f"/associations/resources/id-{topic}").json()["error_code"] == 40410
    assert http.get(f"/subjects/{own}/versions", params={"deleted": True}).json()["error_code"] == 40401


def test_many_schemas_come_in_one_batch(http: httpx.Client, topic: str) -> None:
    def requests(op: dict[str, Any]) -> list[dict[str, Any]]:
        return [resource(f"{topic}-{number}", op) for number in range(60)]

    doc = "x" * 4000
    text = f'{{"type":"record","name":"R","doc":"{doc}","fields":[]}}'
    made = http.post(
        "/associations:batchMutate",
        json={"requests": requests({"opType": "CREATE", "schema": {"schema": text}})},
    )
    assert [[*each] for each in made.json()["results"]] == [["result"]] * 60
    assert len(http.get(f"/associations/resources/{NAMESPACE}/-", params={"limit": 60}).json()) == 60
    gone = http.post(
        "/associations:batchMutate",
        json={"requests": requests({"opType": "DELETE", "cascadeLifecycle": True})},
    )
    assert [[*each] for each in gone.json()["results"]] == [["result"]] * 60


def _request(topic: str, info: AssociationCreateOrUpdateInfo) -> AssociationCreateOrUpdateRequest:
    return AssociationCreateOrUpdateRequest(topic, NAMESPACE, f"id-{topic}", "topic", [info])


def test_confluents_python_client_writes_and_reads_them(registry: Served, topic: str) -> None:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
        info = AssociationCreateOrUpdateInfo(association_type="value", schema=Schema(USER_TEXT))
        (made,) = client.create_association(_request(topic, info)).associations
        assert (made.subject, made.lifecycle) == (f":.{NAMESPACE}:{topic}-value", "STRONG")
        for namespace in (NAMESPACE, "-"):
            (found,) = client.get_associations_by_resource_name(topic, namespace, "topic", ["value"])
            assert (found.subject, found.resource_id) == (made.subject, f"id-{topic}")
        serialize = AvroSerializer(client, conf=ASSOCIATED)
        context = SerializationContext(topic, MessageField.VALUE)
        message = serialize(ADA, context)
        assert AvroDeserializer(client)(message, context) == ADA
        with pytest.raises(SchemaRegistryError) as caught:
            client.delete_associations(f"id-{topic}", "topic", ["value"])
        assert (caught.value.http_status_code, caught.value.error_code) == (409, 40908)
        client.delete_associations(f"id-{topic}", "topic", ["value"], cascade_lifecycle=True)
        assert client.get_associations_by_resource_name(topic, "-", "topic", ["value"]) == []
        assert made.subject not in client.get_subjects()


def test_confluents_asyncio_client_writes_to_the_associated_subject(registry: Served, topic: str) -> None:
    async def use() -> None:
        client = AsyncSchemaRegistryClient({"url": registry.url, "max.retries": 0})
        try:
            await client.register_schema(f"{topic}-shared", Schema(USER_TEXT))
            info = AssociationCreateOrUpdateInfo(f"{topic}-shared", "value", "WEAK")
            (made,) = (await client.create_association(_request(topic, info))).associations
            assert (made.lifecycle, made.frozen) == ("WEAK", False)
            serialize = await AsyncAvroSerializer(client, conf=ASSOCIATED)
            message = await serialize(ADA, SerializationContext(topic, MessageField.VALUE))
            latest = await client.get_latest_version(f"{topic}-shared")
            assert int.from_bytes(message[1:5], "big") == latest.schema_id
        finally:
            await client._rest_client.session.aclose()

    asyncio.run(use())


def test_confluents_javascript_client_writes_and_reads_them(registry: Served, topic: str) -> None:
    client = JavaScript("confluent.js", registry.url)
    try:
        schema = {"schemaType": "AVRO", "schema": USER_TEXT}
        wanted = resource(topic, {"associationType": "key", "schema": schema}) | {"resourceType": "topic"}
        (made,) = client.createAssociation(wanted)["associations"]
        assert (made["subject"], made["lifecycle"]) == (f":.{NAMESPACE}:{topic}-key", "STRONG")
        found = client.getAssociationsByResourceName(topic, "-", "topic", ["key"], "STRONG", 0, -1)
        assert [each["subject"] for each in found] == [made["subject"]]
        assert client.getAssociationsByResourceName(topic, "-", "topic", ["value"], None, 0, -1) == []
        with pytest.raises(BridgeError) as caught:
            client.deleteAssociations(f"id-{topic}", "topic", ["key"], False)
        assert (caught.value.status, caught.value.code) == (409, 40908)
        client.deleteAssociations(f"id-{topic}", "topic", None, True)
        assert client.getAssociationsByResourceName(topic, "-", "topic", ["key"], None, 0, -1) == []
    finally:
        client.close()
