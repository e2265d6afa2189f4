"""HTTP as clients really send it, over real sockets."""

from __future__ import annotations

import json
import re
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.process.raw import RawClient, Reply, get, post
from tests.process.test_lifecycle import children
from tests.support.running import PATIENT, Registry, until

STRING = json.dumps({"schema": '"string"'}).encode()
# Time enough to send headers after connecting; clients that have sent them wait for the end of a time.
SECONDS = ("--header-timeout-s", "3", "--body-timeout-s", "1", "--idle-timeout-s", "3")
# Less than any of these times is by default, so that waiting for the default is noticed.
SOON_S = 9.0


@contextmanager
def running(data: Path, *flags: str) -> Iterator[Registry]:
    registry = Registry(data, *flags).wait()
    known = f"{registry.url}/subjects/known/versions"
    httpx.post(known, content=STRING, timeout=PATIENT).raise_for_status()
    try:
        yield registry
        assert registry.stop() == 0, registry.output
    finally:
        registry.kill()
    assert "Traceback" not in registry.output


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Start one with the default times: no test fails because it, or the registry, froze for a second."""
    data = tmp_path_factory.mktemp("http") / "data"
    with running(data, "--readers", "2", "--body-bytes-max", "65536") as registry:
        yield registry


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    data = tmp_path_factory.mktemp("impatient") / "data"
    with running(data, "--readers", "1", *SECONDS) as registry:
        yield registry


@pytest.fixture
def client(served: Registry) -> Iterator[RawClient]:
    with RawClient(served.port) as opened:
        yield opened


def refused(reply: Reply, code: int) -> None:
    """Check a refusal in the documented shape."""
    assert reply.status == code
    assert json.loads(reply.body)["error_code"] == code
    assert reply.headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def test_old_http_is_answered_and_closed(client: RawClient) -> None:
    reply = client.send(b"GET /subjects/known/versions HTTP/1.0\r\n\r\n").reply()
    assert (reply.status, reply.body) == (200, b"[1]")
    assert reply.headers["connection"] == "close"
    assert client.rest() == b""


def test_old_http_may_keep_its_connection(client: RawClient) -> None:
    request = b"GET /schemas/ids/1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert client.send(request).reply().headers["connection"] == "keep-alive"
    assert client.send(request).reply().status == 200


def test_pipelined_requests_are_answered_in_their_order(client: RawClient) -> None:
    slow, quick = get("/subjects/known/versions/1"), get("/schemas/ids/1")
    client.send((slow + quick + post("/subjects/known/versions", STRING)) * 20)
    replies = [client.reply() for _ in range(60)]
    assert [each.status for each in replies] == [200] * 60
    assert all(b'"id":1,' in each.body for each in replies[::3])
    assert all(b'"version":1' in each.body for each in replies[2::3])


def test_a_client_that_has_closed_its_side_is_answered(client: RawClient) -> None:
    client.send(get("/schemas/ids/1") + post("/subjects/half/versions", STRING)).close_sending()
    assert client.reply().status == 200
    assert client.reply().status == 200
    assert client.rest() == b""


def test_chunked_bodies_are_served(client: RawClient) -> None:
    path = b"/subjects/chunked/versions"
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x;note=1\r\n%s\r\n" % (1, STRING[i : i + 1]) for i in range(len(STRING)))
    assert client.send(head + chunks + b"0\r\nTrailer: x\r\n\r\n").reply().status == 200
    assert client.send(get("/subjects/chunked/versions")).reply().body == b"[1]"


def test_a_client_may_ask_before_it_sends(client: RawClient) -> None:
    head, _, body = post("/subjects/known/versions", STRING, "Expect: 100-continue").partition(b"\r\n\r\n")
    assert client.send(head + b"\r\n\r\n").reply().status == 100
    assert client.send(body).reply().status == 200


def test_a_request_in_pieces_is_served(client: RawClient) -> None:
    for at in range(len(request := get("/schemas/ids/1", "Accept: application/json"))):
        client.send(request[at : at + 1])
    assert client.reply().status == 200


@pytest.mark.parametrize(
    "line",
    [
        b"GET /schemas/ids/1 HTTP/1.1",
        b"GET /schemas/ids/1?subject=known HTTP/1.1",
        b"GET /schemas/ids/77 HTTP/1.1",
        b"GET /subjects/known/versions HTTP/1.1\r\nX-Registry-Min-Offset: -1",
        b"GET /schemas/ids/1 HTTP/1.1\r\nX-Request-Id: GET / HTTP/1.1",
        b"GET /schemas/ids/1 HTTP/1.0",
        b"GET /schemas/ids/ 1 HTTP/1.1",
        b"GET  /schemas/ids/1 HTTP/1.1",
        b"GET /schemas/ids/\xff HTTP/1.1",
        b"GET /schemas/ids/\x00 HTTP/1.1",
        b"GET /schemas/ids/1#part HTTP/1.1",
        b"GET http://x/schemas/ids/1 HTTP/1.1",
        b"GET schemas/ids/1 HTTP/1.1",
        b"get /schemas/ids/1 HTTP/1.1",
        b"POST /schemas/ids/1 HTTP/1.1",
        b"GET / HTTP/1.1 HTTP/1.1",
        b"",
    ],
)
def test_a_first_line_means_the_same_before_headers_that_came_already(
    client: RawClient, served: Registry, line: bytes
) -> None:
    headers = b"\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
    with RawClient(served.port) as other:
        expected = other.send(line + headers).reply()
    for _ in range(2):
        assert client.send(b"GET /schemas/ids/1 HTTP/1.1" + headers).reply().status == 200
    reply = client.send(line + headers).reply()
    assert (reply.status, reply.body) == (expected.status, expected.body)
    assert reply.headers.keys() == expected.headers.keys()


def test_headers_that_changed_are_read_anew(client: RawClient) -> None:
    for name in ("one", "two", "two", "one"):
        reply = client.send(get("/schemas/ids/1", f"X-Request-Id: {name}")).reply()
        assert reply.headers["x-request-id"] == name
    assert client.send(post("/subjects/known/versions", STRING)).reply().status == 200
    assert client.send(get("/schemas/ids/1")).reply().headers["x-request-id"] not in ("one", "two")


def test_bodies_are_read_anew_behind_headers_that_came_already(client: RawClient) -> None:
    known = post("/subjects/known/versions", STRING)
    other = post("/subjects/known", STRING.replace(b"string", b"double"))
    assert len(known.partition(b"\r\n\r\n")[2]) == len(other.partition(b"\r\n\r\n")[2])
    for request, status in ((known, 200), (other, 404), (known, 200), (other, 404)):
        assert client.send(request).reply().status == status
    for at in (len(known) - 1, len(known) - 30, 20):
        client.send(known[:at])
        assert client.send(known[at:] + other).reply().status == 200
        assert client.reply().status == 404
    assert client.send(known + known[:40]).reply().status == 200
    assert client.send(known[40:]).reply().status == 200


def test_an_absolute_target_is_served(client: RawClient) -> None:
    assert client.send(get("http://anywhere:1/subjects/known/versions")).reply().body == b"[1]"


def test_an_encoded_slash_is_part_of_the_name(client: RawClient) -> None:
    assert client.send(post("/subjects/a%2Fb/versions", STRING)).reply().status == 200
    assert b'"a/b"' in client.send(get("/subjects")).reply().body
    assert client.send(get("/subjects/a%2Fb/versions")).reply().body == b"[1]"
    assert client.send(get("/subjects/a/b/versions")).reply().status == 404


def test_head_has_the_headers_of_get(client: RawClient) -> None:
    body = client.send(get("/subjects/known/versions/1")).reply().body
    request = get("/subjects/known/versions/1").replace(b"GET", b"HEAD")
    reply = client.send(request).reply(bodiless=True)
    assert reply.headers["content-length"] == str(len(body))
    assert client.send(get("/schemas/types")).reply().status == 200


def test_head_reports_no_length_of_a_stream(client: RawClient) -> None:
    request = get("/changes", "Accept: text/event-stream").replace(b"GET", b"HEAD")
    reply = client.send(request).reply(bodiless=True)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-length" not in reply.headers
    assert client.send(get("/schemas/types")).reply().status == 200


@pytest.mark.parametrize("target", ["/schemas/ids/1", "/subjects", "/nowhere"])
def test_the_request_id_is_the_clients_own_or_a_new_uuid(client: RawClient, target: str) -> None:
    assert client.send(get(target, "X-Request-ID: mine")).reply().headers["x-request-id"] == "mine"
    blank, a, b = "X-Request-ID:", "X-Request-ID: a", "X-Request-ID: b"
    fresh: list[tuple[str, ...]] = [(), (blank,), (blank, b), (a, b)]
    given = [client.send(get(target, *headers)).reply().headers["x-request-id"] for headers in fresh * 2]
    assert len(set(given)) == len(given)
    assert all(str(uuid.UUID(each)) == each and uuid.UUID(each).version == 4 for each in given)


@pytest.mark.parametrize("broken", [get("/", "Connection: upgrade", "Upgrade: x"), b"broken\r\n\r\n"])
def test_what_the_server_itself_refuses_has_the_headers_of_every_answer(
    client: RawClient, broken: bytes
) -> None:
    reply = client.send(get("/schemas/ids/1", "X-Request-ID: a") + broken).reply()
    standing = {"x-request-id", "x-registry-offset", "cache-control", "x-xss-protection"}
    refusal = client.reply()
    assert standing <= refusal.headers.keys()
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert refusal.headers["x-content-type-options"] == "nosniff"
    assert refusal.headers["x-registry-offset"] == reply.headers["x-registry-offset"]
    assert uuid.UUID(refusal.headers["x-request-id"]).version == 4


def test_a_refusal_before_the_body_carries_the_request_id(client: RawClient) -> None:
    head = "POST /subjects/no/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n"
    reply = client.send(f"{head}X-Request-ID: mine\r\n\r\n".encode()).reply()
    assert (reply.status, reply.headers["x-request-id"]) == (413, "mine")


def test_an_offer_of_http2_is_declined(client: RawClient) -> None:
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    assert client.send(post("/subjects/known/versions", STRING, *offer)).reply().status == 200
    assert client.send(get("/subjects/known/versions", *offer)).reply().status == 200
    assert client.send(get("/subjects/known/versions")).reply().body == b"[1]"


def test_a_client_that_begins_with_http2_is_refused(client: RawClient) -> None:
    refused(client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").reply(), 400)


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/subjects", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        get("/subjects/%zz/versions"),
        get("/subjects/%ff/versions"),
        b"GET /subjects HTTP/1.1\r\n\r\n",
        b"GET /subjects HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET /subjects\r\n\r\n",
        b"GET /subjects HTTP/2.0\r\nHost: a\r\n\r\n",
        post("/subjects/no/versions", b"").replace(b"Length: 0", b"Length: -1"),
        post("/subjects/no/versions", b"").replace(b"Length: 0", b"Length: 1, 2"),
        post("/subjects/no/versions", STRING, "Transfer-Encoding: chunked"),
        b"POST /subjects/no/versions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)  # fmt: skip
def test_broken_requests_are_refused_in_the_documented_shape(client: RawClient, request_bytes: bytes) -> None:
    refused(client.send(request_bytes).reply(), 400)


def test_what_came_before_a_broken_request_is_answered(client: RawClient) -> None:
    client.send(get("/subjects/known/versions") + b"broken\r\n\r\n")
    assert client.reply().body == b"[1]"
    refused(client.reply(), 400)
    assert client.rest() == b""


def test_tunnels_are_refused(client: RawClient) -> None:
    refused(client.send(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").reply(), 405)


def test_a_body_cut_short_is_refused_and_changes_nothing(client: RawClient, served: Registry) -> None:
    request = post("/subjects/cut/versions", STRING)
    refused(client.send(request[:-1]).close_sending().reply(), 400)
    assert httpx.get(f"{served.url}/subjects/cut/versions", timeout=PATIENT).status_code == 404


@pytest.mark.parametrize("told", [True, False], ids=["said beforehand", "found on the way"])
def test_a_body_over_the_limit_is_refused_before_it_is_read(client: RawClient, told: bool) -> None:
    head = "Content-Length: 1000000000" if told else "Transfer-Encoding: chunked"
    client.send(f"POST /subjects/no/versions HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
    if not told:
        client.send(b"%x\r\n%s\r\n" % (70_000, b"x" * 70_000))
    reply = client.reply()
    refused(reply, 413)
    size = "1000000000" if told else r"\d+"
    assert re.fullmatch(f"Request body is too large: {size}>65536", json.loads(reply.body)["message"])
    assert client.rest() == b""


@pytest.mark.parametrize(
    "request_bytes", [get("/" + "a" * 70_000), get("/", "X: " + "a" * 70_000), get("/", *["X: y"] * 20_000)]
)
def test_headers_over_the_limit_are_refused(client: RawClient, request_bytes: bytes) -> None:
    refused(client.send(request_bytes).reply(), 431)


def test_a_silent_connection_is_dropped(impatient: Registry) -> None:
    with RawClient(impatient.port) as client:
        assert client.seconds_until_closed() < SOON_S


def test_an_idle_connection_is_dropped(impatient: Registry) -> None:
    with RawClient(impatient.port) as client:
        client.send(get("/schemas/ids/1")).reply()
        assert client.seconds_until_closed() < SOON_S


def test_an_idle_connection_outlasts_a_silent_one(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", "--readers", "1", "--header-timeout-s", "3") as registry,
        RawClient(registry.port) as idle,
        RawClient(registry.port) as silent,
    ):
        idle.send(get("/schemas/ids/1")).reply()
        silent.seconds_until_closed()
        assert idle.send(get("/schemas/ids/1")).reply().status == 200


def test_slow_headers_are_refused_after_a_time(impatient: Registry) -> None:
    with RawClient(impatient.port) as client:
        refused(client.send(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\nX-").reply(), 408)


def test_a_body_that_nobody_wants_ends_the_connection(client: RawClient) -> None:
    """Neither side waits for the other: the answer comes, and the rest of the body is discarded."""
    head = b"GET /subjects/known/versions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    client.send(head + b"".join(b"1\r\nx\r\n" for _ in range(1000)) + b"0\r\n\r\n")
    assert client.reply().body == b"[1]"


def test_a_connection_ends_when_its_client_goes(served: Registry) -> None:
    pids = {module: pid for pid, module in children(served).items()}
    pid = pids.get("registry-reader") or pids["registry-node"]
    before = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    for _ in range(50):
        with RawClient(served.port) as client:
            assert client.send(get("/subjects/known/versions")).reply().status == 200

    def all_are_gone() -> bool:
        return len(list(Path(f"/proc/{pid}/fd").iterdir())) <= before + 2

    until(all_are_gone, 30, "the connections to be closed, before their idle time is over")


def test_half_a_connection_ends_with_its_answer(client: RawClient) -> None:
    client.send(get("/subjects/known/versions")).close_sending()
    assert client.reply().body == b"[1]"
    assert client.seconds_until_closed() < SOON_S


def test_a_slow_body_is_refused_after_a_time(impatient: Registry) -> None:
    with RawClient(impatient.port) as client:
        refused(client.send(post("/subjects/slow/versions", STRING)[:-1]).reply(), 408)
    slow = f"{impatient.url}/subjects/slow/versions"
    assert httpx.get(slow, timeout=PATIENT).status_code == 404


def test_a_client_that_never_reads_is_dropped(impatient: Registry) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port)) as greedy:
        greedy.settimeout(0.2)
        request = get("/openapi.json") * 100

        def dropped() -> bool:
            try:
                greedy.sendall(request)
            except TimeoutError:
                return False
            except OSError:
                return True
            return False

        until(dropped, SOON_S, "the connection to be dropped")


def test_many_slow_clients_do_not_keep_others_waiting(served: Registry) -> None:
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(200)]
    try:
        for each in slow:
            each.sendall(b"POST /subjects/x/versions HTTP/1.1\r\nContent-Len")
        # Less than the time for headers: until then no such connection is dropped.
        assert httpx.get(f"{served.url}/schemas/ids/1", timeout=10).status_code == 200
    finally:
        for each in slow:
            each.close()


def test_one_answer_is_one_line_where_that_is_wanted(tmp_path: Path) -> None:
    flags = ("--readers", "1", "--access-log", "--log-format", "json")
    registry = Registry(tmp_path / "data", *flags).wait()
    httpx.get(f"{registry.url}/subjects?prefix=%2F", timeout=PATIENT)
    assert registry.stop() == 0
    lines = [json.loads(line) for line in registry.output.splitlines() if line.startswith("{")]
    found = [line for line in lines if line.get("target") == "/subjects?prefix=%2F"]
    assert [(line["method"], line["status"], line["process"]) for line in found] == [("GET", 200, "reader")]


@pytest.mark.parametrize(
    "target", ["/schemas/ids/1", "/subjects/known/versions/latest", "/subjects", "/node"]
)
def test_a_name_that_only_resolves_to_this_machine_is_refused(client: RawClient, target: str) -> None:
    good = get(target)
    assert client.send(good).reply().status == 200
    refused(client.send(good.replace(b"localhost", b"evil.example")).reply(), 403)
    assert client.send(good).reply().status == 200


def test_a_page_of_another_site_cannot_repeat_a_registration(client: RawClient) -> None:
    origin = "Origin: https://evil.example"
    refused(client.send(post("/subjects/known/versions", STRING, origin)).reply(), 403)


def test_the_operators_headers_are_on_every_answer(tmp_path: Path) -> None:
    config = "set Strict-Transport-Security:max-age=31536000, set Cache-Control:no-store"
    flags = ("--readers", "1", "--response-http-headers-config", config)
    with running(tmp_path / "data", *flags) as registry, RawClient(registry.port) as client:
        for request, status in (
            (get("/schemas/ids/1"), 200),
            (get("/subjects/known/versions/latest"), 200),
            (get("/subjects"), 200),
            (get("/schemas/ids/77"), 404),
            (get("/nowhere"), 404),
            (get("/health/ready"), 200),
            (post("/subjects/known/versions", STRING), 200),
            (get("/subjects", "Upgrade: x", "Connection: upgrade"), 400),
        ):
            reply = client.send(request).reply()
            assert reply.status == status
            assert reply.headers["strict-transport-security"] == "max-age=31536000"
            assert reply.headers["cache-control"] == "no-store"


def test_confluents_size_filter_bounds_bodies_where_it_is_enabled(tmp_path: Path) -> None:
    limit = len(STRING) + 5
    flags = ("--readers", "1", "--size-limit-filter-max-request-body-size", str(limit))
    enabled = ("--size-limit-filter-enabled", *flags)
    with running(tmp_path / "data", *enabled) as registry, RawClient(registry.port) as client:
        assert client.send(post("/subjects/fits/versions", STRING.ljust(limit))).reply().status == 200
        reply = client.send(post("/subjects/no/versions", STRING.ljust(limit + 1))).reply()
        refused(reply, 413)
        assert json.loads(reply.body)["message"] == f"Request body is too large: {limit + 1}>{limit}"
    with running(tmp_path / "other", *flags) as registry, RawClient(registry.port) as client:
        assert client.send(post("/subjects/fits/versions", STRING.ljust(limit + 1))).reply().status == 200
