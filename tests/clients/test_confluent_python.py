"""Client, serializer and deserializer of confluent-kafka, both blocking and asyncio.

Each test runs against both. The asyncio ones are driven by the test's own event loop, so that their calls
look like the blocking ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry._async.avro import AsyncAvroDeserializer, AsyncAvroSerializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.clients.samples import (
    ADA,
    ADDRESS_TEXT,
    EVE,
    PERSON_TEXT,
    USER,
    USER_TEXT,
    USER_WITH_AGE_TEXT,
    USER_WITH_EMAIL_TEXT,
    user,
)
from tests.support.running import PATIENT, Served


class Confluent:
    """One of the library's two variants; ``client()`` makes another client, with empty caches."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop | None) -> None:
        self.url = url
        self._loop = loop
        self._opened: list[Any] = []

    def _call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        loop = self._loop
        if loop is None:
            return function
        return lambda *given, **named: loop.run_until_complete(function(*given, **named))

    def client(self) -> _Blocking:
        conf = {"url": self.url, "max.retries": 0}
        inner = SchemaRegistryClient(conf) if self._loop is None else AsyncSchemaRegistryClient(conf)
        self._opened.append(inner)
        return _Blocking(inner, self._call)

    def serializer(self, client: _Blocking, schema: Schema | str | None, conf: dict[str, Any]) -> Any:
        make = AvroSerializer if self._loop is None else self._call(_awaited(AsyncAvroSerializer))
        return self._call(make(client.inner, schema, conf=conf))

    def deserializer(self, client: _Blocking, conf: dict[str, Any] | None = None) -> Any:
        make = AvroDeserializer if self._loop is None else self._call(_awaited(AsyncAvroDeserializer))
        return self._call(make(client.inner, conf=conf))

    def close(self) -> None:
        for inner in self._opened:
            if self._loop is None:
                inner.close()
            else:
                self._loop.run_until_complete(inner._rest_client.session.aclose())


def _awaited(make: Callable[..., Any]) -> Callable[..., Any]:
    async def made(*given: Any, **named: Any) -> Any:
        return await make(*given, **named)

    return made


