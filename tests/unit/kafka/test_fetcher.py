"""The last batch that was read, if two threads add some: one fetches, the other is offered one."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import AppendedBatch, Entry
from registry.log.kafka.connection import Connections
from registry.log.kafka.fetcher import Fetcher
from registry.log.kafka.partition import Partition
from registry.log.kafka.read_buffer import Chunk, Target
from registry.log.kafka.record_batches import NO_PRODUCER, build, with_base_offset

# A thread that is not held up ends long before.
HELD_UP_S = 0.1
EPOCH = 3


def batch(offset: int) -> AppendedBatch:
    entry = Entry(b"key %d" % offset, b"value")
    return AppendedBatch(with_base_offset(build([entry], NO_PRODUCER, -1, 1).data, offset), EPOCH)


def fetcher(loop: asyncio.AbstractEventLoop) -> Fetcher:
    partition = Partition(cast("Connections", None), "host:9092", "_schemas")
    partition.compared_epoch = lambda _: EPOCH  # type: ignore[method-assign]
    found = Fetcher(partition, loop)
    found.buffer.wait(0, 0.0)
    return found


def lineage_after(*offsets: int) -> Lineage:
    loop = asyncio.new_event_loop()
    try:
        one = fetcher(loop)
        for offset in offsets:
            assert one.offer(batch(offset))
        return one.lineage()
    finally:
        loop.close()


def test_the_last_batch_is_the_later_one_of_two_that_threads_add_at_the_same_time() -> None:
    loop = asyncio.new_event_loop()
    one = fetcher(loop)
    add = one.buffer.add
    others: list[threading.Thread] = []

    def add_and_be_overtaken(target: Target | None, chunk: Chunk) -> bool:
        added = add(target, chunk)
        if not others:
            others.append(threading.Thread(target=one.offer, args=(batch(1),)))
            others[0].start()
            others[0].join(HELD_UP_S)
        return added

    one.buffer.add = add_and_be_overtaken  # type: ignore[method-assign]
    assert one.offer(batch(0))
    others[0].join()
    assert one.lineage() == lineage_after(0, 1)
    assert one.lineage() != lineage_after(0)
    loop.close()
