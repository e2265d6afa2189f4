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
def as_confluent(
    url: str,
    *,
    guids: bool = True,
    marks: bool = True,
    apicurio: bool = False,
    lacks: str = "",
    status: int = 404,
) -> Iterator[Proxied]:
    """Show the registry at ``url`` without lists of configs, in small pages without links.

    ``guids``, ``marks``: newer versions of Confluent's have guids, and marks of soft-deleted versions.
    ``apicurio``: with an empty list of versions, and without regard to modes, and to ids in registrations.
    ``lacks``: the beginning of other paths that are answered with ``status``.
    """
    asked: list[str] = []
    client = httpx.Client(base_url=url, timeout=60)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            asked.append(self.path)
            if apicurio and self.path.startswith("/schemas?"):
                self._answer(200, [])
                return
            if apicurio and self.command == "PUT" and self.path.startswith("/mode"):
                self._answer(200, json.loads(self.rfile.read(int(self.headers["content-length"]))))
                return
            if lacks and self.path.startswith(lacks):
                self._answer(status, {"error_code": status, "message": "not here"})
                return
            known = not self.path.startswith("/admin/")
            target = re.sub(r"\blimit=\d+", f"limit={PAGE_MAX}", self.path) if known else "/nothing"
            target = re.sub(r"\bat(Offset|Time)=[^&]*", "", target)  # unknown parameters are ignored
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if apicurio and b'"id":' in body:
                body = json.dumps({"schema": json.loads(body)["schema"]}).encode()
            answer = client.request(
                self.command, target, content=body, headers={"content-type": "application/json"}
            )
            found = answer.json()
            for each in found if not guids and self.path.startswith("/schemas") else ():
                del each["guid"]
            for each in found if not marks and self.path.startswith("/schemas?") else ():
                del each["deleted"]
            self._answer(answer.status_code, found)

        do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815 - names that the base class calls

        def _answer(self, status: int, found: object) -> None:
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with client, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Proxied(f"http://127.0.0.1:{server.server_port}", asked)
        finally:
            server.shutdown()
            thread.join()
