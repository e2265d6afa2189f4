"""Appending: one batch under way at a time, in the name of a claim.

A claim is a producer id and epoch from ``InitProducerId`` with one transactional id for the whole cluster. No
transaction is ever opened. From the first batch of a newer epoch on the broker refuses older ones, and the
sequence number makes it recognise a batch that is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.log.contract import (
    NO_HEADERS,
    RECORD_HEADER_BYTES,
    Claim,
    Fenced,
    Fencing,
    LogError,
    OutcomeUnknown,
    RecordTooLarge,
    UnsafeFence,
)

from . import producer_expiration, record_batches
from .init_producer import init_producer, until
from .partition import Partition
from .produce_attempt import BadTime, Settling
from .producer_expiration import Expiration
from .record_batches import NOBODY
from .timestamps import Stamps, boot_s, wall_ms

_EPOCH_LAST = (1 << 15) - 1


class Appender:
    """The writing side of ``partition``; all calls are made on its event loop.

    ``timeout_s``: for one append, claim or fence. ``fencing``: without it nothing is claimed, batches carry
    no producer, and one without an answer is never sent again. ``fence_least_s``: where brokers forget
    producers sooner, nothing is claimed. ``taken`` hears of batches that the log holds as they were sent,
    each with its offset.
    """

    def __init__(
        self,
        partition: Partition,
        transactional_id: str,
        *,
        timeout_s: float,
        batch_bytes_max: int,
        fencing: bool,
        fence_least_s: float,
        taken: Callable[[int, bytes], None],
        now_ms: Callable[[], int] = wall_ms,
        clock: Callable[[], float] = boot_s,
    ) -> None:
        self.batch_bytes_max = batch_bytes_max
        self._partition = partition
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        self._fencing = fencing
        self._fence_least_s = fence_least_s
        self._expiration = Expiration()
        self._taken = taken
        self._stamps = Stamps(now_ms, clock)
        self._clock = clock
        self._writing = asyncio.Lock()
        self._claim: Claim | None = None
        self._void = "the log was not claimed"
        self._sequence = 0
        self._floor = 0
        self._used = 0.0

    @property
    def record_bytes_max(self) -> int:
        """The most bytes of a key and a value together."""
        return (
            self.batch_bytes_max
            - record_batches.RECORD_OVERHEAD_BYTES
            - record_batches.RECORD_HEADER_EXTRA_BYTES
            - RECORD_HEADER_BYTES
        )

    @property
    def fencing(self) -> Fencing:
        """See :meth:`.contract.Log.fencing`."""
        if not self._fencing:
            return Fencing()
        found = self._expiration
        return Fencing(
            found.seconds / producer_expiration.RENEWALS,
            producer_expiration.unsafe(found, self._fence_least_s),
        )

    @property
    def assumed(self) -> str:
        """See :func:`.producer_expiration.assumed`, as of the last look; nothing without fencing."""
        return producer_expiration.assumed(self._expiration) if self._fencing else ""

    async def look(self, timeout_s: float) -> list[str]:
        """Look how long the brokers remember idle producers; return what should be otherwise, for people.

        A claim that they do not keep safe any more is given up. Raises :class:`.contract.Unreachable`.
        """
        if not self._fencing:
            return []
        deadline = time.monotonic() + timeout_s
        self._expiration = await until(deadline, self._read_expiration)
        if unsafe := self.fencing.unsafe:
            self._forfeit(unsafe)
            return [unsafe]
        warning = producer_expiration.warning(self._expiration)
        return [warning] if warning else []

    async def _read_expiration(self) -> Expiration:
        return await producer_expiration.read(self._partition)

    async def claim(self) -> Claim:
        """See :meth:`.contract.Log.claim`."""
        async with self._writing:
            self._forfeit("claiming the log did not end well")
            deadline = time.monotonic() + self._timeout_s
            await until(deadline, self._partition.refresh)
            self._floor = await self._partition.query_end(max(0.001, deadline - time.monotonic()))
            await self.look(max(0.001, deadline - time.monotonic()))
            if unsafe := self.fencing.unsafe:
                raise UnsafeFence(unsafe)
            asked = self._clock()
            claim = await until(deadline, self._init) if self._fencing else NOBODY
            self._claim, self._sequence, self._used = claim, 0 if self._fencing else -1, asked
            return claim

    async def _init(self) -> Claim:
        return await init_producer(self._partition, self._transactional_id)

    async def fence(self, earlier: Claim) -> None:
        """See :meth:`.contract.Log.fence`."""
        if earlier == NOBODY or not self._fencing or earlier.epoch >= _EPOCH_LAST:
            return
        async with self._writing:
            later = Claim(earlier.producer, earlier.epoch + 1)
            try:
                offset = await self._settle(later, 0, [Entry(NOOP_KEY, None)], lambda: None)
            except Fenced:
                return
            self._partition.note_end(offset + 1)

    async def append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """See :meth:`.contract.Log.append`."""
        self._check_sizes(entries, headers)
        async with self._writing:
            offsets: list[int] = []
            done = 0
            for piece in record_batches.pieces(entries, cuts, self.batch_bytes_max, headers):
                try:
                    offsets.append(await self._append(piece, _within(headers, done, len(piece))))
                except LogError as error:
                    if not done:
                        raise
                    self._forfeit("only a part of the last append is in the log")
                    raise OutcomeUnknown(
                        f"{done} of {len(entries)} records are in the log: {error}"
                    ) from error
                done += len(piece)
            return offsets[0] if offsets else self._partition.end

    async def _append(self, piece: Sequence[Entry], headers: Mapping[int, bytes]) -> int:
        self._partition.check_foreign()
        if self._claim is None:
            raise Fenced(f"{self._void}; it has to be claimed first")
        asked = self._clock()
        try:
            offset = await self._settle(self._claim, self._sequence, piece, self._check_age, headers)
        except (Fenced, OutcomeUnknown) as error:
            self._forfeit(str(error))
            raise
        except asyncio.CancelledError:
            self._forfeit("an append was broken off")
            raise
        if self._fencing:
            self._sequence = (self._sequence + len(piece)) % record_batches.SEQUENCES
        self._floor = offset + len(piece)
        # Not when the answer was read: who is frozen in between, for a day, would take it for a new one.
        self._used = asked
        self._partition.note_end(self._floor)
        return offset

    async def _settle(
        self,
        claim: Claim,
        sequence: int,
        piece: Sequence[Entry],
        check_age: Callable[[], None],
        headers: Mapping[int, bytes] = NO_HEADERS,
    ) -> int:
        async def at(stamp_ms: int) -> int:
            batch = record_batches.build(piece, claim, sequence, stamp_ms, headers)
            settling = self._settling(batch, claim, check_age)
            offset = await settling.run()
            if settling.as_sent:
                self._taken(offset, record_batches.placed(batch.data, offset))
            return offset

        stamp_ms = self._stamps.now()
        try:
            offset = await at(stamp_ms)
        except BadTime as error:
            earlier_ms = self._stamps.refused(stamp_ms)
            if earlier_ms is None:
                raise LogError(str(error)) from error
            stamp_ms = earlier_ms
            offset = await at(stamp_ms)
        self._stamps.taken(stamp_ms)
        return offset

    def _settling(self, batch: record_batches.Batch, claim: Claim, check_age: Callable[[], None]) -> Settling:
        return Settling(
            self._partition,
            claim,
            batch,
            floor=self._floor,
            timeout_s=self._timeout_s,
            check_age=check_age,
        )

    def _check_age(self) -> None:
        idle_s = self._clock() - self._used
        if self._fencing and idle_s > self._expiration.seconds / 2:
            raise Fenced(f"the claim was not used for {idle_s:.0f} s, and the brokers may have forgotten it")

    def _forfeit(self, why: str) -> None:
        self._claim, self._void = None, why

    def _check_sizes(self, entries: Sequence[Entry], headers: Mapping[int, bytes]) -> None:
        for at, entry in enumerate(entries):
            size = len(entry.key) + len(entry.value or b"")
            noted = max(0, len(headers.get(at, b"")) - RECORD_HEADER_BYTES)
            if size + noted > self.record_bytes_max:
                raise RecordTooLarge(
                    f"a record of {size} bytes is over the log's limit of {self.record_bytes_max}"
                )


def _within(headers: Mapping[int, bytes], start: int, count: int) -> Mapping[int, bytes]:
    """The record headers of ``count`` entries from ``start`` on, by their index among those."""
    if not headers:
        return headers
    return {at - start: header for at, header in headers.items() if start <= at < start + count}
