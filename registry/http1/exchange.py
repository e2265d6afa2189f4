"""One request through the ASGI application.

The application may stream a response body: it sends ``http.response.body`` with ``more_body`` any number of
times, and each ``send`` returns once the client has read enough of the previous data. At any time about one
slice (``LARGE_ANSWER_BYTES``) of an answer is buffered in the transport. A body sent in one message is cut
into slices in the same way. Without a ``content-length``, a streamed body is chunked for HTTP/1.1 and ends
with the connection for HTTP/1.0. Other connections get their turn after every slice.

An answer can also be kept open without a task: after the start, the application sends ``http.response.hold``
with a function ``hold``, which gets the :class:`.output.HeldAnswer`, and returns. If the start of a streamed
answer has ``lasting``, it takes long by its nature, so only the time until it begins is observed, as of held
answers.

When the client has disconnected, ``send`` raises :class:`ClientGone` (an ``OSError``, as ASGI 2.4 requires):
at the next slice, or at once if the application was waiting for the client to read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from registry.base.observe.metrics import Served
from registry.domain.errors import RegistryError

from .messages import (
    LARGE_ANSWER_BYTES,
    Answer,
    Client,
    Header,
    Request,
    lines,
    observe_answer,
    persistence,
    printed_head,
    refusal,
    status_line,
)
from .output import HeldAnswer, Output
from .service import Endpoint, Message, Service

_BODILESS_STATUS = {204, 304}
_log = logging.getLogger(__name__)


class ClientGone(ConnectionResetError):
    """The client has disconnected; nobody will read the rest of the answer."""


class Link(Protocol):
    """The connection on which a request has come."""

    output: Output
    client: Client
    endpoint: Endpoint
    closed: bool
    gone: asyncio.Future[None] | None

    def is_last(self, request: Request) -> bool:
        """Return true if the connection closes after the answer to ``request``."""
        ...

    def continue_after(self, last: bool) -> None:
        """Continue after an exchange has answered; close if its answer was the ``last``."""
        ...

    def hold(self, held: HeldAnswer) -> None:
        """Keep an answer open until it is ended."""
        ...


class Exchange:
    """Runs the application for one request and writes its answer."""

    def __init__(self, service: Service, connection: Link, request: Request, began: float) -> None:
        self._service = service
        self._connection = connection
        self._output = connection.output
        self._request = request
        self._began = began
        self._body_given = False
        self._status = 0
        self._headers: list[Header] = []
        self._head_sent = False
        self._done = False
        self._chunked = False
        self._bodiless = False
        self._last = not request.keep_alive
        self._bytes = 0
        self._seconds: float | None = None
        self._held: HeldAnswer | None = None

    async def run(self) -> None:
        """Call the application, then notify the connection.

        If the application fails, send a 500, or abort the connection if its answer has begun.
        """
        scope = self._scope()
        try:
            await self._service.app(scope, self._receive, self._send)
        except ClientGone:
            pass
        except Exception:
            _log.exception("unexpected error in %s %s", self._request.method.decode(), scope["path"])
        if not (self._done or self._output.closed):
            self._held = None
            await self._fail()
        seconds = time.perf_counter() - self._began if self._seconds is None else self._seconds
        details = self._service.details_of(scope)
        host = self._connection.client.host
        self._service.observe(Served(self._request, host, self._status, seconds, self._bytes, *details))
        if self._held is None:
            self._connection.continue_after(self._last)

    async def send(self, answer: Answer) -> None:
        """Send a large answer that is ready, then notify the connection."""
        service, connection, request = self._service, self._connection, self._request
        last = connection.is_last(request)
        head = printed_head(answer, service.date_line, persistence(request, last))
        with suppress(ClientGone):
            await self._stream(head, answer.body)
        seconds = time.perf_counter() - self._began
        service.observe(observe_answer(request, connection.client.host, answer, seconds))
        connection.continue_after(last)

    def _scope(self) -> dict[str, Any]:
        request = self._request
        client, endpoint = self._connection.client, self._connection.endpoint
        path = unquote_to_bytes(request.path) if b"%" in request.path else request.path
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.version,
            "method": request.method.decode("ascii"),
            "scheme": endpoint.scheme,
            "path": path.decode(errors="replace"),
            "raw_path": request.path,
            "query_string": request.query,
            "root_path": "",
            "headers": request.headers,
            "client": (client.host, client.port) if client.host else None,
            "server": endpoint.address,
            "extensions": {"tls": {"principal": client.certificate}} if endpoint.tls else {},
        }

    async def _receive(self) -> Message:
        if not self._body_given:
            self._body_given = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        connection = self._connection
        if not connection.closed:
            connection.gone = connection.gone or self._service.loop.create_future()
            # Later requests of this connection wait for the same future: cancelling one must not end another.
            await asyncio.shield(connection.gone)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message.get("headers", ()))
            if message.get("lasting"):
                self._seconds = time.perf_counter() - self._began
            return
        if message["type"] == "http.response.hold":
            self._hold(message["hold"])
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        self._bytes += len(body)
        out = b"" if self._head_sent else self._head(len(body), more)
        if not more:
            self._service.large_answers.note(self._request.target, len(body))
        if not (more or self._chunked or len(body) > LARGE_ANSWER_BYTES):
            self._write(out if self._bodiless else out + body)
        else:
            await self._stream(out, b"" if self._bodiless else body)
            if self._chunked and not more:
                self._write(b"0\r\n\r\n")
        self._done = not more
        await self._output.drain()

    def _hold(self, hold: Callable[[HeldAnswer], None]) -> None:
        """Send the head of an answer, and leave the rest of it to ``hold``."""
        self._write(self._head(0, True))
        connection = self._connection
        self._held = HeldAnswer(
            self._output, chunked=self._chunked, ended=lambda: connection.continue_after(last=True)
        )
        self._done = True
        connection.hold(self._held)
        hold(self._held)

    async def _stream(self, head: bytes, body: bytes) -> None:
        """Write ``body`` in slices as fast as the client reads."""
        self._output.keep(len(body))
        if head:
            self._write(head)
        for piece in _slices(body):
            if self._chunked:
                self._write(b"".join((b"%x\r\n" % len(piece), piece, b"\r\n")))
            else:
                self._write(piece)
            # Otherwise a client that reads fast would keep the event loop to itself.
            await self._service.turns.wait(len(piece))
            await self._output.drain()
        self._output.keep(0)

    def _write(self, data: bytes | memoryview) -> None:
        if self._output.closed:
            raise ClientGone
        self._output.write(data)

    def _head(self, length: int, more: bool) -> bytes:
        request = self._request
        self._head_sent = True
        self._bodiless = request.method == b"HEAD" or self._status in _BODILESS_STATUS
        headers = [each for each in self._headers if each[0] not in (b"connection", b"transfer-encoding")]
        if all(name != b"content-length" for name, _ in headers) and self._status not in _BODILESS_STATUS:
            if not more:
                headers.append((b"content-length", b"%d" % length))
            elif request.version == "1.1":
                self._chunked = not self._bodiless
                headers.append((b"transfer-encoding", b"chunked"))
            else:
                self._last = True
        self._last = self._last or self._connection.is_last(request)
        return b"%s%s%s%s\r\n" % (
            status_line(self._status), lines(headers), self._service.date_line,
            persistence(request, self._last),
        )  # fmt: skip

    async def _fail(self) -> None:
        if self._head_sent:
            self._last = True
            self._output.abort()
            return
        answer = refusal(RegistryError(500, "Internal Server Error"))
        kind = (b"content-type", answer.headers.partition(b": ")[2].strip())
        headers = [kind, *self._service.common_headers(self._request.headers)]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": answer.body})


def _slices(body: bytes) -> Iterator[memoryview]:
    whole = memoryview(body)
    for start in range(0, len(whole), LARGE_ANSWER_BYTES):
        yield whole[start : start + LARGE_ANSWER_BYTES]
