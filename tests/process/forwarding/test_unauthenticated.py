"""Whoever connects to the peer port and does not show that it is a peer keeps no peer out."""

from __future__ import annotations

import asyncio
from typing import Any

from registry.domain.commands import Done, Register
from registry.forwarding.authentication import Security
from registry.forwarding.unauthenticated import STRANGERS_MAX, Strangers
from tests.process.forwarding.members import group
from tests.process.forwarding.test_forwarding import SCHEMA, running, submit
from tests.running import until_async


@running
async def test_more_strangers_than_there_is_room_for_keep_no_peer_out() -> None:
    secret = Security(secret="a secret of sixteen")
    async with group(2, secret) as nodes:
        host, _, port = nodes.identities[0].peer.rpartition(":")
        lines = [await asyncio.open_connection(host, int(port)) for _ in range(STRANGERS_MAX + 20)]
        server: Any = nodes.members[0].peers._server
        await until_async(lambda: len(server._strangers) == STRANGERS_MAX, "the strangers")
        await asyncio.wait_for(lines[0][0].read(), 5.0)  # the first to come has gone
        nodes.elect(0)
        assert isinstance(await submit(nodes.members[1], Register("s", SCHEMA)), Done)
        for _, writer in lines:
            writer.close()


@running
async def test_who_stays_a_stranger_is_sent_away_and_who_does_not_is_not() -> None:
    ended: list[str] = []
    strangers = Strangers(within_s=0.05)
    known = strangers.came(lambda: ended.append("known"))
    strangers.came(lambda: ended.append("unknown"))
    known.is_known()
    await until_async(lambda: not len(strangers), "the time to be over")
    assert ended == ["unknown"]
