"""Connections to the brokers, one for each broker and purpose, and retries of requests that got no answer.

A broker answers the requests of one connection in order. So a long poll, or an append that waits for
replicas, would delay every request behind it on the same connection.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum
from typing import Any, TypeVar

from aiokafka.conn import collect_hosts
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError

from registry.log.contract import LogError, Unreachable

from .broker_connection import Login
from .refused_login import LoginRefused
from .release import ApiVersions

# Time for one request: more than a live broker needs.
TRY_S = 3.0
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.02, 1.0

T = TypeVar("T")


class Backoff:
    """Exponential backoff with jitter."""

    def __init__(self) -> None:
        self._next_s = BACKOFF_MIN_S

    async def __call__(self) -> None:
        """Wait once."""
        await asyncio.sleep(self._next_s * random.uniform(0.7, 1.3))  # noqa: S311 (no secret)
        self._next_s = min(self._next_s * 2, BACKOFF_MAX_S)

    def reset(self) -> None:
        """Start again with a short wait."""
        self._next_s = BACKOFF_MIN_S


async def retry_until(
    deadline: float, attempt: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic
) -> T:
    """Return the result of the first ``attempt`` that gets an answer.

    ``deadline`` is a time of ``clock``. Raises :class:`.contract.Unreachable`.
    """
    backoff = Backoff()
    while True:
        try:
            return await attempt()
        except NoAnswer as error:
            if clock() >= deadline:
                raise Unreachable(f"Kafka does not answer: {error}") from error
        await backoff()


# A connection on which an answer takes longer is closed. Callers may have shorter timeouts: the connection
# then stays open, so that a slow broker can catch up.
_DEAD_S = 6.0
_CLOSE_S = 1.0


class Purpose(StrEnum):
    """The kind of requests that a connection carries."""

    FETCH = "fetch"
    APPEND = "append"
    QUERY = "ask"
    READ_AGAIN = "read again"


_Key = tuple[str, int, Purpose]


class NoAnswer(Exception):
    """A broker did not answer; ``sent``: it may have received the request."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


