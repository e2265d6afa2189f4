"""The torture test on a cluster whose nodes are killed by its hook."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.process.cli.running_verbs import verb
from tests.support.running import until

from .rig import HEAL_S, Rig


@contextmanager
def killing(rig: Rig) -> Iterator[str]:
    """Serve the URL to which the hook posts a node's address: the node is killed, and answers again."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            address = self.rfile.read(int(self.headers["Content-Length"])).decode()
            node = next(each for each in rig.nodes if each.url == address)
            node.kill()
            node.start()
            until(node.ready, HEAL_S, f"{address} to be ready again")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# In make test, test_faults.py kills nodes under load, and tests/process/cli/test_torture.py has the verb.
@pytest.mark.long
@pytest.mark.parametrize("seconds", [6, 120])
def test_kills_break_no_promise(rig: Rig, seconds: int) -> None:
    addresses = [word for node in rig.nodes for word in ("--url", node.url)]
    with killing(rig) as url:
        words = ("--hook", f"curl --silent --fail {url} --data", "--every", "2", "--clients", "4", "--yes")
        done = verb("torture", *addresses, "--seconds", str(seconds), *words, "--json")
    assert done.status == 0, done.out + done.err
    assert done.json["hooks"] > 0
    assert done.json["operations"]["deletions"] > 0
    rig.primary()
