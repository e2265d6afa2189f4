"""The writing side of the log: appends one batch at a time, in the name of a claim.

A claim is a producer id and epoch from ``InitProducerId``, with one transactional id for the whole cluster.
No transaction is ever opened. Once the log holds a batch of a newer epoch, the broker rejects batches of
older ones. The sequence number lets the broker recognize a batch that is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from registry.domain.log_format.headers import PRINCIPAL_ROOM_BYTES
from registry.domain.log_format.records import NOOP_KEY, AppendedBatch, Entry
from registry.log.contract import (
    NO_HEADERS,
    RECORD_HEADER_BYTES,
    Claim,
    Fenced,
    Fencing,
    LogError,
    OutcomeUnknown,
    RecordTooLarge,
    UnfitHost,
    UnsafeFence,
)

from . import producer_id, record_batches
from .connection import Purpose
from .log_end import query_end
from .partition import Partition
from .produce_attempt import FutureTimestamp, ProduceAttempt
from .producer_id import Expiration, init_producer
from .record_batches import NO_PRODUCER
from .timestamps import Timestamps, boot_s, wall_ms

_EPOCH_LAST = (1 << 15) - 1
_CLOCK_AHEAD = (
    "this node cannot become primary: Kafka refuses its records as ones from the future; set the clock of "
    "this host"
)


class Appender:
    """Appends to ``partition``; all calls are made on its event loop.

    ``timeout_s`` limits one append, claim or fence. Without ``fencing`` nothing is claimed, batches carry no
    producer, and a batch without an answer is never sent again. Where brokers forget producers sooner than
    ``fence_least_s``, the log cannot be claimed. ``on_appended`` gets each batch that the log holds as it was
    sent, with its offset.
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
        on_appended: Callable[[int, bytes], None],
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
        self._on_appended = on_appended
        self._timestamps = Timestamps(now_ms, clock)
        self._clock = clock
        self._writing = asyncio.Lock()
        self._claim: Claim | None = None
        self._void_reason = "the log has not been claimed"
        self._sequence = 0
        # No batch of this claim can have a lower offset.
        self._offset_min = 0
        self._used_at = 0.0
        # The last batch, with its offset, if the log holds it as it was sent.
        self._appended: AppendedBatch | None = None
        # Why nothing may be appended for now; empty if nothing forbids it.
        self._forbidden = ""

    @property
    def record_bytes_max(self) -> int:
        """The maximum size of a key and a value together, in bytes."""
        return (
            self.batch_bytes_max
            - record_batches.RECORD_OVERHEAD_BYTES
            - record_batches.RECORD_HEADER_EXTRA_BYTES
            - RECORD_HEADER_BYTES
        )

    @property
    def fencing(self) -> Fencing:
        """The state of fencing at the last check, see :meth:`.contract.Log.fencing`."""
        found = self._expiration
        renew_s = found.seconds / producer_id.RENEWALS if self._fencing else None
        unsafe = self._forbidden
        if self._fencing and not unsafe:
            unsafe = producer_id.unsafe(found, self._fence_least_s)
        if not unsafe and self._timestamps.is_ahead:
            return Fencing(renew_s, _CLOCK_AHEAD, own=True)
        return Fencing(renew_s, unsafe)

    def last_batch(self, end: int) -> AppendedBatch | None:
        """Return the last batch that was appended if it ends at ``end``; for any thread."""
        batch = self._appended
        if batch is None or next(record_batches.batch_headers(batch.packed)).next != end:
            return None
        return batch

    def forbid(self, reason: str) -> None:
        """Append nothing, and give up the claim, until this is called with an empty reason."""
        self._forbidden = reason
        if reason:
            self._void_claim(reason)

    @property
    def assumption(self) -> str:
        """The result of :func:`.producer_id.describe_assumption` at the last check; empty without fencing."""
        return producer_id.describe_assumption(self._expiration) if self._fencing else ""

    async def check_expiration(self, timeout_s: float) -> list[str]:
        """Read how long the brokers remember idle producers; return warnings for the operator.

        A claim that they no longer keep safe is given up. Raises :class:`.contract.Unreachable`.
        """
        if not self._fencing:
            return []
        deadline = self._partition.clock() + timeout_s
        self._expiration = await self._partition.retry_until(
            deadline, lambda: producer_id.read(self._partition)
        )
        if unsafe := producer_id.unsafe(self._expiration, self._fence_least_s):
            self._void_claim(unsafe)
            return [unsafe]
        warning = producer_id.warning(self._expiration)
        return [warning] if warning else []

    async def claim(self) -> Claim:
        """Claim the log, see :meth:`.contract.Log.claim`."""
        async with self._writing:
            self._void_claim("the last attempt to claim the log failed")
            deadline = self._partition.clock() + self._timeout_s
            await self._partition.retry_until(deadline, self._partition.refresh)
            self._offset_min = await query_end(self._partition, self._left_s(deadline))
            await self.check_expiration(self._left_s(deadline))
            if unsafe := self.fencing.unsafe:
                raise UnfitHost(unsafe) if self.fencing.own else UnsafeFence(unsafe)
            # Taken before the request: the broker counts the producer's age from some later moment.
            asked_at = self._clock()
            claim = NO_PRODUCER
            if self._fencing:
                claim = await self._partition.retry_until(deadline, self._init_producer)
            self._claim, self._sequence, self._used_at = claim, 0 if self._fencing else -1, asked_at
            return claim

    async def _init_producer(self) -> Claim:
        return await init_producer(self._partition, self._transactional_id)

    async def fence(self, earlier: Claim) -> None:
        """Fence an earlier claim, see :meth:`.contract.Log.fence`."""
        if earlier == NO_PRODUCER or not self._fencing or earlier.epoch >= _EPOCH_LAST:
            return
        async with self._writing:
            later = Claim(earlier.producer, earlier.epoch + 1)
            try:
                # An earlier claim may have sent the same batch and failed after it.
                offset = await self._produce(later, 0, [Entry(NOOP_KEY, None)], lambda: None, repeats=True)
            except Fenced:
                return
            self._partition.advance_end(offset + 1)

    async def append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """Append entries, see :meth:`.contract.Log.append`."""
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
                    self._void_claim("the log holds only a part of the last append")
                    raise OutcomeUnknown(
                        f"{done} of {len(entries)} records are in the log: {error}"
                    ) from error
                done += len(piece)
            return offsets[0] if offsets else self._partition.end

    async def _append(self, piece: Sequence[Entry], headers: Mapping[int, bytes]) -> int:
        self._partition.mismatches.check_foreign()
        if self._claim is None:
            raise Fenced(f"{self._void_reason}; it must be claimed first")
        asked_at = self._clock()
        try:
            offset = await self._produce(self._claim, self._sequence, piece, self._check_age, headers)
        except (Fenced, OutcomeUnknown) as error:
            self._void_claim(str(error))
            raise
        except asyncio.CancelledError:
            self._void_claim("an append was cancelled")
            raise
        if self._fencing:
            self._sequence = (self._sequence + len(piece)) % record_batches.SEQUENCES
        self._offset_min = offset + len(piece)
        # Not the time of the answer: a process that is frozen in between would take the claim for fresh.
        self._used_at = asked_at
        self._partition.advance_end(self._offset_min)
        return offset

    async def _produce(
        self,
        claim: Claim,
        sequence: int,
        piece: Sequence[Entry],
        check_age: Callable[[], None],
        headers: Mapping[int, bytes] = NO_HEADERS,
        *,
        repeats: bool = False,
    ) -> int:
        """Append one batch, if need be with an earlier timestamp; return its offset."""

        async def produce_at(timestamp_ms: int) -> int:
            batch = record_batches.build(piece, claim, sequence, timestamp_ms, headers)
            attempt = ProduceAttempt(
                self._partition,
                claim,
                batch,
                offset_min=self._offset_min,
                timeout_s=self._timeout_s,
                check_age=check_age,
                repeats=repeats,
            )
            self._appended = None
            offset = await attempt.run()
            if attempt.as_sent:
                packed = record_batches.with_base_offset(batch.data, offset)
                # Unknown if the leader has changed since.
                self._appended = AppendedBatch(packed, self._partition.compared_epoch(Purpose.APPEND))
                self._on_appended(offset, packed)
            return offset

        timestamp_ms = self._timestamps.now()
        try:
            offset = await produce_at(timestamp_ms)
        except FutureTimestamp as error:
            earlier_ms = self._timestamps.next_after_rejection(timestamp_ms)
            if earlier_ms is None:
                raise UnfitHost(_CLOCK_AHEAD) from error
            timestamp_ms = earlier_ms
            offset = await produce_at(timestamp_ms)
        self._timestamps.record_accepted(timestamp_ms)
        return offset

    def _check_age(self) -> None:
        idle_s = self._clock() - self._used_at
        if self._fencing and idle_s > self._expiration.seconds / 2:
            raise Fenced(f"the claim was not used for {idle_s:.0f} s, and the brokers may have forgotten it")

    def _left_s(self, deadline: float) -> float:
        return max(0.001, deadline - self._partition.clock())

    def _void_claim(self, reason: str) -> None:
        self._claim, self._void_reason = None, reason

    def _check_sizes(self, entries: Sequence[Entry], headers: Mapping[int, bytes]) -> None:
        for at, entry in enumerate(entries):
            size = len(entry.key) + len(entry.value or b"") + (PRINCIPAL_ROOM_BYTES if entry.principal else 0)
            excess = max(0, len(headers.get(at, b"")) - RECORD_HEADER_BYTES)
            if size + excess > self.record_bytes_max:
                raise RecordTooLarge(
                    f"a record of {size} bytes is over the log's limit of {self.record_bytes_max}"
                )


def _within(headers: Mapping[int, bytes], start: int, count: int) -> Mapping[int, bytes]:
    """Return the headers of ``count`` entries from ``start`` on, by their index among those."""
    if not headers:
        return headers
    return {at - start: header for at, header in headers.items() if start <= at < start + count}
