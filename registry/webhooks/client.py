"""The HTTP client of webhooks: bounded in time and bytes, and unable to reach what the settings do not allow.

It resolves a host itself, checks the addresses, and connects to one of them, so that nothing is resolved
again in between. It follows ``redirects`` redirects at most, and checks each hop alike. It reads no proxies
from the environment: through one, the address could not be checked.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urljoin

import httpcore

from .destinations import Destinations, NotAllowed
from .message import Undelivered, retry_after_s

# Names at a time. Webhooks are fewer, and each waits for one name.
LOOKUPS_MAX = 128
ADDRESSES_MAX = 4

# The addresses, or why there are none.
_Found = list[str] | str


class Resolver:
    """Looks up names, each once for all who wait for it; used on one event loop.

    A name whose server never answers keeps a thread for as long as the system tries, often half a minute. So
    it must not take one from a pool that other names need, nor keep the node from stopping.
    """

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


# Bytes of a body after which no more is read; none of them is kept. With a head and a last read of 64 KiB,
# they are fewer than RECEIVED_BYTES_MAX, so a long body is no failure, in whatever pieces it comes.
ANSWER_BYTES_MAX = 32 << 10
_IDLE_CONNECTIONS_MAX = 20
_IDLE_S = 30.0
# Redirects that keep the method and the body.
_REDIRECTS = (307, 308)


class _Answer(NamedTuple):
    status: int
    location: str | None
    retry_after: str | None


class Client:
    """A client for all webhooks of a node; created and used on one event loop.

    ``redirects``: number of redirects that are followed.
    """

    def __init__(
        self,
        destinations: Destinations,
        *,
        tls: ssl.SSLContext,
        timeout_s: float,
        redirects: int,
        resolver: Resolver | None = None,
    ) -> None:
        self._destinations = destinations
        self._timeout_s = timeout_s
        self._redirects = redirects
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=_IDLE_CONNECTIONS_MAX,
            keepalive_expiry=_IDLE_S,
            network_backend=CheckedNetwork(destinations, resolver or Resolver()),
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Send a request and return the status, which is a success. Raises :class:`Undelivered`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._follow_redirects(url, headers, body)
        except TimeoutError:
            raise Undelivered(f"no answer within {self._timeout_s:g} s") from None
        except NotAllowed as error:
            raise Undelivered(str(error)) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise Undelivered(_words(error)) from None
        except ValueError as error:
            raise Undelivered(f"the receiver redirects to a malformed URL: {error}") from None
        if 200 <= answer.status < 300:
            return answer.status
        redirected = " a redirect, which is not followed" if 300 <= answer.status < 400 else ""
        raise Undelivered(
            f"the receiver answered {answer.status}{redirected}",
            status=answer.status,
            retry_after_s=retry_after_s(answer.retry_after, time.time()),
        )

    async def _follow_redirects(self, url: str, headers: Mapping[str, str], body: bytes) -> _Answer:
        for _ in range(self._redirects):
            answer = await self._once(url, headers, body)
            if answer.status not in _REDIRECTS or answer.location is None:
                return answer
            url = urljoin(url, answer.location)
        return await self._once(url, headers, body)

    async def _once(self, url: str, headers: Mapping[str, str], body: bytes) -> _Answer:
        self._destinations.check_url(url)
        async with self._pool.stream("POST", url, headers=list(headers.items()), content=body) as response:
            read = 0
            async for chunk in response.aiter_stream():
                read += len(chunk)
                if read > ANSWER_BYTES_MAX:
                    break
            found = {name.lower(): value.decode("latin-1") for name, value in response.headers}
            return _Answer(response.status, found.get(b"location"), found.get(b"retry-after"))

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
