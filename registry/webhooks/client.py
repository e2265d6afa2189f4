"""The HTTP client of webhooks: bounded in time and bytes, and unable to reach what the settings do not allow.

It resolves a host itself, checks the addresses, and connects to one of them, so that nothing is resolved
again in between. It follows ``redirects`` redirects at most, and checks each hop alike. It reads no proxies
from the environment: through one, the address could not be checked.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urljoin

import httpcore

from .destinations import Destinations, NotAllowed
from .network import CheckedNetwork, Resolver
from .retries import Undelivered, retry_after_s

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


def tls_context(ca_file: str) -> ssl.SSLContext:
    """Return a context that verifies receivers by the system's CAs, or by those in ``ca_file`` if named."""
    return ssl.create_default_context(cafile=ca_file or None)
