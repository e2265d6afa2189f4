"""The client of one other node: a connection that verifies the node's identity and signs requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import msgspec

from election.contract import Identity
from registry.base.processes.tls_connections import ConnectionCertificate, Verifier, certificate_of

from .authentication import ANY_TIME, Signing, Signings, clock_ms
from .http2_connection import Connection, connect
from .node_port import COMMANDS, IDENTITY, WATCH, PeerStatus, decode_status
from .stream import Stream, open_stream

_OK, _STRANGER = 200, 401
# Statuses of answers to requests that certainly had no effect.
_UNREAD = (400, _STRANGER, 404, 413)
# The timeout of connecting, and of the first answer.
CONNECT_S = 2.0


class NotAPeer(ConnectionError):
    """The answering node is not the expected one, or does not know the secret."""


class Doubtful(NotAPeer):
    """The answer is not trustworthy, but the expected node may have received the request."""


class Peer:
    """A connection to a node, from :meth:`meet`."""

    def __init__(self, connection: Connection, signing: Signing, status: PeerStatus) -> None:
        self._connection = connection
        self._signing = signing
        self._stream: Stream | None = None
        self._ahead_ms = status.clock_ms - clock_ms()
        # The node's identity and role at the first request.
        self.status = status
        # Completes when the connection has ended.
        self.closed = connection.closed

    @classmethod
    async def meet(cls, identity: Identity, signings: Signings, tls: ssl.SSLContext | None) -> Self:
        """Connect to the peer endpoint of ``identity`` and verify its node id.

        Raises :class:`NotAPeer`, and :class:`OSError`: ``ConnectionRefusedError`` if the port is closed.
        """
        connection = await connect(identity.peer, CONNECT_S, tls)
        try:
            async with asyncio.timeout(CONNECT_S):
                signing, body = await _introduce(connection, signings.current)
            status = decode_status(body)
        except BaseException as error:
            connection.abort()
            if isinstance(error, msgspec.DecodeError):
                raise NotAPeer(f"{identity.peer} is no peer endpoint") from None
            raise
        if identity.node and status.node != identity.node:
            connection.abort()
            raise NotAPeer(f"{identity.peer} is node {status.node}, not {identity.name}")
        return cls(connection, signing, status)

    async def open_stream(self, address: str, tls: ssl.SSLContext | None) -> None:
        """Use a stream for small batches. Raises :class:`OSError`.

        The stream and the connection close together.
        """
        moment = clock_ms() + self._ahead_ms
        self._stream = stream = await open_stream(address, self._signing, moment, CONNECT_S, tls)
        stream.closed.add_done_callback(lambda _: self._connection.abort())
        self.closed.add_done_callback(lambda _: stream.abort())

    async def commands(self, batch: bytes, on_sent: Callable[[], None], *, large: bool = False) -> bytes:
        """Send a batch of commands and return their outcomes. Raises as :meth:`ask`.

        ``on_sent`` is called when the node may have all of it. ``large``: send it as a separate request, so
        that smaller batches do not wait behind it.
        """
        if self._stream is None or large:
            return await self.ask(COMMANDS, batch, on_sent)
        on_sent()
        outcomes = await self._stream.ask(batch)
        if not outcomes:
            raise NotAPeer("the node does not accept batches of commands")
        return outcomes

    async def ask(self, path: str, body: bytes, on_sent: Callable[[], None] = lambda: None) -> bytes:
        """POST ``body`` and return the response's body. Raises ``NotSent``, ``Broken``, :class:`Doubtful`.

        Raises :class:`NotAPeer` if the node certainly did nothing.
        """
        moment = clock_ms() + self._ahead_ms
        return await _ask(self._connection, self._signing, "POST", path, body, moment, on_sent)

    async def watch(self) -> None:
        """Receive changes of the node's role until the connection or the node ends it."""
        headers, _ = self._signing.request("GET", WATCH, b"", clock_ms() + self._ahead_ms)
        await self._connection.request("GET", WATCH, headers, on_data=_ignore)

    def alive(self) -> bool:
        """Send a ping; return False if the last one was not answered or the connection is closed."""
        return self._connection.ping() and (self._stream is None or self._stream.ping())

    def certificates(self, verifier: Verifier) -> list[ConnectionCertificate]:
        """Return the certificates that the node has shown; only for connections by TLS."""
        links = (self._connection,) if self._stream is None else (self._connection, self._stream)
        found = (certificate_of(each.transport, verifier) for each in links)
        return [each for each in found if each is not None]

    def abort(self) -> None:
        """Abort the connection."""
        self._connection.abort()
        if self._stream is not None:
            self._stream.abort()


async def _introduce(connection: Connection, signings: tuple[Signing, ...]) -> tuple[Signing, bytes]:
    """Return the first signing that the other node accepts, and its identity. Raises :class:`NotAPeer`."""
    *preferred, last = signings
    for signing in preferred:
        with suppress(NotAPeer):
            return signing, await _ask(connection, signing, "GET", IDENTITY, b"", ANY_TIME)
    return last, await _ask(connection, last, "GET", IDENTITY, b"", ANY_TIME)


_ignore: Callable[[bytes], None] = lambda _: None  # noqa: E731


async def _ask(
    connection: Connection,
    signing: Signing,
    method: str,
    path: str,
    body: bytes,
    time_ms: int,
    on_sent: Callable[[], None] = lambda: None,
) -> bytes:
    headers, nonce = signing.request(method, path, body, time_ms)
    answer = await connection.request(method, path, headers, body, on_sent=on_sent)
    reason = "it does not accept this node as a peer: the secrets differ"
    if not signing.answers(nonce, answer.status, answer.headers, answer.body):
        # A refusal too: if it was not signed, the request may have been carried out.
        unknown = "the answering node does not know the peers' secret"
        raise Doubtful(reason if answer.status == _STRANGER else unknown)
    if answer.status == _STRANGER:
        raise NotAPeer(reason)
    if answer.status != _OK:
        kind = NotAPeer if answer.status in _UNREAD else Doubtful
        raise kind(f"the node answered with status {answer.status}")
    return answer.body


async def unreachable(identity: Identity, signings: Signings, tls: ssl.SSLContext | None) -> str:
    """Return why the node cannot be reached at its advertised peer endpoint; empty if it can.

    Nodes without a peer endpoint are not probed. Runs on the caller's event loop.
    """
    if not identity.peer:
        return ""
    try:
        peer = await Peer.meet(identity, signings, tls)
    except TimeoutError:
        return f"{identity.name} does not answer at its peer endpoint {identity.peer}"
    except NotAPeer as error:
        return f"{identity.name} cannot be reached at its peer endpoint: {error}"
    except OSError as error:
        return f"{identity.name} cannot be reached at its peer endpoint {identity.peer}: {error}"
    peer.abort()
    return ""
