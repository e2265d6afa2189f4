"""The verdicts of ``status`` and ``doctor`` on servers, by their answers; one thing is wrong in each test."""

from __future__ import annotations

import json
import ssl
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.process.cli.running_verbs import Done, verb
from tests.support.certificates import DAY, Authority
from tests.support.loopback_server import LoopbackServer

NODE: dict[str, Any] = {
    "node": "n1", "role": "primary", "primary": "http://a", "epoch": 3, "log": "cluster/_schemas/id",
    "applied": 10, "end": 12, "digest": "0123456789abcdef", "started": True, "quarantined": 0,
    "ready": True, "reasons": [], "ready_for_writes": True, "reasons_for_writes": [],
}  # fmt: skip
SECONDARY = NODE | {"node": "n2", "role": "secondary"}
UNKNOWN = 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
MODE = 200, {"mode": "READWRITE"}
Answer = tuple[int, Any]


class Scripted(LoopbackServer):
    """Answers each path with the next of its answers, and then always with the last one."""

    def __init__(self, tls: ssl.SSLContext | None = None, **paths: list[Answer]) -> None:
        super().__init__()
        self._paths = {"/" + name.replace("__", "/"): answers for name, answers in paths.items()}
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)

    def get(self, request: BaseHTTPRequestHandler) -> None:
        answers = self._paths.get(request.path.partition("?")[0], [UNKNOWN])
        status, found = answers.pop(0) if len(answers) > 1 else answers[0]
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.end_headers()
        request.wfile.write(json.dumps(found).encode())


def node(*states: dict[str, Any]) -> Scripted:
    """Return a server of this project whose node is in one state after another."""
    return Scripted(
        node=[(200, each) for each in states],
        v1__metadata__version=[(200, {"version": "1.0"})],
        quarantine=[(200, [])],
    )


def run(name: str, *servers: Scripted, words: tuple[str, ...] = ()) -> Done:
    """Run a verb on the addresses of servers."""
    with ExitStack() as stack:
        urls = ",".join(stack.enter_context(each).url for each in servers)
        return verb(name, "--json", *words, *(("--url", urls) if name == "status" else (urls,)))


def wrong(done: Done) -> list[tuple[str, str, str]]:
    """Return severity, subject and text of what the doctor does not find fine."""
    found = [each for each in done.json["findings"] if each["severity"] != "fine"]
    return [(each["severity"], each["about"], each["text"]) for each in found]


def test_a_registry_that_is_none_of_ours_is_ready_if_it_answers() -> None:
    done = run("status", Scripted(mode=[MODE]))
    [found] = done.json["nodes"]
    assert (done.status, found["ready"], found["error"], done.json["problems"]) == (0, True, None, [])
    assert (found["role"], found["applied"], found["reasons"]) == (None, None, [])
    done = run("status", Scripted(mode=[(500, {"message": "broken"})]))
    [found] = done.json["nodes"]
    assert (done.status, found["ready"], found["httpStatus"]) == (2, False, 500)
    assert done.json["problems"] == [found["error"]]


def test_people_see_a_registry_that_is_none_of_ours_without_a_state() -> None:
    with Scripted(mode=[MODE]) as other, node(NODE) as ours:
        done = verb("status", "--url", f"{other.url},{ours.url}")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}
    assert (done.status, rows[other.url]) == (0, ["yes"])
    assert rows[ours.url] == ["yes", "yes", "primary", "3", "10", "2", "01234567"]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (SECONDARY | {"ready": False, "reasons": ["no space", "b"]}, "URL is not ready: no space; b"),
        (SECONDARY | {"ready": False}, "URL is not ready: it gives no reason"),
        (
            SECONDARY | {"ready_for_writes": False, "reasons_for_writes": ["no primary"]},
            "URL is not ready for writes: no primary",
        ),
        (SECONDARY | {"peer_problems": ["10.0.0.7 was refused"]}, "URL: 10.0.0.7 was refused"),
        (SECONDARY | {"invalid_files": ["rules: line 3"]}, "URL: rules: line 3"),
        (SECONDARY | {"digest": "f" * 16}, "nodes differ in their digests at offset 10"),
        (SECONDARY | {"applied": 11, "digest": "f" * 16}, ""),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_each_problem_of_a_node_is_named_and_is_a_status(state: dict[str, Any], problem: str) -> None:
    second = node(state)
    done = run("status", node(NODE), second)
    told = [each.replace(second.url, "URL")[: len(problem)] for each in done.json["problems"]]
    assert (done.status, told) == ((1, [problem]) if problem else (0, []))


