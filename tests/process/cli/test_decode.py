"""``registrar decode`` of messages that Confluent's serializers have written, in a topic and as files."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from deploy.local.broker import Broker
from registry.domain.schemas import FORMATS
from registry.domain.schemas.protobuf.schema import ProtobufSchema
from tests.process.cli.running_verbs import Done, verb
from tests.support.kafka_topics import make_topic
from tests.support.running import ROOT, Served, free_port

ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "d",
    "fields": [{"name": "street", "type": "string"}],
}
PERSON = {
    "type": "record",
    "name": "Person",
    "namespace": "d",
    "fields": [
        {"name": "name", "type": ["null", "string"]},
        {"name": "home", "type": "d.Address"},
        {"name": "since", "type": {"type": "int", "logicalType": "date"}},
    ],
}
EVE = {"name": "Eve", "home": {"street": "Main"}, "since": 19000}
SHOWN_EVE = {"name": "Eve", "home": {"street": "Main"}, "since": "2022-01-08"}
POINT = json.dumps(
    {"title": "P", "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
)
PROTO = """
syntax = "proto3";
package d;
import "google/protobuf/timestamp.proto";
message Ignored { message Other {} }
message Order {
  message Line { double price = 1; google.protobuf.Timestamp at = 2; }
  int64 id = 1;
  map<string, Line> lines = 3;
}
"""


class Written(NamedTuple):
    """The topic, and the messages in it as the serializers wrote them."""

    kafka: str
    url: str
    topic: str
    values: list[bytes]


@pytest.fixture(scope="module")
def written(kafka: Broker, registry: Served) -> Iterator[Written]:
    """Write messages of the three types to partition 1 of a topic, each by id and by GUID."""
    topic = make_topic(kafka.address, {"cleanup.policy": "delete"}, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.address, "compression.type": "gzip"})
    values = []
    with SchemaRegistryClient({"url": registry.url}) as client:
        for by_guid in (False, True):
            for serializer, value in _serializers(client, by_guid=by_guid):
                headers: list[tuple[str, bytes]] = []
                # Each type has a subject of its own.
                context = SerializationContext(
                    f"{topic}-{type(serializer).__name__}", MessageField.VALUE, headers
                )
                values.append(serializer(value, context))
                producer.produce(topic, values[-1], key=b"no schema", headers=headers, partition=1)
        key = AvroSerializer(client, '"string"')("the key", SerializationContext(topic, MessageField.KEY))
        producer.produce(topic, None, key=key, partition=1)
        assert producer.flush(30) == 0
        yield Written(kafka.address, registry.url, topic, values)


def _serializers(client: SchemaRegistryClient, *, by_guid: bool) -> Iterator[tuple[Any, Any]]:
    more = {"schema.id.serializer": header_schema_id_serializer} if by_guid else {}
    client.register_schema("decode-address", Schema(json.dumps(ADDRESS), "AVRO"))
    reference = SchemaReference("d.Address", "decode-address", 1)
    person = Schema(json.dumps(PERSON), "AVRO", [reference])
    yield AvroSerializer(client, person, conf=more), EVE
    yield JSONSerializer(POINT, client, conf=more), {"x": 1.5}
    parsed = FORMATS["PROTOBUF"].parse(PROTO)
    assert isinstance(parsed, ProtobufSchema)
    line = GetMessageClass(parsed.pool().FindMessageTypeByName("d.Order.Line"))
    yield ProtobufSerializer(line, client, {"use.deprecated.format": False, **more}), line(price=2.5)


def decode(written: Written, *words: str, of_topic: bool = True) -> Done:
    where = ("--kafka", written.kafka, "--topic", written.topic, "--partition", "1") if of_topic else ()
    return verb("decode", "--url", written.url, *where, *words)


LINES = [SHOWN_EVE, {"x": 1.5}, {"price": 2.5}]


def test_messages_of_a_topic_are_lines_of_json(written: Written) -> None:
    done = decode(written, "--offset", "0", "--count", "100")
    assert (done.status, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == [*LINES, *LINES, None]


def test_the_newest_message_is_the_default(written: Written) -> None:
    assert decode(written).out == "null\n"
    assert json.loads(decode(written, "--offset", "earliest").out) == SHOWN_EVE


def test_keys_are_decoded_on_request(written: Written) -> None:
    done = decode(written, "--keys", "--offset", "5", "--count", "2")
    assert done.out == '"the key"\n'
    assert done.status == 1
    assert "offset 5: the message is not in Confluent's wire format: it begins with the byte 0x6e" in done.err


def test_details_name_the_place_and_the_schema(written: Written) -> None:
    done = decode(written, "--json", "--offset", "2", "--count", "2")
    by_id, by_guid = map(json.loads, done.out.splitlines())
    assert (by_id["topic"], by_id["partition"], by_id["offset"]) == (written.topic, 1, 2)
    assert by_id["timestamp"] > 1_700_000_000_000
    assert by_id["schema"]["type"] == "PROTOBUF"
    assert isinstance(by_id["schema"]["id"], int)
    assert by_id["value"] == {"price": 2.5}
    assert by_guid["schema"]["type"] == "AVRO"
    assert len(by_guid["schema"]["guid"]) == 36


def test_avros_own_json_is_printed_on_request(written: Written) -> None:
    found = json.loads(decode(written, "--avro-json", "--offset", "0").out)
    assert found == {"name": {"string": "Eve"}, "home": {"street": "Main"}, "since": 19000}


@pytest.mark.parametrize("form", ["bytes", "--hex", "--base64"])
def test_files_hold_bytes_or_text(written: Written, tmp_path: Path, form: str) -> None:
    file, values = tmp_path / "message", written.values[:3]
    if form == "bytes":
        file.write_bytes(values[0])
        done = decode(written, str(file), of_topic=False)
        assert [json.loads(line) for line in done.out.splitlines()] == LINES[:1]
        return
    encoded = [each.hex() if form == "--hex" else b64encode(each).decode() for each in values]
    file.write_text("\n\n".join(encoded))
    done = decode(written, form, str(file), of_topic=False)
    assert [json.loads(line) for line in done.out.splitlines()] == LINES
    assert done.status == 0


def test_standard_input_is_the_default(written: Written) -> None:
    command = [sys.executable, "-m", "registry", "decode", "--url", written.url]
    done = subprocess.run(command, input=written.values[1], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"x": 1.5})


def test_objections_of_a_schema_are_reported(written: Written, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(written.values[1][:5] + b'{"y": "\xc2\x9b"}')
    done = decode(written, "--validate", str(file), of_topic=False)
    assert done.status == 0
    assert done.out == '{"y":"\\u009b"}\n'
    assert "registrar: $: 'x' is a required property" in done.err


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the message is empty"),
        (
            b"\x00\x7f\xff\xff\xff",
            "the registry has no schema with the id 2147483647: Schema 2147483647 not found",
        ),
        (
            b"\x01" + bytes(16),
            "the registry has no schema with the GUID 00000000-0000-0000-0000-000000000000",
        ),
    ],
)
def test_what_cannot_be_decoded_is_reported_in_one_line(
    written: Written, tmp_path: Path, data: bytes, text: str
) -> None:
    file = tmp_path / "message"
    file.write_bytes(data)
    done = decode(written, str(file), of_topic=False)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"registrar: {text}")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--topic", "nowhere", "--partition", "0"], "the topic nowhere does not exist"),
        (["--partition", "9"], "has 2 partitions, counted from 0"),
        (["--offset", "99"], "has no offset 99: it has those from 0 to 6"),
        (["--partition", "0", "--offset", "0"], "has no offset 0: it is empty"),
        (["--offset", "soon"], "--offset soon is not valid"),
    ],
)
def test_topics_that_cannot_be_read_leave_no_verdict(written: Written, words: list[str], text: str) -> None:
    done = decode(written, *words)
    assert (done.status, done.out) == (2, "")
    assert text in done.err


def test_without_a_registry_there_is_no_verdict(written: Written, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_bytes(written.values[0])
    done = verb("decode", "--url", f"http://127.0.0.1:{free_port()}", str(file))
    assert done.status == 2
    assert "nothing listens at" in done.err
    bare = verb("decode", "--topic", "t")
    assert bare.status == 2
    assert "--topic needs --kafka" in bare.err


def test_text_that_is_not_what_it_should_be_leaves_no_verdict(written: Written, tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_text("00zz")
    for form in ("--hex", "--base64"):
        done = decode(written, form, str(file), of_topic=False)
        if form == "--hex":
            assert done.status == 2
            assert "line 1 is not hexadecimal" in done.err
