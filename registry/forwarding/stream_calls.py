"""The server's side of a stream (:mod:`.stream`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from .authentication import Signings
from .frames import BadFrame, Receiver, Sender
from .signing import Signing
from .stream import ANSWERING, ASKING, GREETING_BYTES_MAX, METHOD, OK, PATH, decode_greeting, encode_greeting

# Batches of one stream in flight; no more are read meanwhile.
UNDER_WAY_MAX = 100

# Decides a batch; calls back once with the outcomes, or with b"" if it is malformed.
Decide = Callable[[bytes, Callable[[bytes], None]], None]


class StreamCall(asyncio.Protocol):
    """One stream after its preface.

    ``known`` is called once the client has proved that it is a peer, ``refused`` if it has not.
    """

    def __init__(
        self,
        signings: Signings,
        decide: Decide,
        *,
        bytes_max: int,
        known: Callable[[], None],
        refused: Callable[[], None],
    ) -> None:
        self._signings = signings
        # That of the client; ``None`` until it has proved that it is a peer.
        self.signing: Signing | None = None
        self._decide = decide
        self._bytes_max = bytes_max
        self._known = known
        self._refused = refused
        self._sender = Sender(ANSWERING)
        self._receiver = Receiver(ASKING, GREETING_BYTES_MAX)
        self._transport = cast("asyncio.Transport", None)
        self._ending = self._full = self._paused = False
        self._under_way = 0
        # Completes when the connection has ended.
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self, transport: asyncio.Transport, begun: bytes) -> None:
        """Take over a connection; ``begun`` was read before."""
        self._transport = transport
        transport.set_protocol(self)
        if transport.is_closing():
            self.connection_lost(None)
            return
        self.data_received(begun)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the disconnect; batches in flight are still decided."""
        self._ending = True
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Decide the received batches."""
        try:
            for number, body in self._receiver.frames(data):
                if self.signing is None:
                    self._meet(body)
                elif body:
                    self._begin(number, body)
                else:
                    self._write(number, b"")
        except (BadFrame, msgspec.DecodeError, ValueError):
            self._transport.abort()

    def _meet(self, body: bytes) -> None:
        greeting = decode_greeting(body)
        self.signing = signing = self._signings.accepting(METHOD, PATH, greeting)
        if signing is None:
            self._refused()
            raise BadFrame("a greeting from a node that does not know the secret")
        self._known()
        self._write(0, encode_greeting(signing.answer(greeting, OK, b"")))
        key = signing.stream_key(signing.nonce(greeting))
        self._sender.seal(key)
        self._receiver.seal(key, self._bytes_max)

    def _begin(self, number: int, body: bytes) -> None:
        def answered(outcomes: bytes) -> None:
            self._under_way -= 1
            self._write(number, outcomes)
            self._pause_or_resume()
            if self._ending and not self._under_way:
                self._transport.close()

        self._under_way += 1
        self._decide(body, answered)
        self._pause_or_resume()

    def _write(self, number: int, body: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._sender.frame(number, body))

    def end(self) -> None:
        """Accept no more batches; close the connection once all are answered."""
        self._ending = True
        if not self._under_way:
            self._transport.close()

    def pause_writing(self) -> None:
        """Pause reading while the client does not read its answers."""
        self._full = True
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """Resume reading."""
        self._full = False
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        pause = self._full or self._under_way >= UNDER_WAY_MAX
        if pause == self._paused or self._transport.is_closing():
            return
        self._paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
