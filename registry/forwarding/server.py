"""The peer endpoint: a node's HTTP server for other nodes, by hypercorn on the node's event loop.

It serves HTTP/2 with prior knowledge and streams (:mod:`.stream`), over TLS if certificates are set. It
decides commands only while its node is primary and never forwards them, so no command can travel in circles.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, cast

import msgspec

from registry.domain.errors import RegistryError
from registry.host.tracing.contract import NO_TRACING, Tracing

from .authentication import Header, RefusedHosts, Signing, Signings, clock_ms
from .http2_server import (
    AUTHENTICATE_WITHIN_S,
    Http2Server,
    LimitedListener,
    Tls,
    UnauthenticatedConnection,
    UnauthenticatedConnections,
    read_body,
    wait_for_disconnect,
)
from .node_port import (
    COMMANDS,
    IDENTITY,
    OF_PEERS,
    PREFACE,
    REPORTS,
    WATCH,
    Answers,
    BatchDecider,
    NodePort,
    PeerStatus,
    encode,
)
from .reports import REPORTED_BYTES_MAX, Reports
from .stream import GREETING_BYTES_MAX, StreamCall

CONNECTIONS_MAX = 1000
QUESTION_BYTES_MAX = 4 << 20
_BACKLOG = 100


class PeerServer:
    """Serves peers until it is stopped.

    ``body_bytes_max`` limits one batch; ``answers`` has what answers further questions, by their paths.
    """

    def __init__(
        self,
        node_port: NodePort,
        signings: Signings,
        tls: Tls | None,
        reports: Reports,
        refused: RefusedHosts,
        *,
        node: str,
        url: str,
        body_bytes_max: int,
        access_log: bool = False,
        tracing: Tracing = NO_TRACING,
        answers: Answers | None = None,
    ) -> None:
        self._reports = reports
        self._answers = answers or {}
        self._node_port = node_port
        self._signings = signings
        self._refused = refused
        self._tls = tls
        self._node = node
        self._url = url
        self._body_bytes_max = body_bytes_max
        self._decider = BatchDecider(node_port, logging.INFO if access_log else logging.DEBUG, tracing)
        self._http2 = Http2Server()
        self._unauthenticated = UnauthenticatedConnections()
        self._accepting = LimitedListener(self._accept, connections_max=CONNECTIONS_MAX)
        # Number of nodes that watch this one's role.
        self.watchers = 0
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
        await self._http2.end()
        await self._accepting.end(grace_s)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self._unauthenticated.add(writer.transport.abort)
        try:
            begun = await _first_bytes(reader)
            if begun.startswith(PREFACE):
                await self._stream(connection, writer.transport, begun[len(PREFACE) :])
            else:
                await self._http2.serve(partial(self._serve, connection), begun, reader, writer)
        finally:
            connection.release()

    async def _stream(
        self, connection: UnauthenticatedConnection, transport: asyncio.WriteTransport, begun: bytes
    ) -> None:
        call = StreamCall(
            self._signings,
            self._decider.decide,
            bytes_max=self._body_bytes_max,
            known=connection.release,
            refused=partial(self._refused.add, _host(transport)),
        )
        self._calls.add(call)
        try:
            call.take(cast("asyncio.Transport", transport), begun)
            await call.closed
        finally:
            self._calls.discard(call)

    def end_refused_streams(self) -> None:
        """End the streams that began with a secret that is no longer accepted; their nodes connect again."""
        for call in tuple(self._calls):
            if call.signing is not None and call.signing not in self._signings.current:
                call.end()

    # --- one request

    async def _serve(
        self, connection: UnauthenticatedConnection, scope: Any, receive: Any, send: Any
    ) -> None:
        if scope["type"] != "http":
            return
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        signing = self._signings.accepting(method, path, headers, any_time=path == IDENTITY)
        if signing is None:
            if path.startswith(OF_PEERS):  # rather than what a scanner of ports asks for
                self._refused.add(scope["client"][0])
            await _answer(send, self._signings.current[0], headers, 401)
            return
        answer = partial(_answer, send, signing, headers)
        if path != IDENTITY:
            # An identity request has no time, so it may be a replay: it proves nothing.
            connection.release()
        if (method, path) == ("GET", IDENTITY):
            await answer(200, encode(self._status()))
        elif (method, path) == ("GET", WATCH):
            await self._send_standings(receive, send)
        elif (method, path) == ("POST", COMMANDS):
            body = await read_body(receive, self._body_bytes_max)
            if body is None:
                await answer(413)
            elif not signing.holds(headers, body):
                await answer(401)
            else:
                outcomes = await self._decider.outcomes(body)
                await answer(200 if outcomes else 400, outcomes)
        elif (method, path) == ("POST", REPORTS):
            body = await read_body(receive, REPORTED_BYTES_MAX)
            if body is None:
                await answer(413)
            elif not signing.holds(headers, body):
                await answer(401)
            else:
                await self._exchange_reports(body, answer)
        elif method == "POST" and (found := self._answers.get(path)) is not None:
            body = await read_body(receive, QUESTION_BYTES_MAX)
            if body is None:
                await answer(413)
            elif not signing.holds(headers, body):
                await answer(401)
            else:
                await _answer_question(found, body, answer)
        else:
            await answer(404)

    async def _exchange_reports(self, body: bytes, answer: Callable[..., Awaitable[None]]) -> None:
        try:
            self._reports.take(body)
        except msgspec.DecodeError:
            await answer(400)
        else:
            await answer(200, self._reports.pack())

    def _status(self) -> PeerStatus:
        port = self._node_port
        return PeerStatus(self._node, self._url, port.role, clock_ms(), port.repeats, conditions=True)

    # --- watching

    def _role_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _send_standings(self, receive: Any, send: Any) -> None:
        """Send the node's role at first and after each change, until either side ends it."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        left = asyncio.get_running_loop().create_task(wait_for_disconnect(receive))
        self.watchers += 1
        try:
            while not (left.done() or self._stopped):
                changed = asyncio.get_running_loop().create_task(self._changed.wait())
                status = encode(self._status())
                await send(
                    {
                        "type": "http.response.body",
                        "body": len(status).to_bytes(4, "big") + status,
                        "more_body": True,
                    }
                )
                await asyncio.wait((left, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.watchers -= 1
            left.cancel()


async def _answer_question(
    found: Callable[[bytes], Awaitable[bytes]], body: bytes, answer: Callable[..., Awaitable[None]]
) -> None:
    try:
        await answer(200, await found(body))
    except msgspec.DecodeError:
        await answer(400)
    except RegistryError as error:
        await answer(error.status)


async def _answer(
    send: Any, signing: Signing, request: Iterable[Header], status: int, body: bytes = b""
) -> None:
    headers = [(b"content-length", b"%d" % len(body)), *signing.answer(request, status, body)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _host(transport: asyncio.BaseTransport) -> str:
    address = transport.get_extra_info("peername")
    return str(address[0]) if address else "a host that has left"


async def _first_bytes(reader: asyncio.StreamReader) -> bytes:
    """Return the first bytes of a connection: enough to distinguish a stream from HTTP/2."""
    begun = b""
    while len(begun) < len(PREFACE) and PREFACE.startswith(begun):
        more = await reader.read(GREETING_BYTES_MAX)
        if not more:
            break
        begun += more
    return begun
