"""Clients of a registry with TLS, authentication and rules, each with the logins that it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from schema_registry.client import SchemaRegistryClient as OtherClient
from schema_registry.client.errors import ClientError
from schema_registry.client.schema import AvroSchema
from schema_registry.serializers import AvroMessageSerializer

from tests.clients.bridge import BridgeError
from tests.clients.java_client import Java
from tests.clients.javascript import JavaScript
from tests.clients.samples import ADA, USER, USER_TEXT, USER_WITH_EMAIL_TEXT
from tests.clients.secured import OPERATOR, READER, WRITER, WRONG, Secured
from tests.support.running import PATIENT
from tests.support.token_endpoint import CLIENT_ID, CLIENT_SECRET

UNAUTHORIZED, FORBIDDEN = (401, 401), (403, 40301)
AVRO = {"schemaType": "AVRO"}
WAYS = pytest.mark.parametrize("way", ["basic", "token", "certificate"])


def configuration(secured: Secured, way: str) -> dict[str, Any]:
    """Return the configuration of a confluent-kafka client that may write."""
    conf = {"url": secured.url, "ssl.ca.location": secured.ca, "max.retries": 0}
    if way == "basic":
        return conf | {"basic.auth.user.info": WRITER}
    if way == "certificate":
        certificate, key = secured.certificate("walter")
        return conf | {"ssl.certificate.location": certificate, "ssl.key.location": key}
    return conf | {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": CLIENT_ID,
        "bearer.auth.client.secret": CLIENT_SECRET,
        "bearer.auth.scope": "schemas",
        "bearer.auth.issuer.endpoint.url": secured.tokens.url,
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }


def refused(call: Callable[[], Any]) -> tuple[int, int]:
    """Return the HTTP status and error code with which the registry refuses ``call``."""
    with pytest.raises(SchemaRegistryError) as caught:
        call()
    return caught.value.http_status_code, caught.value.error_code


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


class TestConfluentPython:
    @WAYS
    def test_serializes_and_deserializes(self, secured: Secured, topic: str, way: str) -> None:
        conf = configuration(secured, way)
        with SchemaRegistryClient(conf) as client:
            message = AvroSerializer(client, USER_TEXT)(ADA, value_of(topic))
        with SchemaRegistryClient(conf) as other:
            assert AvroDeserializer(other)(message, value_of(topic)) == ADA

    @WAYS
    def test_asyncio(self, secured: Secured, topic: str, way: str) -> None:
        async def versions() -> list[int]:
            client = AsyncSchemaRegistryClient(configuration(secured, way))
            async with client:
                await client.register_schema(topic, Schema(USER_TEXT))
                return await client.get_versions(topic)

        assert asyncio.run(versions()) == [1]

    def test_a_wrong_password_is_refused(self, secured: Secured, topic: str) -> None:
        conf = configuration(secured, "basic") | {"basic.auth.user.info": WRONG}
        with SchemaRegistryClient(conf) as client:
            assert refused(client.get_subjects) == UNAUTHORIZED
            assert refused(lambda: client.register_schema(topic, Schema(USER_TEXT))) == UNAUTHORIZED

    def test_no_credentials_and_the_token_of_another_issuer_are_refused(self, secured: Secured) -> None:
        conf = {"url": secured.url, "ssl.ca.location": secured.ca, "max.retries": 0}
        with SchemaRegistryClient(conf) as client:
            assert refused(client.get_subjects) == UNAUTHORIZED
        foreign = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": "e30.e30.e30",
            "bearer.auth.logical.cluster": "lsrc-1",
        }
        with SchemaRegistryClient(conf | foreign) as client:
            assert refused(client.get_subjects) == UNAUTHORIZED

    def test_a_server_with_a_certificate_of_an_unknown_ca_is_not_believed(self, secured: Secured) -> None:
        conf = {"url": secured.url, "basic.auth.user.info": WRITER, "max.retries": 0}
        with (
            SchemaRegistryClient(conf) as client,
            pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            client.get_subjects()

    @pytest.mark.parametrize("way", ["basic", "certificate"])
    def test_a_reader_may_read_and_not_register(self, secured: Secured, topic: str, way: str) -> None:
        with SchemaRegistryClient(configuration(secured, "basic")) as writer:
            message = AvroSerializer(writer, USER_TEXT)(ADA, value_of(topic))
        conf = configuration(secured, way)
        if way == "basic":
            conf["basic.auth.user.info"] = READER
        else:
            conf["ssl.certificate.location"], conf["ssl.key.location"] = secured.certificate("ruth")
        with SchemaRegistryClient(conf) as reader:
            assert AvroDeserializer(reader)(message, value_of(topic)) == ADA
            assert reader.get_versions(f"{topic}-value") == [1]
            assert reader.test_compatibility(f"{topic}-value", Schema(USER_WITH_EMAIL_TEXT))
            new = Schema(USER_WITH_EMAIL_TEXT)
            assert refused(lambda: reader.register_schema(f"{topic}-value", new)) == FORBIDDEN
            assert refused(lambda: reader.delete_subject(f"{topic}-value")) == FORBIDDEN
            assert reader.get_versions(f"{topic}-value") == [1]


class TestPythonSchemaRegistryClient:
    """This client sends Basic credentials, empty ones by default, also if it has a certificate."""

    @pytest.fixture(autouse=True)
    def _own_ca(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # It prefers these to its own setting.
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)

    def client(self, secured: Secured, name: str, user: str) -> OtherClient:
        certificate, key = secured.certificate(name)
        conf = {
            "url": secured.url,
            "ssl.ca.location": secured.ca,
            "ssl.certificate.location": certificate,
            "ssl.key.location": key,
        }
        auth = httpx.BasicAuth(*user.split(":")) if user else None
        return OtherClient(conf, timeout=PATIENT, auth=auth)

    @pytest.mark.parametrize("user", [WRITER, ""], ids=["password", "certificate alone"])
    def test_serializes_and_deserializes(self, secured: Secured, topic: str, user: str) -> None:
        client = self.client(secured, "walter", user)
        serializer = AvroMessageSerializer(client)
        message = serializer.encode_record_with_schema(f"{topic}-value", AvroSchema(USER_TEXT), ADA)
        assert AvroMessageSerializer(self.client(secured, "walter", user)).decode_message(message) == ADA

    def test_a_wrong_password_is_refused(self, secured: Secured, topic: str) -> None:
        client = self.client(secured, "walter", WRONG)
        with pytest.raises(ClientError) as caught:
            client.register(topic, AvroSchema(USER_TEXT))
        assert caught.value.http_code == UNAUTHORIZED[0]

    def test_a_reader_may_not_register(self, secured: Secured, topic: str) -> None:
        client = self.client(secured, "ruth", READER)
        assert client.get_subjects() is not None
        with pytest.raises(ClientError) as caught:
            client.register(topic, AvroSchema(USER_TEXT))
        assert caught.value.http_code == FORBIDDEN[0]


def credentials(secured: Secured, way: str) -> dict[str, Any]:
    """Return the configuration of a client of @confluentinc/schemaregistry that may write."""
    tls = {"ca": secured.ca}
    if way == "basic":
        return {"tls": tls, "basicAuthCredentials": {"credentialsSource": "USER_INFO", "userInfo": WRITER}}
    if way == "certificate":
        certificate, key = secured.certificate("walter")
        return {"tls": tls | {"cert": certificate, "key": key}}
    bearer = {
        "credentialsSource": "OAUTHBEARER",
        "issuerEndpointUrl": secured.tokens.url,
        "clientId": CLIENT_ID,
        "clientSecret": CLIENT_SECRET,
        "scope": "schemas",
        "logicalCluster": "lsrc-1",
        "identityPoolId": "pool-1",
    }
    return {"tls": tls, "bearerAuthCredentials": bearer}


def rejected(call: Callable[[], Any]) -> tuple[int, int]:
    """Return the HTTP status and error code with which the registry refuses a client behind a bridge."""
    with pytest.raises(BridgeError) as caught:
        call()
    return caught.value.status, caught.value.code


class TestConfluentJavaScript:
    @WAYS
    def test_serializes_and_deserializes(self, secured: Secured, topic: str, way: str) -> None:
        with closing(JavaScript("confluent.js", secured.url, **credentials(secured, way))) as client:
            message = client.serialize(topic, ADA, {"autoRegisterSchemas": True})
            client.forget()
            assert client.deserialize(topic, message) == ADA

    def test_a_wrong_password_is_refused(self, secured: Secured) -> None:
        config = credentials(secured, "basic")
        config["basicAuthCredentials"]["userInfo"] = WRONG
        with closing(JavaScript("confluent.js", secured.url, **config)) as client:
            assert rejected(client.getAllSubjects) == UNAUTHORIZED

    def test_a_reader_may_read_and_not_register(self, secured: Secured, topic: str) -> None:
        user = {**AVRO, "schema": USER_TEXT}
        with closing(JavaScript("confluent.js", secured.url, **credentials(secured, "basic"))) as writer:
            writer.register(topic, user)
        config = credentials(secured, "basic")
        config["basicAuthCredentials"]["userInfo"] = READER
        with closing(JavaScript("confluent.js", secured.url, **config)) as reader:
            assert reader.getVersion(topic, user) == 1
            new = {**AVRO, "schema": USER_WITH_EMAIL_TEXT}
            assert rejected(lambda: reader.register(topic, new)) == FORBIDDEN


class TestKafkajs:
    """This client has Basic authentication, and certificates by the agent that it is given.

    Before it registers under a subject, it sets the subject's compatibility level, which needs `config`.
    """

    def config(self, secured: Secured, user: str) -> dict[str, Any]:
        if not user:
            certificate, key = secured.certificate("oscar")
            return {"tls": {"ca": secured.ca, "cert": certificate, "key": key}}
        name, password = user.split(":")
        return {"tls": {"ca": secured.ca}, "auth": {"username": name, "password": password}}

    @pytest.mark.parametrize("user", [OPERATOR, ""], ids=["basic", "certificate"])
    def test_encodes_and_decodes(self, secured: Secured, topic: str, user: str) -> None:
        with closing(JavaScript("kafkajs.js", secured.url, **self.config(secured, user))) as client:
            schema_id = client.register(USER, {"subject": f"{topic}-value"})["id"]
            message = client.encode(schema_id, ADA)
            client.forget()
            assert client.decode(message) == ADA

    @pytest.mark.parametrize(("user", "status"), [(WRONG, 401), (READER, 403)], ids=["wrong", "reader"])
    def test_others_may_not_register(self, secured: Secured, topic: str, user: str, status: int) -> None:
        with closing(JavaScript("kafkajs.js", secured.url, **self.config(secured, user))) as client:
            with pytest.raises(BridgeError) as caught:
                client.register(USER, {"subject": topic})
            assert caught.value.status == status


def java_settings(secured: Secured, way: str) -> dict[str, str]:
    """Return the settings of a Java client that may write."""
    if way == "certificate":
        return secured.java_stores("walter")
    logins = {
        "basic": {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": WRITER},
        "static token": {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": secured.tokens.fetch(),
        },
        "token": {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.client.id": CLIENT_ID,
            "bearer.auth.client.secret": CLIENT_SECRET,
            "bearer.auth.scope": "schemas",
            "bearer.auth.issuer.endpoint.url": secured.tokens.url,
        },
    }
    return secured.java_stores() | logins[way]


class TestConfluentJava:
    @pytest.mark.parametrize("way", ["basic", "static token", "token", "certificate"])
    def test_registers_checks_reads_and_deletes(
        self, secured: Secured, java: Java, topic: str, way: str
    ) -> None:
        settings = java_settings(secured, way)
        writer, reader = java.open(secured.url, settings), java.open(secured.url, settings)
        message = writer.serialize(topic, USER_TEXT, ADA)
        assert reader.deserialize(message) == ADA
        assert reader.getVersion(topic, USER_TEXT) == 1
        assert writer.testCompatibility(topic, USER_WITH_EMAIL_TEXT)
        assert writer.deleteSubject(topic, False) == [1]

    def test_credentials_in_the_url(self, secured: Secured, java: Java, topic: str) -> None:
        url = secured.url.replace("://", f"://{WRITER}@")
        settings = secured.java_stores() | {"basic.auth.credentials.source": "URL"}
        assert java.open(url, settings).register(topic, USER_TEXT) > 0

    def test_a_wrong_password_and_no_credentials_are_refused(
        self, secured: Secured, java: Java, topic: str
    ) -> None:
        wrong = java_settings(secured, "basic") | {"basic.auth.user.info": WRONG}
        for settings in (wrong, secured.java_stores()):
            client = java.open(secured.url, settings)
            assert rejected(client.getAllSubjects) == UNAUTHORIZED
            assert rejected(lambda client=client: client.register(topic, USER_TEXT)) == UNAUTHORIZED

    def test_the_token_of_another_issuer_is_refused(self, secured: Secured, java: Java) -> None:
        settings = java_settings(secured, "static token") | {"bearer.auth.token": "e30.e30.e30"}
        assert rejected(java.open(secured.url, settings).getAllSubjects) == UNAUTHORIZED

    def test_a_server_with_a_certificate_of_an_unknown_ca_is_not_believed(
        self, secured: Secured, java: Java
    ) -> None:
        settings = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": WRITER}
        with pytest.raises(BridgeError, match="unable to find valid certification path"):
            java.open(secured.url, settings).getAllSubjects()

    @pytest.mark.parametrize("way", ["basic", "certificate"])
    def test_a_reader_may_read_and_not_register(
        self, secured: Secured, java: Java, topic: str, way: str
    ) -> None:
        message = java.open(secured.url, java_settings(secured, "basic")).serialize(topic, USER_TEXT, ADA)
        settings = secured.java_stores("ruth")
        if way == "basic":
            settings = java_settings(secured, "basic") | {"basic.auth.user.info": READER}
        reader = java.open(secured.url, settings)
        assert reader.deserialize(message) == ADA
        assert reader.testCompatibility(topic, USER_WITH_EMAIL_TEXT)
        assert rejected(lambda: reader.register(topic, USER_WITH_EMAIL_TEXT)) == FORBIDDEN
        assert rejected(lambda: reader.deleteSubject(topic, False)) == FORBIDDEN
        assert reader.getAllVersions(topic) == [1]
