"""The peer endpoint: a node's HTTP server for other nodes, by hypercorn on the node's event loop.

It serves HTTP/2 with prior knowledge and streams (:mod:`.stream`), over TLS if certificates are set. It
decides commands only while its node is primary and never forwards them, so no command can travel in circles.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import msgspec
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated

from registry.domain.commands import NotPrimary, Outcome, Unknown
from registry.domain.errors import outcome_unknown
from registry.domain.pending_command import CommandRequest, PendingCommand

from .connection_limiter import Accepting
from .frames import PREFACE
from .messages import (
    COMMANDS,
    FEATURES,
    IDENTITY,
    WATCH,
    Batch,
    Outcomes,
    Standing,
    decode_batch,
    encode,
)
from .node_port import NodePort
from .signing import Header, Signing, clock_ms
from .stream import GREETING_BYTES_MAX
from .stream_calls import StreamCall
from .unauthenticated import AUTHENTICATE_WITHIN_S, UnauthenticatedConnection, UnauthenticatedConnections

CONNECTIONS_MAX = 1000
_BACKLOG = 100
_HEADER_BYTES_MAX = 16 * 1024
_IDLE_S = 60.0
_LATE = outcome_unknown("The log did not answer in time")
_log = logging.getLogger(__name__)


class PeerServer:
    """Serves peers until it is stopped. ``body_bytes_max`` limits one batch."""

    def __init__(
        self,
        node_port: NodePort,
        signing: Signing,
        tls: ssl.SSLContext | None,
        *,
        node: str,
        url: str,
        body_bytes_max: int,
        access_log: bool = False,
    ) -> None:
        self._node_port = node_port
        self._signing = signing
        self._tls = tls
        self._node = node
        self._url = url
        self._body_bytes_max = body_bytes_max
        self._level = logging.INFO if access_log else logging.DEBUG
        self._context = WorkerContext(None)
        self._config = _configured()
        self._unauthenticated = UnauthenticatedConnections()
        self._accepting = Accepting(self._connected, connections_max=CONNECTIONS_MAX)
        self._calls: set[StreamCall] = set()
        self._changed = asyncio.Event()
        self._stopped = False
        node_port.when_role_changes(self._role_changed)

    async def start(self, listener: socket.socket) -> None:
        """Serve connections on ``listener``, a bound socket."""
        await self._accepting.start(
            listener, backlog=_BACKLOG, tls=self._tls, handshake_s=AUTHENTICATE_WITHIN_S
        )

    async def stop(self, grace_s: float) -> None:
        """Accept no more connections, give requests in flight ``grace_s`` to finish, then drop the rest."""
        self._stopped = True
        self._accepting.refuse()
        self._role_changed()
        for call in tuple(self._calls):
            call.end()
        await self._context.terminated.set()
        await self._accepting.end(grace_s)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self._unauthenticated.opened(writer.transport.abort)
        try:
            begun = await _begun(reader)
            if begun.startswith(PREFACE):
                await self._stream(connection, writer.transport, begun[len(PREFACE) :])
            else:
                await self._http(connection, _Begun(begun, reader), writer)
        finally:
            connection.authenticated()

    async def _http(
        self, connection: UnauthenticatedConnection, reader: _Begun, writer: asyncio.StreamWriter
    ) -> None:
        serve = ASGIWrapper(cast("Any", partial(self._serve, connection)))
        loop = asyncio.get_running_loop()
        await _Connection(serve, loop, self._config, self._context, {}, cast("Any", reader), writer)

    async def _stream(
        self, connection: UnauthenticatedConnection, transport: asyncio.WriteTransport, begun: bytes
    ) -> None:
        call = StreamCall(
            self._signing, self._commands, bytes_max=self._body_bytes_max, known=connection.authenticated
        )
        self._calls.add(call)
        try:
            call.take(cast("asyncio.Transport", transport), begun)
            await call.closed
        finally:
            self._calls.discard(call)

    # --- one request

    async def _serve(
        self, connection: UnauthenticatedConnection, scope: Any, receive: Any, send: Any
    ) -> None:
        if scope["type"] != "http":
            return
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        if not self._signing.accepts(method, path, headers, any_time=path == IDENTITY):
            await self._answer(send, headers, 401)
            return
        connection.authenticated()
        if (method, path) == ("GET", IDENTITY):
            await self._answer(send, headers, 200, encode(self._standing()))
        elif (method, path) == ("GET", WATCH):
            await self._send_standings(receive, send)
        elif (method, path) == ("POST", COMMANDS):
            body = await _read(receive, self._body_bytes_max)
            if body is None:
                await self._answer(send, headers, 413)
            elif not self._signing.holds(headers, body):
                await self._answer(send, headers, 401)
            else:
                outcomes = await self._outcomes(body)
                await self._answer(send, headers, 200 if outcomes else 400, outcomes)
        else:
            await self._answer(send, headers, 404)

    async def _answer(self, send: Any, request: Iterable[Header], status: int, body: bytes = b"") -> None:
        headers = [(b"content-length", b"%d" % len(body)), *self._signing.answer(request, status, body)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _standing(self) -> Standing:
        return Standing(
            self._node, self._url, self._node_port.role, clock_ms(), self._node_port.repeats, FEATURES
        )

    # --- watching

    def _role_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _send_standings(self, receive: Any, send: Any) -> None:
        """Send the node's role at first and after each change, until either side ends it."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.get_running_loop().create_task(_gone(receive))
        try:
            while not (gone.done() or self._stopped):
                changed = asyncio.get_running_loop().create_task(self._changed.wait())
                standing = encode(self._standing())
                await send(
                    {
                        "type": "http.response.body",
                        "body": len(standing).to_bytes(4, "big") + standing,
                        "more_body": True,
                    }
                )
                await asyncio.wait((gone, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    # --- deciding

    async def _outcomes(self, body: bytes) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._commands(body, answer.set_result)
        return await asyncio.shield(answer)

    def _commands(self, body: bytes, answered: Callable[[bytes], None]) -> None:
        """Decide a batch; ``answered`` is called once, with ``b""`` if it is malformed."""
        try:
            batch = decode_batch(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            _log.warning("a peer sent a malformed batch of commands: %s", error)
            answered(b"")
            return
        if self._node_port.role != "primary":
            answered(encode(Outcomes([NotPrimary()] * len(batch.requests))))
            return
        end = self._node_port.applied()
        self._decide(batch, lambda outcomes: answered(encode(Outcomes(outcomes, end))))

    def _decide(self, batch: Batch, answered: Callable[[list[Outcome]], None]) -> None:
        outcomes: list[Outcome | None] = [None] * len(batch.requests)
        left, ended = len(batch.requests), False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                timer.cancel()
                late = Unknown(_LATE, repeats=self._node_port.repeats)
                answered([late if outcome is None else outcome for outcome in outcomes])

        def decided(place: int, outcome: Outcome) -> None:
            nonlocal left
            outcomes[place] = outcome
            left -= 1
            if not left:
                end()

        longest_s = max((each.remaining_s for each in batch.requests), default=0.0)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(longest_s, end)
        for place, request in enumerate(batch.requests):
            self._log_request(batch.node, request)
            deadline = loop.time() + request.remaining_s
            self._node_port.submit(
                PendingCommand(request, deadline, partial(decided, place), deferrable=batch.deferrable)
            )
        if not batch.requests:
            end()

    def _log_request(self, node: str, request: CommandRequest) -> None:
        if _log.isEnabledFor(self._level):
            name = type(request.command).__name__
            _log.log(self._level, "%s forwarded by node %s, request %s", name, node, request.request_id)


class _Connection(TCPServer):
    """Hypercorn's connection, without an idle timer for a client that has disconnected."""

    _ended = False

    async def protocol_send(self, event: Event) -> None:
        """Send data, or handle that the connection is idle."""
        if not (self._ended and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _read_data(self) -> None:
        try:
            await super()._read_data()
        finally:
            self._ended = True
            await self.idle_task.stop()


class _Begun:
    """A stream reader for hypercorn that returns bytes that were read before, then the rest."""

    def __init__(self, begun: bytes, reader: asyncio.StreamReader) -> None:
        self._begun = begun
        self._reader = reader

    def at_eof(self) -> bool:
        """Return True at the end of the stream."""
        return not self._begun and self._reader.at_eof()

    async def read(self, count: int) -> bytes:
        """Return the next bytes."""
        begun, self._begun = self._begun, b""
        return begun or await self._reader.read(count)


async def _begun(reader: asyncio.StreamReader) -> bytes:
    """Return the first bytes of a connection: enough to tell a stream from HTTP/2."""
    begun = b""
    while len(begun) < len(PREFACE) and PREFACE.startswith(begun):
        more = await reader.read(GREETING_BYTES_MAX)
        if not more:
            break
        begun += more
    return begun


async def _read(receive: Any, limit: int) -> bytes | None:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _configured() -> Config:
    config = Config()
    config.errorlog = logging.getLogger("registry.hypercorn")
    config.include_server_header = config.include_date_header = False
    config.h11_max_incomplete_size = config.h2_max_header_list_size = _HEADER_BYTES_MAX
    config.h2_max_inbound_frame_size = 2**20
    config.keep_alive_timeout = _IDLE_S
    config.keep_alive_max_requests = sys.maxsize
    return config
