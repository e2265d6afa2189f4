"""Avro messages of one schema as messages of another: bytes to bytes, by the rules of schema resolution.

Where Spark's own function reads a message, Avro's Java library resolves the schema that it was written with.
This does the same for schemas that were unknown when the query was planned, so that Spark's function, which
then reads with the reader's schema alone, returns the same values. No value is made; numbers and texts are
copied. The functions are put together once for each pair of schemas.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from .framing import Malformed

# Values of an array may take no bytes, so their number has a bound of its own.
_ITEMS_MAX: Final = 2_000_000
_VARINT_BYTES_MAX: Final = 10
_NUMBERS: Final = {"int": 0, "long": 1, "float": 2, "double": 3}
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_PRIMITIVES: Final = {*_NUMBERS, "null", "boolean", "string", "bytes"}
_MISSING: Final = object()

# Reads one value of the writer at a place, appends the reader's, and returns the place behind it.
Convert = Callable[[bytes, int, bytearray], int]
Skip = Callable[[bytes, int], int]


class Node:
    """A type of a schema; ``kind`` is Avro's word for it, or ``union``."""

    __slots__ = ("aliases", "branches", "default", "fields", "items", "kind", "name", "size", "symbols")

    def __init__(self, kind: str, name: str = "", aliases: frozenset[str] = frozenset()) -> None:
        self.kind, self.name, self.aliases = kind, name, aliases
        # Of a record: name, type, default, aliases of each field.
        self.fields: list[tuple[str, Node, Any, frozenset[str]]] = []
        self.items: Node = self  # of an array, and the values of a map
        self.branches: list[Node] = []
        self.symbols: list[str] = []
        self.default: Any = _MISSING  # of an enum
        self.size = 0  # of a fixed


def parse(text: str) -> Node:
    """Return the type that a schema describes. Raises :class:`Malformed` for one that is not complete."""
    try:
        return _node(json.loads(text), "", {})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Malformed(f"the schema cannot be used: {error!r}") from None


def _node(found: Any, space: str, names: dict[str, Node]) -> Node:
    if isinstance(found, list):
        union = Node("union")
        union.branches = [_node(branch, space, names) for branch in found]
        return union
    if isinstance(found, str):
        return Node(found) if found in _PRIMITIVES else names[_full(found, space)]
    kind = found["type"]
    if isinstance(kind, dict | list) or (kind not in {"record", "error", "enum", "fixed", "array", "map"}):
        return _node(kind, space, names)
    if kind in {"array", "map"}:
        node = Node(kind)
        node.items = _node(found["items" if kind == "array" else "values"], space, names)
        return node
    own = found.get("namespace", space) if "." not in found["name"] else ""
    name = _full(found["name"], own)
    space = name.rpartition(".")[0]
    aliases = frozenset(_full(alias, space) for alias in found.get("aliases", ()))
    node = names[name] = Node("record" if kind == "error" else kind, name, aliases)
    node.size = found.get("size", 0)
    node.symbols = found.get("symbols", [])
    node.default = found.get("default", _MISSING)
    node.fields = [
        (each["name"], _node(each["type"], space, names), each.get("default", _MISSING),
         frozenset(each.get("aliases", ())))
        for each in found.get("fields", ())
    ]  # fmt: skip
    return node


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


