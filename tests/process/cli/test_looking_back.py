"""Reads of the past through a balancer whose servers do not all know them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread

import pytest

from tests.process.cli.running_verbs import verb

NOT_FOUND = (404, {"error_code": 40401, "message": "Subject 's' not found."})
LISTED = (200, [1, 2])


@contextmanager
def balancer(*turns: tuple[tuple[int, object], bool]) -> Iterator[str]:
    """Answer in turns: with a status and JSON, as an answer about the past or the present; yield the URL."""
    left = cycle(turns)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (status, found), of_the_past = next(left)
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-registry-offset", "9")
            if of_the_past:
                self.send_header("x-registry-at-offset", "8")
            if "offset=0" in self.path:
                self.send_header("link", '</subjects/s/versions?offset=2&atOffset=8>; rel="next"')
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("turns", "status", "out"),
    [
        ([(LISTED, True), ((200, [3]), True)], 0, "1\n2\n3\n"),
        ([(LISTED, False)], 2, ""),
        ([(LISTED, True), ((200, [3]), False)], 2, ""),
        ([(NOT_FOUND, True)], 1, ""),
        ([(NOT_FOUND, False)], 2, ""),
    ],
)
def test_every_answer_must_be_about_the_past(
    turns: list[tuple[tuple[int, object], bool]], status: int, out: str
) -> None:
    with balancer(*turns) as url:
        done = verb("versions", "s", "--at-offset", "8", "--url", url)
    assert (done.status, done.out) == (status, out)
    assert ("answered with the current state" in done.err) is (status == 2)
