"""One partition of Kafka and the coordinator of one transactional id, by the rules of Kafka 4.1's brokers.

Requests take effect at once and atomically; :mod:`.node_log` models the network in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from registry.domain.log_format.records import Entry, Record
from registry.log.contract import NO_HEADERS, Claim
from registry.log.kafka.record_batches import NO_PRODUCER

# The broker's epochs are signed 16-bit numbers. The coordinator assigns all but the last.
EPOCH_LAST = 32767
# The number of a producer's batches for which duplicates are detected.
_REMEMBERED = 5


class InvalidEpoch(Exception):
    """Error 47: a newer epoch of the producer has appended."""


class OutOfSequence(Exception):
    """Error 45: not the next sequence number."""


class Batch(NamedTuple):
    """A record batch as it stands in the partition."""

    producer: int
    epoch: int
    sequence: int
    base: int
    count: int
    # The sender, known to the simulation only.
    sender: str
    # The claim, numbered in the order in which the coordinator granted them; likewise.
    claim: int


@dataclass
class _Producer:
    epoch: int
    # The next sequence number.
    next: int
    appended_at: float
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class Partition:
    """The broker's side. ``now``: seconds; ``wall_ms``: time of a record.

    ``forget_s``: after so long without an append the partition forgets a producer, and whatever epoch comes
    then is taken (``producer.id.expiration.ms``). ``epochs_max``: epochs until the coordinator gives another
    producer id, fewer than a broker's so that histories get there.
    """

    def __init__(
        self,
        now: Callable[[], float],
        wall_ms: Callable[[], int],
        *,
        forget_s: float,
        epochs_max: int,
        note: Callable[[str, str, Any], None] = lambda *_: None,
    ) -> None:
        self._now = now
        self._wall_ms = wall_ms
        self._forget_s = forget_s
        self._epochs_max = epochs_max
        self._note = note
        self._producers: dict[int, _Producer] = {}
        self._given = Claim(1000, -1)
        # The number of claims that the coordinator has granted.
        self.claims = 0
        self.records: list[Record] = []
        # By their records' offsets.
        self.headers: dict[int, bytes] = {}
        self.batches: list[Batch] = []

    @property
    def end(self) -> int:
        return len(self.records)

    def init(self, *, another_producer: bool = False) -> tuple[Claim, int]:
        """InitProducerId: return the next epoch, or another producer id; and the number of this claim."""
        producer, epoch = self._given
        if another_producer or epoch + 1 >= self._epochs_max:
            self._given = Claim(producer + 1, 0)
        else:
            self._given = Claim(producer, epoch + 1)
        self.claims += 1
        self._note("grant", "", self._given)
        return self._given, self.claims

    def cut(self, end: int) -> None:
        """Lose all records from ``end`` on, where a batch begins. What is left tells of producers."""
        self.batches = [each for each in self.batches if each.base < end]
        self.headers = {at: header for at, header in self.headers.items() if at < end}
        del self.records[end:]
        before, self._producers = self._producers, {}
        for batch in self.batches:
            if batch.producer == NO_PRODUCER.producer:
                continue
            known = self._producers.get(batch.producer)
            if known is None or known.epoch != batch.epoch:
                appended_at = before[batch.producer].appended_at if batch.producer in before else self._now()
                known = self._producers[batch.producer] = _Producer(batch.epoch, 0, appended_at)
            known.next = batch.sequence + batch.count
            known.recent.append(batch)

    def produce(
        self,
        claim: Claim,
        sequence: int,
        entries: Sequence[Entry],
        sender: str,
        number: int,
        headers: Mapping[int, bytes] = NO_HEADERS,
        ts: int | None = None,
    ) -> int:
        """Append a batch; return the offset of its first record, the same if it is a duplicate.

        ``ts``: the time that its sender gave it, else the broker's. ``NO_PRODUCER`` is no claim, and is not
        checked.
        """
        if claim == NO_PRODUCER:
            self.headers |= {self.end + at: header for at, header in headers.items()}
            return self._append(None, claim, sequence, entries, sender, number, ts)
        producer = self._known(claim.producer)
        if producer is None:  # Any epoch is accepted: this is the danger for idle producers.
            producer = self._producers[claim.producer] = _Producer(claim.epoch, sequence, self._now())
        if claim.epoch < producer.epoch:
            raise InvalidEpoch
        if claim.epoch > producer.epoch:
            if sequence != 0:
                raise OutOfSequence
            producer.epoch, producer.next = claim.epoch, 0
            producer.recent.clear()
        for batch in producer.recent:
            if (batch.sequence, batch.count) == (sequence, len(entries)):
                return batch.base
        if sequence != producer.next:
            raise OutOfSequence
        self.headers |= {self.end + at: header for at, header in headers.items()}
        return self._append(producer, claim, sequence, entries, sender, number, ts)

    def _known(self, name: int) -> _Producer | None:
        producer = self._producers.get(name)
        if producer is not None and self._now() - producer.appended_at > self._forget_s:
            del self._producers[name]
            return None
        return producer

    def _append(
        self,
        producer: _Producer | None,
        claim: Claim,
        sequence: int,
        entries: Sequence[Entry],
        sender: str,
        number: int,
        ts: int | None,
    ) -> int:
        batch = Batch(claim.producer, claim.epoch, sequence, self.end, len(entries), sender, number)
        ts = self._wall_ms() if ts is None else ts
        self.records += [Record(self.end + index, ts, *entry) for index, entry in enumerate(entries)]
        self.batches.append(batch)
        self._note("land", "", (batch, entries))
        if producer is not None:
            producer.recent.append(batch)
            producer.next += len(entries)
            producer.appended_at = self._now()
        return batch.base
