"""The server's TLS listeners: handshakes, their bounds, and the client's certificate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from registry.base.processes.tls_connections import Verified
from registry.http1.messages import Answer, Client, Limits, Request
from registry.http1.server import Server
from registry.http1.service import Message, Receive, Send
from tests.support.certificates import Authority
from tests.support.running import until_async

from .clients import Run, loops

GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Keys:
    """The files of a server and of its clients."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.ca = self.authority.write(folder, "ca")
        self.server = self.authority.issue().write(folder, "server")
        self.alice = self.authority.issue("CN=alice").write(folder, "alice")

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def of_alice(self) -> ssl.SSLContext:
        context = self.client()
        context.load_cert_chain(*self.alice)
        return context


class ServerTls:
    """A listener's TLS with optional client certificates."""

    def __init__(self, keys: Keys) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*keys.server)
        self.context.load_verify_locations(keys.ca)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.expires = math.inf
        self.revision = 0

    def verify(self, certificate: bytes) -> Verified:
        return Verified(f"{len(certificate) > 100}", self.expires)

    def trusts(self, context: ssl.SSLContext) -> bool:
        assert context is self.context
        return not self.revision


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


@contextlib.asynccontextmanager
async def served(keys: Keys, limits: Limits | None = None, **given: Any) -> AsyncIterator[Server]:
    app, https = given.pop("app", described), given.pop("tls", None) or ServerTls(keys)
    server = Server(app, limits=limits, **given)
    for tls in (https, None):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        await server.start(listener, tls)
    try:
        yield server
    finally:
        await server.stop(0.0)


