"""A receiver of webhooks as a real HTTP server, which answers as a test tells it to."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import orjson


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


class Receiver:
    """Keeps all requests in ``received``. The next answers are those of ``replies``, then ``usual``."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.replies: deque[Reply] = deque()
        self.usual = Reply()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, body))
                reply = receiver.replies.popleft() if receiver.replies else receiver.usual
                if reply.gate is not None:
                    reply.gate.wait()
                try:
                    self._send(reply)
                except OSError:  # The sender has given up.
                    self.close_connection = True

            def _send(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, format: str, *given: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        # By name, so that a test can allow the name and not the address.
        self.url = f"http://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve_tls(self, context: ssl.SSLContext) -> None:
        """Serve https; called before the first request."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self.port}"

    @property
    def subjects(self) -> list[str]:
        """The subjects of the events that were received, in their order."""
        return [each.event["subject"] for each in self.received]
