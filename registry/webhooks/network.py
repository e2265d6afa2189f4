"""Connections to receivers: names resolved in threads, only allowed addresses, bounded answers.

A name whose server never answers keeps a thread for as long as the system tries, often half a minute. So it
must not take one from a pool that other names need, nor keep the node from stopping.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import httpcore

from .destinations import Destinations, NotAllowed

# Names at a time. Webhooks are fewer, and each waits for one name.
LOOKUPS_MAX = 128
ADDRESSES_MAX = 4

# The addresses, or why there are none.
_Found = list[str] | str


class Resolver:
    """Looks up names, each once for all who wait for it; used on one event loop."""

    def __init__(self, look_up: Callable[..., list[Any]] = socket.getaddrinfo) -> None:
        self._look_up = look_up
        self._under_way: dict[tuple[str, int], asyncio.Future[_Found]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the first addresses of a host, IPv6 without its scope. Raises ``httpcore.ConnectError``."""
        waiting = self._under_way.get((host, port))
        if waiting is None:
            if len(self._under_way) >= LOOKUPS_MAX:
                raise httpcore.ConnectError(f"cannot resolve {host}: too many names are being resolved")
            waiting = self._begin(host, port)
        # Who gives up does not end the lookup for others.
        found = await asyncio.shield(waiting)
        if isinstance(found, str):
            raise httpcore.ConnectError(f"cannot resolve {host}: {found}")
        return found

    def _begin(self, host: str, port: int) -> asyncio.Future[_Found]:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[_Found] = loop.create_future()

        def settle(found: _Found) -> None:
            del self._under_way[host, port]
            waiting.set_result(found)

        def run() -> None:
            found = self._resolve(host, port)
            with suppress(RuntimeError):  # The loop is closed: the node is stopping.
                loop.call_soon_threadsafe(settle, found)

        self._under_way[host, port] = waiting
        threading.Thread(target=run, name="webhooks-name", daemon=True).start()
        return waiting

    def _resolve(self, host: str, port: int) -> _Found:
        try:
            found = self._look_up(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            return str(error)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))[:ADDRESSES_MAX]


# Bytes of one answer: headers, interim answers and body; more of them are a failure.
RECEIVED_BYTES_MAX = 128 << 10


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that ``destinations`` allows."""

    def __init__(self, destinations: Destinations, resolver: Resolver) -> None:
        self._destinations = destinations
        self._resolver = resolver
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the signature is httpcore's)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an address of ``host``. Raises :class:`.destinations.NotAllowed` if none is allowed."""
        refused: NotAllowed | None = None
        failed: Exception | None = None
        for address in await self._resolver.addresses(host, port):
            try:
                self._destinations.check_address(host, address)
                return _BoundedStream(
                    await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
                )
            except NotAllowed as error:
                refused = error
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed or refused or httpcore.ConnectError(f"{host} has no address")


class _BoundedStream(httpcore.AsyncNetworkStream):
    """A stream that gives up a receiver which answers one request with too many bytes."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._received = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return the next bytes. Raises :class:`httpcore.ReadError`."""
        data = await self._stream.read(max_bytes, timeout)
        self._received += len(data)
        if self._received > RECEIVED_BYTES_MAX:
            raise httpcore.ReadError(f"the answer is longer than {RECEIVED_BYTES_MAX} bytes")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send bytes of the next request."""
        self._received = 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """Return the stream within TLS."""
        return _BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        """Return what is known of the connection."""
        return self._stream.get_extra_info(info)
