"""TLS handshakes, and the certificates that clients of open connections have shown.

The servers of asyncio and uvloop neither count handshakes in progress nor let the context be replaced.

One counts until it expires or its authority is removed: TLS verifies a certificate only in the handshake, and
not even there when a client resumes a session.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

# Out of file descriptors or memory: accepting again at once would fail again.
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_S = 1.0
# Accepted in one turn, so that a burst of connections does not keep the event loop to itself.
_AT_ONCE = 16
# Time for a client to confirm the end of a TLS connection; most close it without.
_SHUTDOWN_S = 2.0
_log = logging.getLogger(__name__)


def client_context(ca_file: str = "") -> ssl.SSLContext:
    """Return a context that verifies servers by the CAs in ``ca_file``, or else by those of the system.

    It is the same in each release of Python. As for clients in Java and Go, a CA of the file need not be a
    root, and certificates may lack extensions that RFC 5280 demands and private CAs often leave out. Raises
    :class:`OSError`.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Tls(Protocol):
    """The certificate of a listener."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections; replaced by another one when files change."""
        ...


class Handshakes:
    """Accepts connections on TLS listeners; their protocols begin after the handshake."""

    def __init__(
        self, *, timeout_s: float, has_room: Callable[[], bool], on_end: Callable[[], None] = lambda: None
    ) -> None:
        """``has_room``: false if a further connection is one too many; ``on_end`` follows each handshake."""
        self._timeout_s = timeout_s
        self._has_room = has_room
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Protocol] = set()

    def __len__(self) -> int:
        """Return the number of handshakes in progress."""
        return len(self._connections)

    def listen(self, listener: socket.socket, tls: Tls, connection: Callable[[], asyncio.Protocol]) -> None:
        """Serve what connects to ``listener`` by the protocols that ``connection`` returns."""
        self._listeners.append(listener)
        self._loop.add_reader(listener, self._accept, listener, tls, connection)

    def _accept(self, listener: socket.socket, tls: Tls, connection: Callable[[], asyncio.Protocol]) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    _log.error("cannot accept a connection: %s", error.strerror)
                    self._loop.remove_reader(listener)
                    self._loop.call_later(_PAUSE_S, self._resume, listener, tls, connection)
                    return
            else:
                self.begin(client, tls, connection())

    def _resume(self, listener: socket.socket, tls: Tls, connection: Callable[[], asyncio.Protocol]) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener, tls, connection)

    def begin(self, client: socket.socket, tls: Tls, connection: asyncio.Protocol) -> None:
        """Begin the handshake with a client, unless there are too many connections."""
        if not self._has_room():
            client.close()
            return
        self._connections.add(connection)
        task = self._loop.create_task(self._handshake(client, tls, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handshake(self, client: socket.socket, tls: Tls, connection: asyncio.Protocol) -> None:
        client.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=tls.context,
                ssl_handshake_timeout=self._timeout_s,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError as error:
            # Not worth more than this: anyone can go away, or send something else than TLS.
            _log.debug("a TLS handshake failed: %s", error)
        finally:
            self._connections.discard(connection)
            self._on_end()

    def mark_opened(self, connection: asyncio.Protocol) -> None:
        """Note that a connection has begun; it is no longer counted as a handshake."""
        self._connections.discard(connection)

    def close(self) -> None:
        """Accept no more connections; handshakes in progress continue."""
        for each in self._listeners:
            self._loop.remove_reader(each)
            each.close()
        self._listeners.clear()

    async def abort(self) -> None:
        """End the handshakes in progress."""
        tasks = list(self._tasks)
        for each in tasks:
            each.cancel()
        for each in tasks:
            with suppress(asyncio.CancelledError):
                await each


_NEVER = float("inf")


class Verified(NamedTuple):
    """Principal and expiry of a certificate."""

    principal: str = ""  # empty if it names none
    expires: float = _NEVER  # in seconds since 1970


class Verifier(Protocol):
    """The authorities of a listener or a client, which may be replaced."""

    @property
    def revision(self) -> int:
        """Increases whenever an authority has been removed."""
        ...

    def verify(self, certificate: bytes) -> Verified:
        """Return what is known of a certificate in DER that a handshake has verified."""
        ...

    def trusts(self, context: ssl.SSLContext) -> bool:
        """Return true if every authority by which ``context`` verifies certificates still counts."""
        ...


class ConnectionCertificate(NamedTuple):
    """The certificate of the other side of one connection."""

    verified: Verified
    verifier: Verifier
    context: ssl.SSLContext

    def counts(self) -> bool:
        """Return true until it expires or an authority of its handshake is removed."""
        return time.time() < self.verified.expires and self.verifier.trusts(self.context)


def certificate_of(transport: asyncio.BaseTransport, verifier: Verifier) -> ConnectionCertificate | None:
    """Return the certificate of a TLS connection; ``None`` if the other side has shown none."""
    ssl_object: Any = transport.get_extra_info("ssl_object")
    raw = ssl_object.getpeercert(binary_form=True)
    return ConnectionCertificate(verifier.verify(raw), verifier, ssl_object.context) if raw else None


class CertifiedConnections:
    """The open connections with a client certificate, by what ends them; used on one event loop."""

    def __init__(self) -> None:
        self._open: dict[Hashable, tuple[ConnectionCertificate, Callable[[], None]]] = {}
        self._due = _NEVER  # when the first of them expires, in seconds since 1970
        self._revisions: dict[Verifier, int] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open)

    def add(self, connection: Hashable, certificate: ConnectionCertificate, end: Callable[[], None]) -> None:
        """Note a new connection; ``end`` is called once its certificate no longer counts."""
        self._open[connection] = (certificate, end)
        self._due = min(self._due, certificate.verified.expires)
        self._revisions.setdefault(certificate.verifier, certificate.verifier.revision)
        if not certificate.counts():
            self._end(connection)

    def forget(self, connection: Hashable) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)

    def look(self) -> None:
        """End the connections whose certificates no longer count; called again and again."""
        removed = False
        for verifier, revision in self._revisions.items():
            if verifier.revision != revision:
                self._revisions[verifier], removed = verifier.revision, True
        if not removed and time.time() < self._due:
            return
        for connection, (certificate, _) in tuple(self._open.items()):
            if not certificate.counts():
                self._end(connection)
        self._due = min((each.verified.expires for each, _ in self._open.values()), default=_NEVER)

    def _end(self, connection: Hashable) -> None:
        _, end = self._open.pop(connection)
        end()
