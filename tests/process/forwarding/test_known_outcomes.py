"""Writes that no primary can have executed: they are refused, and never said to be of unknown outcome."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded

from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import DeleteSubject, Done, NotPrimary, Outcome, Refused, Register, Unknown
from registry.forwarding import confluent_client
from registry.forwarding.confluent_client import ConfluentClient
from registry.forwarding.http2_connection import Broken, NotSent, connect
from registry.forwarding.http2_server import read_body
from registry.forwarding.reports import REPORTED_BYTES_MAX
from registry.node.command_router import CommandRouter
from registry.node.leadership.identity import identity_of
from tests.process.forwarding.members import Group, Member, group
from tests.process.forwarding.test_forwarding import (
    SCHEMA,
    client_of,
    in_s,
    running,
    submit,
    under_way,
    until_in_vain,
    until_met,
)
from tests.process.test_first_requests import Node
from tests.support.pending import pending
from tests.support.running import until_async

LARGE = " " * 4 * LARGE_BYTES + SCHEMA
SHORT_S = 0.3


def address_of(serving: asyncio.Server) -> str:
    host, port = serving.sockets[0].getsockname()
    return f"{host}:{port}"


# --- a primary of Confluent


class Silent:
    """A public port that takes requests and answers none of them."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heard.append(await reader.readline())
            await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def silent() -> AsyncIterator[Silent]:
    primary = Silent()
    serving = await asyncio.start_server(primary.serve, "127.0.0.1", 0)
    primary.url = f"http://{address_of(serving)}"
    try:
        yield primary
    finally:
        serving.close()


def ask(client: ConfluentClient, subject: str, seconds: float) -> asyncio.Future[Outcome]:
    return asyncio.ensure_future(client.ask(pending(Register(subject, SCHEMA), deadline=in_s(seconds))))


@running
async def test_what_waits_for_others_at_a_confluent_primary_until_its_time_is_over_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confluent_client, "CALLS_MAX", 1)
    async with silent() as primary:
        client = ConfluentClient(identity_of(primary.url), Member("secondary", []))
        first = ask(client, "first", 1.0)
        await until_async(lambda: primary.heard, "the first request")
        refusal = await ask(client, "second", SHORT_S)
        assert isinstance(refusal, Refused)
        assert (refusal.code, "nothing was written" in refusal.message) == (503, True)
        queued = ask(client, "third", 30.0)
        await until_async(lambda: len(client._calls) == 2, "it to be queued")
        await client.retire(0)
        assert isinstance(await queued, NotPrimary)
        assert isinstance(await first, Unknown)
        assert primary.heard == [b"POST /subjects/first/versions HTTP/1.1\r\n"]


@running
async def test_what_cannot_connect_to_a_confluent_primary_in_time_is_refused() -> None:
    with socket.socket() as full, socket.socket() as first:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        first.connect(full.getsockname())  # Nobody accepts it, so the next one waits.
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        client = ConfluentClient(identity_of(url), Member("secondary", []))
        assert not isinstance(await ask(client, "s", SHORT_S), Unknown)
        await client.retire(0)


@running
async def test_a_request_that_a_confluent_primary_did_not_read_to_its_end_is_not_in_doubt() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.transport.abort()

    serving = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    client = ConfluentClient(identity_of(f"http://{address_of(serving)}"), Member("secondary", []))
    large = pending(Register("s", " " * (32 << 20)), deadline=in_s(20))
    assert isinstance(await client.ask(large), NotPrimary)
    assert isinstance(await client.ask(pending(DeleteSubject("s"), deadline=in_s(20))), Unknown)
    await client.retire(0)
    serving.close()


# --- an upload that breaks