class _Blocking:
    """A client whose methods all block."""

    def __init__(self, inner: Any, call: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self.inner = inner
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._call(getattr(self.inner, name))


@pytest.fixture(params=["blocking", "asyncio"])
def confluent(request: pytest.FixtureRequest, registry: Served) -> Iterator[Confluent]:
    loop = asyncio.new_event_loop() if request.param == "asyncio" else None
    library = Confluent(registry.url, loop)
    try:
        yield library
    finally:
        library.close()
        if loop is not None:
            loop.close()


@pytest.fixture
def client(confluent: Confluent) -> _Blocking:
    return confluent.client()


def refused(call: Callable[[], Any]) -> tuple[int, int]:
    """Return the HTTP status and error code with which the registry refuses ``call``."""
    with pytest.raises(SchemaRegistryError) as caught:
        call()
    return caught.value.http_status_code, caught.value.error_code


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_registers_and_fetches(confluent: Confluent, client: _Blocking, topic: str) -> None:
    schema_id = client.register_schema(topic, Schema(USER_TEXT))
    other = confluent.client()
    assert json.loads(other.get_schema(schema_id).schema_str) == USER
    latest = other.get_latest_version(topic)
    assert (latest.subject, latest.version, latest.schema_id) == (topic, 1, schema_id)
    assert other.get_version(topic, 1).guid == latest.guid
    assert json.loads(other.get_schema_by_guid(latest.guid).schema_str) == USER
    assert other.lookup_schema(topic, Schema(USER_TEXT)).version == 1
    assert other.get_versions(topic) == [1]
    assert topic in other.get_subjects()
    assert topic in other.get_subjects_by_schema_id(schema_id)
    assert (topic, 1) in [(each.subject, each.version) for each in other.get_schema_versions(schema_id)]
    assert "AVRO" in other.get_schema_types()


def test_registering_again_gives_the_same_id(confluent: Confluent, topic: str) -> None:
    ids = {confluent.client().register_schema(topic, Schema(USER_TEXT)) for _ in range(3)}
    assert len(ids) == 1
    respaced = Schema(json.dumps(USER, indent=4))
    assert confluent.client().register_schema(topic, respaced) in ids
    assert confluent.client().get_versions(topic) == [1]


def test_one_schema_has_one_id_in_all_subjects(client: _Blocking, topic: str) -> None:
    ids = [client.register_schema(f"{topic}-{n}", Schema(USER_TEXT)) for n in range(2)]
    assert ids[0] == ids[1]


def test_full_response_carries_guid_and_version(client: _Blocking, topic: str) -> None:
    answer = client.register_schema_full_response(topic, Schema(USER_TEXT))
    assert answer.version in {None, 1}  # The client leaves out parameters that it takes for unset.
    assert answer.schema_id == client.get_latest_version(topic).schema_id


def test_what_is_missing_is_reported_with_confluents_codes(client: _Blocking, topic: str) -> None:
    assert refused(lambda: client.get_latest_version(topic)) == (404, 40401)
    assert refused(lambda: client.get_schema(2_000_000_000)) == (404, 40403)
    assert refused(lambda: client.lookup_schema(topic, Schema(USER_TEXT))) == (404, 40401)
    client.register_schema(topic, Schema(USER_TEXT))
    assert refused(lambda: client.get_version(topic, 9)) == (404, 40402)
    assert refused(lambda: client.lookup_schema(topic, Schema(USER_WITH_AGE_TEXT))) == (404, 40403)
    assert refused(lambda: client.get_mode(topic)) == (404, 40409)
    assert refused(lambda: client.get_config(topic)) == (404, 40408)
    assert refused(lambda: client.register_schema(topic, Schema('{"type":"nonsense"}'))) == (422, 42201)


def test_incompatible_schema_is_refused(client: _Blocking, topic: str) -> None:
    client.register_schema(topic, Schema(USER_TEXT))
    assert client.test_compatibility(topic, Schema(USER_WITH_EMAIL_TEXT))
    assert not client.test_compatibility(topic, Schema(USER_WITH_AGE_TEXT))
    assert not client.test_compatibility_all_versions(topic, Schema(USER_WITH_AGE_TEXT))
    assert refused(lambda: client.register_schema(topic, Schema(USER_WITH_AGE_TEXT))) == (409, 40901)
    assert client.get_versions(topic) == [1]


def test_config_of_a_subject(client: _Blocking, topic: str) -> None:
    client.register_schema(topic, Schema(USER_TEXT))
    assert client.set_compatibility(topic, "NONE") == {"compatibility": "NONE"}
    assert client.get_compatibility(topic) == "NONE"
    client.register_schema(topic, Schema(USER_WITH_AGE_TEXT))
    client.set_config(
        topic, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major")
    )
    config = client.get_config(topic)
    assert config.compatibility_level == ConfigCompatibilityLevel.FULL
    assert config.compatibility_group == "major"
    client.delete_config(topic)
    assert refused(lambda: client.get_config(topic)) == (404, 40408)


def test_read_only_mode_refuses_writes(client: _Blocking, topic: str) -> None:
    assert client.update_mode(topic, "READONLY") == "READONLY"
    assert client.get_mode(topic) == "READONLY"
    assert refused(lambda: client.register_schema(topic, Schema(USER_TEXT))) == (422, 42205)
    assert client.delete_mode(topic) == "READONLY"
    assert client.register_schema(topic, Schema(USER_TEXT)) > 0
    assert client.get_global_mode() == "READWRITE"


def test_deletes_softly_then_for_good(confluent: Confluent, client: _Blocking, topic: str) -> None:
    own = Schema(json.dumps(user(name="Deleted" + topic.replace("-", "_"))))
    client.set_compatibility(topic, "NONE")
    schema_id = client.register_schema(topic, own)
    client.register_schema(topic, Schema(USER_TEXT))
    assert client.delete_version(topic, 1) == 1
    assert client.get_versions(topic) == [2]
    assert confluent.client().get_schema(schema_id).schema_str is not None
    assert client.delete_version(topic, 1, permanent=True) == 1
    assert client.delete_subject(topic) == [2]
    assert topic not in client.get_subjects()
    assert topic in httpx.get(f"{confluent.url}/subjects?deleted=true", timeout=PATIENT).json()
    assert client.delete_subject(topic, permanent=True) == [2]
    assert refused(lambda: confluent.client().get_schema(schema_id)) == (404, 40403)


def test_import_keeps_ids(confluent: Confluent, client: _Blocking, topic: str) -> None:
    subject = f":.imported-{topic}:orders"
    client.update_mode(subject, "IMPORT")
    body = {"schema": USER_TEXT, "id": 4711, "version": 3}
    answer = httpx.post(f"{confluent.url}/subjects/{subject}/versions", json=body, timeout=PATIENT)
    assert (answer.status_code, answer.json()["id"]) == (200, 4711)
    client.update_mode(subject, "READWRITE")
    assert client.get_schema(4711, subject_name=subject).schema_str is not None
    assert client.get_versions(subject) == [3]


def test_contexts_have_ids_of_their_own(confluent: Confluent, client: _Blocking, topic: str) -> None:
    subject = f":.{topic}:orders"
    schema_id = client.register_schema(subject, Schema(USER_TEXT))
    assert schema_id == 1
    assert f".{topic}" in client.get_contexts()
    assert client.get_latest_version(subject).subject == subject
    assert client.get_schema(1, subject_name=subject).schema_str is not None
    inside = Confluent(f"{confluent.url}/contexts/.{topic}", None).client()
    assert inside.get_subjects() == [subject]
    assert inside.get_latest_version("orders").schema_id == 1
    inside.inner.close()


def test_references(confluent: Confluent, client: _Blocking, topic: str) -> None:
    client.register_schema(f"{topic}-address", Schema(ADDRESS_TEXT))
    reference = SchemaReference("org.example.Address", f"{topic}-address", 1)
    person = Schema(PERSON_TEXT, "AVRO", [reference])
    schema_id = client.register_schema(f"{topic}-value", person)
    stored = confluent.client().get_schema(schema_id)
    assert stored.references == [reference]
    assert client.get_referenced_by(f"{topic}-address", 1) == [schema_id]
    assert refused(lambda: client.delete_version(f"{topic}-address", 1)) == (422, 42206)
    missing = Schema(PERSON_TEXT, "AVRO", [SchemaReference("org.example.Address", f"{topic}-none", 1)])
    assert refused(lambda: client.register_schema(f"{topic}-other", missing)) == (422, 42201)

    message = confluent.serializer(client, person, {})(EVE, value_of(topic))
    reader = confluent.deserializer(confluent.client())
    assert reader(message, value_of(topic)) == EVE


def test_metadata_and_rules(confluent: Confluent, client: _Blocking, topic: str) -> None:
    rule = Rule(
        name="check",
        doc=None,
        kind=RuleKind.CONDITION,
        mode=RuleMode.WRITE,
        type="CEL",
        tags=None,
        params=RuleParams({"a": "b"}),
        expr="true",
        on_success=None,
        on_failure=None,
        disabled=None,
    )
    schema = Schema(
        USER_TEXT,
        metadata=Metadata(tags=None, properties=MetadataProperties({"owner": "ada"}), sensitive=None),
        rule_set=RuleSet(migration_rules=None, domain_rules=[rule]),
    )
    client.register_schema(topic, schema)
    found = confluent.client().get_latest_with_metadata(topic, {"owner": "ada"})
    assert found.version == 1
    assert found.schema.metadata.properties.properties == {"owner": "ada"}
    assert [(each.name, each.expr) for each in found.schema.rule_set.domain_rules] == [("check", "true")]
    assert refused(lambda: client.get_latest_with_metadata(topic, {"owner": "eve"})) == (404, 40403)


def test_writes_and_reads_a_message(confluent: Confluent, client: _Blocking, topic: str) -> None:
    message = confluent.serializer(client, USER_TEXT, {})(ADA, value_of(topic))
    assert int.from_bytes(message[1:5], "big") == client.get_latest_version(f"{topic}-value").schema_id
    assert confluent.deserializer(confluent.client())(message, value_of(topic)) == ADA


def test_guid_in_the_headers(confluent: Confluent, client: _Blocking, topic: str) -> None:
    writing = SerializationContext(topic, MessageField.VALUE, {})
    serializer = confluent.serializer(
        client, USER_TEXT, {"schema.id.serializer": header_schema_id_serializer}
    )
    message = serializer(ADA, writing)
    assert writing.headers
    assert confluent.deserializer(confluent.client())(message, writing) == ADA


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (topic_subject_name_strategy, "{topic}-value"),
        (record_subject_name_strategy, "org.example.User"),
        (topic_record_subject_name_strategy, "{topic}-org.example.User"),
    ],
)
def test_subject_name_strategies(
    confluent: Confluent, client: _Blocking, topic: str, strategy: Callable[..., str], subject: str
) -> None:
    conf = {"subject.name.strategy": strategy}
    message = confluent.serializer(client, USER_TEXT, conf)(ADA, value_of(topic))
    assert subject.format(topic=topic) in client.get_subjects()
    assert confluent.deserializer(confluent.client(), conf)(message, value_of(topic)) == ADA


