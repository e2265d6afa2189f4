"""Reports between nodes, over real endpoints and real connections."""

from __future__ import annotations

import asyncio

from registry.forwarding.authentication import Security
from registry.forwarding.node_port import ASKS
from tests.process.forwarding.members import Group, group
from tests.support.running import until_async


def known(members: Group, number: int) -> dict[str, bytes]:
    return {each.node: each.body for each in members.members[number].peers.reports.others()}


def test_every_node_knows_all_others_by_the_primary_also_after_it_changed() -> None:
    async def main() -> None:
        async with group(3, Security("a secret of nodes")) as members:
            members.elect(0)
            await until_async(lambda: known(members, 1).keys() == {"n0", "n2"}, "n1 knows all")
            await until_async(lambda: known(members, 2).keys() == {"n0", "n1"}, "n2 knows all")
            assert known(members, 0) == {"n1": b"n1 is secondary", "n2": b"n2 is secondary"}
            assert known(members, 2)["n0"] == b"n0 is primary"
            members.elect(2)
            await until_async(lambda: known(members, 0)["n2"] == b"n2 is primary", "n0 knows n2")
            await until_async(lambda: known(members, 1)["n0"] == b"n0 is secondary", "n1 knows n0")

    asyncio.run(main())


def test_nodes_that_lost_their_primary_still_know_one_another() -> None:
    async def main() -> None:
        async with group(3, Security("a secret of nodes")) as members:
            members.elect(0)
            await until_async(lambda: known(members, 1).keys() == {"n0", "n2"}, "n1 knows all")
            members.elect(None)
            await until_async(lambda: known(members, 1)["n2"] == b"n2 is following", "n1 knows n2")
            await until_async(lambda: known(members, 2)["n0"] == b"n0 is following", "n2 knows n0")

    asyncio.run(main())


def test_all_other_nodes_are_asked_and_those_that_do_not_answer_are_named() -> None:
    """The first member is of a release that does not know the question."""

    async def main() -> None:
        async with group(3, Security("a secret of nodes")) as members:
            members.elect(0)
            one, two = members.members[1].peers, members.members[2].peers
            await until_async(lambda: known(members, 1).keys() == {"n0", "n2"}, "n1 knows all")
            assert await one.ask_all(ASKS, b"names") == {"n0": None, "n2": b"n2 got names"}
            assert await one.ask_all(ASKS, b"") == {"n0": None, "n2": None}
            await two.stop(0.1)
            assert await one.ask_all(ASKS, b"names") == {"n0": None, "n2": None}

    asyncio.run(main())
