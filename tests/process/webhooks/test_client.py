"""The client of webhooks against real receivers: redirects, hangs, long answers, TLS and addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from registry.base.processes.tls_connections import client_context
from registry.webhooks.client import ANSWER_BYTES_MAX, Client, Resolver
from registry.webhooks.destinations import Destinations
from registry.webhooks.message import Undelivered
from tests.support.certificates import LOOPBACK_NAMES, Authority
from tests.support.receiver import Receiver, Reply
from tests.support.running import free_port, until_async

HEADERS = {"content-type": "application/json", "webhook-signature": "v1,x"}
BODY = b'{"data":{}}'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as found:
        yield found


def post(
    url: str,
    *,
    allowed: tuple[str, ...] = ("localhost",),
    plain_http: bool = True,
    timeout_s: float = 10.0,
    redirects: int = 0,
    ca_file: str = "",
    resolver: Resolver | None = None,
) -> int | Undelivered:
    """Return the status of a delivery, or why there was none."""

    async def once() -> int:
        destinations = Destinations(allowed, plain_http=plain_http)
        client = Client(
            destinations,
            tls=client_context(ca_file),
            timeout_s=timeout_s,
            redirects=redirects,
            resolver=resolver,
        )
        try:
            return await client.post(url, HEADERS, BODY)
        finally:
            await client.close()

    try:
        return asyncio.run(once())
    except Undelivered as error:
        return error


def inside(receiver: Receiver, path: str = "/inside") -> str:
    """Return the receiver's URL by an address that is not allowed."""
    return f"http://127.0.0.1:{receiver.port}{path}"


def redirect(status: int, to: str) -> Reply:
    return Reply(status, (("location", to),))


def test_a_message_arrives_as_it_is(receiver: Receiver) -> None:
    assert post(f"{receiver.url}/hook?x=1") == 204
    received = receiver.received[0]
    assert (received.path, received.body) == ("/hook?x=1", BODY)
    assert HEADERS.items() <= received.headers.items()


def test_no_redirect_is_followed_unless_that_is_allowed(receiver: Receiver) -> None:
    receiver.replies += [redirect(307, "/there"), redirect(308, f"{receiver.url}/there")]
    refused = post(receiver.url)
    assert str(refused) == "the receiver answered 307 a redirect, which is not followed"
    assert post(receiver.url, redirects=1) == 204
    assert [(each.path, each.body) for each in receiver.received] == [
        ("/", BODY),
        ("/", BODY),
        ("/there", BODY),
    ]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_redirects_that_drop_the_body_are_never_followed(receiver: Receiver, status: int) -> None:
    receiver.replies.append(redirect(status, "/there"))
    assert isinstance(post(receiver.url, redirects=5), Undelivered)
    assert len(receiver.received) == 1


def test_a_redirect_into_the_network_is_refused(receiver: Receiver) -> None:
    for to in (
        inside(receiver),
        f"http://0x7f000001:{receiver.port}/inside",
        f"http://[::ffff:127.0.0.1]:{receiver.port}/inside",
        "ftp://localhost/",
        "//:x/",
    ):
        receiver.replies.append(redirect(307, to))
        assert isinstance(post(receiver.url, redirects=5), Undelivered), to
    assert {each.path for each in receiver.received} == {"/"}


def test_the_number_of_redirects_is_bounded(receiver: Receiver) -> None:
    receiver.usual = redirect(307, "/again")
    assert isinstance(post(receiver.url, redirects=3), Undelivered)
    assert len(receiver.received) == 4


def test_names_and_spellings_of_addresses_within_the_network_are_not_connected_to(receiver: Receiver) -> None:
    for host in ("127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost"):
        refused = post(f"http://{host}:{receiver.port}/", allowed=())
        assert "is not a public address" in str(refused), host
    assert receiver.received == []


def test_a_receiver_that_hangs_is_given_up(receiver: Receiver) -> None:
    released = threading.Event()
    receiver.replies.append(Reply(gate=released))
    try:
        assert str(post(receiver.url, timeout_s=0.3)) == "no answer within 0.3 s"
    finally:
        released.set()


def test_an_answer_is_read_up_to_a_limit(receiver: Receiver) -> None:
    receiver.replies.append(Reply(200, body=b"x" * (8 * ANSWER_BYTES_MAX)))
    assert post(receiver.url) == 200


def test_a_failure_says_what_the_receiver_asked_for(receiver: Receiver) -> None:
    receiver.replies.append(Reply(503, (("retry-after", "7"),)))
    failure = post(receiver.url)
    assert isinstance(failure, Undelivered)
    assert (str(failure), failure.status, failure.retry_after_s) == ("the receiver answered 503", 503, 7)


def test_nobody_there_is_a_failure() -> None:
    assert isinstance(post(f"http://localhost:{free_port()}/"), Undelivered)
    assert "cannot resolve" in str(post(f"http://{'a' * 64}.example/"))


def test_names_that_are_never_resolved_delay_no_other_and_not_the_end(receiver: Receiver) -> None:
    released = threading.Event()
    looked_up = []

    def look_up(host: str, *given: Any, **more: Any) -> list[Any]:
        if host != "localhost":
            looked_up.append(host)
            released.wait()
        return socket.getaddrinfo(host, *given, **more)

    async def all_at_once() -> None:
        client = Client(
            Destinations(("localhost",), plain_http=True), tls=client_context(), timeout_s=60.0, redirects=0,
            resolver=Resolver(look_up),
        )  # fmt: skip
        hung = (f"http://silent-{number // 2}.example/" for number in range(64))
        tasks = [asyncio.create_task(client.post(url, HEADERS, BODY)) for url in hung]
        await until_async(lambda: len(looked_up) == 32, "all names to be looked up")
        assert await client.post(receiver.url, HEADERS, BODY) == 204
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    try:
        asyncio.run(all_at_once())
    finally:
        released.set()
    assert len(looked_up) == 32, "each name was looked up once for all that wait for it"


@pytest.mark.parametrize(
    "endless", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"x" * 1000, b"x"]
)
def test_a_receiver_that_never_stops_answering_is_given_up(endless: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                while True:
                    connection.sendall(endless * 1000)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        refused = post(f"http://localhost:{server.getsockname()[1]}/", timeout_s=60.0)
        serving.join(60.0)
        assert not serving.is_alive()
    assert isinstance(refused, Undelivered)
    assert "no answer" not in str(refused)


def test_certificates_are_verified(receiver: Receiver, tmp_path: Path) -> None:
    authority = Authority(plain=True)
    ca_file = str(authority.write(tmp_path, "ca"))
    with Receiver() as other:
        for each, names in (receiver, LOOPBACK_NAMES), (other, [x509.DNSName("other.example")]):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*authority.issue(names=names).write(tmp_path, "server"))
            each.serve_tls(context)
        assert "certificate verify failed" in str(post(receiver.url, plain_http=False))
        assert post(receiver.url, plain_http=False, ca_file=ca_file) == 204
        assert "match" in str(post(other.url, plain_http=False, ca_file=ca_file))
        assert (len(receiver.received), len(other.received)) == (1, 0)