def test_nodes_that_know_no_primary_are_a_problem_and_a_named_one_need_not_answer() -> None:
    lost = SECONDARY | {"primary": None}
    assert run("status", node(lost)).json["problems"] == [
        "no node knows a primary: writes wait until one is elected"
    ]
    assert run("status", node(lost), node(SECONDARY | {"node": "n3"})).status == 0


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_refuses_to_tell_its_state_is_up_and_leaves_no_verdict(status: int) -> None:
    refused = {"error_code": status, "message": "not for you"}
    server = Scripted(node=[(status, refused)])
    done = run("doctor", server)
    [(severity, about, text)] = wrong(done)
    assert (done.status, severity, about) == (2, "unknown", server.url)
    assert text.startswith("it does not report the state of its node: not for you")
    broken = Scripted(node=[(500, {"error_code": 500, "message": "broken"})])
    done = run("doctor", broken)
    [(severity, about, text)] = wrong(done)
    assert (done.status, severity, about) == (1, "error", broken.url)
    assert text.startswith("broken (")


def test_a_registry_that_is_none_of_ours_is_up_and_not_examined() -> None:
    server = Scripted()
    done = run("doctor", server)
    [(severity, about, text)] = wrong(done)
    assert (done.status, severity, about) == (2, "unknown", server.url)
    assert "it does not report the state of its node" in text


def test_nodes_at_different_offsets_are_asked_again_until_their_stores_can_be_compared() -> None:
    ahead = SECONDARY | {"applied": 12}
    done = run("doctor", node(NODE, NODE, NODE | {"applied": 12}), node(ahead))
    assert (done.status, wrong(done)) == (0, [])
    assert "2 stores are equal at offset 12" in [each["text"] for each in done.json["findings"]]
    done = run("doctor", node(NODE, NODE | {"applied": 12}), node(ahead | {"digest": "f" * 16}))
    assert [each[:2] for each in wrong(done)] == [("error", "nodes")]
    assert "the stores differ at offset 12" in wrong(done)[0][2]


def test_nodes_that_are_never_at_one_offset_are_not_compared() -> None:
    moving = [NODE | {"applied": 10 + each} for each in range(20)]
    done = run("doctor", node(*moving), node(SECONDARY | {"applied": 5}))
    assert (done.status, [each[:2] for each in wrong(done)]) == (2, [("unknown", "nodes")])


def test_what_a_node_does_not_say_besides_its_state_is_not_taken_for_fine() -> None:
    done = run("doctor", Scripted(node=[(200, NODE)], quarantine=[(403, {"message": "no"})]))
    assert (done.status, [each[:2] for each in wrong(done)]) == (2, [("unknown", "log")])


@pytest.mark.parametrize(
    ("ends", "severity", "text"),
    [
        (90, "fine", "its certificate expires on"),
        (29, "warning", "its certificate expires on"),
        (-1, "error", "its certificate expired on"),
    ],
)
def test_the_certificate_that_a_server_shows_is_examined_whoever_has_issued_it(
    tmp_path: Path, ends: int, severity: str, text: str
) -> None:
    issued = Authority().issue(begins=-2 * DAY, ends=ends * DAY)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*issued.write(tmp_path, "server"))
    server = Scripted(tls, node=[(200, NODE)])
    done = run("doctor", server)
    text = f"{text} {issued.certificate.not_valid_after_utc:%Y-%m-%d}"
    found = {each["text"]: (each["severity"], each["about"]) for each in done.json["findings"]}
    assert found.pop(text) == (severity, server.url)
    # The client does not trust who has issued it, so nothing else is known.
    assert [*found.values()] == [("error", server.url)]
