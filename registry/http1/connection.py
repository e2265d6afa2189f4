"""One client's connection: bytes to requests, requests to answers, in their order.

Requests are read whole before they are served, so that a slow sender occupies nothing but its connection. One
is served at a time. Input is parsed in slices, and what a client has sent ahead stays unparsed until the
requests before it are answered; reading pauses meanwhile. A broken request takes its place in the queue as a
refusal, and ends the reading.

``deadline`` is when the connection will have used up its patience (event-loop time); the server looks at it
from time to time. A client that has read or sent enough until then gets as much time again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import httptools

from registry.domain.errors import (
    BAD_REQUEST,
    BODY_TIMEOUT,
    BODY_TOO_LARGE,
    METHOD_NOT_ALLOWED,
    UNAVAILABLE,
    ErrorKind,
    RegistryError,
)

from .answers import Answer, Later, lines, refusal, status_line
from .exchange import Exchange
from .framing import BROKEN, coding_fault
from .repeated import Repeated
from .request import Header, Request, relative
from .unread import outstanding

if TYPE_CHECKING:
    from .server import Server

HEADERS_TOO_LARGE = ErrorKind(431, "The request's headers are larger than the limit of %d bytes")
HEADER_TIMEOUT = ErrorKind(408, "The request's headers did not arrive in time")
FRAMING_TOO_LARGE = ErrorKind(413, "The request's chunk sizes and trailers take more than its body allows")
NO_UPGRADE = "HTTP 400 Bad Request: no other protocol is spoken here"
_OFFER = frozenset({b"upgrade", b"connection", b"http2-settings"})
_VERSIONS = frozenset({"1.0", "1.1"})
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Parsed and answered at once: some hundreds of the smallest requests take a few milliseconds.
_SLICE_BYTES = 8 * 1024
# Answers up to here wait in the transport without being counted as unread.
_HIGH_WATER_BYTES = 32 * 1024


class _Stop(Exception):
    """Raised inside the parser's callbacks to end the parsing."""


