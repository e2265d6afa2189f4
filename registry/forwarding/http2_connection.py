"""An HTTP/2 client connection to another node, long-lived and multiplexed.

The protocol is ``h2``'s, over asyncio. Errors state if the peer can have executed the request:
:class:`NotSent` if it was not sent to its end, :class:`Broken` otherwise.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error

Header = tuple[bytes, bytes]
_P = TypeVar("_P", bound=asyncio.Protocol)

_WINDOW_BYTES = 2**24
_ANSWER_BYTES_MAX = 2**28
_CONFIGURATION = H2Configuration(client_side=True, header_encoding=None)


class NotSent(ConnectionError):
    """The request did not reach the peer, or not to its end, so it was not executed."""


class Broken(ConnectionError):
    """The connection ended before the answer; the request may or may not have been executed."""


class Response(NamedTuple):
    """A complete response."""

    status: int
    headers: list[Header]
    body: bytes


class _Exchange:
    """A request in flight."""

    def __init__(
        self,
        answer: asyncio.Future[Response],
        unsent: bytes,
        on_data: Callable[[bytes], None] | None,
        on_sent: Callable[[], None],
    ) -> None:
        self.answer = answer
        self.unsent = memoryview(unsent)
        self.on_data = on_data
        self.on_sent = on_sent
        self.status = 0
        self.headers: list[Header] = []
        self.body = bytearray()

    def fail(self, reason: str) -> None:
        """Fail the request. Peers execute whole requests only, as they verify a signature over the body."""
        if not self.answer.done():
            self.answer.set_exception((NotSent if self.unsent else Broken)(reason))
            self.answer.exception()  # Mark the exception as retrieved, even if nobody waits any more.


class Connection(asyncio.Protocol):
    """A connection from :func:`connect`; used on one event loop."""

    def __init__(self, authority: str, scheme: bytes) -> None:
        self._front = ((b":scheme", scheme), (b":authority", authority.encode()))
        self._h2 = H2Connection(_CONFIGURATION)
        self._exchanges: dict[int, _Exchange] = {}
        self.transport = cast("asyncio.Transport", None)
        self._pings = 0
        self._pongs = 0
        loop = asyncio.get_running_loop()
        # Completes when the connection has ended.
        self.closed: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start HTTP/2 with prior knowledge."""
        self.transport = cast("asyncio.Transport", transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_BYTES)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests in flight."""
        exchanges, self._exchanges = self._exchanges, {}
        for exchange in exchanges.values():
            exchange.fail("the connection was lost")
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse received data and complete requests."""
        try:
            events = self._h2.receive_data(data)
        except H2Error:
            self._flush()
            self.abort()
            return
        for event in events:
            self._handle(event)
        self._flush()

    def _handle(self, event: Event) -> None:
        match event:
            case ResponseReceived(stream_id=number, headers=headers) if number in self._exchanges:
                exchange = self._exchanges[number]
                exchange.headers = [(bytes(name), bytes(value)) for name, value in headers or ()]
                exchange.status = int(dict(exchange.headers)[b":status"])
            case DataReceived(stream_id=number):
                self._take(event, self._exchanges.get(number))
            case StreamEnded(stream_id=number):
                self._end(number)
            case StreamReset(stream_id=number):
                ended = self._exchanges.pop(number, None)
                if ended is not None:
                    ended.fail("the request was dropped")
            case WindowUpdated() | RemoteSettingsChanged():
                self._go_on()
            case PingAckReceived():
                self._pongs = self._pings
            case ConnectionTerminated():
                self.transport.close()

    def _take(self, event: DataReceived, exchange: _Exchange | None) -> None:
        data, size = event.data or b"", event.flow_controlled_length or 0
        if size:
            self._h2.acknowledge_received_data(size, event.stream_id)
        if exchange is None:
            return
        if exchange.on_data is not None:
            exchange.on_data(data)
        elif len(exchange.body) + len(data) > _ANSWER_BYTES_MAX:
            self.abort()
        else:
            exchange.body += data

    def _end(self, number: int) -> None:
        exchange = self._exchanges.pop(number, None)
        if exchange is not None and not exchange.answer.done():
            exchange.answer.set_result(Response(exchange.status, exchange.headers, bytes(exchange.body)))

    async def request(
        self,
        method: str,
        path: str,
        headers: Iterable[Header] = (),
        body: bytes = b"",
        *,
        on_data: Callable[[bytes], None] | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> Response:
        """Send a request and return the complete response; ``on_data`` gets its body piece by piece instead.

        ``on_sent`` is called when the last piece of a body is sent. Raises :class:`NotSent` and
        :class:`Broken`. A caller that is cancelled drops the request.
        """
        if self.transport.is_closing():
            raise NotSent("the connection has ended")
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        try:
            number = self._h2.get_next_available_stream_id()
            front = ((b":method", method.encode()), (b":path", path.encode()), *self._front)
            self._h2.send_headers(number, [*front, *headers], end_stream=not body)
        except H2Error as error:
            raise NotSent(str(error)) from None
        self._exchanges[number] = _Exchange(answer, body, on_data, on_sent)
        if body:
            self._send(number, self._exchanges[number])
        self._flush()
        try:
            return await answer
        finally:
            if self._exchanges.pop(number, None) is not None:
                self._drop(number)

    def _drop(self, number: int) -> None:
        try:
            self._h2.reset_stream(number, ErrorCodes.CANCEL)
        except H2Error:
            return
        self._flush()

    def _go_on(self) -> None:
        # The shortest first, so that small bodies do not wait for window that a large one would use up.
        unsent = [(len(each.unsent), number) for number, each in self._exchanges.items() if each.unsent]
        for _, number in sorted(unsent):
            self._send(number, self._exchanges[number])

    def _send(self, number: int, exchange: _Exchange) -> None:
        """Send as much of a body as the peer's window allows."""
        while exchange.unsent:
            room = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
            if room <= 0:
                return
            piece, exchange.unsent = exchange.unsent[:room], exchange.unsent[room:]
            self._h2.send_data(number, bytes(piece), end_stream=not exchange.unsent)
            if not exchange.unsent:
                exchange.on_sent()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def ping(self) -> bool:
        """Send a ping; return False if the last one was not answered."""
        if self.transport.is_closing() or self._pongs != self._pings:
            return False
        self._pings += 1
        self._h2.ping(self._pings.to_bytes(8, "big"))
        self._flush()
        return True

    def abort(self) -> None:
        """Abort the connection."""
        self.transport.abort()

    async def close(self) -> None:
        """Close the connection gracefully."""
        self.transport.close()
        await self.closed


async def connect(address: str, timeout_s: float, tls: ssl.SSLContext | None = None) -> Connection:
    """Return an HTTP/2 connection to ``HOST:PORT``; raises as :func:`open_connection`."""
    scheme = b"https" if tls else b"http"
    return await open_connection(lambda: Connection(address, scheme), address, timeout_s, tls)


async def open_connection(
    protocol: Callable[[], _P], address: str, timeout_s: float, tls: ssl.SSLContext | None
) -> _P:
    """Connect to ``HOST:PORT``. Raises :class:`OSError`: ``ConnectionRefusedError`` if the port is closed.

    Also raises it for a malformed address, because peers may advertise anything.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await loop.create_connection(protocol, host.strip("[]"), int(port), ssl=tls)
    except OSError:
        raise
    except (ValueError, OverflowError) as error:
        raise OSError(f"{address!r} is not an address: {error}") from error
    return connection
