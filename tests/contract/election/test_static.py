from __future__ import annotations

import asyncio

from election.contract import Lost, NoPrimary, PrimaryIs, StaticElection, Won
from tests.contract.election.nodes import Node, identity, until

A, B = identity("sr1"), identity("sr2")


def test_the_one_that_is_named_is_the_primary_for_ever() -> None:
    async def scenario() -> None:
        alone, named, other = (
            Node(own, StaticElection(own, who)) for own, who in ((A, None), (A, A), (B, A))
        )
        await until(lambda: all(node.heard for node in (alone, named, other)), "all to hear")
        assert [alone.heard, named.heard, other.heard] == [[Won()], [Won()], [PrimaryIs(A)]]
        assert [await node.election.confirm() for node in (alone, named, other)] == [True, True, False]
        assert not await other.election.evict(A)
        await other.election.resign()
        for node in (alone, named, other):
            await node.close()
        assert other.heard == [PrimaryIs(A)]
        assert named.heard == [Won(), Lost("this node stops")]

    asyncio.run(scenario())


def test_one_that_resigned_is_the_primary_again_when_asked() -> None:
    async def scenario() -> None:
        node = Node(A, StaticElection(A))
        await until(lambda: node.won, "it to be primary")
        await node.election.resign()
        assert not await node.election.confirm()
        await until(node.losses, "the loss")
        node.listen_anew()
        await until(lambda: node.won, "it to be primary again")
        await node.close()

    asyncio.run(scenario())


def test_a_single_node_that_is_not_eligible_is_none() -> None:
    async def scenario() -> None:
        own = identity("sr1", eligible=False)
        node = Node(own, StaticElection(own))
        await until(lambda: isinstance(node.last, NoPrimary), "the reason")
        await node.close()

    asyncio.run(scenario())
