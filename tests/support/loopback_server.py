"""A small HTTP server on loopback, for what stands in for another program."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class LoopbackServer:
    """Serves on a free ``port`` while it is entered, each connection in a thread of its own."""

    protocol = "HTTP/1.0"

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = self.protocol

            def do_GET(self) -> None:
                server.get(self)

            def do_POST(self) -> None:
                server.post(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, format: str, *values: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def get(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a GET."""
        request.send_error(405)

    def post(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer a POST."""
        request.send_error(405)