class Connection(asyncio.Protocol):
    """The protocol of one connection; made by :class:`.server.Server`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits = server.limits
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser: Any = httptools.HttpRequestParser(self)
        self._repeated: Any = Repeated()
        self._waiting: deque[Request | RegistryError] = deque()
        self._serving: asyncio.Task[None] | Later | None = None
        self._target = b""
        self._headers: list[Header] = []
        self._head_bytes = 0
        self._declined = b""
        self._body: bytes | bytearray = b""
        self._body_bytes = 0
        self._body_mark = 0  # of the body's bytes, when the deadline was set
        self._framing_bytes = 0
        self._unparsed: memoryview | None = None
        self._parsing_soon = False
        self._reading_head = False
        self._reading_body = False
        self._head_began = False
        self._fault: RegistryError | None = None
        self._deaf = False  # nothing more is parsed: a fault, the end of input, or the last answer was given
        self._lingering = False
        self._paused = False
        self._writable: asyncio.Future[None] | None = None
        self._unread_mark = 0  # of the outstanding bytes, when the deadline was set
        self._held_bytes = 0  # of the answer's body that its exchange is sending
        self.deadline = math.inf
        self.client: tuple[str, int] | None = None
        self.closed = False
        self.gone: asyncio.Future[None] | None = None

    # --- what the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock; a connection too many is refused at once."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        self.client = (peer[0], peer[1]) if isinstance(peer, tuple) else None
        self.deadline = self._server.now + self._limits.header_timeout_s
        if not self._server.joined(self):
            self._refuse_rest(UNAVAILABLE("There are too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget everything; what is being served runs to its end, unheard."""
        self.closed = True
        self._deaf = True
        self._drop_body()
        self._waiting.clear()
        self._unparsed = None
        self._headers, self._target, self._declined = [], b"", b""
        self._parser = self._repeated = None  # the parser holds pieces of headers, and this connection
        self._server.unread.release(self)
        self._server.left(self)
        for waiter in (self._writable, self.gone):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse; whole requests go to the queue."""
        if self._deaf:
            return
        whole = not (self._reading_head or self._reading_body or self._waiting or self._unparsed)
        request = self._repeated.read(data) if whole else None
        if request is not None:
            self._headers = request.headers
            self._waiting.append(request)
        elif len(data) <= _SLICE_BYTES and not self._unparsed:
            self._take(data)
            if whole and self._waiting and isinstance(self._waiting[0], Request):
                self._repeated.remember(data, self._waiting[0])
        else:
            rest = b"".join((self._unparsed, data)) if self._unparsed else data
            self._take_slices(memoryview(rest))
        if self._waiting or self._unparsed:
            self._serve_next()

    def _take_slices(self, data: memoryview) -> None:
        """Parse ``data`` up to the next whole request; the rest waits until that is answered."""
        self._unparsed = None
        for start in range(0, len(data), _SLICE_BYTES):
            if self._deaf:
                return
            if self._waiting:
                self._unparsed = data[start:]
                return
            self._take(data[start : start + _SLICE_BYTES])

    def _take_rest(self) -> None:
        """Go on with what was sent ahead."""
        self._parsing_soon = False
        if self._unparsed is not None and not self._waiting:
            self._take_slices(self._unparsed)
            self._serve_next()

    def _take(self, piece: bytes | memoryview) -> None:
        """Parse one slice of the input; whole requests go to the queue."""
        limits, in_head, body_bytes = self._limits, self._reading_head, self._body_bytes
        in_body = self._reading_body
        self._head_began = False
        self._feed(piece)
        if self._fault is not None:
            self._refuse_rest(self._fault)
        elif self._reading_head:
            # Only what is read in slices needs counting here; the parser keeps an unfinished line.
            # A head that began in this slice may follow much else.
            if in_head and not self._head_began:
                self._head_bytes += len(piece)
            if self._head_bytes > limits.header_bytes_max:
                self._refuse_rest(HEADERS_TOO_LARGE(limits.header_bytes_max))
        elif in_body and self._reading_body:
            self._framing_bytes += len(piece) - (self._body_bytes - body_bytes)
            if self._framing_bytes > limits.header_bytes_max + self._body_bytes // 4:
                self._refuse_rest(FRAMING_TOO_LARGE())

    def eof_received(self) -> bool:
        """The client has sent all it wants to; it may still read what it asked for."""
        if self._lingering:
            return False
        if self._reading_head or self._reading_body:
            self._refuse_rest(BAD_REQUEST(BROKEN))
        self._deaf = True
        return bool(self._waiting) or self._serving is not None

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        self._writable = self._server.loop.create_future()
        self._unread_mark = self.outstanding()
        self.deadline = self._server.now + self._limits.body_timeout_s
        self._server.unread.hold(self)

    def resume_writing(self) -> None:
        """The client has read."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self.keep(self._held_bytes)
        self._set_deadline()
        if self._serving is None:
            self._serve_next()

    # --- what the parser tells

    def _feed(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # h2c is only offered; the client goes on with HTTP/1.1 (RFC 9110, 7.8). The parser would take the
            # body for the other protocol, so it gets the request again, without the offer.
            self._parser = httptools.HttpRequestParser(self)
            if self._fault is None:
                head, self._declined = self._declined, b""
                self._feed(b"".join((head, data[upgrade.args[0] :])))
        except httptools.HttpParserError:
            self._fault = self._fault or BAD_REQUEST(BROKEN)

    def on_message_begin(self) -> None:
        """A request's first byte."""
        self._target = b""
        self._headers = []
        self._head_bytes = 0
        self._head_began = self._reading_head = True
        if self._serving is None:
            self.deadline = self._server.now + self._limits.header_timeout_s

    def on_url(self, url: bytes) -> None:
        """The target, or a piece of it."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; a trailer, which is no header, is dropped."""
        if not self._reading_body:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Refuse what can be refused before the body is read."""
        self._reading_head = False
        limits, size = self._limits, len(self._target)
        length = expected = upgrade = None
        codings: list[bytes] = []
        hosts = 0
        for name, value in self._headers:
            size += len(name) + len(value) + 4
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                codings.append(value)
            elif name == b"host":
                hosts += 1
            elif name == b"expect":
                expected = value.lower()
            elif name == b"upgrade":
                upgrade = value.strip().lower()
        if size > limits.header_bytes_max:
            self._stop(HEADERS_TOO_LARGE(limits.header_bytes_max))
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            self._stop(BAD_REQUEST(BROKEN))
        if hosts != 1 and (hosts or version == "1.1"):
            self._stop(BAD_REQUEST("HTTP 400 Bad Request: one Host header is needed"))
        if self._parser.should_upgrade() and upgrade != b"h2c":
            connect = self._parser.get_method() == b"CONNECT"
            self._stop(METHOD_NOT_ALLOWED() if connect else BAD_REQUEST(NO_UPGRADE))
        if self._parser.should_upgrade():
            self._declined = self._without_offer()
            return
        if codings:
            fault = coding_fault(codings, version)
            if fault is not None:
                self._stop(fault)
            length = b""
        if length is not None:
            self._expect_body(length, expected == b"100-continue")

    def _without_offer(self) -> bytes:
        kept = [each for each in self._headers if each[0] not in _OFFER]
        line = b"%s %s HTTP/1.1\r\n" % (self._parser.get_method(), self._target)
        return b"%s%s\r\n" % (line, lines(kept))

    def _expect_body(self, length: bytes, asked: bool) -> None:
        limits = self._limits
        if length.isdigit() and int(length) > limits.body_bytes_max:
            self._stop(BODY_TOO_LARGE(int(length), limits.body_bytes_max))
        self._reading_body = True
        self._framing_bytes = self._body_mark = 0
        if self._serving is None:
            self.deadline = self._server.now + limits.body_timeout_s
            if asked and not self._waiting:
                self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body
        self._body_bytes += len(body)
        self._server.bodies_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes_max:
            self._stop(BODY_TOO_LARGE(self._body_bytes, self._limits.body_bytes_max))
        if self._server.bodies_bytes > self._limits.bodies_bytes_max:
            self._stop(UNAVAILABLE("Too many large requests at once"))

    def on_message_complete(self) -> None:
        """A whole request: to the queue."""
        if self._declined:
            return
        self._reading_body = False
        parser = self._parser
        target = self._target
        if not target.startswith(b"/"):
            target = relative(target)
        request = Request(
            parser.get_method(), target, self._headers, bytes(self._body),
            parser.get_http_version(), parser.should_keep_alive(),
        )  # fmt: skip
        if self._body:
            self._drop_body()
        self._waiting.append(request)
        if not request.keep_alive:
            self._deaf = True

    def _drop_body(self) -> None:
        self._server.bodies_bytes -= self._body_bytes
        self._body, self._body_bytes = b"", 0

    def _stop(self, fault: RegistryError) -> None:
        self._fault = fault
        raise _Stop

    # --- serving

    def _serve_next(self) -> None:
        """Serve what waits until something takes longer, or nobody reads the answers."""
        while self._waiting and self._serving is None and self._writable is None and not self.closed:
            request = self._waiting.popleft()
            if isinstance(request, RegistryError):
                self._refuse(request)
                return
            began = time.perf_counter()
            answer = self._server.quick(request)
            if isinstance(answer, Answer):
                self._send_quick(request, answer, began)
                continue
            self.deadline = math.inf
            if answer is None:
                self._exchange(request, began)
            else:
                self._serving = answer
                answer(partial(self._answered, request, began))
            break
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Read no more while something waits; go on with what was sent ahead after others' turn."""
        if self.closed:
            return
        if self._unparsed and not self._waiting and not self._parsing_soon:
            self._parsing_soon = True
            self._server.loop.call_soon(self._take_rest)
        wait = bool(self._waiting or self._unparsed)
        if wait != self._paused:
            self._paused = wait
            if wait:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _exchange(self, request: Request, began: float) -> None:
        exchange = Exchange(self._server, self, request, began)
        self._serving = self._server.loop.create_task(exchange.run())

    def _answered(self, request: Request, began: float, answer: Answer | None) -> None:
        """What had to be waited for has come."""
        if answer is None:
            self._exchange(request, began)
            return
        self._serving = None
        if not self.closed:
            self._send_quick(request, answer, began)
            self._serve_next()

    def _send_quick(self, request: Request, answer: Answer, began: float) -> None:
        last = self.is_last(request)
        head = b"%s%s%s%scontent-length: %d\r\n\r\n" % (
            status_line(answer.status), answer.headers, self._server.date_line,
            self.persistence(request, last), len(answer.body),
        )  # fmt: skip
        self._transport.write(head + answer.body)
        seconds = time.perf_counter() - began
        self._server.observe(request, answer.status, seconds, len(answer.body), answer.route)
        self._after(last)

    def is_last(self, request: Request) -> bool:
        """Whether the connection ends with the answer to ``request``."""
        ahead = self._waiting or self._unparsed
        return not request.keep_alive or (not ahead and (self._deaf or self._server.stopping))

    @staticmethod
    def persistence(request: Request, last: bool) -> bytes:
        """The ``Connection`` header where it has to be said."""
        if last:
            return b"connection: close\r\n"
        return b"connection: keep-alive\r\n" if request.version == "1.0" else b""

    def served(self, last: bool) -> None:
        """The application has answered; go on, or close after the ``last`` answer."""
        self._serving = None
        self._after(last)
        self._serve_next()

    def _after(self, last: bool) -> None:
        if last:
            self._deaf = True
            self._waiting.clear()
            self._unparsed = None
            self._transport.close()
        self._set_deadline()

    def _set_deadline(self) -> None:
        limits, now = self._limits, self._server.now
        if self._writable is not None:
            self.deadline = now + limits.body_timeout_s
        elif self._serving is not None:
            self.deadline = math.inf
        elif self._reading_body:
            self.deadline = now + limits.body_timeout_s
        elif self._reading_head:
            self.deadline = now + limits.header_timeout_s
        else:
            self.deadline = now + limits.idle_timeout_s

    # --- writing for an exchange

    def write(self, data: bytes | memoryview) -> None:
        """Send; what the client does not read is kept, and :meth:`drained` waits."""
        self._transport.write(data)

    async def drained(self) -> None:
        """Wait until the client has read enough; at once when it is gone."""
        if self._writable is not None and not self.closed:
            await self._writable

    def keep(self, size: int) -> None:
        """Count ``size`` bytes of an answer that is being sent, until told otherwise, as unread."""
        self._held_bytes = size
        if self.closed:
            return
        if size or self._writable is not None:
            self._server.unread.hold(self)
        else:
            self._server.unread.release(self)

    def abort(self) -> None:
        """Break the connection: an answer cannot be completed, or the client used up its time."""
        self._transport.abort()

    def unread_bytes(self) -> int:
        """What this process keeps for a client that is behind: of its answer, and of what it sent ahead."""
        ahead = 0 if self._unparsed is None else len(self._unparsed)
        return self._transport.get_write_buffer_size() + self._held_bytes + ahead

    def outstanding(self) -> int:
        """What was written and the client's host has not acknowledged."""
        return outstanding(self._transport)

    # --- refusing and closing

    def _refuse_rest(self, error: RegistryError) -> None:
        """Answer what came before, then ``error``, then read no more."""
        if self._deaf and not self._fault:
            return
        self._deaf, self._fault = True, None
        self._unparsed = None
        self._reading_head = self._reading_body = False
        self._drop_body()
        self._waiting.append(error)
        if self._serving is None:
            self._serve_next()

    def _refuse(self, error: RegistryError) -> None:
        answer = refusal(error, self._server.standing(self._headers))
        head = b"%s%s%sconnection: close\r\ncontent-length: %d\r\n\r\n" % (
            status_line(answer.status), answer.headers, self._server.date_line, len(answer.body),
        )  # fmt: skip
        self._transport.write(head + answer.body)
        self._server.observe(None, answer.status, 0.0, len(answer.body), "")
        # Closing now would reset the connection under a client that still sends, and lose the refusal.
        self._lingering = True
        self.deadline = self._server.now + self._limits.linger_timeout_s
        self._pause_or_resume()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def overdue(self) -> None:
        """The deadline has passed: the client gets more time if it has used this one, else its end."""
        if self._has_progressed():
            self.deadline = self._server.now + self._limits.body_timeout_s
        elif self._lingering or self._writable is not None or self._deaf:
            self.abort()
        elif self._reading_body:
            self._refuse_rest(BODY_TIMEOUT())
        elif self._reading_head:
            self._refuse_rest(HEADER_TIMEOUT())
        else:
            self._transport.close()

    def _has_progressed(self) -> bool:
        """Whether the client has read or sent at the least rate since the deadline was set."""
        least = self._limits.rate_bytes_min * self._limits.body_timeout_s
        if self._writable is not None and not self._lingering:
            before, self._unread_mark = self._unread_mark, self.outstanding()
            return before - self._unread_mark >= least
        if self._reading_body:
            before, self._body_mark = self._body_mark, self._body_bytes
            return self._body_mark - before >= least
        return False

    def stop(self) -> None:
        """Close if nothing is under way; else the last answer closes it."""
        reading = self._reading_head or self._reading_body
        if not (self._serving or self._waiting or self._unparsed or reading or self._lingering):
            self._transport.close()
