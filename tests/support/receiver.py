"""A receiver of webhooks as a real HTTP server, which answers as a test tells it to."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

import orjson

from tests.support.loopback_server import LoopbackServer


class Received(NamedTuple):
    """A request that the receiver got."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = orjson.loads(self.body)
        return event


class Reply(NamedTuple):
    """An answer of the receiver, sent once ``gate`` is set, if there is one."""

    status: int = 204
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    gate: threading.Event | None = None


class Receiver(LoopbackServer):
    """Keeps all requests in ``received``. The next answers are those of ``replies``, then ``usual``."""

    protocol = "HTTP/1.1"

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.replies: deque[Reply] = deque()
        self.usual = Reply()
        super().__init__()
        # By name, so that a test can allow the name and not the address.
        self.url = f"http://localhost:{self.port}"

    def post(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.path, headers, body))
        reply = self.replies.popleft() if self.replies else self.usual
        if reply.gate is not None:
            reply.gate.wait()
        try:
            _send(request, reply)
        except OSError:  # The sender has given up.
            request.close_connection = True

    def serve_tls(self, context: ssl.SSLContext) -> None:
        """Serve https; called before the first request."""
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.port}"

    @property
    def subjects(self) -> list[str]:
        """The subjects of the events that were received, in their order."""
        return [each.event["subject"] for each in self.received]


def _send(request: BaseHTTPRequestHandler, reply: Reply) -> None:
    request.send_response(reply.status)
    for name, value in reply.headers:
        request.send_header(name, value)
    request.send_header("content-length", str(len(reply.body)))
    request.end_headers()
    request.wfile.write(reply.body)
