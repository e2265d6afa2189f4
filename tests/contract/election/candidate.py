"""A node that only takes part in an election, for a test to kill."""

from __future__ import annotations

import asyncio
import json
import sys

from tests.contract.election.nodes import election_of, identity


async def main(kind: str, address: str, group: str, host: str, node: str, settings: str) -> None:
    election = election_of(kind, address, group, identity(host, node=node), **json.loads(settings))
    async for event in election.events():
        print(type(event).__name__, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
