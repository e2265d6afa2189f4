"""Single fetches from the partition, and the headers of records that were read before."""

from __future__ import annotations

import time

from registry.log.contract import RecordHeaders, Unreachable

from . import record_batches, requests
from .connection import NoAnswer, Purpose
from .partition import Partition
from .requests import Code, code_name
from .retry import TRY_S

FETCH_BYTES = 2 << 20


async def fetch(partition: Partition, offset: int, wait_s: float, purpose: Purpose) -> requests.FetchAnswer:
    """Fetch once from ``offset`` on; the broker waits up to ``wait_s`` for a first record."""
    request = requests.Fetch(
        partition.topic,
        partition.topic_id,
        offset,
        epoch=partition.epoch,
        wait_ms=round(wait_s * 1000),
        bytes_max=FETCH_BYTES,
    )
    return requests.fetched(await partition.send(request, purpose, wait_s + TRY_S, reading_bounds=True))


async def headers_before(
    partition: Partition, offset: int, records_max: int, timeout_s: float
) -> RecordHeaders:
    """Return the headers of records before ``offset``, see :meth:`.contract.Log.headers_before`.

    Compaction removes headers together with their records.
    """
    deadline = time.monotonic() + timeout_s
    since = position = max(0, offset - records_max)
    headers: list[tuple[int, bytes]] = []
    while position < offset:
        try:
            answer = await fetch(partition, position, 0.0, Purpose.QUERY)
        except NoAnswer as error:
            raise Unreachable(str(error)) from error
        if answer.code != Code.NONE or time.monotonic() > deadline:
            raise Unreachable(f"cannot read the records from {position} on again: {code_name(answer.code)}")
        expected = position
        for run in record_batches.runs(answer.data, position, headers):
            for record in run:
                if record.offset != expected:
                    since = record.offset
                expected = record.offset + 1
        after = record_batches.next_offset(answer.data, position)
        if after == position:
            raise Unreachable(f"cannot read the records from {position} on again")
        if expected != after:
            since = after
        position = after
    return RecordHeaders(min(since, offset), [each for each in headers if since <= each[0] < offset])
