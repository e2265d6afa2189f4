"""Reading files for metrics may take as long as a disk does, so the node's event loop does not do it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from registry.api.node_queries import METRICS
from registry.base.observe.metrics import Sample
from registry.node.node_service import HANDLERS, Answering


def test_the_files_that_metrics_are_read_from_are_opened_by_another_thread_than_the_event_loops() -> None:
    opened: set[int] = set()
    watching = threading.Event()

    def note(event: str, values: tuple[Any, ...]) -> None:
        if event == "open" and watching.is_set() and str(values[0]).startswith("/proc/"):
            opened.add(threading.get_ident())

    async def nothing() -> None:
        pass

    def text(of_processes: Iterable[Sample]) -> bytes:
        return " ".join(sample.name for sample in of_processes).encode()

    sys.addaudithook(note)
    inventory = SimpleNamespace(recount=nothing)
    node = SimpleNamespace(maintenance=SimpleNamespace(inventory=inventory))
    parts = Answering(cast("Any", node), cast("Any", None), cast("Any", None), text)
    watching.set()
    answer = asyncio.run(cast("Any", HANDLERS[METRICS.number][1](parts, None)))
    watching.clear()
    assert b"process_resident_memory_bytes" in answer
    assert opened
    assert threading.get_ident() not in opened
