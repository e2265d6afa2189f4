"""The imports that every schema may use without a reference (Confluent 8.x), and those of a text."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.type import (
    calendar_period_pb2,
    color_pb2,
    date_pb2,
    datetime_pb2,
    dayofweek_pb2,
    decimal_pb2,
    expr_pb2,
    fraction_pb2,
    interval_pb2,
    latlng_pb2,
    localized_text_pb2,
    money_pb2,
    month_pb2,
    phone_number_pb2,
    postal_address_pb2,
    quaternion_pb2,
    timeofday_pb2,
)

from registry.domain.schemas.contract import Links, Use

from .from_descriptor import file_of
from .meta import DECIMAL, META, VARIANT
from .model import File
from .names import Names
from .parser import parse
from .source import tokens
from .to_descriptor import bare_descriptor

_MODULES: Final[tuple[ModuleType, ...]] = (
    # Each after its own imports.
    any_pb2,
    source_context_pb2,
    type_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
    calendar_period_pb2,
    color_pb2,
    date_pb2,
    datetime_pb2,
    dayofweek_pb2,
    decimal_pb2,
    expr_pb2,
    fraction_pb2,
    interval_pb2,
    latlng_pb2,
    localized_text_pb2,
    money_pb2,
    month_pb2,
    phone_number_pb2,
    postal_address_pb2,
    quaternion_pb2,
    timeofday_pb2,
)


def _google(module: ModuleType) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


_GOOGLE: Final = {proto.name: proto for proto in map(_google, _MODULES)}
_TEXTS: Final = {
    "confluent/meta.proto": META,
    "confluent/type/decimal.proto": DECIMAL,
    "confluent/type/variant.proto": VARIANT,
}

# By import path.
FILES: Final[dict[str, File]] = {path: file_of(proto) for path, proto in _GOOGLE.items()} | {
    path: parse(text) for path, text in _TEXTS.items()
}

NAMES: Final = Names(parse(""), FILES.items())

# The same as descriptors, each after its own imports.
PROTOS: Final[dict[str, descriptor_pb2.FileDescriptorProto]] = _GOOGLE | {
    path: bare_descriptor(FILES[path], NAMES, path) for path in _TEXTS
}


def links(text: str) -> Links:
    """Return the imports of a text, without the files that every registry has."""
    words, depth = tokens(text), 0
    paths: dict[str, None] = {}
    for place, word in enumerate(words):
        depth += (word == "{") - (word == "}")
        if word != "import" or depth:
            continue
        at = place + 1 + (words[place + 1] in ("public", "weak"))
        if at < len(words) and words[at][:1] in ("'", '"'):
            paths[words[at][1:-1]] = None
    uses = tuple(Use(path, ()) for path in paths if path not in FILES)
    return Links("", (), uses, by="path")
