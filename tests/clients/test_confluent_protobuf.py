"""Confluent's Protobuf serializers and deserializers for Python and JavaScript, against the running server.

They send descriptors in Base64, register the imports first, and read schemas back in the ``serialized`` form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from tests.clients.javascript import JavaScript
from tests.support.running import Served

Connect = Callable[[], SchemaRegistryClient]
FORMAT = {"use.deprecated.format": False}

ADDRESS = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Address { string street = 1; google.protobuf.Timestamp since = 2; }
"""
# The nested message precedes the map: clients disagree on whether a map's entries count as a message.
ORDER = """
syntax = "proto3";
package shop;
import "shop/address.proto";
import "google/protobuf/duration.proto";
message Ignored { message Other {} }
message Order {
  message Line {
    double price = 1;
    message Note { string text = 1; repeated Note replies = 2; }
    Note note = 2;
  }
  int64 id = 1;
  Address to = 2;
  map<string, Line> lines = 3;
  oneof paid { string card = 4; bool cash = 5; }
  optional int32 priority = 6;
  google.protobuf.Duration within = 7;
  repeated State states = 8;
  enum State { NEW = 0; SENT = 1; }
}
"""


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.fixture
def connect(registry: Served) -> Iterator[Connect]:
    """Return a function that makes clients with empty caches."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(SchemaRegistryClient({"url": registry.url}))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return both files and their imports, as the compiler describes them."""
    folder: Path = tmp_path_factory.mktemp("protos")
    for path, text in {"shop/address.proto": ADDRESS, "shop/order.proto": ORDER}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    roots = [f"-I{folder}", f"-I{Path(protoc.__file__).parent / '_proto'}"]
    out = folder / "out"
    wanted = ["--include_imports", f"--descriptor_set_out={out}", "shop/order.proto"]
    assert protoc.main(["protoc", *roots, *wanted]) == 0
    return out.read_bytes()


@pytest.fixture(scope="module")
def messages(files: bytes) -> Any:
    """Return message classes by full name, as in generated code."""
    pool = DescriptorPool()
    for proto in FileDescriptorSet.FromString(files).file:
        for message in proto.message_type:
            for field in message.field:
                field.ClearField("json_name")
        pool.AddSerializedFile(proto.SerializeToString())
    return lambda name: GetMessageClass(pool.FindMessageTypeByName(name))


def order(messages: Any) -> Any:
    message = messages("shop.Order")(id=7, card="4242", priority=0, states=[1, 0])
    message.to.street = "Main"
    message.to.since.seconds = 1_700_000_000
    message.lines["tea"].price = 1.5
    message.lines["tea"].note.text = "green"
    message.lines["tea"].note.replies.add(text="hot")
    message.within.seconds = 60
    return message


def test_messages_with_references_are_read_back(connect: Connect, topic: str, messages: Any) -> None:
    client = connect()
    sent = order(messages)
    conf = {"use.deprecated.format": False, "auto.register.schemas": True}

    data = ProtobufSerializer(messages("shop.Order"), client, conf)(sent, context(topic))
    reader = connect()
    read = ProtobufDeserializer(messages("shop.Order"), FORMAT, reader)

    assert read(data, context(topic)) == sent
    placed = client.get_latest_version(f"{topic}-value")
    assert placed.schema.schema_type == "PROTOBUF"
    assert [each.name for each in placed.schema.references] == ["shop/address.proto"]
    assert "message Order {" in placed.schema.schema_str


@pytest.mark.parametrize("name", ["shop.Order", "shop.Order.Line", "shop.Order.Line.Note"])
def test_nested_messages_keep_their_place(connect: Connect, topic: str, messages: Any, name: str) -> None:
    """Return the bytes after the id, which identify the message by its position in the file."""
    client = connect()
    conf = FORMAT
    sent = {
        "shop.Order": lambda: order(messages),
        "shop.Order.Line": lambda: messages(name)(price=2.5),
        "shop.Order.Line.Note": lambda: messages(name)(text="x"),
    }[name]()

    data = ProtobufSerializer(messages(name), client, conf)(sent, context(topic))

    assert ProtobufDeserializer(messages(name), conf, connect())(data, context(topic)) == sent


