"""The identity of the log: evidence that it was replaced by another one, or truncated.

A topic may be deleted, created again or truncated, and other brokers may listen at the same addresses. A
broker that has just started may know less than the others, so such a finding counts only after brokers have
repeated it for :data:`CONFIRM_S` and none has contradicted it. Until then the partition is treated as
unreachable.

A leader answers for its own leader epoch only, and says where the records of an earlier epoch end (KIP-320).
A truncated partition has a new leader epoch, unless its broker's whole disk was restored. So the records
themselves are compared, too.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from registry.domain.log_format.lineage import EpochEnd, Lineage
from registry.domain.log_format.records import Record
from registry.log.contract import ForeignLog

from . import record_batches, requests
from .connection import NoAnswer
from .requests import Code

CONFIRM_S = 1.0

# The kinds of evidence. Each is confirmed or cleared on its own.
TOPIC, HEAD, END, HISTORY = "topic", "head", "end", "history"
# Sends a request to the partition leader. Raises NoAnswer.
Send = Callable[[Any], Awaitable[Any]]

_RECORD_BYTES = 64 << 10
_UNKNOWN = EpochEnd(-1, -1)


class LogMismatchEvidence:
    """The evidence so far. Any thread may call :meth:`check_foreign`; the rest runs on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By kind: when it was first seen, and what was seen last.
        self._suspected: dict[str, tuple[float, str]] = {}
        self._foreign: dict[str, str] = {}

    @property
    def foreign(self) -> bool:
        """True once it is confirmed that the log is another one."""
        return bool(self._foreign)

    @property
    def any(self) -> bool:
        """True while anything is suspected or confirmed."""
        return bool(self._suspected or self._foreign)

    def check_foreign(self) -> None:
        """Raise :class:`.contract.ForeignLog` if that is confirmed."""
        for text in tuple(self._foreign.values()):
            raise ForeignLog(text)

    def check(self, *, reading_bounds: bool = False) -> None:
        """Raise :class:`.contract.ForeignLog`, or :class:`.connection.NoAnswer` while anything is suspected.

        With ``reading_bounds`` only a suspected topic counts: fetches and offset queries must go on, because
        they are what confirms or clears a suspicion about the log's bounds.
        """
        self.check_foreign()
        for kind, (_, text) in self._suspected.items():
            if kind == TOPIC or not reading_bounds:
                raise NoAnswer(text, sent=False)

    def add(self, kind: str, text: str) -> None:
        """Record one more sign; it is confirmed when the first one is :data:`CONFIRM_S` old."""
        now = self._clock()
        since, _ = self._suspected.setdefault(kind, (now, text))
        self._suspected[kind] = since, text
        if now - since >= CONFIRM_S:
            self._foreign[kind] = text

    def clear(self, kind: str) -> None:
        """Forget the signs of this kind, because one answer contradicted them.

        A topic that exists again under its id is the same topic, even after a confirmed deletion. Records
        that were lost stay lost.
        """
        self._suspected.pop(kind, None)
        if kind == TOPIC:
            self._foreign.pop(kind, None)


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
        answer = requests.read_fetch(await self._send(request))
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
