"""Claiming the log: the steps of a node between its election and its first decision.

The first record of a claim, the barrier, ends earlier claims of the same producer; their records precede it.
A claim of a different producer (if Kafka has expired the former one) ends no other claim by itself. The
producer of the newest barrier is therefore fenced first, and then every other producer whose barrier turns
out to precede this claim's. This guarantees that no record before this claim's barrier is missing, and that
no earlier claim appends after it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from registry.domain.log_format.records import BARRIER, BARRIER_KEY, Entry, Record
from registry.domain.rows import layout
from registry.domain.rows.view import Rows, View
from registry.log.contract import Claim, Fenced, Log

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
