"""Confluent's own imports, and the content of ``confluent.Meta`` in options: documentation, parameters, tags.

Written from the public description of Confluent's tags and logical types.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as AnyMessage
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from .model import Value
from .names import Names
from .parser import parse
from .to_descriptor import bare_descriptor

META: Final = """syntax = "proto3";
package confluent;

import "google/protobuf/descriptor.proto";

message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}

extend google.protobuf.FileOptions {
  Meta file_meta = 1088;
}
extend google.protobuf.MessageOptions {
  Meta message_meta = 1088;
}
extend google.protobuf.FieldOptions {
  Meta field_meta = 1088;
}
extend google.protobuf.EnumOptions {
  Meta enum_meta = 1088;
}
extend google.protobuf.EnumValueOptions {
  Meta enum_value_meta = 1088;
}
"""
DECIMAL: Final = """syntax = "proto3";
package confluent.type;

message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""
VARIANT: Final = """syntax = "proto3";
package confluent.type;

message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
"""
_NUMBER: Final = 1088
_BYTES: Final = 2
# The tag of field 1088 on the wire.
_TAG: Final = b"\x82\x44"
_VALUE_FIRST: Final = frozenset({"precision", "scale"})


@cache
def _meta_class() -> type[AnyMessage]:
    messages = parse(META)._replace(imports=(), extends=())
    pool = DescriptorPool()
    proto = bare_descriptor(messages, Names(messages), "meta.proto")
    pool.AddSerializedFile(proto.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("confluent.Meta"))


def meta_of(options: AnyMessage) -> Mapping[str, Value] | None:
    """Return the members of Confluent's extension in ``options``, in their order; ``None`` if there are none.

    They are read from the bytes, because other code in the process decides if the library knows the
    extension.
    """
    data = options.SerializePartialToString()
    if _TAG not in data:
        return None
    fields: Any = UnknownFieldSet(Empty.FromString(data))
    raw = b"".join(each.data for each in fields if each.field_number == _NUMBER and each.wire_type == _BYTES)
    try:
        meta: Any = _meta_class().FromString(raw)
    except DecodeError:
        return None
    members: dict[str, Value] = {}
    if meta.doc:
        members["doc"] = meta.doc
    if meta.params:
        members["params"] = tuple(_param(name, meta.params[name]) for name in sorted(meta.params))
    if meta.tags:
        members["tags"] = tuple(meta.tags)
    if meta.rules:
        members["rules"] = tuple(_members(each) for each in meta.rules)
    return members or None


def _param(name: str, value: str) -> Mapping[str, Value]:
    """Return a parameter; for some, Confluent prints the value first."""
    if name in _VALUE_FIRST:
        return {"value": value, "key": name}
    return {"key": name, "value": value}


def _members(message: AnyMessage) -> Mapping[str, Value]:
    return {field.name: value for field, value in message.ListFields()}
