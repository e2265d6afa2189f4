"""Connections to receivers: only to addresses that are allowed, and with bounded answers."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

import httpcore

from .destinations import Destinations, NotAllowed
from .name_resolution import Resolver

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