def addresses(servers: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of ``bootstrap.servers``, without prefixes such as ``PLAINTEXT://``."""
    bare = ",".join(server.strip().rpartition("//")[2] for server in servers.split(",") if server.strip())
    return [(host, port) for host, port, _ in collect_hosts(bare)]


class Connections:
    """The connections of one log. All calls are made on one event loop."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._open: dict[_Key, Any] = {}
        self._opening: dict[_Key, asyncio.Lock] = {}
        self._closing: dict[asyncio.Future[None], asyncio.Transport] = {}
        self._closed = False
        self._open_count: Counter[_Key] = Counter()

    def open_count(self, host: str, port: int, purpose: Purpose) -> int:
        """Return how often the connection was opened; the next open counts already if it is closed now."""
        key = (host, port, purpose)
        return self._open_count[key] + (not self._is_open(key))

    def _is_open(self, key: _Key) -> bool:
        connection = self._open.get(key)
        return connection is not None and connection.connected()

    async def open(self, host: str, port: int, purpose: Purpose) -> None:
        """Open the connection for this purpose if it is closed. Raises as :meth:`send`."""
        await self.send(host, port, purpose, None, _DEAD_S)

    async def send(
        self,
        host: str,
        port: int,
        purpose: Purpose,
        request: Any,
        timeout_s: float,
        *,
        open_count: int | None = None,
    ) -> Any:
        """Return the broker's answer. Raises :class:`NoAnswer`; :class:`.contract.LogError` if it is too old.

        ``open_count``: send nothing if the connection has been opened again since then.
        """
        key, sent = (host, port, purpose), False
        until = asyncio.get_running_loop().time() + timeout_s
        try:
            connection = self._open.get(key)
            if connection is None or not (connection.connected() and connection.is_ready):
                async with asyncio.timeout_at(until):
                    connection = await self._connect(key)
            if request is None:
                return None
            if open_count is not None and open_count != self._open_count[key]:
                raise NoAnswer(f"{host}:{port}: the connection was opened again", sent=False)
            sent = True
            answer = asyncio.ensure_future(connection.send(request))
            answer.add_done_callback(lambda answer: self._close_failed(key, connection, answer))
            return await _until(until, answer)
        except (IncompatibleBrokerVersion, NotImplementedError) as error:
            text = f"the Kafka broker {host}:{port} is too old or too new (2.8 is the oldest): {error}"
            raise LogError(text) from error
        except LoginRefused as error:
            text = f"the Kafka broker {host}:{port}: {error}"
            raise LogError(text) if error.final else NoAnswer(text, sent=sent) from error
        except TimeoutError as error:
            raise NoAnswer(f"{host}:{port} did not answer in {timeout_s:.3g} s", sent=sent) from error
        except (KafkaError, OSError, EOFError) as error:
            raise NoAnswer(f"{host}:{port}: {_plain(error)}", sent=sent) from error

    def _close_failed(self, key: _Key, connection: Any, answer: asyncio.Future[Any]) -> None:
        """Close a connection on which a request failed, even if its caller has stopped waiting."""
        if answer.cancelled() or answer.exception() is not None:
            if self._open.get(key) is connection:
                del self._open[key]
            self._close(connection)

    def give_up(self, purpose: Purpose) -> None:
        """Close the connections for this purpose: their outstanding answers are no longer needed."""
        for key in [key for key in self._open if key[2] is purpose]:
            self._close(self._open.pop(key))

    async def _connect(self, key: _Key) -> Any:
        async with self._opening.setdefault(key, asyncio.Lock()):
            if not self._is_open(key):
                if self._closed:
                    raise LogError("the log is closed")
                connection = self._login.connection(*key[:2], timeout_s=_DEAD_S)
                try:
                    await connection.connect()
                except BaseException:
                    # Closing takes a while with TLS; it goes on in the background.
                    self._close(connection)
                    raise
                self._open[key] = connection
                self._open_count[key] += 1
            connection = self._open[key]
        await connection.ready()
        return connection

    def api_versions(self, host: str, port: int) -> ApiVersions:
        """Return the request versions that this broker supports; empty while there is no connection."""
        connection = self._open.get((host, port, Purpose.QUERY))
        return connection.api_versions if connection else {}

    def open_addresses(self) -> Iterator[tuple[str, int]]:
        """Yield the addresses with open connections."""
        for (host, port, _), connection in self._open.items():
            if connection.connected():
                yield host, port

    def _close(self, connection: Any) -> None:
        protocol = connection._protocol  # noqa: SLF001 (close() keeps only this)
        transport = protocol and protocol._transport  # noqa: SLF001
        closing = connection.close()
        if transport is not None and not closing.done():
            self._closing[closing] = transport
            closing.add_done_callback(lambda closing: self._closing.pop(closing, None))

    async def close(self) -> None:
        """Close all connections for good. Data that a broker does not take in time is dropped."""
        self._closed = True
        for connection in self._open.values():
            self._close(connection)
        self._open.clear()
        if self._closing:
            await asyncio.wait(self._closing, timeout=_CLOSE_S)
        if self._closing:
            for transport in self._closing.values():
                transport.abort()
            await asyncio.wait(self._closing, timeout=_CLOSE_S)


async def _until(deadline: float, answer: asyncio.Future[T]) -> T:
    """Return the answer. One that is late may still come: unlike ``timeout``, this does not cancel it."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    # Every append waits here: asyncio.wait does the same in four times as many calls.
    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    timer = loop.call_at(deadline, end)
    answer.add_done_callback(end)
    try:
        await over
    finally:
        timer.cancel()
        answer.remove_done_callback(end)
    if not answer.done():
        raise TimeoutError
    return answer.result()


def _plain(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if not error.__cause__ else f"{text} ({_plain(error.__cause__)})"
