"""The public port of a node without readers, over one backend after the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from registry.base.config.loading import Settings
from registry.node.serving import Serving
from registry.node.startup.progress import StartProgress
from registry.node.startup_endpoint import StartupBackend
from registry.security.policies_file import PoliciesFile
from tests.process.raw import get

RUNS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Run = Callable[[Coroutine[Any, Any, None]], None]


class Backend(StartupBackend):
    """A backend that has applied ``offset`` records."""

    def __init__(self, offset: int) -> None:
        super().__init__(StartProgress())
        self._offset = offset

    def applied(self) -> int:
        return self._offset


async def head(port: int, request: bytes) -> bytes:
    """Return the head of the answer to ``request``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    writer.close()
    return answer


@RUNS
def test_answers_and_refusals_name_the_offset_of_the_backend_that_serves_now(run: Run) -> None:
    async def try_it() -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        serving = Serving(Settings(listen=f"127.0.0.1:{port}"), PoliciesFile(""), None)
        for offset in (7, 8):
            await serving.over(Backend(offset))
            for request, status in (
                (get("/health/live"), 200),
                (get("/subjects"), 503),
                (b"broken\r\n\r\n", 400),
            ):
                answer = await head(port, request)
                assert answer.startswith(b"HTTP/1.1 %d " % status)
                assert b"\r\nx-registry-offset: %d\r\n" % offset in answer
        assert sum(each.count for each in serving.tally().requests) == 6
        await serving.stop(5.0)

    run(try_it())


@RUNS
def test_a_port_that_was_not_free_at_first_is_tried_again(run: Run) -> None:
    async def try_it() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            serving = Serving(Settings(listen=f"127.0.0.1:{port}"), PoliciesFile(""), None)
            with pytest.raises(OSError, match="in use"):
                await serving.over(Backend(7))
        await serving.over(Backend(8))
        assert (await head(port, get("/health/live"))).startswith(b"HTTP/1.1 200 ")
        await serving.stop(5.0)

    run(try_it())
