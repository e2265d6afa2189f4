"""What readers and their node say to each other over a unix socket.

Frames of msgpack, each with its length before it. A reader numbers its calls; the node answers each under its
number, in any order. Without being asked the node only tells its :class:`State`, first of all and whenever it
changes. Large messages travel one at a time and in pieces, between which small ones go: so either side may
hear messages in another order than that in which they were told.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Self, cast

import msgspec

from registry.api.status import NodeStatus
from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import Outcome, Refused
from registry.domain.pending_command import CommandRequest
from registry.observe.requests import Tally
from snapshots.catalogue.catalogue import Entry


class Hello(msgspec.Struct, tag=True, frozen=True):
    """A reader's first frame."""

    pid: int


class Submit(msgspec.Struct, tag=True, frozen=True):
    """A command to decide; answered by :class:`Decided`, never with ``NotPrimary``."""

    number: int
    request: CommandRequest
    # As in :class:`PendingCommand`.
    forwarded: bool = False
    in_doubt: bool = False


class Confirm(msgspec.Struct, tag=True, frozen=True):
    """See that the store is as new as the log is now; answered by :class:`Confirmed`."""

    number: int
    offset: int = -1
    """Where the log ends, if the reader knows: then the log is not asked, but followed so far."""


class AskStatus(msgspec.Struct, tag=True, frozen=True):
    """Answered by :class:`Status`."""

    number: int


class AskSnapshots(msgspec.Struct, tag=True, frozen=True):
    """Answered by :class:`Snapshots` with all, the newest first."""

    number: int


class DeleteSnapshot(msgspec.Struct, tag=True, frozen=True):
    """Answered by :class:`Snapshots` with what is left of it, which is mostly nothing."""

    number: int
    id: str


class Report(msgspec.Struct, tag=True, frozen=True):
    """What the reader has counted; answered by :class:`Metrics` if it has a number."""

    tally: Tally
    number: int = 0


class State(msgspec.Struct, tag=True, frozen=True):
    """What the node tells by itself."""

    started: bool
    """Whether the store holds what the log held when the node started."""
    readable: bool = False
    """Whether it may be read without, because the log cannot be asked: nothing read so is confirmed."""
    log: str = ""
    """The identity of the log that readers may ask for its end; empty where they must ask the node."""
    repeats: bool = False
    """Whether a command that is sent again with its idempotency key is done only once."""
    opening: bool = False
    """There is no node yet: log and store are being opened, or a snapshot is loaded."""


class Decided(msgspec.Struct, tag=True, frozen=True):
    """The outcome of a command."""

    number: int
    outcome: Outcome


class Confirmed(msgspec.Struct, tag=True, frozen=True):
    """Whether the store holds all that the log held when it was asked."""

    number: int
    fresh: bool


class Status(msgspec.Struct, tag=True, frozen=True):
    """The node's state."""

    number: int
    status: NodeStatus


class Snapshots(msgspec.Struct, tag=True, frozen=True):
    """Entries of the catalogue, or why there are none to tell."""

    number: int
    entries: list[Entry]
    refused: Refused | None = None


class Metrics(msgspec.Struct, tag=True, frozen=True):
    """The metrics of all processes of the host, or why they cannot be told."""

    number: int
    text: bytes
    refused: Refused | None = None


FromReader = Hello | Submit | Confirm | AskStatus | AskSnapshots | DeleteSnapshot | Report
FromNode = State | Decided | Confirmed | Status | Snapshots | Metrics

encode = msgspec.msgpack.Encoder().encode
decode_from_reader = msgspec.msgpack.Decoder(FromReader).decode
decode_from_node = msgspec.msgpack.Decoder(FromNode).decode

PIECE_BYTES = LARGE_BYTES
# What may wait for the socket: small messages wait behind it.
_UNSENT_BYTES_MAX = 4 * PIECE_BYTES
_LENGTH_BYTES = 4
# Bits of a frame's length that say that it is a piece of a message, and the last one.
_PIECE, _LAST = 1 << 31, 1 << 30
_LENGTH = _LAST - 1


def frames(messages: Iterable[bytes]) -> bytes:
    """Return packed messages as they go over the socket."""
    return b"".join(part for each in messages for part in (_header(len(each)), each))


def _header(length: int) -> bytes:
    return length.to_bytes(_LENGTH_BYTES, "big")


class Framed(asyncio.Protocol, ABC):
    """A protocol that hears whole messages; what is to be heard is the subclass's matter."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._pending = bytearray()
        self._pieces = bytearray()
        self._large: deque[Callable[[], bytes | None]] = deque()
        self._rest = memoryview(b"")
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_UNSENT_BYTES_MAX)

    def take_over(self, other: Framed) -> Self:
        """Go on with the connection of ``other``, which hears nothing more."""
        self._pending, self._pieces = other._pending, other._pieces
        self._large, self._rest, self._paused = other._large, other._rest, other._paused
        other.transport.set_protocol(self)
        self.connection_made(other.transport)
        return self

    def data_received(self, data: bytes) -> None:
        """Cut what came into messages."""
        pending = self._pending
        pending += data
        at = 0
        while len(pending) - at >= _LENGTH_BYTES:
            head = int.from_bytes(pending[at : at + _LENGTH_BYTES], "big")
            end = at + _LENGTH_BYTES + (head & _LENGTH)
            if end > len(pending):
                break
            message = bytes(pending[at + _LENGTH_BYTES : end])
            at = end
            if not head & _PIECE:
                self.heard(message)
                continue
            self._pieces += message
            if head & _LAST:
                whole, self._pieces = self._pieces, bytearray()
                self.heard(bytes(whole))
        del pending[:at]

    @abstractmethod
    def heard(self, message: bytes) -> None:
        """One message came."""

    def tell(self, *messages: msgspec.Struct) -> None:
        """Send messages, unless the other side is gone."""
        if self.transport.is_closing():
            return
        packed = [encode(each) for each in messages]
        self.transport.write(frames(each for each in packed if len(each) <= PIECE_BYTES))
        for each in packed:
            if len(each) > PIECE_BYTES:
                self.tell_large(partial(bytes, each))

    def tell_large(self, packed: Callable[[], bytes | None]) -> None:
        """Send a message in pieces, after the large ones before it.

        ``packed`` is called when its turn comes, and returns ``None`` if it is not wanted any more.
        """
        self._large.append(packed)
        self._send_pieces()

    def pause_writing(self) -> None:
        """Send no further pieces: the other side does not read as fast."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on with the pieces."""
        self._paused = False
        self._send_pieces()

    def _send_pieces(self) -> None:
        while not (self._paused or self.transport.is_closing()):
            if not self._rest and not self._begin_next():
                return
            piece, self._rest = self._rest[:PIECE_BYTES], self._rest[PIECE_BYTES:]
            head = len(piece) | _PIECE | (0 if self._rest else _LAST)
            self.transport.write(_header(head) + piece)

    def _begin_next(self) -> bool:
        while self._large:
            packed = self._large.popleft()()
            if packed:
                self._rest = memoryview(packed)
                return True
        return False
