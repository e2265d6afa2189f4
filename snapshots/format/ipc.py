"""Bounding what an Arrow IPC stream unpacks to, before Arrow unpacks it.

Each compressed buffer says how many bytes it unpacks to, and Arrow allocates them at once: a file of some
kilobytes may ask for all memory. So the stream's messages are walked first, which reads only their headers.
Format: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format; the headers are FlatBuffers
(https://flatbuffers.dev/internals/) of ``Message.fbs``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

# What begins each message; then comes the length of its header, 0 at the end of the stream.
_CONTINUES = 0xFFFFFFFF
# Fields of the table Message, and the kinds of its header.
_KIND, _HEADER, _BODY_BYTES = 1, 2, 3
_SCHEMA, _BATCH = 1, 3
# Fields of the table RecordBatch.
_BUFFERS, _COMPRESSION = 2, 3
_BUFFER = struct.Struct("<qq")
# In place of the unpacked length: the buffer is not compressed after all.
_AS_IT_IS = -1


class BadStream(Exception):
    """The bytes are not a stream of batches without dictionaries; the text says why."""


def unpacked_bytes(stream: bytes | bytearray) -> Iterator[int]:
    """Yield how many bytes each batch of a stream unpacks to. Raises :class:`BadStream`."""
    try:
        for number, (kind, header, body) in enumerate(_messages(stream)):
            if kind != (_BATCH if number else _SCHEMA):
                raise BadStream(f"its message {number} has the kind {kind}")
            if number:
                yield _unpack(header, body)
    except (struct.error, IndexError, OverflowError) as error:
        raise BadStream(f"its headers cannot be read: {error}") from error


class Extent(NamedTuple):
    """The bytes of a message within a stream."""

    begin: int
    end: int
    # Where the buffers of its first column end, if it is a batch of two columns; else like ``end``.
    keys_end: int


def extent_at(stream: bytearray, begin: int, known: int) -> Extent | None:
    """Return the extent of the message that begins at ``begin``; ``None`` for the end of the stream.

    Only its header is read, which must be before ``known``. Raises :class:`BadStream`.
    """
    view = memoryview(stream)[:known]
    try:
        begins, length = struct.unpack_from("<II", view, begin)
        if begins != _CONTINUES:
            raise BadStream(f"no message begins at byte {begin}")
        if not length:
            return None
        message, body = _Table.root(_slice(view, begin + 8, length)), begin + 8 + length
        end = body + message.number(_BODY_BYTES, "<q")
        if end < body:
            raise BadStream(f"a message ends before it begins, at byte {begin}")
        if message.number(_KIND, "<B") != _BATCH:
            return Extent(begin, end, end)
        # Validity, offsets and content of the keys, then the same of the values.
        buffers = list(message.table(_HEADER).structs(_BUFFERS, _BUFFER))
        keys_end = body + buffers[2][0] + buffers[2][1]
        if not body <= keys_end <= end:
            raise BadStream(f"the keys at byte {begin} are outside of their message")
    except (struct.error, IndexError, OverflowError) as error:
        raise BadStream(f"its headers cannot be read: {error}") from error
    return Extent(begin, end, keys_end)


def _messages(stream: bytes | bytearray) -> Iterator[tuple[int, _Table, memoryview]]:
    """Yield kind, header and body of each message, up to the end that the stream says."""
    view, at = memoryview(stream), 0
    while True:
        begins, length = struct.unpack_from("<II", view, at)
        if begins != _CONTINUES:
            raise BadStream(f"no message begins at byte {at}")
        at += 8
        if not length:
            return
        message = _Table.root(_slice(view, at, length))
        at += length
        size = message.number(_BODY_BYTES, "<q")
        yield message.number(_KIND, "<B"), message.table(_HEADER), _slice(view, at, size)
        at += size


def _unpack(batch: _Table, body: memoryview) -> int:
    compressed = batch.has(_COMPRESSION)
    total = 0
    for offset, length in batch.structs(_BUFFERS, _BUFFER):
        buffer = _slice(body, offset, length)
        if compressed and length:
            (said,) = struct.unpack_from("<q", buffer)
            if said < _AS_IT_IS:
                raise BadStream(f"a buffer unpacks to {said} bytes")
            total += length if said == _AS_IT_IS else said
        else:
            total += length
    return total


def _slice(view: memoryview, at: int, length: int) -> memoryview:
    if at < 0 or length < 0 or at + length > len(view):
        raise BadStream(f"it ends before byte {at + length}")
    return view[at : at + length]


class _Table:
    """A table of FlatBuffers: at ``at`` is the distance back to its vtable, which says where fields are."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view, self._at = view, at
        self._vtable = at - self._read("<i", at)
        self._size = self._read("<H", self._vtable)

    @classmethod
    def root(cls, view: memoryview) -> _Table:
        """Return the table that a buffer begins with a reference to."""
        return cls(view, struct.unpack_from("<I", view)[0])

    def has(self, field: int) -> bool:
        """Return whether a field is present."""
        return bool(self._place(field))

    def number(self, field: int, kind: str) -> int:
        """Return a number; 0 if it is absent."""
        place = self._place(field)
        return self._read(kind, place) if place else 0

    def table(self, field: int) -> _Table:
        """Return a table. Raises :class:`BadStream` if it is absent."""
        return _Table(self._view, self._target(field))

    def structs(self, field: int, kind: struct.Struct) -> Iterator[tuple[int, ...]]:
        """Yield the structs of a vector. Raises :class:`BadStream` if it is absent."""
        at = self._target(field)
        count = self._read("<I", at)
        yield from kind.iter_unpack(_slice(self._view, at + 4, count * kind.size))

    def _place(self, field: int) -> int:
        """Return where a field is; 0 if it is absent."""
        entry = 4 + 2 * field
        offset = self._read("<H", self._vtable + entry) if entry < self._size else 0
        return self._at + offset if offset else 0

    def _target(self, field: int) -> int:
        place = self._place(field)
        if not place:
            raise BadStream(f"its header lacks the field {field}")
        return place + self._read("<I", place)

    def _read(self, kind: str, at: int) -> int:
        if at < 0:
            raise BadStream("its headers point to before their beginning")
        found: int = struct.unpack_from(kind, self._view, at)[0]
        return found
