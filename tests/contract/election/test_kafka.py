"""Behavior of the election by a Kafka group beyond the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from deploy.local.broker import Broker
from election.contract import Identity, Lost, PrimaryIs
from election.kafka.assignment import Assignment, encode_member
from election.kafka.membership import Elector, Membership
from election.kafka.wire import Coordinator, JoinedMember, RequestFailed, Timeouts
from registry.log.kafka.broker_connection import login_with
from registry.log.kafka.security import Security
from tests.contract.election.conftest import Authority
from tests.contract.election.nodes import Node, election_of, identity, until, until_agreed

# Long enough that the end of a session explains nothing in these tests.
LONG = {"session_timeout_s": 60.0}
CONFLUENT = b'{"host":"cp1","port":8081,"master_eligibility":true,"scheme":"http","version":1,"leader":%b}'
CP1 = Identity("http", "cp1", 8081, eligible=True)


@pytest.fixture
def group(kafka: Broker, tmp_path) -> Authority:
    return Authority("kafka", kafka.address, tmp_path)


class Deaf:
    """Ignores events, and advertises that it cannot be elected."""

    def own_metadata(self) -> bytes:
        return encode_member(replace(identity("deaf"), eligible=False), claims=False, plain=False)

    def on_assignment(self, assignment: Assignment | None, asked_at: float) -> None:
        pass

    def on_removed(self) -> None:
        pass


class Scripted:
    """A member that sends and assigns given bytes, as one of Confluent's nodes does."""

    def __init__(self, coordinator: Coordinator, payload: bytes, assigns: bytes) -> None:
        self._coordinator = coordinator
        self._payload = payload
        self._assigns = assigns
        self.member = JoinedMember("", -1)
        self.told: list[bytes] = []
        self.elected = False

    async def run(self) -> None:
        """Join repeatedly; each round lasts until the group rebalances."""
        while True:
            joined = await self._coordinator.join(self.member.member_id, self._payload)
            self.member = joined.member
            if joined.code:
                continue
            self.elected = bool(joined.members)
            assigned = self._assigns.replace(b"$", self.member.member_id.encode())
            told = {name: assigned for name, _ in joined.members}
            code, answer = await self._coordinator.sync(joined.member, told)
            if not code:
                self.told.append(answer)
                await self.until_rebalance()

    async def until_rebalance(self) -> None:
        while not await self._coordinator.heartbeat(self.member):  # noqa: ASYNC110  Kafka has no event for it
            await asyncio.sleep(0.05)


async def until_found(authority: Authority, timeouts: Timeouts = Timeouts(10.0, 20.0)) -> Coordinator:  # noqa: B008
    """Wait for a broker that has just started, which takes a moment to manage groups."""
    while True:
        try:
            connect = login_with(Security()).connection
            return await Coordinator.find(authority.address, connect, authority.group, timeouts)
        except RequestFailed:
            await asyncio.sleep(0.05)


async def until_confirmed(node: Node) -> None:
    """A member learns of an election in which another one took part by itself, and takes its role."""
    while not await node.election.confirm():  # noqa: ASYNC110  Kafka has no event for it
        await asyncio.sleep(0.05)


@asynccontextmanager
async def scripted(authority: Authority, payload: bytes, assigns: bytes = b"") -> AsyncIterator[Scripted]:
    coordinator = await until_found(authority)
    member = Scripted(coordinator, payload, assigns)
    running = asyncio.create_task(member.run())
    try:
        yield member
    finally:
        running.cancel()
        await coordinator.leave(member.member.member_id)
        coordinator.close()


