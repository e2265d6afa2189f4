"""Reads of records that the follower has read before, and searches by time, on a connection of their own."""

from __future__ import annotations

import time

from registry.log.contract import Fetched

from . import record_batches, requests
from .connection import TRY_S, NoAnswer, Purpose, retry_until
from .fetcher import fetch
from .log_end import query_offset
from .partition import Partition
from .requests import Code, code_name

_DEADLINE_S = 2 * TRY_S
_TIME_MAX = (1 << 63) - 1


async def read_again(partition: Partition, offset: int, records_max: int, bytes_max: int) -> Fetched:
    """Return records from ``offset`` on, see :meth:`.contract.Log.read_again`."""

    async def attempt() -> Fetched:
        return await _read_once(partition, offset, records_max, bytes_max)

    return await retry_until(time.monotonic() + _DEADLINE_S, attempt)


async def _read_once(partition: Partition, offset: int, records_max: int, bytes_max: int) -> Fetched:
    answer = await fetch(partition, offset, 0.0, Purpose.READ_AGAIN, bytes_max)
    if answer.code == Code.OFFSET_OUT_OF_RANGE:
        start = await query_offset(partition, requests.EARLIEST, TRY_S)
        return Fetched([], max(offset, start))
    if answer.code == Code.TOPIC_AUTHORIZATION_FAILED:
        partition.raise_denied(answer.code, "Read")
    if answer.code != Code.NONE:
        await partition.recover()
        raise NoAnswer(f"reading from offset {offset}: {code_name(answer.code)}", sent=False)
    found = []
    for run in record_batches.runs(answer.data, offset):
        found += run
        if len(found) >= records_max:
            del found[records_max:]
            return Fetched(found, found[-1].offset + 1)
    return Fetched(found, record_batches.next_offset(answer.data, offset))


async def first_after(partition: Partition, time_ms: int) -> int | None:
    """Return the offset of the first newer record, see :meth:`.contract.Log.first_after`."""
    # A negative time would ask for the log's end or start.
    found = await query_offset(partition, min(max(0, time_ms + 1), _TIME_MAX), _DEADLINE_S)
    return None if found < 0 else found
