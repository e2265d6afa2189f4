"""The claim of a primary, and the ids that it hands out.

The reservations in the log stay authoritative; the larger of the two values applies. Ids that others have
taken from the counter are not assigned again, and others find the ids assigned here. When reserved ids at the
end were released, the counter goes back, unless others have taken ids from it since.

The first record of a claim, the barrier, ends earlier claims of the same producer; their records precede it.
A claim of a different producer (if Kafka has expired the former one) ends no other claim by itself. The
producer of the newest barrier is therefore fenced first, and then every other producer whose barrier turns
out to precede this claim's. This guarantees that no record before this claim's barrier is missing, and that
no earlier claim appends after it.
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
        known = _newest(store)
        others = [] if known is None else [known]
        seen = -1 if known is None else known.offset
        while True:
            for other in others:
                if other.producer != claim.producer:
                    log.fence(other.claim)
            offset = log.append([_barrier(claim, node, url)])
            follow(offset + 1)
            newest = _newest(store)
            if newest is None or newest.offset != offset or newest.claim != claim:
                raise Fenced("the barrier at the end of the log belongs to another node")
            others = [each for each in applied if seen < each.offset < offset and each.claim != claim]
            if not any(each.producer != claim.producer for each in others):
                return offset
            seen = offset


def _newest(store: Rows) -> Barrier | None:
    with store.view() as view:
        return newest_barrier(view)


def _barrier(claim: Claim, node: str, url: str) -> Entry:
    value = {"producer": claim.producer, "epoch": claim.epoch, "node": node, "url": url}
    return Entry(BARRIER_KEY, msgspec.json.encode(value))
