"""The contract of every election, on real servers."""

from __future__ import annotations

import asyncio

from election.contract import Identity, Lost, NoPrimary, PrimaryIs
from tests.contract.election.conftest import Authority
from tests.contract.election.nodes import Node, identity, until, until_agreed


async def _three(authority: Authority) -> tuple[Node, list[Node]]:
    """Return the primary, and the two others."""
    nodes = [authority.node(identity(host)) for host in ("sr3", "sr2", "sr1")]
    primary = await until_agreed(nodes)
    return primary, [node for node in nodes if node is not primary]


def test_a_single_node_is_elected(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            node = authority.node(identity("localhost"))
            await until(lambda: node.won, "it to be elected")
            assert await node.election.confirm()

    asyncio.run(scenario())


def test_one_of_three_is_elected_and_all_agree(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            primary, others = await _three(authority)
            assert [await node.election.confirm() for node in [primary, *others]] == [True, False, False]
            for node in others:
                told = node.last
                assert told.identity == primary.own  # The fields include the peer endpoint.

    asyncio.run(scenario())


def test_a_node_that_joins_displaces_nobody(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            first = authority.node(identity("sr2"))
            await until_agreed([first])
            smaller, larger = authority.node(identity("sr1")), authority.node(identity("sr3"))
            assert await until_agreed([first, smaller, larger]) is first
            await larger.close()
            assert await until_agreed([first, smaller]) is first
            assert not first.losses()

    asyncio.run(scenario())


def test_a_resigned_primary_follows_until_it_is_asked_again(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            primary, others = await _three(authority)
            await primary.election.resign()
            assert not await primary.election.confirm()
            follower = await until_agreed([primary, *others])
            assert follower is not primary
            assert primary.losses() == [Lost("this node resigned")]
            for node in others:
                await node.close()
            await until(lambda: primary.refused, "nobody to be left")
            primary.listen_anew()
            assert await until_agreed([primary]) is primary

    asyncio.run(scenario())


def test_a_primary_that_closes_hands_over(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            primary, others = await _three(authority)
            await primary.close()
            await until_agreed(others)
            assert isinstance(primary.last, Lost)

    asyncio.run(scenario())


def test_one_that_is_not_eligible_is_never_elected(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            reader = authority.node(identity("sr1", eligible=False))
            await until(lambda: reader.refused, "it to hear that there is nobody")
            primary = authority.node(identity("sr2"))
            assert await until_agreed([reader, primary]) is primary
            await primary.close()
            await until(lambda: reader.refused, "it to hear that there is nobody again")
            assert not reader.losses()

    asyncio.run(scenario())


def test_a_killed_primary_is_replaced_after_its_session(frail: Authority) -> None:
    async def scenario() -> None:
        async with frail:
            killed = frail.candidate(identity("sr1"))
            await until(lambda: killed.won, "the first to be elected")
            others = [frail.node(identity(host)) for host in ("sr2", "sr3")]
            await until(lambda: all(node.last is not None for node in others), "the others to follow")
            killed.kill()
            assert (await until_agreed(others)).own.host in {"sr2", "sr3"}

    asyncio.run(scenario())


def test_a_node_that_was_killed_is_no_duplicate_of_itself(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            killed = authority.candidate(identity("sr1"))
            await until(lambda: killed.won, "it to be elected")
            other = authority.node(identity("sr2"))
            await until(lambda: other.last == PrimaryIs(killed.own), "the other to follow")
            killed.kill()
            again = authority.node(killed.own)
            await until_agreed([other, again])
            missing = [event.reason for event in again.heard if isinstance(event, NoPrimary)]
            assert not [reason for reason in missing if "both advertise" in reason]

    asyncio.run(scenario())


def test_an_evicted_primary_hears_of_it_and_takes_part_anew(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            first = authority.node(identity("sr1"))
            await until_agreed([first])
            second = authority.node(identity("sr2"))
            await until_agreed([first, second])
            assert not await second.election.evict(identity("sr9"))
            assert not await first.election.evict(first.own)
            assert await second.election.evict(first.own)
            await until(first.losses, "it to hear of it")
            await until_agreed([first, second])

    asyncio.run(scenario())


def test_a_duplicate_is_refused_and_both_are_named(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            primary = authority.node(identity("sr1", node="one"))
            await until_agreed([primary])
            other = authority.node(identity("sr2"))
            duplicate = authority.node(identity("sr1", node="two"))
            await until(lambda: "http://sr1:8081" in duplicate.refused, "the duplicate to be refused")
            assert "node one" in duplicate.refused
            assert "node two" in duplicate.refused
            assert await until_agreed([primary, other]) is primary
            assert not primary.losses()
            await primary.close()
            await until(lambda: duplicate.won or duplicate.follows(other), "the duplicate to be taken back")

    asyncio.run(scenario())


def test_of_two_with_one_address_the_first_stays_across_its_restart(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            rightful = authority.node(identity("sr1", node="one", since_ms=1000))
            await until_agreed([rightful])
            intruder = authority.node(identity("sr1", node="two", since_ms=2000))
            await until(lambda: "node one (which had it first)" in intruder.refused, "it to be refused")
            assert rightful.won
            await rightful.close()
            await until(lambda: intruder.won, "it to be taken while it is the only one")
            again = authority.node(rightful.own)
            assert await until_agreed([again]) is again
            await until(lambda: "node one (which had it first)" in intruder.refused, "it to be refused again")
            assert intruder.last == NoPrimary(intruder.refused, rejected=True)

    asyncio.run(scenario())


def test_a_loopback_address_among_others_is_refused(authority: Authority) -> None:
    async def scenario() -> None:
        async with authority:
            local = authority.node(identity("127.0.0.1"))
            await until_agreed([local])
            other = authority.node(identity("sr2"))
            await until(lambda: other.won, "the one that all can reach to be elected")
            await until(lambda: "127.0.0.1" in local.refused and "sr2" in local.refused, "it to be refused")
            assert isinstance(local.losses()[0], Lost)

    asyncio.run(scenario())


def test_one_that_cannot_be_reached_is_passed_over(authority: Authority) -> None:
    async def reachable(asked: Identity) -> str:
        return "its port is closed" if asked.host == "sr1" else ""

    async def scenario() -> None:
        async with authority:
            nodes = [authority.node(identity(host), reachable=reachable) for host in ("sr3", "sr2", "sr1")]
            primary = await until_agreed(nodes)
            await primary.election.resign()
            await until(primary.losses, "it to give up")
            successor = await until_agreed(nodes)
            assert successor.own.host != "sr1"

    asyncio.run(scenario())


def test_one_that_nobody_can_reach_is_better_than_none(authority: Authority) -> None:
    async def unreachable(asked: Identity) -> str:
        raise ConnectionRefusedError("the port is closed")

    async def scenario() -> None:
        async with authority:
            nodes = [authority.node(identity(host), reachable=unreachable) for host in ("sr1", "sr2")]
            await until_agreed(nodes)

    asyncio.run(scenario())


def test_out_of_contact_a_primary_gives_up_within_its_session_and_comes_back(frail: Authority) -> None:
    async def scenario() -> None:
        async with frail:
            assert frail.proxy is not None
            primary = frail.node(identity("sr1"), through=frail.proxy)
            await until_agreed([primary])
            other = frail.node(identity("sr2"))
            await until_agreed([primary, other])
            frail.proxy.cut()
            assert not await primary.election.confirm()
            await until(lambda: other.won, "the other one to be elected")
            await until(primary.losses, "it to give up")
            assert isinstance(primary.losses()[0], Lost)
            assert primary.at[primary.heard.index(primary.losses()[0])] <= other.at[-1]
            frail.proxy.heal()
            assert await until_agreed([primary, other]) is other

    asyncio.run(scenario())


def test_a_restart_of_the_authority_heals(frail: Authority) -> None:
    async def scenario() -> None:
        async with frail:
            nodes = [frail.node(identity(host)) for host in ("sr1", "sr2")]
            await until_agreed(nodes)
            await asyncio.to_thread(frail.server.kill)
            await until(lambda: any(node.losses() for node in nodes), "the primary to give up")
            late = frail.node(identity("sr3"))
            await until(lambda: isinstance(late.last, NoPrimary), "a newcomer to hear that there is nobody")
            await asyncio.to_thread(frail.server.start)
            await until_agreed([*nodes, late])

    asyncio.run(scenario())