class Resolver:
    """Makes messages of the schema ``writer`` messages of the schema ``reader``."""

    def __init__(self, writer: str, reader: str, *, checks: bool = False) -> None:
        """Raise :class:`Malformed` if either schema is not complete.

        ``checks``: also go through messages whose writer has the very schema of the reader.
        """
        self._skips: dict[int, Skip] = {}
        self._converts: dict[tuple[int, int], Convert] = {}
        nodes = parse(writer), parse(reader)
        same = not checks and json.loads(writer) == json.loads(reader)
        self._convert = _copy(_skip_all) if same else self._conversion(*nodes)

    def resolve(self, payload: bytes) -> bytes:
        """Return a message as the reader's schema writes it. Raises :class:`Malformed`."""
        out = bytearray()
        try:
            self._convert(payload, 0, out)
        except (IndexError, struct.error):
            raise Malformed("the message ends before its schema does") from None
        except RecursionError:
            raise Malformed("the message is nested too deeply") from None
        return bytes(out)

    def _conversion(self, writer: Node, reader: Node) -> Convert:
        """Return the conversion for two types; a recursive schema calls the one that is being made."""
        key = id(writer), id(reader)
        if key not in self._converts:
            # The present one only once it is made.
            self._converts[key] = lambda data, at, out: self._converts[key](data, at, out)  # noqa: PLW0108
            self._converts[key] = self._convert_union(writer, reader) or self._convert_type(writer, reader)
        return self._converts[key]

    def _convert_union(self, writer: Node, reader: Node) -> Convert | None:
        if writer.kind == "union":
            branches = [self._conversion(branch, reader) for branch in writer.branches]

            def choose(data: bytes, at: int, out: bytearray) -> int:
                index, at = read_long(data, at)
                if not 0 <= index < len(branches):
                    raise Malformed(f"the message chooses type {index} of a union of {len(branches)}")
                return branches[index](data, at, out)

            return choose
        if reader.kind != "union":
            return None
        fitting = (
            next((at for at, each in enumerate(reader.branches) if _is_same(writer, each)), None),
            next((at for at, each in enumerate(reader.branches) if _may_become(writer, each)), None),
        )
        index = next((at for at in fitting if at is not None), None)
        if index is None:
            return _refuse(writer, reader)
        head, inner = long_bytes(index), self._conversion(writer, reader.branches[index])

        def wrap(data: bytes, at: int, out: bytearray) -> int:
            out += head
            return inner(data, at, out)

        return wrap

    def _convert_type(self, writer: Node, reader: Node) -> Convert:
        if not _may_become(writer, reader):
            return _refuse(writer, reader)
        if reader.kind in {"float", "double"} and writer.kind != reader.kind:
            return _widen(writer.kind, reader.kind)
        match reader.kind:
            case "record":
                return self._convert_record(writer, reader)
            case "enum":
                return _convert_enum(writer, reader)
            case "array" | "map":
                return self._convert_blocks(writer, reader)
            case _:  # An int is written as a long is, and a string as bytes are.
                return _copy(self._skip(writer))

    def _convert_record(self, writer: Node, reader: Node) -> Convert:
        """Return the conversion of a record: in the writer's order, put together in the reader's."""
        parts: list[bytes | bytearray] = [b""] * len(reader.fields)
        steps: list[tuple[int, Convert | Skip]] = []
        placed = {}
        for place, (name, _, _, aliases) in enumerate(reader.fields):
            written = next((each[0] for each in writer.fields if each[0] == name), None) or next(
                (each[0] for each in writer.fields if each[0] in aliases), None
            )
            if written is not None:
                placed[written] = place
        for name, own, _, _ in writer.fields:
            place = placed.get(name, -1)
            step = self._conversion(own, reader.fields[place][1]) if place >= 0 else self._skip(own)
            steps.append((place, step))
        for place in sorted({*range(len(reader.fields))} - {*placed.values()}):
            name, own, default, _ = reader.fields[place]
            if default is _MISSING:
                return _fail(f"the reader's field {name} has no default, and the message lacks it")
            parts[place] = default_bytes(own, default)
        in_order = [place for place, _ in steps] == [*range(len(reader.fields))]

        def straight(data: bytes, at: int, out: bytearray) -> int:
            for _, convert in steps:
                at = convert(data, at, out)  # type: ignore[call-arg]
            return at

        def gather(data: bytes, at: int, out: bytearray) -> int:
            found = parts.copy()
            for place, step in steps:
                if place < 0:
                    at = step(data, at)  # type: ignore[call-arg]
                else:
                    own = bytearray()
                    at = step(data, at, own)  # type: ignore[call-arg]
                    found[place] = own
            for part in found:
                out += part
            return at

        return straight if in_order else gather

    def _convert_blocks(self, writer: Node, reader: Node) -> Convert:
        item = self._conversion(writer.items, reader.items)
        is_map = writer.kind == "map"

        def convert(data: bytes, at: int, out: bytearray) -> int:
            while True:
                count, at = _read_count(data, at)
                out += long_bytes(count)
                if not count:
                    return at
                for _ in range(count):
                    if is_map:
                        end = _skip_bytes(data, at)
                        out += data[at:end]
                        at = end
                    at = item(data, at, out)

        return convert

    def _skip(self, node: Node) -> Skip:
        """Return what passes over a value of the writer."""
        key = id(node)
        if key not in self._skips:
            self._skips[key] = lambda data, at: self._skips[key](data, at)  # noqa: PLW0108 (made below)
            self._skips[key] = self._make_skip(node)
        return self._skips[key]

    def _make_skip(self, node: Node) -> Skip:
        match node.kind:
            case "int" | "long" | "enum":
                return _skip_long
            case "string" | "bytes":
                return _skip_bytes
            case "record":
                inside = [self._skip(field[1]) for field in node.fields]

                def skip_record(data: bytes, at: int) -> int:
                    for skip in inside:
                        at = skip(data, at)
                    return at

                return skip_record
            case "union":
                branches = [self._skip(branch) for branch in node.branches]

                def skip_union(data: bytes, at: int) -> int:
                    index, at = read_long(data, at)
                    if not 0 <= index < len(branches):
                        raise Malformed(f"the message chooses type {index} of a union of {len(branches)}")
                    return branches[index](data, at)

                return skip_union
            case "array" | "map":
                return self._skip_blocks(node)
            case _:
                return _skip_size(node.size if node.kind == "fixed" else _SIZES[node.kind])

    def _skip_blocks(self, node: Node) -> Skip:
        item, is_map = self._skip(node.items), node.kind == "map"

        def skip(data: bytes, at: int) -> int:
            while True:
                count, at = _read_count(data, at)
                if not count:
                    return at
                for _ in range(count):
                    at = item(data, _skip_bytes(data, at) if is_map else at)

        return skip


