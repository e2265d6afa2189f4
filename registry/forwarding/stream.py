"""A stream between two nodes: batches of commands and their outcomes as frames, on both sides.

An HTTP/2 request per batch would cost both nodes more than deciding it. A stream starts with a signed
greeting, like any request to a peer (:mod:`.authentication`), from which both nodes derive the key for its
frames.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable
from typing import Any, cast

import msgspec

from .authentication import Header, Signing, Signings
from .http2_connection import Broken, NotSent, open_connection
from .node_port import PREFACE, BadFrame, Receiver, Sender

PATH = "/peer/stream"
METHOD = "STREAM"
ASKING, ANSWERING = b">", b"<"
GREETING_BYTES_MAX = 4096
OUTCOMES_BYTES_MAX = 1 << 28
OK = 200

encode_greeting = msgspec.msgpack.Encoder().encode
decode_greeting = msgspec.msgpack.Decoder(list[Header]).decode


class Stream(asyncio.Protocol):
    """The client's side, from :func:`open_stream`; used on one event loop."""

    def __init__(self, signing: Signing, time_ms: int) -> None:
        headers, self._nonce = signing.request(METHOD, PATH, b"", time_ms)
        self._greeting = encode_greeting(headers)
        self._signing = signing
        self._sender = Sender(ASKING)
        self._receiver = Receiver(ANSWERING, GREETING_BYTES_MAX)
        self.transport = cast("asyncio.Transport", None)
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._owes_sign = False
        loop = asyncio.get_running_loop()
        # Completes when the other node has proved that it knows the secret, or fails.
        self.met: asyncio.Future[None] = loop.create_future()
        # Completes when the connection has ended.
        self.closed: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(PREFACE + self._sender.frame(0, self._greeting))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all batches in flight."""
        asked, self._asked = self._asked, {}
        waiting: list[asyncio.Future[Any]] = [self.met, *asked.values()]
        for each in waiting:
            if not each.done():
                each.set_exception(Broken("the connection was lost"))
                each.exception()  # Mark the exception as retrieved, even if nobody waits any more.
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Complete batches with received answers."""
        try:
            for number, body in self._receiver.frames(data):
                if not self.met.done():
                    self._accept_answer(body)
                elif number:
                    self._answer(number, body)
                else:
                    self._owes_sign = False
        except (BadFrame, msgspec.DecodeError):
            self.abort()

    def _accept_answer(self, body: bytes) -> None:
        if not self._signing.answers(self._nonce, OK, decode_greeting(body), b""):
            raise BadFrame("an answer to the greeting from a node that does not know the secret")
        key = self._signing.stream_key(self._nonce)
        self._sender.seal(key)
        self._receiver.seal(key, OUTCOMES_BYTES_MAX)
        self.met.set_result(None)

    def _answer(self, number: int, body: bytes) -> None:
        answer = self._asked.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(body)

    def ask(self, body: bytes) -> asyncio.Future[bytes]:
        """Send a batch. The answer is empty if it is malformed, or :class:`Broken`. Raises ``NotSent``."""
        if self.transport.is_closing():
            raise NotSent("the connection has ended")
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self.transport.write(self._sender.frame(number, body))
        return answer

    def ping(self) -> bool:
        """Send a ping; return False if the last one was not answered or the stream is closed."""
        if self.transport.is_closing() or self._owes_sign:
            return False
        self._owes_sign = True
        self.transport.write(self._sender.frame(0, b""))
        return True

    def abort(self) -> None:
        """Abort the connection."""
        self.transport.abort()


async def open_stream(
    address: str, signing: Signing, time_ms: int, timeout_s: float, tls: ssl.SSLContext | None
) -> Stream:
    """Open a stream to ``HOST:PORT``. ``time_ms``: on the other node's clock. Raises :class:`OSError`."""
    stream = await open_connection(lambda: Stream(signing, time_ms), address, timeout_s, tls)
    try:
        async with asyncio.timeout(timeout_s):
            await stream.met
    except BaseException:
        stream.abort()
        raise
    return stream


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
                    self._accept_greeting(body)
                elif body:
                    self._begin(number, body)
                else:
                    self._write(number, b"")
        except (BadFrame, msgspec.DecodeError, ValueError):
            self._transport.abort()

    def _accept_greeting(self, body: bytes) -> None:
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
        def on_outcomes(outcomes: bytes) -> None:
            self._under_way -= 1
            self._write(number, outcomes)
            self._pause_or_resume()
            if self._ending and not self._under_way:
                self._transport.close()

        self._under_way += 1
        self._decide(body, on_outcomes)
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
