"""The registry's HTTP server without a registry: it answers every request with the content of a file.

    python bench/constant.py PORT FILE quick|asgi

Requests are counted and headers printed as the registry does, so that only finding the answer is missing.
``quick`` answers in front of ASGI, as the registry does where it can, ``asgi`` from a bare ASGI callable.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import uvloop

from registry.base.observe.metrics import Observed
from registry.base.processes.sockets import listen
from registry.http1.messages import Answer
from registry.http1.server import Server
from registry.http1.service import App, Receive, Send

HEADERS = b"""\
content-type: application/vnd.schemaregistry.v1+json\r
cache-control: no-cache, no-store, must-revalidate\r
x-xss-protection: 1; mode=block\r
x-content-type-options: nosniff\r
etag: W/"6cc-00000000"\r
x-request-id: 00000000000000000000000000000000\r
x-registry-offset: 100000\r
"""


def bare(body: bytes) -> App:
    """Return an ASGI callable that answers ``body``, and nothing else."""
    headers = [tuple(line.split(b": ", 1)) for line in HEADERS.splitlines()]
    start = {"type": "http.response.start", "status": 200, "headers": headers}
    rest = {"type": "http.response.body", "body": body}

    async def app(scope: object, receive: Receive, send: Send) -> None:
        await send(start)
        await send(rest)

    return app


async def main(port: int, body: bytes, way: str) -> None:
    answer = Answer(200, HEADERS, body, "/") if way == "quick" else None
    server = Server(bare(body), fast_path=lambda *_: answer, observe=Observed(access_log=False))
    await server.start(listen("127.0.0.1", port, shared=True))
    await asyncio.Event().wait()


uvloop.run(main(int(sys.argv[1]), Path(sys.argv[2]).read_bytes(), sys.argv[3]))