def test_without_auto_register_the_schema_must_be_there(
    confluent: Confluent, client: _Blocking, topic: str
) -> None:
    conf = {"auto.register.schemas": False}
    assert refused(lambda: confluent.serializer(client, USER_TEXT, conf)(ADA, value_of(topic))) == (
        404,
        40401,
    )
    schema_id = client.register_schema(f"{topic}-value", Schema(USER_TEXT))
    message = confluent.serializer(confluent.client(), USER_TEXT, conf)(ADA, value_of(topic))
    assert int.from_bytes(message[1:5], "big") == schema_id


def test_use_latest_version(confluent: Confluent, client: _Blocking, topic: str) -> None:
    client.register_schema(f"{topic}-value", Schema(USER_TEXT))
    latest = client.register_schema(f"{topic}-value", Schema(USER_WITH_EMAIL_TEXT))
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    message = confluent.serializer(confluent.client(), USER_TEXT, conf)(ADA, value_of(topic))
    assert int.from_bytes(message[1:5], "big") == latest
    read = confluent.deserializer(confluent.client())(message, value_of(topic))
    assert read == {**ADA, "email": None}


def test_a_reader_with_the_latest_version_migrates(
    confluent: Confluent, client: _Blocking, topic: str
) -> None:
    message = confluent.serializer(client, USER_TEXT, {})(ADA, value_of(topic))
    client.register_schema(f"{topic}-value", Schema(USER_WITH_EMAIL_TEXT))
    reader = confluent.deserializer(confluent.client(), {"use.latest.version": True})
    assert reader(message, value_of(topic)) == {**ADA, "email": None}