async def described(scope: Any, receive: Receive, send: Send) -> None:
    """Answer with the scope's information about the connection."""
    body = f"{scope['scheme']} {scope['server'][1]} {scope['extensions']} {len(scope['client'])}".encode()
    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def port(server: Server, number: int = 0) -> int:
    address = server.addresses[number]
    assert address is not None
    return address[1]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the body of the answer to a request, and close the connection."""
    writer.write(GET)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    writer.transport.abort()
    return body


@loops
def test_http_and_https_are_served_side_by_side(run: Run, keys: Keys) -> None:
    async def main() -> None:
        async with served(keys) as server:
            https, http = port(server, 0), port(server, 1)
            plain = await answer(*await asyncio.open_connection("127.0.0.1", http))
            assert plain == f"http {http} {{}} 2".encode()
            streams = await asyncio.open_connection("127.0.0.1", https, ssl=keys.client())
            assert await answer(*streams) == f"https {https} {{'tls': {{'principal': ''}}}} 2".encode()

    run(main())


@loops
def test_a_client_certificate_names_the_principal_of_every_request(run: Run, keys: Keys) -> None:
    seen: list[Client] = []

    def fast_path(request: Request, client: Client) -> Answer | None:
        seen.append(client)
        return None

    async def main() -> None:
        context = keys.client()
        context.load_cert_chain(*keys.alice)
        async with served(keys, fast_path=fast_path) as server:
            streams = await asyncio.open_connection("127.0.0.1", port(server), ssl=context)
            own = streams[1].get_extra_info("sockname")
            assert b"{'tls': {'principal': 'True'}}" in await answer(*streams)
            assert seen == [Client(own[0], own[1], "True")]

    run(main())


WITHDRAWN = {
    "expired": lambda tls: setattr(tls, "expires", time.time()),
    "removed": lambda tls: setattr(tls, "revision", 1),
}


@loops
@pytest.mark.parametrize("withdraw", WITHDRAWN.values(), ids=WITHDRAWN)
def test_a_certificate_that_does_not_count_gets_no_answer(
    run: Run, keys: Keys, withdraw: Callable[[ServerTls], None]
) -> None:
    """As after a handshake that resumes a session, or that began before the authority was removed."""

    async def main() -> None:
        tls = ServerTls(keys)
        withdraw(tls)
        async with served(keys, tls=tls) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", port(server), ssl=keys.of_alice())
            writer.write(GET)
            assert await reader.read() == b""
            writer.close()
            streams = await asyncio.open_connection("127.0.0.1", port(server), ssl=keys.client())
            assert await answer(*streams), "a client without a certificate has none to lose"

    run(main())


@loops
def test_connections_end_when_their_authority_is_removed(run: Run, keys: Keys) -> None:
    """An idle one and one that sends a body at once, an open answer too; a request is answered first."""
    paths: list[bytes] = []
    release, helds = asyncio.Event(), []

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        paths.append(scope["raw_path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["raw_path"] == b"/held":
            await send({"type": "http.response.hold", "hold": helds.append})
            return
        await release.wait()
        await send({"type": "http.response.body", "body": b"done"})

    async def main() -> None:
        tls = ServerTls(keys)
        async with served(keys, tls=tls, app=app) as server:
            sent = {
                "idle": b"",
                "body": b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nbegun",
                "held": GET.replace(b" / ", b" /held "),
                "served": GET + GET.replace(b" / ", b" /second "),
                "stranger": b"",
            }
            opened = {}
            for name, request in sent.items():
                context = keys.client() if name == "stranger" else keys.of_alice()
                opened[name] = await asyncio.open_connection("127.0.0.1", port(server), ssl=context)
                opened[name][1].write(request)
            await until_async(lambda: len(paths) == 2 and server.connections == 5, "the requests")
            tls.revision += 1
            assert await opened["idle"][0].read() == b""
            assert await opened["body"][0].read() == b""
            assert (await opened["held"][0].read()).endswith(b"0\r\n\r\n")
            release.set()
            assert (await opened["served"][0].read()).endswith(b"done")
            assert sorted(paths) == [b"/", b"/held"], "what was sent ahead is not served"
            assert await answer(*opened.pop("stranger"))
            for _, writer in opened.values():
                writer.close()

    run(main())


@loops
def test_a_connection_ends_when_its_certificate_expires(run: Run, keys: Keys) -> None:
    """Not earlier; it expires a moment after the handshake, however long that takes."""

    class ShortLived(ServerTls):
        def verify(self, certificate: bytes) -> Verified:
            self.expires = time.time() + 0.3
            return super().verify(certificate)

    async def main() -> None:
        tls = ShortLived(keys)
        async with served(keys, Limits(header_timeout_s=math.inf), tls=tls) as server, asyncio.timeout(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port(server), ssl=keys.of_alice())
            assert await reader.read() == b""
            assert time.time() >= tls.expires
            writer.close()

    run(main())


@loops
def test_unfinished_handshakes_are_counted_and_bounded_in_time(run: Run, keys: Keys) -> None:
    async def main() -> None:
        limits = Limits(connections_max=3, header_timeout_s=0.3)
        async with served(keys, limits) as server, contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                stack.enter_context(socket.create_connection(("127.0.0.1", port(server))))
            await until_async(lambda: server.connections == 3, "three handshakes")
            reader, writer = await asyncio.open_connection("127.0.0.1", port(server))
            assert await reader.read() == b"", "one connection more is closed"
            writer.close()
            await until_async(lambda: server.connections == 0, "the handshakes to time out")
            streams = await asyncio.open_connection("127.0.0.1", port(server), ssl=keys.client())
            assert await answer(*streams)

    run(main())


HOSTILE = {
    "http": GET,
    "nothing": b"",
    "random": bytes(range(256)) * 300,
    "old": b"\x80\x2e\x01\x00\x02" + bytes(100),
    "record": b"\x16\x03\x01\xff\xff" + bytes(70_000),
    "alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "hello": b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03",
    "empty records": b"\x16\x03\x03\x00\x00" * 2000,
}


@loops
@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_end_only_their_connection(
    run: Run, keys: Keys, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with served(keys) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", port(server))
            writer.write(sent)
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):  # if it was closed with bytes unread
                await reader.read()
            writer.transport.abort()
            await until_async(lambda: server.connections == 0, "the connection to be closed")
            streams = await asyncio.open_connection("127.0.0.1", port(server), ssl=keys.client())
            assert await answer(*streams)

    with caplog.at_level(logging.INFO):
        run(main())
    assert not caplog.records


@loops
def test_tls_on_the_plain_port_is_refused_cleanly(
    run: Run, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with served(keys) as server:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port(server, 1), ssl=keys.client())
            await until_async(lambda: server.connections == 0, "the connection to be closed")

    with caplog.at_level(logging.INFO):
        run(main())
    assert not caplog.records


@loops
def test_a_connection_that_closes_in_the_midst_of_a_request_leaves_nothing(
    run: Run, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with served(keys) as server:
            for last in (b"GET / HT", GET):
                _, writer = await asyncio.open_connection("127.0.0.1", port(server), ssl=keys.client())
                writer.write(last)
                await writer.drain()
                await until_async(lambda: server.connections == 1, "the connection")
                writer.close()
                await until_async(lambda: server.connections == 0, "the connection to be closed")

    with caplog.at_level(logging.INFO):
        run(main())
    assert not caplog.records


@loops
def test_clients_that_wait_to_be_accepted_are_served_when_the_server_stops(run: Run, keys: Keys) -> None:
    async def main() -> None:
        async with served(keys) as server:
            loop = asyncio.get_running_loop()
            clients = [socket.create_connection(("127.0.0.1", port(server))) for _ in range(5)]
            stopping = loop.create_task(server.stop(10.0))
            connecting = [
                loop.create_task(
                    asyncio.open_connection(sock=each, ssl=keys.client(), server_hostname="localhost")
                )
                for each in clients
            ]
            for each in connecting:
                assert await answer(*await each)
            await stopping

    run(main())


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@loops
def test_files_of_connections_are_closed(run: Run, keys: Keys) -> None:
    async def main() -> None:
        async with served(keys) as server:
            before = open_files()
            for sent in (GET, HOSTILE["random"], b""):
                with socket.create_connection(("127.0.0.1", port(server))) as client:
                    client.sendall(sent)
                await until_async(lambda: server.connections == 0, "the connection to be closed")
            await until_async(lambda: open_files() == before, "files to be closed")

    run(main())
