"""Whether a candidate can be reached at the address it advertises."""

from __future__ import annotations

import asyncio

from election.contract import Identity, Reachable

PROBE_TIMEOUT_S = 1.0


async def unreachable(reachable: Reachable | None, identity: Identity) -> str:
    """Why ``identity`` cannot be reached; "" when it can, or there is nobody to ask."""
    if reachable is None:
        return ""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            return await reachable(identity)
    except TimeoutError:
        return f"{identity.url} did not answer in {PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{identity.url} cannot be reached: {error}"
