"""Handlers of large bodies take turns, and yield the event loop to other requests in between."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext

from registry.api.worker_queries import WorkerQueries
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View
from registry.workers.pool import Pool

HOPS = 10
# Far longer than a busy machine keeps this process waiting while it makes the hops.
WORK_S = 0.3


def test_others_get_the_loop_between_large_bodies() -> None:
    events: list[str] = []

    def rows() -> nullcontext[View]:
        return nullcontext(DictView())

    async def trial() -> None:
        loop = asyncio.get_running_loop()
        pool = Pool()
        queries = WorkerQueries(pool)

        def hop(left: int) -> None:
            if left:
                loop.call_soon(hop, left - 1)
            else:
                events.append("bystander")

        def large(view: View) -> None:
            events.append("large")
            until = time.perf_counter() + WORK_S
            while time.perf_counter() < until:
                pass
            loop.call_soon(hop, HOPS)

        await asyncio.gather(*(queries.do(large, rows, 60.0, large=True) for _ in range(3)))
        pool.close()

    asyncio.run(trial())
    assert events == ["large", "bystander"] * 3