class Hanging(asyncio.Protocol):
    """A peer that grants a request no more than the first window, and breaks it at its head or its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.h2 = H2Connection(H2Configuration(client_side=False))
        self.h2.initiate_connection()
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, StreamEnded) or (isinstance(event, RequestReceived) and self.at_head):
                self.end(event.stream_id)

    at_head, drops = True, False

    def end(self, number: int) -> None:
        if self.drops:
            self.h2.reset_stream(number)
            self.transport.write(self.h2.data_to_send())
        else:
            self.transport.abort()


@pytest.mark.parametrize("drops", [False, True], ids=["ends the connection", "drops the request"])
@running
async def test_a_request_that_breaks_before_its_end_is_known_not_to_be_executed(drops: bool) -> None:
    class Peer(Hanging):
        pass

    Peer.drops = drops
    serving = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
    address = address_of(serving)
    for size, at_head, error in ((1 << 20, True, NotSent), (1 << 10, False, Broken)):
        Peer.at_head = at_head
        connection = await connect(address, 5.0)
        with pytest.raises(error):
            await connection.request("POST", "/", body=b"x" * size)
        connection.abort()
    serving.close()


class Reading:
    """The primary's reading of large bodies, which stands still until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

        async def read(receive: Any, limit: int) -> bytes | None:
            if limit != REPORTED_BYTES_MAX:  # Nodes report to each other as well.
                self.begun += 1
                await self.go_on.wait()
            return await read_body(receive, limit)

        monkeypatch.setattr("registry.forwarding.server.read_body", read)


@running
async def test_an_upload_that_is_not_over_in_time_is_refused_and_never_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch)
    async with group(2) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        await until_met(secondary)
        large = [Register(name, LARGE) for name in ("late", "patient")]
        late = asyncio.ensure_future(submit(secondary, large[0], 1.0))
        patient = asyncio.ensure_future(submit(secondary, large[1], 20))
        outcome = await late
        assert isinstance(outcome, Refused), outcome
        reading.go_on.set()
        assert isinstance(await patient, Done)
        assert primary.decided == [large[1]]


@running
async def test_an_upload_that_broke_before_its_end_is_sent_again_as_what_was_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Reading(monkeypatch)
    async with group(2) as nodes:
        nodes.elect(0)
        nodes.members[0].repeats = False  # It would not be asked again for a deletion in doubt.
        await until_met(nodes.members[1])
        deletion = DeleteSubject("s" * 4 * LARGE_BYTES)
        deleted = asyncio.ensure_future(submit(nodes.members[1], deletion, 20))
        await until_async(lambda: reading.begun, "the upload to begin")
        reading.go_on.set()
        client_of(nodes.members[1])._connection.peer.abort()
        assert isinstance(await deleted, Refused)
        assert nodes.members[0].decided == [deletion]


# --- a node that stops


def stopping(member: Member) -> tuple[CommandRouter, list[Outcome]]:
    node = Node()
    node.is_started = True
    return CommandRouter(cast("Any", node), member.peers.forwarding), []


async def given_up(nodes: Group, *, in_doubt: bool = False) -> Outcome:
    """Return the outcome of a command that the second node has when it stops."""
    router, outcomes = stopping(nodes.members[1])
    router.submit(pending(DeleteSubject("s"), outcomes.append, deadline=in_s(20), in_doubt=in_doubt))
    primary = nodes.members[0]
    await until_async(lambda: primary.unanswered or (primary.answers and under_way(nodes)), "it to wait")
    await router.give_up()
    router.submit(pending(DeleteSubject("s"), outcomes.append, deadline=in_s(20)))
    (outcome, later) = outcomes
    assert isinstance(later, Refused)
    return outcome


@pytest.mark.parametrize("primary", [None, 0], ids=["no primary", "a primary that cannot be reached"])
@pytest.mark.parametrize("in_doubt", [False, True])
@running
async def test_what_waits_for_a_primary_when_the_node_stops_is_refused(
    primary: int | None, in_doubt: bool
) -> None:
    async with group(2) as nodes:
        await nodes.members[0].peers.stop(1.0)
        nodes.elect(primary)
        if primary is not None:
            await until_in_vain(nodes.members[1])
        outcome = await given_up(nodes, in_doubt=in_doubt)
        if in_doubt:
            assert isinstance(outcome, Unknown)
        else:
            assert isinstance(outcome, Refused)
            assert (outcome.code, "nothing was written" in outcome.message) == (50003, True)


@running
async def test_what_the_primary_has_when_the_node_stops_stays_in_doubt() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        nodes.members[0].answers = False
        assert isinstance(await given_up(nodes), Unknown)


@running
async def test_what_the_primary_has_answered_when_the_node_stops_is_done() -> None:
    async with group(2) as nodes:
        nodes.elect(0)
        router, outcomes = stopping(nodes.members[1])
        router.submit(pending(Register("s", SCHEMA), outcomes.append, deadline=in_s(20)))
        await until_async(lambda: outcomes, "its outcome")
        await router.give_up()
        assert isinstance(outcomes[0], Done)
        assert len(outcomes) == 1
