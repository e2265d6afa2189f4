"""Answers of servers that are no registries, but speak JSON: a message each, and no verdict."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.process.cli.running_verbs import verb

ENTITY = b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\""}'
# Each is wrong for some verbs, and the first ones for all.
BODIES = (
    b"1",
    b'"x"',
    b"[[]]",
    b"{}",
    b"[]",
    b"[1]",
    b"[{}]",
    b'["s"]',
    b"null",
    ENTITY,
    b"[" + ENTITY + b"]",
    ENTITY.replace(b'"version":1', b'"version":"x"'),
    ENTITY[:-1] + b',"references":1,"metadata":3,"schemaType":7}',
    b'[{"subject":"a","version":"b"}]',
    b'{"mode":1}',
    b'{"events":[{}],"next":0,"completeFrom":0}',
    b'{"events":[{"offset":1,"time":1e30,"kind":"x"}],"next":1,"completeFrom":0}',
    b'{"ready":1,"applied":"x","digest":3,"end":null,"reasons":3}',
)
WRONG_FOR_ALL = BODIES[:3]
VERBS = (
    "register s FILE", "show s", "show --id 1 --json", "subjects", "subjects --level NONE",
    "versions s", "versions s --deleted",
    "diff s s:1", "delete s --yes", "delete s:1 --permanent --yes", "undelete s", "undelete s --as-new",
    "config get", "config set s --level FULL", "config delete s", "mode get s", "mode set READONLY s",
    "mode delete s", "changes", "history s", "history s --json", "status", "decode MESSAGE", "check FOLDER",
    "apply FOLDER", "download COPY", "download COPY --keep-ids", "upload FOLDER",
    "webhook list", "webhook add w http://x", "webhook test w",
)  # fmt: skip
# These take the address as an argument.
WITH_ARGUMENT = (
    "promote --from URL --to URL --subjects *", "promote --from URL --to URL --subjects s --keep-ids",
    "duplicates URL", "snapshot diff URL URL", "doctor URL",
)  # fmt: skip


class Foreign(ThreadingHTTPServer):
    """Answers every request with the same JSON."""

    body = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Foreign

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - names that the base class calls

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    with Foreign(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def places(foreign: Foreign, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "s.avsc").write_text('"int"')
    (tmp_path / "message").write_bytes(b"\0\0\0\0\1\2")
    found = {name: str(tmp_path / name.lower()) for name in ("FOLDER", "COPY", "MESSAGE")}
    return found | {"FILE": str(tmp_path / "folder" / "s.avsc"), "URL": foreign.url}


@pytest.mark.parametrize("line", [*VERBS, *WITH_ARGUMENT])
def test_an_answer_that_no_registry_gives_is_reported(
    foreign: Foreign, places: dict[str, str], tmp_path: Path, line: str
) -> None:
    words = [places.get(each, each) for each in line.split()]
    words += ["--url", foreign.url] if line in VERBS else []
    words += ["--data", str(tmp_path)] if line.startswith(("duplicates", "snapshot")) else []
    for foreign.body in BODIES:
        done = verb(*words)  # no traceback
        if foreign.body in WRONG_FOR_ALL and not line.startswith("doctor"):
            assert done.status == 2, (foreign.body, done)
            assert foreign.url in done.err