def test_an_evicted_primary_is_replaced_at_once(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            killed = group.candidate(identity("sr1"), **LONG)
            await until(lambda: killed.won, "the first to be elected")
            others = [group.node(identity(host), **LONG) for host in ("sr2", "sr3")]
            await until(
                lambda: all(isinstance(node.last, PrimaryIs) for node in others), "the others to follow"
            )
            assert not await others[0].election.evict(identity("sr9"))
            killed.kill()
            assert await others[0].election.evict(killed.own)
            await until_agreed(others)

    asyncio.run(scenario())


def test_a_node_that_was_killed_need_not_wait_for_its_former_session(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            killed = group.candidate(identity("sr1"), **LONG)
            await until(lambda: killed.won, "it to be elected")
            killed.kill()
            again = group.node(identity("sr1"), **LONG)
            await until_agreed([again])

    asyncio.run(scenario())


def test_a_frozen_primary_hears_of_its_loss_when_it_thaws(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            frozen = group.candidate(identity("sr1"))
            await until(lambda: frozen.won, "the first to be elected")
            other = group.node(identity("sr2"))
            await until(lambda: isinstance(other.last, PrimaryIs), "the other to follow")
            frozen.freeze()
            await until(lambda: other.won, "the other to be elected")
            frozen.thaw()
            await until(lambda: frozen.output.split()[-1] == "PrimaryIs", "it to follow")
            assert "Lost" in frozen.output.split()
            assert not other.losses()

    asyncio.run(scenario())


def test_a_node_of_confluents_hears_its_own_words_from_ours(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            ours = group.node(identity("sr1"))
            await until_agreed([ours])
            async with scripted(group, CONFLUENT % b"false") as confluent:
                await until(lambda: confluent.told, "it to be told")
                told = confluent.told[0]
            assert not confluent.elected
            member_id = ours.election._membership.member.member_id.encode()
            assert told == (
                b'{"error":0,"master":"' + member_id + b'","master_identity":{"host":"sr1","port":8081,'
                b'"master_eligibility":true,"scheme":"http","version":1,"leader":false,'
                b'"registrar_peer":"sr1:98081","registrar_node":"n-sr1"},"version":1}'
            )
            assert not ours.losses()

    asyncio.run(scenario())


def test_for_old_nodes_of_confluents_nothing_of_ours_is_said(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            ours = group.node(identity("cp1"), plain=True)
            await until_agreed([ours])
            coordinator = await until_found(group)
            ((member_id, said),) = [(one.id, one.payload) for one in await coordinator.members()]
            coordinator.close()
            assert said == CONFLUENT % b"false"  # It joined before it was elected.
            async with scripted(group, (CONFLUENT % b"false").replace(b"cp1", b"cp2")) as confluent:
                await until(lambda: confluent.told, "it to be told")
            identity_said = CONFLUENT % b"false"
            assert confluent.told[0] == (
                b'{"error":0,"master":"'
                + member_id.encode()
                + b'","master_identity":'
                + identity_said
                + b',"version":1}'
            )

    asyncio.run(scenario())


def test_ours_follow_a_primary_of_confluents_and_take_over_from_it(group: Authority) -> None:
    assigns = b'{"error":0,"master":"$","master_identity":' + CONFLUENT % b"false" + b',"version":1}'

    async def scenario() -> None:
        async with group:
            async with scripted(group, CONFLUENT % b"true", assigns) as confluent:
                await until(lambda: confluent.told, "it to be alone")
                ours = group.node(identity("sr1"))
                await until(lambda: ours.last == PrimaryIs(CP1), "ours to follow")
            await until(lambda: ours.won, "ours to take over")

    asyncio.run(scenario())


def test_ours_know_themselves_by_url_where_confluents_assign(group: Authority) -> None:
    ours_said = (CONFLUENT % b"false").replace(b"cp1", b"sr1")
    assigns = b'{"error":0,"master_identity":' + ours_said + b',"version":1}'

    async def scenario() -> None:
        async with group, scripted(group, CONFLUENT % b"false", assigns) as confluent:
            await until(lambda: confluent.told, "it to be alone")
            ours, other = group.node(identity("sr1")), group.node(identity("sr2"))
            await until(lambda: ours.won, "ours to be elected")
            await until(lambda: isinstance(other.last, PrimaryIs), "the other to follow")
            assert other.last == PrimaryIs(Identity("http", "sr1", 8081, eligible=True))

    asyncio.run(scenario())


def test_a_group_without_a_primary_is_joined_anew(own_kafka: Broker, tmp_path) -> None:
    group = Authority("kafka", own_kafka.address, tmp_path)
    nobody = b'{"error":0,"version":1}'

    async def scenario() -> None:
        async with group, scripted(group, CONFLUENT % b"true", nobody) as confluent:
            await until(lambda: confluent.told, "it to be alone")
            ours = group.node(identity("sr1"), session_timeout_s=1.0)
            await until(lambda: ours.refused, "ours to hear that there is nobody")
            membership = ours.election._membership
            first = membership.member.member_id
            await until(lambda: membership.member.member_id not in (first, ""), "it to join anew")

    asyncio.run(scenario())


def test_a_session_that_the_broker_refuses_is_said(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            node = group.node(identity("sr1"), session_timeout_s=1.0)
            await until(lambda: "session timeout" in node.refused, "the reason")

    asyncio.run(scenario())


def test_a_group_of_something_else_is_said(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            node = group.node(identity("sr1"))
            await until_agreed([node])
            coordinator = await until_found(group)
            joined = await coordinator.join("", b"garbage")
            joining = asyncio.create_task(coordinator.join(joined.member.member_id, b"garbage"))
            await until(joining.done, "what cannot be read to be let in, and left out of the election")
            await asyncio.wait_for(until_confirmed(node), 30)
            assert not node.losses()
            await coordinator.leave(joined.member.member_id)
            coordinator.close()

    asyncio.run(scenario())


def test_no_server_is_said(tmp_path) -> None:
    async def scenario() -> None:
        async with Authority("kafka", "127.0.0.1:1", tmp_path) as group:
            node = group.node(identity("sr1"))
            await until(lambda: "127.0.0.1:1 cannot be reached" in node.refused, "the reason")
            assert not await node.election.confirm()
            await node.election.resign()

    asyncio.run(scenario())


def test_a_primary_that_closes_leaves_once_however_often_it_is_asked(group: Authority) -> None:
    async def scenario() -> None:
        async with group:
            node = group.node(identity("sr1"), **LONG)
            await until_agreed([node])
            other = group.node(identity("sr2"), **LONG)
            await until_agreed([node, other])
            await asyncio.gather(node.election.close(), node.election.close())
            await until_agreed([other])
            assert node.losses() == [Lost("this node stops")]

    asyncio.run(scenario())


def test_one_that_ends_while_it_gets_its_id_is_not_waited_for(group: Authority) -> None:
    """A group ends no rebalance while a member with an assigned id has neither joined nor left."""

    async def scenario() -> None:
        async with group:
            first = group.node(identity("sr1"), **LONG)
            await until_agreed([first])
            coordinator = await until_found(group, Timeouts(60.0, 120.0))
            member = Membership(Deaf(), Elector(None, plain=False), 0.2, "")
            keeping = asyncio.create_task(member.keep(coordinator))
            await until(lambda: coordinator.id_pending, "the join", pause_s=0)
            keeping.cancel()
            await asyncio.wait([keeping])
            await member.leave(coordinator)
            coordinator.close()
            await until_agreed([first, group.node(identity("sr2"), **LONG)])

    asyncio.run(scenario())


def test_one_that_was_closed_before_it_took_part_says_nothing(group: Authority) -> None:
    async def scenario() -> None:
        election = election_of("kafka", group.address, group.group, identity("sr1"))
        await election.close()
        assert [event async for event in election.events()] == []

    asyncio.run(scenario())
