"""Detection of truncation: a check that the partition still has the records that were read from it.

A leader answers for its own leader epoch only, and says where the records of an earlier epoch end (KIP-320).
A truncated partition has a new leader epoch, unless its broker's whole disk was restored. So the records
themselves are compared, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from registry.domain.log_format.lineage import EpochEnd, Lineage
from registry.domain.log_format.records import Record

from . import record_batches, requests
from .connection import NoAnswer
from .requests import Code

# Sends a request to the partition leader. Raises NoAnswer.
Send = Callable[[Any], Awaitable[Any]]

_RECORD_BYTES = 64 << 10
_UNKNOWN = EpochEnd(-1, -1)


class LineageCheck:
    """Compares the partition, as its leader in ``epoch`` has it, with lineages."""

    def __init__(self, send: Send, topic: str, topic_id: bytes, epoch: int) -> None:
        self._send, self._topic, self._topic_id, self._epoch = send, topic, topic_id, epoch

    async def divergence(self, lineage: Lineage) -> int | None:
        """Return an offset where the partition differs from ``lineage``.

        As :meth:`registry.log.contract.Log.divergence`. Raises :class:`.connection.NoAnswer`.
        """
        found = None
        for trace in reversed(lineage.traces):
            if (found := await self._record_at(trace.offset)) is not None:
                break
        epoch_end = await self._epoch_end(lineage.epoch) if lineage.epoch >= 0 else None
        return lineage.divergence(found, await self._end(), epoch_end)

    async def _record_at(self, offset: int) -> Record | None:
        """Return the record at ``offset``; ``None`` if compaction, or anything else, removed it."""
        request = requests.Fetch(
            self._topic, self._topic_id, offset, epoch=self._epoch, wait_ms=0, bytes_max=_RECORD_BYTES
        )
        answer = requests.fetched(await self._send(request))
        if answer.code == Code.OFFSET_OUT_OF_RANGE:
            return None
        self._check(answer.code)
        for run in record_batches.runs(answer.data, offset):
            return run[0] if run[0].offset == offset else None
        return None

    async def _epoch_end(self, epoch: int) -> EpochEnd:
        request = requests.EpochEnds(self._topic, self._epoch, epoch)
        code, found = requests.epoch_end(await self._send(request))
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            return _UNKNOWN
        self._check(code)
        return found

    async def _end(self) -> int:
        request = requests.ListOffsets(self._topic, requests.LATEST, self._epoch)
        code, end = requests.listed_offset(await self._send(request))
        self._check(code)
        return end

    def _check(self, code: int) -> None:
        if code != Code.NONE:
            raise NoAnswer(
                f"comparing the log with what was read from it: {requests.code_name(code)}", sent=False
            )
