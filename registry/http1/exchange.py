"""One request through the ASGI application.

The application may stream an answer's body: it sends ``http.response.body`` with ``more_body`` as often as it
likes, and each ``send`` returns once the client has read enough of what was sent before. So about one slice
(``LARGE_ANSWER_BYTES``) of an answer waits in the transport. A body that is given at once is cut into slices
and waits in the same way. Without a ``content-length`` a streamed body is chunked for HTTP/1.1, and ends with
the connection for HTTP/1.0. Other connections have their turn after every slice.

When the client has gone, ``send`` raises :class:`ClientGone` (an ``OSError``, as ASGI 2.4 demands). It ends a
producer at its next slice, or at once if the producer was waiting for the client to read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from registry.domain.errors import RegistryError

from .answers import (
    LARGE_ANSWER_BYTES,
    Answer,
    lines,
    persistence,
    printed_head,
    refusal,
    status_line,
)
from .request import Header, Request

if TYPE_CHECKING:
    from .connection import Connection
    from .server import Server

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_BODILESS = {204, 304}
_log = logging.getLogger(__name__)


class ClientGone(ConnectionResetError):
    """The client has closed its connection; nobody will read the rest of the answer."""


class Exchange:
    """Runs the application for one request and writes its answer."""

    def __init__(self, server: Server, connection: Connection, request: Request, began: float) -> None:
        self._server = server
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
        self._silent = False
        self._last = not request.keep_alive
        self._bytes = 0

    async def run(self) -> None:
        """Serve, and tell the connection.

        A failing application is a 500, or a broken connection if it had begun to answer.
        """
        scope = self._scope()
        try:
            await self._server.app(scope, self._receive, self._send)
        except ClientGone:
            pass
        except Exception:
            _log.exception("unexpected error in %s %s", self._request.method.decode(), scope["path"])
        if not (self._done or self._output.closed):
            await self._fail()
        seconds, route = time.perf_counter() - self._began, self._server.route_of(scope)
        self._server.observe(self._request, self._status, seconds, self._bytes, route)
        self._connection.served(self._last)

    async def give(self, answer: Answer) -> None:
        """Send a large answer that is ready, and tell the connection."""
        server, connection, request = self._server, self._connection, self._request
        last = connection.is_last(request)
        head = printed_head(answer, server.date_line, persistence(request, last))
        with suppress(ClientGone):
            await self._stream(head, answer.body)
        seconds = time.perf_counter() - self._began
        server.observe(request, answer.status, seconds, len(answer.body), answer.route)
        connection.served(last)

    def _scope(self) -> dict[str, Any]:
        request = self._request
        path = unquote_to_bytes(request.path) if b"%" in request.path else request.path
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.version,
            "method": request.method.decode("ascii"),
            "scheme": "http",
            "path": path.decode(errors="replace"),
            "raw_path": request.path,
            "query_string": request.query,
            "root_path": "",
            "headers": request.headers,
            "client": self._connection.client,
            "server": self._server.address,
        }

    async def _receive(self) -> Message:
        if not self._body_given:
            self._body_given = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        connection = self._connection
        if not connection.closed:
            connection.gone = connection.gone or self._server.loop.create_future()
            # The next request of this connection waits for the same: to cancel one wait ends no other.
            await asyncio.shield(connection.gone)
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message.get("headers", ()))
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        self._bytes += len(body)
        out = b"" if self._head_sent else self._head(len(body), more)
        if not more:
            self._server.large_answers.note(self._request.target, len(body))
        if not (more or self._chunked or len(body) > LARGE_ANSWER_BYTES):
            self._write(out if self._silent else out + body)
        else:
            await self._stream(out, b"" if self._silent else body)
            if self._chunked and not more:
                self._write(b"0\r\n\r\n")
        self._done = not more
        await self._output.drained()

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
            # Clients that read fast would have the event loop to themselves otherwise.
            await self._server.turns.wait(len(piece))
            await self._output.drained()
        self._output.keep(0)

    def _write(self, data: bytes | memoryview) -> None:
        if self._output.closed:
            raise ClientGone
        self._output.write(data)

    def _head(self, length: int, more: bool) -> bytes:
        request = self._request
        self._head_sent = True
        self._silent = request.method == b"HEAD" or self._status in _BODILESS
        headers = [each for each in self._headers if each[0] not in (b"connection", b"transfer-encoding")]
        if all(name != b"content-length" for name, _ in headers) and self._status not in _BODILESS:
            if not more:
                headers.append((b"content-length", b"%d" % length))
            elif request.version == "1.1":
                self._chunked = not self._silent
                headers.append((b"transfer-encoding", b"chunked"))
            else:
                self._last = True
        self._last = self._last or self._connection.is_last(request)
        return b"%s%s%s%s\r\n" % (
            status_line(self._status), lines(headers), self._server.date_line,
            persistence(request, self._last),
        )  # fmt: skip

    async def _fail(self) -> None:
        if self._head_sent:
            self._last = True
            self._output.abort()
            return
        answer = refusal(RegistryError(500, "Internal Server Error"))
        kind = (b"content-type", answer.headers.partition(b": ")[2].strip())
        headers = [kind, *self._server.standing(self._request.headers)]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": answer.body})


def _slices(body: bytes) -> Iterator[memoryview]:
    whole = memoryview(body)
    for start in range(0, len(whole), LARGE_ANSWER_BYTES):
        yield whole[start : start + LARGE_ANSWER_BYTES]
