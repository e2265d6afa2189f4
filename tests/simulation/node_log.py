"""A node's log over the simulated partition: the contract of :mod:`registry.log.contract` over a bad network.

A request or its answer may be lost, or arrive late, after the sender has given it up. The log then follows
the same rules as the Kafka log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.log.contract import (
    NO_HEADERS,
    Claim,
    Fenced,
    Fencing,
    Fetched,
    LogError,
    OutcomeUnknown,
    RecordHeaders,
    Unreachable,
)

from .brokers import CONNECTION_IDLE_S
from .connections import LATE_S_MAX, Line
from .partition import InvalidEpoch, OutOfSequence, Partition
from .world import Process, World

REQUEST_TIMEOUT_S = 1.0
APPEND_TIMEOUT_S = 3.0
# A claim unused for this many seconds is void: half of the time that brokers remember.
CLAIM_IDLE_S = 30.0
_Answer = TypeVar("_Answer")


class NoAnswer(Exception):
    """The request or its answer was lost, or arrives late."""


class NodeLog:
    """The log as seen by one process of a node; another process has another."""

    identity = "simulated"
    record_bytes_max = 900_000
    tombstone_retention_ms = None
    fencing = Fencing()

    def __init__(self, world: World, partition: Partition, process: Process, line: Line) -> None:
        self._world = world
        self._partition = partition
        self._process = process
        self._line = line
        self._claim: Claim | None = None
        self._number = 0
        self._sequence = 0
        self._used_at = 0.0
        self._heard = 0
        self._fetched = 0

    def end(self) -> int:
        return self._heard

    def query_end(self, timeout_s: float) -> int:
        try:
            end = self._ask(lambda: self._partition.end, timeout_s)
        except NoAnswer:
            raise Unreachable("no answer about the log's end") from None
        self._heard = max(self._heard, end)
        return end

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        if self._line.fetches:  # Fetched in the background by now: anything up to the end.
            here = max(self._heard, offset)
            if here < self._partition.end:
                self._heard = self._world.chance.randint(here, self._partition.end)
            self._fetched = max(self._fetched, self._heard)
        records = self._partition.records[offset : min(self._fetched, offset + records_max)]
        after = offset + len(records)
        return Fetched(records, after, self._headers(offset, after))

    def _headers(self, offset: int, after: int) -> list[tuple[int, bytes]]:
        found = self._partition.headers
        return [(at, found[at]) for at in range(offset, after) if at in found]

    def divergence(self, lineage: Lineage) -> int | None:
        return None  # The simulated partition loses nothing.

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        since = max(0, offset - records_max)
        try:
            return RecordHeaders(since, self._ask(lambda: self._headers(since, offset), REQUEST_TIMEOUT_S))
        except NoAnswer:
            raise Unreachable("no answer to a reading") from None

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        try:
            records = self._ask(
                lambda: self._partition.records[offset : offset + records_max], REQUEST_TIMEOUT_S
            )
        except NoAnswer:
            raise Unreachable("no answer to a reading") from None
        return Fetched(records, offset + len(records))

    def query_start(self) -> int:
        return 0

    def first_after(self, time_ms: int) -> int | None:
        return next((each.offset for each in self._partition.records if each.ts > time_ms), None)

    def wait(self, offset: int, timeout_s: float) -> bool:
        self._world.until(lambda: self._line.fetches and self._partition.end > offset, timeout_s)
        if self._line.fetches:
            self._fetched = self._heard = max(self._heard, self._partition.end)
        return self._fetched > offset

    def claim(self) -> Claim:
        for _ in range(3):
            asked_at = self._world.now
            try:
                self._claim, self._number = self._ask(self._partition.init, REQUEST_TIMEOUT_S)
            except NoAnswer:
                continue
            self._sequence, self._used_at = 0, asked_at
            return self._claim
        raise Unreachable("no answer to a claim")

    def fence(self, earlier: Claim) -> None:
        # The highest epoch: higher than any that was ever assigned, even to claims that never appended.
        over = Claim(earlier.producer, earlier.epoch + 1)
        entries = [Entry(NOOP_KEY, None)]
        for _ in range(3):
            try:
                self._ask(
                    lambda: self._partition.produce(over, 0, entries, self._process.name, 0),
                    REQUEST_TIMEOUT_S,
                )
            except NoAnswer:
                continue
            except (InvalidEpoch, OutOfSequence):
                pass
            return
        raise Unreachable("no answer to a fence")

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """Append in one piece or, as if the entries were long, in two."""
        places = [each for each in cuts if 0 < each < len(entries)]
        cut = self._world.chance.choice(places) if places and self._world.likely(0.3) else len(entries)
        self._line.appending = True
        try:
            base = self._append_piece(entries[:cut], headers)
            if cut < len(entries):
                rest = {at - cut: header for at, header in headers.items() if at >= cut}
                self._append_rest(entries[cut:], rest)
        finally:
            self._line.appending = False
        return base

    def _append_rest(self, entries: Sequence[Entry], headers: Mapping[int, bytes]) -> None:
        try:
            self._append_piece(entries, headers)
        except LogError as error:
            self._claim = None
            raise OutcomeUnknown(f"all but {len(entries)} records were appended") from error

    def _append_piece(self, entries: Sequence[Entry], headers: Mapping[int, bytes]) -> int:
        headers = {at: header for at, header in headers.items() if at < len(entries)}
        claim, number, sequence = self._claim, self._number, self._sequence
        if claim is None:
            raise Fenced("not claimed")
        asked_at = self._world.now
        deadline = asked_at + APPEND_TIMEOUT_S
        doubt = False
        while True:
            if self._world.now - self._used_at > CLAIM_IDLE_S:
                self._claim = None
                raise OutcomeUnknown("not used for too long") if doubt else Fenced("not used for too long")
            try:
                base = self._ask(
                    lambda: self._partition.produce(
                        claim, sequence, entries, self._process.name, number, headers
                    ),
                    REQUEST_TIMEOUT_S,
                )
                break
            except NoAnswer:
                doubt = True
                if self._world.now > deadline:
                    self._claim = None
                    raise OutcomeUnknown("no answer to an append") from None
            except (InvalidEpoch, OutOfSequence) as refused:
                found = self._found(claim, sequence) if doubt else None
                if found is None:
                    self._claim = None
                    if isinstance(refused, OutOfSequence):
                        raise OutcomeUnknown("out of sequence") from None
                    raise Fenced("a newer claim stands") from None
                base = found
                break
        self._sequence += len(entries)
        self._used_at = asked_at
        self._heard = max(self._heard, base + len(entries))
        return base

    def _found(self, claim: Claim, sequence: int) -> int | None:
        """Return the offset of a batch that an earlier attempt may have appended; ``None``: it did not."""
        for _ in range(3):
            try:
                batches = self._ask(lambda: list(self._partition.batches), REQUEST_TIMEOUT_S)
            except NoAnswer:
                continue
            wanted = (claim.producer, claim.epoch, sequence)
            return next((each.base for each in batches if each[:3] == wanted), None)
        self._claim = None
        raise OutcomeUnknown("no answer to an append, nor to a reading")

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _ask(self, what: Callable[[], _Answer], timeout_s: float) -> _Answer:
        """Make one request: other tasks run while it travels, and the network may do anything to it."""
        world, line = self._world, self._line
        asked_at = world.now
        world.sleep(line.hops_s * world.chance.random())
        if line.cut or world.now - asked_at > CONNECTION_IDLE_S:
            fate = "lost"
        elif world.likely(line.bad):
            fate = world.chance.choice(("lost", "late", "unheard"))
        else:
            fate = "heard"
        if fate == "late":
            self._later(what)
        if fate in ("lost", "late"):
            world.sleep(timeout_s)
            raise NoAnswer
        answer = what()
        world.sleep(line.hops_s * world.chance.random() if fate == "heard" else timeout_s)
        if fate == "unheard":
            raise NoAnswer
        return answer

    def _later(self, what: Callable[[], object]) -> None:
        delay_s = self._world.chance.random() * LATE_S_MAX

        def arrive() -> None:
            self._world.sleep(delay_s)
            with suppress(InvalidEpoch, OutOfSequence):  # No caller waits for this answer.
                what()

        self._world.spawn(Process("network"), arrive)
