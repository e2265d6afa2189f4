"""Streams between nodes: their frames, authentication, and their batches."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.admission import LARGE_BYTES
from registry.domain.commands import DeleteSubject, Done, Register
from registry.domain.pending_command import CommandRequest
from registry.forwarding.authentication import Security, Signing, clock_ms
from registry.forwarding.http2_connection import Broken
from registry.forwarding.node_port import (
    PREFACE,
    BadFrame,
    Batch,
    Frame,
    Receiver,
    Sender,
    encode,
    outcomes_of,
)
from registry.forwarding.peer_client import Peer
from registry.forwarding.stream import open_stream
from tests.process.forwarding.members import group
from tests.process.forwarding.test_forwarding import SCHEMA, client_of, running, submit, until_met
from tests.support.running import until_async

KEY = b"k" * 32
SECRET = Security(secret="a secret of sixteen")


def ends(key: bytes, bytes_max: int = 10_000) -> tuple[Sender, Receiver]:
    sender, receiver = Sender(b">"), Receiver(b">", bytes_max)
    sender.seal(key)
    receiver.seal(key, bytes_max)
    return sender, receiver


@given(
    frames=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=50)), max_size=6),
    cuts=st.lists(st.integers(0, 400), max_size=6),
    key=st.sampled_from([b"", KEY]),
)
def test_frames_arrive_as_they_were_however_they_are_cut(
    frames: list[tuple[int, bytes]], cuts: list[int], key: bytes
) -> None:
    sender, receiver = ends(key)
    data = b"".join(sender.frame(*each) for each in frames)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(places)]
    assert [frame for piece in pieces for frame in receiver.frames(piece)] == [
        Frame(*each) for each in frames
    ]


def flip(first: bytes, second: bytes) -> bytes:
    return first[:9] + bytes([first[9] ^ 1]) + first[10:]


@pytest.mark.parametrize(
    "changed",
    [
        flip,
        lambda first, second: second,
        lambda first, second: first + first,
        lambda first, second: first[:4] + b"\0\0\0\7" + first[8:],
        lambda first, second: Sender(b">").frame(1, b"a batch of commands"),
    ],
    ids=["changed", "left out", "sent again", "another number", "not sealed"],
)
def test_a_frame_that_the_other_node_did_not_send_so_is_refused(
    changed: Callable[[bytes, bytes], bytes],
) -> None:
    sender, receiver = ends(KEY)
    first, second = sender.frame(1, b"a batch of commands"), sender.frame(2, b"another batch")
    with pytest.raises(BadFrame):
        list(receiver.frames(changed(first, second)))


def test_a_frame_that_is_sent_back_is_refused() -> None:
    sender, _ = ends(KEY)
    receiver = Receiver(b"<", 10_000)
    receiver.seal(KEY, 10_000)
    with pytest.raises(BadFrame):
        list(receiver.frames(sender.frame(1, b"a batch of commands")))


def test_a_frame_that_is_too_long_is_refused_before_it_is_there() -> None:
    sender, receiver = ends(KEY, 1000)
    with pytest.raises(BadFrame):
        list(receiver.frames(sender.frame(1, b"x" * 2000)[:10]))


def requests(peer: Any) -> int:
    """Return the highest id of the streams that a connection has opened: two more for each HTTP/2 request."""
    return peer._connection._h2.highest_outbound_stream_id or 0


# The highest stream id of a connection that has asked for the identity (1), then for changes of the role.
WATCHING = 3


@running
async def test_small_commands_go_over_the_stream_and_large_ones_do_not() -> None:
    async with group(2, SECRET) as nodes:
        nodes.elect(0)
        await until_met(nodes.members[1])
        peer = client_of(nodes.members[1])._connection.peer
        await until_async(lambda: requests(peer) >= WATCHING, "the changes of the role to be asked for")
        before = requests(peer)
        for number in range(3):
            assert isinstance(await submit(nodes.members[1], Register(f"s{number}", SCHEMA)), Done)
        assert requests(peer) == before
        large = SCHEMA.replace("[]", "[]" + " " * LARGE_BYTES)
        assert isinstance(await submit(nodes.members[1], Register("large", large)), Done)
        assert requests(peer) > before


@running
async def test_what_a_broken_stream_leaves_unanswered_is_done_once() -> None:
    async with group(2, SECRET) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        assert isinstance(await submit(secondary, Register("s", SCHEMA)), Done)
        primary.answers = False
        waiting = asyncio.ensure_future(submit(secondary, DeleteSubject("s")))
        await until_async(lambda: primary.unanswered, "the primary to have it")
        primary.answers = True
        former = client_of(secondary)._connection.peer
        former._stream.abort()
        assert isinstance(await waiting, Done)
        assert primary.idempotency_keys[-1] == primary.idempotency_keys[-2] != None  # noqa: E711
        assert client_of(secondary)._connection.peer is not former


@running
async def test_a_stream_of_somebody_without_the_secret_is_not_served() -> None:
    async with group(1, SECRET) as nodes:
        nodes.elect(0)
        for signing in (Signing(""), Signing("another secret, also long")):
            with pytest.raises(Broken):
                await open_stream(nodes.identities[0].peer, signing, clock_ms(), 5.0, None)


@running
async def test_a_greeting_is_taken_once() -> None:
    async with group(1, SECRET) as nodes:
        nodes.elect(0)
        signing = SECRET.signings().current[0]
        stream = await open_stream(nodes.identities[0].peer, signing, clock_ms(), 5.0, None)
        host, _, port = nodes.identities[0].peer.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(PREFACE + Sender(b">").frame(0, stream._greeting))
        assert await reader.read() == b""
        writer.close()
        stream.abort()


@running
async def test_what_is_no_batch_is_answered_with_nothing_and_the_stream_goes_on() -> None:
    async with group(1) as nodes:
        nodes.elect(0)
        stream = await open_stream(nodes.identities[0].peer, Signing(""), clock_ms(), 5.0, None)
        for body in (b"x", b"\x91" * 100_000 + b"\x90", msgspec.msgpack.encode({"wanted": 7})):
            assert await stream.ask(body) == b""
        stream.abort()


@running
async def test_a_stream_without_a_sign_of_life_is_given_up() -> None:
    async with group(1) as nodes:
        nodes.elect(0)
        peer = await Peer.open(nodes.identities[0], Security().signings(), None)
        await peer.open_stream(nodes.identities[0].peer, None)
        stream: Any = peer._stream
        assert peer.alive()
        await until_async(lambda: not stream._owes_sign, "the answer to the sign of life")
        stream._owes_sign = True
        assert not peer.alive()
        peer.abort()
        await asyncio.gather(peer.closed, stream.closed)


@running
async def test_a_node_that_stops_answers_first_what_its_streams_have_asked() -> None:
    async with group(1) as nodes:
        nodes.elect(0)
        primary = nodes.members[0]
        peers: Any = primary.peers
        primary.answers = False
        stream = await open_stream(nodes.identities[0].peer, Signing(""), clock_ms(), 5.0, None)
        batch = encode(Batch([CommandRequest(DeleteSubject("s"), 5.0)]))
        asking = asyncio.ensure_future(stream.ask(batch))
        await until_async(lambda: primary.unanswered, "the primary to have it")
        stopping = asyncio.ensure_future(peers._server.stop(5.0))
        await until_async(lambda: peers._server._stopped, "the node to stop")
        primary.unanswered[0](Done(b"[1]", 3))
        assert outcomes_of(await asking, 1).outcomes == [Done(b"[1]", 3)]
        await stopping
        await stream.closed
