"""The registry's HTTP server with nothing behind it: answers the content of a file to every request.

    python bench/constant.py PORT FILE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import uvloop  # noqa: E402

from registry.http1.answers import Answer  # noqa: E402
from registry.http1.server import Server, listen  # noqa: E402


async def app(scope: object, receive: object, send: object) -> None:
    raise NotImplementedError


async def main() -> None:
    answer = Answer(200, b"content-type: application/vnd.schemaregistry.v1+json\r\n", Path(sys.argv[2]).read_bytes())
    server = Server(app, quick=lambda _: answer)
    await server.start(listen("127.0.0.1", int(sys.argv[1]), shared=True))
    await asyncio.Event().wait()


uvloop.run(main())