def test_normalize_finds_a_schema_in_other_words(confluent: Confluent, client: _Blocking, topic: str) -> None:
    """Once normalized, the order of a type's attributes and a namespace within the name do not matter."""
    subject = f"{topic}-value"
    schema_id = client.register_schema(subject, Schema(USER_TEXT), normalize_schemas=True)
    reworded = Schema(
        '{"fields":[{"type":"long","name":"id"},{"type":{"type":"string"},"name":"name"}],'
        '"name":"org.example.User","type":"record"}'
    )
    other = confluent.client()
    assert other.lookup_schema(subject, reworded, normalize_schemas=True).schema_id == schema_id
    conf = {"auto.register.schemas": True, "normalize.schemas": True}
    message = confluent.serializer(other, reworded, conf)(ADA, value_of(topic))
    assert int.from_bytes(message[1:5], "big") == schema_id
    assert client.get_versions(subject) == [1]


def test_odd_subject_names(client: _Blocking, topic: str) -> None:
    for subject in (f"{topic}/a b", f"{topic}%2F", f"{topic}-ü-日本", f"{topic}?x=1&y=#z", f"{topic}+plus"):
        client.register_schema(subject, Schema(USER_TEXT))
        assert client.get_latest_version(subject).subject == subject
        assert subject in client.get_subjects()
        assert client.delete_subject(subject) == [1]


def test_no_associations(client: _Blocking, topic: str) -> None:
    assert client.get_associations_by_resource_name(topic, "-", "topic", ["value"]) == []
