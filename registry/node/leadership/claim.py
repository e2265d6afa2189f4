"""The claim of a primary, and the ids that it hands out.

The reservations in the log stay authoritative; the larger of the two values applies. Ids that others have
taken from the counter are not assigned again, and others find the ids assigned here. When reserved ids at the
end were released, the counter goes back, unless others have taken ids from it since.

The first record of a claim, the barrier, ends earlier claims of the same producer; their records precede it.
A claim of a different producer (if Kafka has expired the former one) ends no other claim by itself. The
producer of the newest barrier is therefore fenced first, and then every other producer whose barrier turns
out to precede this claim's. This guarantees that no record before this claim's barrier is missing, and that
no earlier claim appends after it. A node may fail before it has fenced all of them. Its barrier therefore
names the offset up to which it had read the log before, and the next claim fences what lies in between.
tests/proof/model/Registrar.tla is a model of this protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from registry.domain.log_format.records import BARRIER, BARRIER_KEY, Entry, Record
from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.queries.id_space import reserved_upto
from registry.domain.rows import layout
from registry.domain.rows.view import Rows, View
from registry.log.contract import Claim, Fenced, Log, Unreachable

_ANSWER_S = 10.0
# Read at once, when barriers before the newest one are looked for.
_READ_RECORDS, _READ_BYTES = 1000, 1 << 20
_log = logging.getLogger(__name__)

# Raises the counter to at least a value and returns its value before; ``None`` if there is no counter.
Advance = Callable[[int], "Future[int] | None"]
# Lowers the counter from a value to another one, unless it has changed; ``None`` as above.
Lower = Callable[[int, int], "Future[bool] | None"]


class IdCounter:
    """Mirrors reserved ids in the counter, on the write thread. ``view`` opens the committed rows."""

    def __init__(
        self, view: Callable[[], AbstractContextManager[View]], advance: Advance, lower: Lower
    ) -> None:
        self._view = view
        self._advance = advance
        self._lower = lower
        self._reported = 0
        # Ids up to this one may be assigned by others through the counter; 0: none but reserved ones.
        self.floor = 0

    def read(self) -> None:
        """Read the counter before the first decision. Raises :class:`Unreachable`."""
        reserved = self._read_reserved()
        asked = self._advance(reserved)
        if asked is None:
            return
        try:
            found = asked.result(_ANSWER_S)
        except Exception as error:
            raise Unreachable(f"cannot read ZooKeeper's counter of ids: {error}") from error
        self.floor = found if found > reserved else 0
        self._reported = reserved

    def wrote(self) -> None:
        """Move the counter if more ids were reserved, or some released; does not wait for the result."""
        reserved, before = self._read_reserved(), self._reported
        if reserved == before:
            return
        self._reported = reserved
        asked: Future[Any] | None
        asked = self._advance(reserved) if reserved > before else self._lower(before, reserved)
        if asked is not None:
            asked.add_done_callback(_note_failure)

    def _read_reserved(self) -> int:
        with self._view() as view:
            return reserved_upto(view, DEFAULT_CONTEXT)


def _note_failure(asked: Future[Any]) -> None:
    if not asked.cancelled() and (error := asked.exception()) is not None:
        _log.warning("cannot move ZooKeeper's counter of ids: %s", error)


# Timeout of a query for the log's end, in seconds.
ASK_S = 5.0


class Barrier(msgspec.Struct, frozen=True):
    """The start of an epoch, as stored in its row; its offset is the epoch's number."""

    producer: int
    # The producer's epoch.
    epoch: int
    node: str = ""
    url: str = ""
    offset: int = -1
    # The offset up to which other claims had been fenced when it was appended; -1 from earlier versions.
    since: int = -1

    @property
    def claim(self) -> Claim:
        """The claim under which the barrier was appended."""
        return Claim(self.producer, self.epoch)


_decode = msgspec.json.Decoder(Barrier).decode
_ROW = layout.cluster_key(BARRIER)


def newest_barrier(view: View) -> Barrier | None:
    """Return the newest applied barrier, or ``None`` if there is none or it cannot be decoded."""
    row = view.get(_ROW)
    try:
        return None if row is None else _decode(row)
    except msgspec.MsgspecError:
        return None


def read_barrier(record: Record) -> Barrier | None:
    """Return the barrier in a record, or ``None`` if the record is not one or cannot be decoded."""
    if record.key != BARRIER_KEY or record.value is None:
        return None
    try:
        return msgspec.structs.replace(_decode(record.value), offset=record.offset)
    except msgspec.MsgspecError:
        return None


def claim_log(
    log: Log,
    store: Rows,
    *,
    node: str,
    url: str,
    follow: Callable[[int], None],
    watching: Callable[[], AbstractContextManager[list[Barrier]]],
) -> int:
    """Claim the log and return the epoch's number: the offset of the applied barrier, or 0 without one.

    Call right after the election has confirmed that this node is elected. The barrier names the ``node`` and
    its ``url`` for people who read the log. ``follow`` returns once the store holds the log up to an offset;
    ``watching`` lists the barriers that are applied during its block. Raises
    :class:`Fenced` if another claim turns out to be valid, and the errors of the log and the store.
    """
    # Follow before the claim, so that few records are left to read while no node can write.
    follow(log.query_end(ASK_S))
    claim = log.claim()
    if claim is None:
        follow(log.query_end(ASK_S))
        return 0
    with watching() as applied:
        follow(log.query_end(ASK_S))
        since = store.applied
        known = _newest(store)
        others = [] if known is None else [*_barriers_in_gap(log, known), known]
        while True:
            for other in others:
                if other.producer != claim.producer:
                    log.fence(other.claim)
            offset = log.append([_barrier(claim, node, url, since)])
            follow(offset + 1)
            newest = _newest(store)
            if newest is None or newest.offset != offset or newest.claim != claim:
                raise Fenced("the barrier at the end of the log belongs to another node")
            others = [each for each in applied if since <= each.offset < offset and each.claim != claim]
            if not any(each.producer != claim.producer for each in others):
                return offset
            since = offset


def _newest(store: Rows) -> Barrier | None:
    with store.view() as view:
        return newest_barrier(view)


def _barriers_in_gap(log: Log, known: Barrier) -> list[Barrier]:
    """Return the barriers shortly before ``known`` whose claims its node may not have fenced any more."""
    found: list[Barrier] = []
    if not 0 <= known.since < known.offset:
        return found
    at = max(known.since, log.query_start())
    while at < known.offset:
        fetched = log.read_again(at, _READ_RECORDS, _READ_BYTES)
        barriers = (read_barrier(record) for record in fetched.records if record.offset < known.offset)
        found += [barrier for barrier in barriers if barrier is not None]
        at = max(fetched.next, at + 1)
    return found


def _barrier(claim: Claim, node: str, url: str, since: int) -> Entry:
    value = {"producer": claim.producer, "epoch": claim.epoch, "node": node, "url": url, "since": since}
    return Entry(BARRIER_KEY, msgspec.json.encode(value))
