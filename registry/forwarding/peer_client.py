"""The client of one other node, and the connection to the primary: made again when it breaks, and checked."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import msgspec

from election.contract import Identity
from registry.base.processes.tls_connections import ConnectionCertificate, Verifier, certificate_of

from .authentication import ANY_TIME, Signing, Signings, clock_ms
from .http2_connection import Connection, connect
from .node_port import COMMANDS, IDENTITY, WATCH, PeerStatus, decode_status
from .stream import Stream, open_stream

if TYPE_CHECKING:
    from registry.security.tls.contexts import PeerTls


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
    """A connection to a node, from :meth:`open`."""

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
    async def open(cls, identity: Identity, signings: Signings, tls: ssl.SSLContext | None) -> Self:
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
                raise NotAPeer(f"{identity.peer} is not a peer endpoint") from None
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
        answer = self._stream.ask(batch)
        on_sent()
        outcomes = await answer
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
        peer = await Peer.open(identity, signings, tls)
    except TimeoutError:
        return f"{identity.name} does not answer at its peer endpoint {identity.peer}"
    except NotAPeer as error:
        return f"{identity.name} cannot be reached at its peer endpoint: {error}"
    except OSError as error:
        return f"{identity.name} cannot be reached at its peer endpoint {identity.peer}: {error}"
    peer.abort()
    return ""


# Between checks. A connection that has not answered a ping when the next is due is closed.
LIFE_EVERY_S = 3.0
_RETRY_S = (0.02, 0.05, 0.1, 0.25, 0.5)
_log = logging.getLogger(__name__)


class PrimaryConnection:
    """Connected to the primary ``identity`` from :meth:`start` to :meth:`close`.

    ``connected`` is called with each new connection. ``refused`` is called when the connection broke and a
    new one was refused, so the port is closed, and again until it returns True.
    """

    def __init__(
        self,
        identity: Identity,
        signings: Signings,
        tls: PeerTls | None,
        *,
        connected: Callable[[], None],
        refused: Callable[[Identity], Awaitable[bool]],
    ) -> None:
        self.identity = identity
        self._signings = signings
        self._tls = tls
        self._connected = connected
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._keeper: asyncio.Task[None] | None = None
        # The primary while it is connected.
        self.peer: Peer | None = None
        # Why there is no connection; empty while there is one.
        self.last_error = ""

    def start(self) -> None:
        """Connect, and reconnect until :meth:`close`."""
        self._keeper = self._loop.create_task(self._keep())

    def close(self) -> None:
        """Close the connection; no other one is made."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self.peer is not None:
            self.peer.abort()

    async def _keep(self) -> None:
        tries, lost = 0, False
        while True:
            try:
                peer = await self._connect()
            except ConnectionRefusedError as error:
                self._note_failure(str(error))
                lost = lost and not await self._is_replaced()
            except OSError as error:
                self._note_failure(str(error) or "it does not answer")
            else:
                tries, lost = 0, True
                await self._use(peer)
                continue
            await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1

    async def _connect(self) -> Peer:
        tls = None if self._tls is None else self._tls.client
        peer = await Peer.open(self.identity, self._signings, tls)
        try:
            await peer.open_stream(self.identity.peer, tls)
        except BaseException:
            peer.abort()
            raise
        return peer

    async def _is_replaced(self) -> bool:
        """Report that the primary's port is closed; return True if it was evicted."""
        try:
            return await self._refused(self.identity)
        except Exception as error:
            _log.warning("evicting the primary at %s: %r", self.identity.peer, error)
            return False

    def _note_failure(self, reason: str) -> None:
        error = f"cannot reach the primary at {self.identity.peer}: {reason}"
        if error != self.last_error:
            _log.warning("%s", error)
        self.last_error = error

    async def _use(self, peer: Peer) -> None:
        self.peer, self.last_error = peer, ""
        certificates = [] if self._tls is None else peer.certificates(self._tls)
        watch = self._loop.create_task(_watch(peer))
        try:
            self._connected()
            while not peer.closed.done() and not (fault := _fault(peer, certificates)):
                await asyncio.wait((peer.closed,), timeout=LIFE_EVERY_S)
            if not peer.closed.done():
                _log.warning("the primary at %s %s", self.identity.peer, fault)
        finally:
            self.peer = None
            peer.abort()
            watch.cancel()


def _fault(peer: Peer, certificates: list[ConnectionCertificate]) -> str:
    """Return why the connection has to be made again, after sending a ping."""
    if not all(each.counts() for each in certificates):
        return "has shown a certificate that has expired or whose CA was removed"
    return "" if peer.alive() else "does not answer pings"


async def _watch(peer: Peer) -> None:
    try:
        await peer.watch()
    except ConnectionError:
        return
