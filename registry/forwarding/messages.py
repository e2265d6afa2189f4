"""Messages between nodes, in bodies of HTTP/2 requests and in frames of a stream.

A frame is its length (4 bytes, of what follows), its number (4 bytes), its body, and a seal of 16 bytes if
the nodes share a secret. A seal also covers the direction and the number of frames before it, so that no
frame can be forged, changed, dropped, replayed or reflected.

Unknown members are ignored and missing ones have defaults, so that nodes of adjacent releases understand
each other during a rolling upgrade.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from registry.domain.commands import Outcome
from registry.domain.pending_command import CommandRequest

# The first bytes of a stream, which distinguish it from HTTP/2 on the same port.
PREFACE = b"REGISTRAR STREAM 1\r\n\r\n"
SEAL_BYTES = 16

_HEAD = struct.Struct(">II")
_LENGTH_BYTES = 4
_COUNT = struct.Struct(">Q")


class BadFrame(Exception):
    """A frame that is too long or has a wrong seal."""


class Frame(NamedTuple):
    """A frame's number and body."""

    number: int
    body: bytes


class Sender:
    """Writes the frames of one direction; an empty ``key`` means no seals."""

    def __init__(self, direction: bytes) -> None:
        self._direction = direction
        self._key = b""
        self._count = 0

    def seal(self, key: bytes) -> None:
        """Seal the following frames."""
        self._key = key

    def frame(self, number: int, body: bytes) -> bytes:
        """Return the encoded frame."""
        if not self._key:
            return _HEAD.pack(_LENGTH_BYTES + len(body), number) + body
        sealed = _HEAD.pack(_LENGTH_BYTES + len(body) + SEAL_BYTES, number) + body
        self._count += 1
        return sealed + _seal(self._key, self._direction, self._count, sealed)


class Receiver:
    """Splits the bytes of one direction into frames of at most ``bytes_max``."""

    def __init__(self, direction: bytes, bytes_max: int) -> None:
        self._direction = direction
        self._bytes_max = bytes_max
        self._key = b""
        self._count = 0
        self._pending = bytearray()

    def seal(self, key: bytes, bytes_max: int) -> None:
        """Accept only sealed frames from now on, of at most that length."""
        self._key, self._bytes_max = key, bytes_max

    def frames(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that end in ``data``. Raises :class:`BadFrame`."""
        self._pending += data
        while len(self._pending) >= _HEAD.size:
            length, number = _HEAD.unpack_from(self._pending)
            seal_bytes = SEAL_BYTES if self._key else 0
            if not _LENGTH_BYTES + seal_bytes <= length <= self._bytes_max:
                raise BadFrame(f"a frame of {length} bytes")
            end = _LENGTH_BYTES + length
            if len(self._pending) < end:
                return
            whole = bytes(memoryview(self._pending)[:end])
            del self._pending[:end]
            yield Frame(number, self._unseal(whole) if self._key else whole[_HEAD.size :])

    def _unseal(self, whole: bytes) -> bytes:
        self._count += 1
        sealed = whole[:-SEAL_BYTES]
        seal = _seal(self._key, self._direction, self._count, sealed)
        if not hmac.compare_digest(seal, whole[-SEAL_BYTES:]):
            raise BadFrame("a frame without a valid seal of the other node")
        return sealed[_HEAD.size :]


def _seal(key: bytes, direction: bytes, count: int, sealed: bytes) -> bytes:
    return hmac.digest(key, b"%b%b%b" % (direction, _COUNT.pack(count), sealed), "sha256")[:SEAL_BYTES]


OF_PEERS = "/peer/"
COMMANDS = "/peer/commands"
IDENTITY = "/peer/identity"
WATCH = "/peer/watch"
REPORTS = "/peer/reports"


class Batch(msgspec.Struct, frozen=True):
    """Commands for a node that should be primary; answered by :class:`Outcomes`."""

    requests: list[CommandRequest] = msgspec.field(name="wanted")
    node: str = ""
    # True if slow commands may be answered with Deferred; the sender then repeats each in a batch of its own.
    deferrable: bool = msgspec.field(default=False, name="later")


class Outcomes(msgspec.Struct, frozen=True):
    """The outcomes of a batch's commands, in order."""

    outcomes: list[Outcome]
    # The log's end before they were decided; later idempotency keys may begin there.
    end: int = 0


class PeerStatus(msgspec.Struct, frozen=True):
    """A node's identity and role."""

    node: str
    # Its public URL.
    url: str
    # primary, secondary or following.
    role: str
    # Its own clock, which signed requests to it must name (signing.py).
    clock_ms: int = 0
    # True if it honors idempotency keys.
    repeats: bool = False


encode = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(Batch).decode
_decode_outcomes = msgspec.msgpack.Decoder(Outcomes).decode
decode_status = msgspec.msgpack.Decoder(PeerStatus).decode


def outcomes_of(body: bytes, count: int) -> Outcomes:
    """Decode the outcomes of ``count`` commands. Raises ``msgspec.DecodeError``."""
    reply = _decode_outcomes(body)
    if len(reply.outcomes) != count:
        raise msgspec.DecodeError(f"{len(reply.outcomes)} outcomes of {count} commands")
    return reply