def _is_same(writer: Node, reader: Node) -> bool:
    if writer.kind != reader.kind or writer.size != reader.size:
        return False
    return not writer.name or writer.name == reader.name or writer.name in reader.aliases


def _may_become(writer: Node, reader: Node) -> bool:
    """Return true for the same type, and for one that may be promoted. A record needs no common name."""
    if writer.kind in _NUMBERS and reader.kind in _NUMBERS:
        return _NUMBERS[writer.kind] <= _NUMBERS[reader.kind]
    if {writer.kind, reader.kind} == {"string", "bytes"}:
        return True
    if writer.kind == "record" == reader.kind:
        return True
    return _is_same(writer, reader)


def _copy(skip: Skip) -> Convert:
    def copy(data: bytes, at: int, out: bytearray) -> int:
        end = skip(data, at)
        out += data[at:end]
        return end

    return copy


def _refuse(writer: Node, reader: Node) -> Convert:
    return _fail(f"the reader's type {reader.name or reader.kind} cannot read {writer.name or writer.kind}")


def _fail(text: str) -> Convert:
    """Return what fails once a message has such a value: other branches of a union may be fine."""

    def fail(data: bytes, at: int, out: bytearray) -> int:
        raise Malformed(text)

    return fail


def _widen(writer: str, reader: str) -> Convert:
    shape = struct.Struct("<f" if reader == "float" else "<d")

    def widen(data: bytes, at: int, out: bytearray) -> int:
        if writer == "float":
            out += shape.pack(*struct.unpack_from("<f", data, at))
            return at + _SIZES["float"]
        value, at = read_long(data, at)
        out += shape.pack(value)
        return at

    return widen


def _convert_enum(writer: Node, reader: Node) -> Convert:
    places = {symbol: long_bytes(at) for at, symbol in enumerate(reader.symbols)}
    other = places.get(reader.default) if reader.default is not _MISSING else None
    symbols = [places.get(symbol, other) for symbol in writer.symbols]

    def convert(data: bytes, at: int, out: bytearray) -> int:
        index, at = read_long(data, at)
        if not 0 <= index < len(symbols):
            raise Malformed(f"the message chooses symbol {index} of {len(symbols)}")
        if (found := symbols[index]) is None:
            raise Malformed(f"the reader's enum {reader.name} lacks the symbol {writer.symbols[index]}")
        out += found
        return at

    return convert


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag varint at a place, and the place behind it."""
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte > 0x7F:
        at += 1
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise Malformed("a number of the message has too many bytes")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at + 1


def long_bytes(value: int) -> bytes:
    """Return a number as a zigzag varint."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of items in a block, and where they begin."""
    count, at = read_long(data, at)
    if count < 0:
        _, at = read_long(data, at)  # The size of the block in bytes.
        count = -count
    if count > _ITEMS_MAX + len(data):
        raise Malformed(f"the message claims to have {count} items")
    return count, at


def _skip_long(data: bytes, at: int) -> int:
    while data[at] > 0x7F:
        at += 1
    return at + 1


def _skip_bytes(data: bytes, at: int) -> int:
    size, at = read_long(data, at)
    if size < 0 or at + size > len(data):
        raise Malformed("the message ends before its schema does")
    return at + size


def _skip_all(data: bytes, at: int) -> int:
    return len(data)


def _skip_size(size: int) -> Skip:
    def skip(data: bytes, at: int) -> int:
        if at + size > len(data):
            raise Malformed("the message ends before its schema does")
        return at + size

    return skip


def default_bytes(node: Node, value: Any) -> bytes:
    """Return a field's default as a message has it. Raises :class:`Malformed` if it does not fit the type."""
    match node.kind, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case "int" | "long", int():
            return long_bytes(value)
        case "float" | "double", int() | float():
            return struct.pack("<f" if node.kind == "float" else "<d", value)
        case "string" | "bytes", str():
            text = value.encode("utf-8" if node.kind == "string" else "latin-1")
            return long_bytes(len(text)) + text
        case "fixed", str():
            return value.encode("latin-1")
        case "enum", str() if value in node.symbols:
            return long_bytes(node.symbols.index(value))
        case "array", list():
            items = b"".join(default_bytes(node.items, each) for each in value)
            return (long_bytes(len(value)) + items if value else b"") + b"\0"
        case "map", Mapping():
            items = b"".join(
                default_bytes(Node("string"), name) + default_bytes(node.items, each)
                for name, each in value.items()
            )
            return (long_bytes(len(value)) + items if value else b"") + b"\0"
        case "record", Mapping():
            return b"".join(
                default_bytes(own, value.get(name, default)) for name, own, default, _ in node.fields
            )
        case "union", _:
            for index, branch in enumerate(node.branches):
                try:
                    return long_bytes(index) + default_bytes(branch, value)
                except Malformed:
                    continue
    raise Malformed(f"the default {value!r} does not fit the type {node.name or node.kind}")
