"""Messages and framing between readers and their node over a unix socket.

Messages are msgpack in frames, each prefixed with its length. A reader numbers its requests; the node replies
to each with its number, in any order. The only unsolicited message of the node is its :class:`State`, sent
first and after every change. Large messages are sent one at a time and in pieces, interleaved with small
ones, so either side may receive messages in another order than they were sent.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

import msgspec

from registry.base.observe.metrics import Tally
from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import Outcome, Refused
from registry.domain.log_format.lineage import Mismatch
from registry.domain.pending_command import CommandRequest


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
    """A request to bring the store up to the log's current end; answered by :class:`Confirmed`."""

    number: int
    # The log's end, if the reader knows it: the node then follows the log up to there without querying it.
    offset: int = -1


class Query(msgspec.Struct, tag=True, frozen=True):
    """A query; answered by :class:`Reply`."""

    number: int
    # Of its row in :mod:`registry.api.node_queries`.
    query: int
    # The request of the row, packed.
    request: msgspec.Raw


class Report(msgspec.Struct, tag=True, frozen=True):
    """Counters of the reader."""

    tally: Tally


class State(msgspec.Struct, tag=True, frozen=True):
    """The node's state, sent unsolicited."""

    # True once the store holds all that the log held when the node started.
    started: bool
    # True if the store may be read before that, because the log is unreachable; such reads are unconfirmed.
    readable: bool = False
    # Identity of the log that readers may query for its end; empty if they must ask the node.
    log: str = ""
    # True if a command that is sent again with its idempotency key is executed only once.
    repeats: bool = False
    # True while there is no node yet: log and store are being opened, or a snapshot is being loaded.
    opening: bool = False
    # True if the log was found to be the store's meanwhile, so that the rows may be served until then.
    examined: bool = False
    # The finding that the log is not the store's, also if it could not be written into the store.
    mismatch: Mismatch | None = None


class Decided(msgspec.Struct, tag=True, frozen=True):
    """The outcome of a command."""

    number: int
    outcome: Outcome


class Confirmed(msgspec.Struct, tag=True, frozen=True):
    """The reply to :class:`Confirm`; ``fresh`` if the store holds all that the log held when queried."""

    number: int
    fresh: bool


class Reply(msgspec.Struct, tag=True, frozen=True):
    """The answer of the query's row, packed; nothing if the query was refused."""

    number: int
    answer: msgspec.Raw
    refused: Refused | None = None


FromReader = Hello | Submit | Confirm | Query | Report
FromNode = State | Decided | Confirmed | Reply

encode = msgspec.msgpack.Encoder().encode
NO_ANSWER = msgspec.Raw(encode(None))
decode_from_reader = msgspec.msgpack.Decoder(FromReader).decode
decode_from_node = msgspec.msgpack.Decoder(FromNode).decode

PIECE_BYTES = LARGE_BYTES
# Limit of the bytes buffered for the socket, as small messages wait behind them.
_UNSENT_BYTES_MAX = 4 * PIECE_BYTES
_LENGTH_BYTES = 4
# Bits of a frame's length that mark a piece of a message, the last piece, and the end of a message that is
# dropped before its last piece.
_PIECE, _LAST, _DROPPED = 1 << 31, 1 << 30, 1 << 29
_LENGTH = _DROPPED - 1
# Returns a message when its turn to be sent comes; ``None`` if it need not be sent any more.
Packed = Callable[[], bytes | None]


def frames(messages: Iterable[bytes]) -> bytes:
    """Return packed messages as frames for the socket."""
    parts: list[bytes] = []
    for each in messages:
        parts += (len(each).to_bytes(_LENGTH_BYTES, "big"), each)
    return b"".join(parts)


def _header(length: int) -> bytes:
    return length.to_bytes(_LENGTH_BYTES, "big")


class Framed(asyncio.Protocol, ABC):
    """A protocol that receives whole messages; subclasses handle them."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._pending = bytearray()
        self._pieces = bytearray()
        self._large: deque[Packed] = deque()
        # The large message whose pieces are being sent, and what is left of it.
        self._current: Packed | None = None
        self._rest = memoryview(b"")
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and set its write buffer limit."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_UNSENT_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        """Split the received bytes into messages and handle each."""
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
                self.on_message(message)
                continue
            self._pieces += message
            if head & _DROPPED:
                self._pieces = bytearray()
            elif head & _LAST:
                whole, self._pieces = self._pieces, bytearray()
                self.on_message(bytes(whole))
        del pending[:at]

    @abstractmethod
    def on_message(self, message: bytes) -> None:
        """Handle a received message."""

    def send(self, *messages: msgspec.Struct) -> None:
        """Send messages, unless the connection is closing."""
        if self.transport.is_closing():
            return
        small: list[bytes] = []
        for message in messages:
            packed = encode(message)
            if len(packed) <= PIECE_BYTES:
                small.append(packed)
            else:
                self.send_large(partial(bytes, packed))
        if small:
            self.transport.write(frames(small))

    def send_large(self, packed: Packed) -> None:
        """Send a message in pieces, after the large messages queued before it."""
        self._large.append(packed)
        self._send_pieces()

    def is_unsent(self, packed: Packed) -> bool:
        """Return true if the last piece of a large message was not sent, so the other side cannot have it."""
        return (packed is self._current and bool(self._rest)) or packed in self._large

    def drop_large(self, packed: Packed) -> None:
        """Drop a large message that :meth:`is_unsent`: the other side will never get it whole."""
        if packed is not self._current:
            self._large.remove(packed)
            return
        self._current, self._rest = None, memoryview(b"")
        if not self.transport.is_closing():
            self.transport.write(_header(_PIECE | _DROPPED))
        self._send_pieces()

    def pause_writing(self) -> None:
        """Stop sending pieces, because the other side reads too slowly."""
        self._paused = True

    def resume_writing(self) -> None:
        """Resume sending pieces."""
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
            self._current = self._large.popleft()
            packed = self._current()
            if packed:
                self._rest = memoryview(packed)
                return True
        self._current = None
        return False
