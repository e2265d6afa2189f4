"""Topics of random messages by several writers, and a new schema that cannot read all of them.

Other libraries, message by message, say which cannot be read.
"""

from __future__ import annotations

import io
import json
import random
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import jsonschema

from registry.cli.decoding.frame import CannotDecode, SchemaName
from registry.cli.decoding.message import WriterSchema
from registry.domain.schemas import Dependency
from tests.process.snapshots.counting import Headers, Sent, committed

HEADER = "__value_schema_id"
MONEY = (
    '{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}'
)
COLORS = ["RED", "BLUE", "PINK"]


def order(*fields: tuple[str, Any]) -> str:
    """Return a record of Avro; a third member of a field is its default."""
    made = [dict(zip(("name", "type", "default"), each, strict=False)) for each in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": made})


def colors(*names: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Color", "symbols": [*names]}


# By id: what wrote messages. The second refers to another schema.
WRITERS = {
    1: WriterSchema("AVRO", order(("id", "int"), ("color", colors(*COLORS)))),
    2: WriterSchema(
        "AVRO", order(("id", "long"), ("price", "Money"), ("note", ["null", "string"], None)),
        (Dependency("shop.Money", MONEY),),
    ),
    3: WriterSchema("AVRO", order(("id", ["int", "string"]), ("color", colors(*COLORS)))),
    4: WriterSchema("JSON", '{"type": "object"}'),
}  # fmt: skip
READER = WriterSchema("AVRO", order(("id", "long"), ("color", colors("RED", "BLUE"), "RED")))
GUIDS = {number: uuid.UUID(int=number << 64 | number) for number in WRITERS}
UNKNOWN = 77


def find(name: SchemaName) -> WriterSchema:
    """Return the writer that messages name."""
    ids = {str(guid): number for number, guid in GUIDS.items()}
    number = name.id if name.id is not None else ids[name.guid]
    if number not in WRITERS:
        raise CannotDecode(f"the registry has no schema with the {name}")
    return WRITERS[number]


def messages(seed: int, count: int) -> Iterator[Sent]:
    """Yield messages of all writers, named in all ways, some of them damaged."""
    chance = random.Random(seed)
    for _ in range(count):
        number = chance.choice([1, 1, 2, 2, 3, 4, UNKNOWN])
        name = b"\0" + number.to_bytes(4)
        if number in GUIDS and chance.random() < 0.2:
            name = b"\1" + GUIDS[number].bytes
        payload = _payload(chance, number)
        if chance.random() < 0.02:
            payload = payload[: len(payload) // 2]
        headers: Headers = []
        if chance.random() < 0.2:
            headers.append((HEADER, name))
            name = b""
        value = chance.choice([None, b"text"]) if chance.random() < 0.02 else name + payload
        yield Sent(b"key", value, headers)


def _payload(chance: random.Random, number: int) -> bytes:
    color = chance.choice(COLORS)
    rows = {
        1: {"id": chance.randrange(-(2**31), 2**31), "color": color},
        2: {"id": chance.randrange(2**60), "price": {"cents": 5}, "note": chance.choice([None, "é"])},
        3: {"id": chance.choice([7, "seven"]), "color": color},
    }
    if number not in rows:
        return b"{}"
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _fast(WRITERS[number]), rows[number])
    return out.getvalue()


def _fast(schema: WriterSchema) -> Any:
    named: dict[str, Any] = {}
    for each in schema.dependencies:
        fastavro.parse_schema(json.loads(each.text), named)
    return fastavro.parse_schema(json.loads(schema.text), named)


def failing(servers: str, topic: str, partitions: int) -> tuple[int, dict[str, list[tuple[int, int]]]]:
    """Return the number of messages, and the places of those that cannot be read, by their writers."""
    count, found = 0, dict[str, list[tuple[int, int]]]()
    reader, writers = _fast(READER), {number: _fast(each) for number, each in WRITERS.items() if number < 4}
    for message in committed(servers, topic, partitions):
        data, header = message.value(), dict(message.headers() or []).get(HEADER)
        if data is None:
            continue
        count += 1
        name, number, payload = _split(data, header)
        if number in writers and _reads(writers[number], reader, payload):
            continue
        place = message.partition() or 0, message.offset() or 0
        found.setdefault(name, []).append(place)
    return count, {name: sorted(places) for name, places in found.items()}


def _split(data: bytes, header: bytes | None) -> tuple[str, int, bytes]:
    named = data if header is None else header
    if named[:1] == b"\0":
        number = int.from_bytes(named[1:5])
        return f"id {number}", number, data[5:] if header is None else data
    if named[:1] == b"\1":
        guid = uuid.UUID(bytes=named[1:17])
        number = next(each for each, known in GUIDS.items() if known == guid)
        return f"GUID {guid}", number, data[17:] if header is None else data
    return "None", 0, b""


def _reads(writer: Any, reader: Any, payload: bytes) -> bool:
    try:
        fastavro.schemaless_reader(io.BytesIO(payload), writer, reader)
    except (fastavro.read.SchemaResolutionError, EOFError, ValueError, IndexError, KeyError):
        return False
    return True


def invalid(schema: str, values: list[bytes]) -> list[int]:
    """Return the places of values that another validator refuses."""
    validator = jsonschema.Draft202012Validator(json.loads(schema))
    return [at for at, value in enumerate(values) if not validator.is_valid(json.loads(value))]
