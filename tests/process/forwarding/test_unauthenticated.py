"""Clients that connect to the peer port without proving that they are peers do not keep peers out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from registry.domain.commands import Done, Register
from registry.forwarding.authentication import ANY_TIME, Security
from registry.forwarding.http2_connection import connect
from registry.forwarding.http2_server import UNAUTHENTICATED_MAX, Http2Server, UnauthenticatedConnections
from registry.forwarding.node_port import IDENTITY
from tests.process.forwarding.certificates import security
from tests.process.forwarding.members import group
from tests.process.forwarding.test_forwarding import SCHEMA, running, submit
from tests.support.certificates import Authority
from tests.support.running import until_async


@running
async def test_more_strangers_than_there_is_room_for_keep_no_peer_out() -> None:
    secret = Security(secret="a secret of sixteen")
    async with group(2, secret) as nodes:
        host, _, port = nodes.identities[0].peer.rpartition(":")
        clients = [await asyncio.open_connection(host, int(port)) for _ in range(UNAUTHENTICATED_MAX + 20)]
        server: Any = nodes.members[0].peers._server
        await until_async(lambda: len(server._unauthenticated) == UNAUTHENTICATED_MAX, "the unauthenticated")
        await asyncio.wait_for(clients[0][0].read(), 5.0)  # The first one to come has gone.
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        for _, writer in clients:
            writer.close()


@running
async def test_a_replayed_identity_request_is_no_proof_of_a_peer() -> None:
    secret = Security(secret="a secret of sixteen")
    async with group(2, secret) as nodes:
        headers, _ = secret.signings().current[0].request("GET", IDENTITY, b"", ANY_TIME)
        server: Any = nodes.members[0].peers._server
        strangers = [await connect(nodes.identities[0].peer, 5.0, None) for _ in range(3)]
        for each in strangers:
            assert (await each.request("GET", IDENTITY, headers, b"")).status == 200
        assert len(server._unauthenticated) == 3
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        await until_async(lambda: server.watchers == 1, "the peer to watch")
        assert len(server._unauthenticated) == 3  # The peer's connections are none of them.
        host, _, port = nodes.identities[0].peer.rpartition(":")
        others = [await asyncio.open_connection(host, int(port)) for _ in range(UNAUTHENTICATED_MAX)]
        for each in strangers:
            await asyncio.wait_for(each.closed, 4.0)  # Others have taken their slots.
        assert server.watchers == 1
        for _, writer in others:
            writer.close()


@running
async def test_a_peer_that_leaves_before_it_is_served_is_no_failure(tmp_path: Path) -> None:
    tls = security(Authority(), tmp_path, "node").tls()
    assert tls is not None
    served: asyncio.Queue[str] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        await reader.read()
        try:
            await Http2Server().serve(None, b"", reader, writer)
        except Exception as error:
            await served.put(repr(error))
        else:
            await served.put("")

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.context)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls.client, server_hostname="localhost")
    assert await served.get() == ""
    writer.close()
    server.close()


@running
async def test_who_stays_a_stranger_is_sent_away_and_who_does_not_is_not() -> None:
    ended: list[str] = []
    unauthenticated = UnauthenticatedConnections(within_s=0.05)
    known = unauthenticated.add(lambda: ended.append("known"))
    unauthenticated.add(lambda: ended.append("unknown"))
    known.release()
    await until_async(lambda: not len(unauthenticated), "the time to be over")
    assert ended == ["unknown"]
