"""Imports that are ended in the middle: modes return, by the verb itself or by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from tests.process.cli.folder.places import Place
from tests.process.cli.running_verbs import verb
from tests.support.running import ROOT

INT, LONG, STRING = '"int"', '"long"', '"string"'


def register(place: Place, subject: str, *texts: str) -> None:
    place.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    for text in texts:
        place.register(subject, text)


def numbers(place: Place, subject: str) -> list[int]:
    return [version for _, version in place.places(subject)]


class Gate:
    """A proxy that holds registrations of one text back until it is opened."""

    def __init__(self) -> None:
        self.url = ""
        self.held, self.open = Event(), Event()
        self.loses = False  # what it held back


@contextmanager
def gate(target: Place, held: str) -> Iterator[Gate]:
    found = Gate()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.command == "POST" and self.path.endswith("/versions") and held.encode() in body:
                found.held.set()
                if not found.open.wait(60) or found.loses:
                    self.close_connection = True
                    return
            headers = {"content-type": "application/json"}
            answer = target.http.request(self.command, self.path, content=body, headers=headers)
            self.send_response(answer.status_code)
            self.send_header("content-length", str(len(answer.content)))
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815 - names that the base class calls

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # of a verb that was killed
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            found.open.set()
            server.shutdown()
            thread.join()


def ended_while_held(gate: Gate, number: int, *words: str) -> tuple[int, str]:
    """Send a signal to a verb when a registration is held back; return its status and its messages."""
    with subprocess.Popen(
        [sys.executable, "-m", "registry", *words], cwd=ROOT, env=dict(os.environ),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert gate.held.wait(60)
        process.send_signal(number)
        gate.loses = number == signal.SIGKILL
        gate.open.set()
        _, said = process.communicate(timeout=60)
    gate.loses = False
    return process.returncode, said


def import_words(one: Place, url: str, subject: str) -> tuple[str, ...]:
    words = ("promote", "--from", one.url, "--to", url, "--subjects", subject, "--versions", "all")
    return (*words, "--keep-ids")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_mode_returns_when_an_import_is_interrupted(one: Place, other: Place, number: int) -> None:
    subject = f"interrupted-{number}"
    register(one, subject, INT, LONG, STRING)
    other.ask("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    with gate(other, "long") as held:
        status, said = ended_while_held(held, number, *import_words(one, held.url, subject))
        assert status == 130
        assert "steps were taken; these remain" in said
        assert f"mode of {subject}: READONLY, as before" in said
        assert other.mode(subject) == "READONLY"
        # The rest is not compared with the part that is there: it is the same history.
        assert verb(*import_words(one, held.url, subject)).status == 0
    assert (other.mode(subject), numbers(other, subject)) == ("READONLY", [1, 2, 3])


def test_the_next_import_sets_back_what_a_killed_one_left(one: Place, other: Place) -> None:
    for subject, mode in (("killed", "READWRITE"), ("meant", "IMPORT")):
        register(one, subject, INT, LONG)
        other.ask("PUT", f"/mode/{subject}", {"mode": mode})
    both = ("--subjects", "meant")
    with gate(other, "long") as held:
        words = (*import_words(one, held.url, "killed"), *both)
        status, _ = ended_while_held(held, signal.SIGKILL, *words)
        assert status == -signal.SIGKILL
        assert other.mode("killed") == "IMPORT"
        planned = verb(*words, "--dry-run")
        assert "their former modes are restored first: killed" in planned.err
        assert "mode of killed: READWRITE, as before" in planned.out
        assert other.mode("killed") == "IMPORT"
        done = verb(*words)
        assert (done.status, "mode of killed: READWRITE" in done.err) == (0, True)
        assert "meant was in mode IMPORT before, and stays in it" in done.out
    assert (other.mode("killed"), numbers(other, "killed")) == ("READWRITE", [1, 2])
    assert (other.mode("meant"), numbers(other, "meant")) == ("IMPORT", [1, 2])


def test_an_import_that_is_refused_midway_leaves_no_mode_behind(one: Place, other: Place) -> None:
    unique = '{"type":"fixed","name":"Refused","size":3}'
    register(one, "refused", INT, unique)
    schema_id = one.ask("GET", "/subjects/refused/versions/2")["id"]
    with gate(other, "fixed") as held:
        words = [sys.executable, "-m", "registry", *import_words(one, held.url, "refused")]
        with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            assert held.held.wait(60)
            # Somebody else takes the id meanwhile.
            taken = {"schema": '{"type":"fixed","name":"Other","size":3}', "id": schema_id, "version": 7}
            other.ask("POST", "/subjects/refused/versions", taken)
            held.open.set()
            _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert "2 of 4 steps were taken" in said
    assert other.mode("refused") is None


def test_a_killed_undelete_is_set_back_by_the_next_one(other: Place) -> None:
    register(other, "undeleted", INT, LONG)
    other.ask("PUT", "/mode/undeleted", {"mode": "READWRITE"})
    other.ask("DELETE", "/subjects/undeleted")
    with gate(other, "long") as held:
        status, _ = ended_while_held(held, signal.SIGKILL, "undelete", "undeleted", "--url", held.url)
        assert (status, other.mode("undeleted")) == (-signal.SIGKILL, "IMPORT")
        done = verb("undelete", "undeleted", "--url", held.url)
        assert done.status == 0, done.err
    assert other.mode("undeleted") == "READWRITE"
    assert other.ask("GET", "/subjects/undeleted/versions") == [1, 2]


def test_two_imports_into_one_registry_do_not_mix(one: Place, other: Place) -> None:
    register(one, "mixed", INT, LONG)
    with gate(other, "long") as held:
        words = [sys.executable, "-m", "registry", *import_words(one, held.url, "mixed")]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            assert held.held.wait(60)
            done = verb(*import_words(one, held.url, "mixed"))
            assert done.status == 2
            assert f"another import into {held.url} is running in process {process.pid}" in done.err
            held.open.set()
        assert process.returncode == 0
