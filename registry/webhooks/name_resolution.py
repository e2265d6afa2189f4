"""Addresses of receivers' names, each looked up in a thread of its own.

A name whose server never answers keeps a thread for as long as the system tries, often half a minute. So it
must not take one from a pool that other names need, nor keep the node from stopping.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpcore

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
