"""Nodes get another secret one after another, and say which node they refuse."""

from __future__ import annotations

import asyncio

import pytest

from registry.domain.commands import Done, Outcome, Register
from registry.forwarding.authentication import REFUSED_SHOWN_S, RefusedHosts, Security, Signings
from registry.forwarding.peer_client import unreachable
from tests.process.forwarding.members import Member, group
from tests.process.forwarding.test_forwarding import SCHEMA, running, submit
from tests.support.running import until_async

# The primary is the first, the second and the last of three nodes.
ORDERS = ((0, 1, 2), (1, 0, 2), (2, 1, 0))


@pytest.mark.parametrize("first", ORDERS, ids=str)
@pytest.mark.parametrize("then", ORDERS, ids=str)
@running
async def test_no_write_fails_while_the_nodes_get_another_secret(
    first: tuple[int, ...], then: tuple[int, ...]
) -> None:
    old, new = "a secret of sixteen", "another secret of more"
    async with group(3, Security(secret=old)) as nodes:
        outcomes: dict[str, list[Outcome]] = {member.name: [] for member in nodes.members}

        async def write(member: Member, done: list[Outcome]) -> None:
            while True:
                subject = f"{member.name}-{len(done)}"
                done.append(await submit(member, Register(subject, SCHEMA)))

        async def give(secrets: list[str], order: tuple[int, ...]) -> None:
            for each in order:
                nodes.members[each].peers.use_secrets(secrets)
                for name, done in outcomes.items():
                    wanted = len(done) + 5
                    await until_async(lambda: len(done) >= wanted, f"writes through {name}")  # noqa: B023

        nodes.elect(0)
        writing = [asyncio.ensure_future(write(each, outcomes[each.name])) for each in nodes.members]
        await give([new, old], first)
        await give([new], then)
        for each in writing:
            each.cancel()
        assert {type(outcome) for done in outcomes.values() for outcome in done} == {Done}
        assert "secret" in await unreachable(nodes.identities[0], Signings([old]), None)
        assert await nodes.members[1].peers.reachable(nodes.identities[0]) == ""


@running
async def test_a_node_that_is_refused_and_the_one_that_refuses_it_say_so() -> None:
    old, new = "a secret of sixteen", "another secret of more"
    async with group(2, Security(secret=old)) as nodes:
        nodes.elect(0)
        primary, secondary = nodes.members
        assert isinstance(await submit(secondary, Register("s", SCHEMA)), Done)
        assert primary.peers.problems() == secondary.peers.problems() == []
        primary.peers.use_secrets([new])
        await until_async(secondary.peers.problems, "the secondary to be refused")
        assert ["secrets differ" in each for each in secondary.peers.problems()] == [True]
        assert ["127.0.0.1 was refused" in each for each in primary.peers.problems()] == [True]
        secondary.peers.use_secrets([new])
        assert isinstance(await submit(secondary, Register("t", SCHEMA)), Done)
        assert secondary.peers.problems() == []


def test_a_refused_host_is_named_for_a_while() -> None:
    now = 0.0
    refused = RefusedHosts(lambda: now)
    for number in range(200):
        refused.add(f"10.0.0.{number}")
    assert len([*refused.recent()]) == 100
    now = REFUSED_SHOWN_S + 1
    refused.add("10.0.0.7")
    assert refused.recent() == ["10.0.0.7"]
