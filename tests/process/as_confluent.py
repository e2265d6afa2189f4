"""A registry with only what Confluent's has: a proxy in front of a real one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple

import httpx

# Items in a page at most, as an administrator of Confluent's registry can set it.
PAGE_MAX = 2


class Proxied(NamedTuple):
    """The proxy's URL, and the targets of all requests so far."""

    url: str
    asked: list[str]


@contextmanager
def as_confluent(url: str, *, guids: bool = True) -> Iterator[Proxied]:
    """Show the registry at ``url`` without lists of configs, in small pages without links.

    ``guids``: newer versions of Confluent's have them.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            known = not self.path.startswith("/admin/")
            target = re.sub(r"\blimit=\d+", f"limit={PAGE_MAX}", self.path) if known else "/nothing"
            answer = httpx.get(f"{url}{target}", timeout=60)
            found = answer.json()
            for each in found if not guids and self.path.startswith("/schemas") else ():
                del each["guid"]
            body = json.dumps(found).encode()
            self.send_response(answer.status_code)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Proxied(f"http://127.0.0.1:{server.server_port}", asked)
        finally:
            server.shutdown()
            thread.join()