def test_what_is_registered_is_found_without_registering(connect: Connect, topic: str, messages: Any) -> None:
    client = connect()
    base = FORMAT
    first = ProtobufSerializer(messages("shop.Order"), client, base)(order(messages), context(topic))

    for conf in (
        {"auto.register.schemas": False},
        {"auto.register.schemas": False, "use.latest.version": True},
        {"normalize.schemas": True},
    ):
        other = connect()
        serializer = ProtobufSerializer(messages("shop.Order"), other, base | conf)
        again = serializer(order(messages), context(topic))
        if "normalize.schemas" not in conf:
            assert again[:5] == first[:5]


def test_texts_are_registered_and_given_as_descriptors(connect: Connect, topic: str, messages: Any) -> None:
    client = connect()
    client.register_schema(f"{topic}-address", Schema(ADDRESS, "PROTOBUF"))
    used = [SchemaReference("shop/address.proto", f"{topic}-address", 1)]
    client.register_schema(f"{topic}-value", Schema(ORDER, "PROTOBUF", used))
    conf = {"auto.register.schemas": False, "use.latest.version": True, "use.deprecated.format": False}

    data = ProtobufSerializer(messages("shop.Order"), client, conf)(order(messages), context(topic))

    # A client does not ask for another form of what it has registered.
    read = ProtobufDeserializer(messages("shop.Order"), FORMAT, connect())
    assert read(data, context(topic)) == order(messages)
    found = client.lookup_schema(f"{topic}-value", Schema("// again\n" + ORDER, "PROTOBUF", used))
    assert found.version == 1


def test_incompatible_changes_are_refused(connect: Connect, topic: str) -> None:
    client = connect()
    subject = f"{topic}-value"
    client.register_schema(subject, Schema('syntax = "proto3"; message M { string a = 1; }', "PROTOBUF"))
    wider = Schema('syntax = "proto3"; message M { string a = 1; int32 b = 2; }', "PROTOBUF")
    other = Schema('syntax = "proto3"; message M { double a = 1; }', "PROTOBUF")

    assert client.test_compatibility(subject, wider)
    assert not client.test_compatibility(subject, other)
    with pytest.raises(SchemaRegistryError) as refusal:
        client.register_schema(subject, other)
    assert (refusal.value.http_status_code, refusal.value.error_code) == (409, 40901)


@pytest.mark.parametrize("name", ["shop.Order", "shop.Order.Line"])
def test_javascript_reads_what_python_writes(
    connect: Connect, confluent_javascript: JavaScript, topic: str, messages: Any, name: str
) -> None:
    sent = order(messages) if name == "shop.Order" else messages(name)(price=2.5)
    data = ProtobufSerializer(messages(name), connect(), FORMAT)(sent, context(topic))
    confluent_javascript.forget()

    read = confluent_javascript.deserializeProtobuf(topic, data)

    assert read["type"] == name
    assert messages(name).FromString(read["bytes"]) == sent


@pytest.mark.parametrize("name", ["shop.Order", "shop.Order.Line"])
def test_python_reads_what_javascript_writes(
    connect: Connect, confluent_javascript: JavaScript, topic: str, messages: Any, files: bytes, name: str
) -> None:
    sent = order(messages) if name == "shop.Order" else messages(name)(price=2.5)
    confluent_javascript.forget()
    written = json_format.MessageToDict(sent)
    conf = {"autoRegisterSchemas": True}

    data = confluent_javascript.serializeProtobuf(topic, files, name, written, conf)

    assert ProtobufDeserializer(messages(name), FORMAT, connect())(data, context(topic)) == sent
