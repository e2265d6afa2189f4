"""Claiming the log: what a node does between being elected and its first decision.

A claim ends earlier ones of the same producer with its first record, the barrier; what they appended before
lies ahead of it. A claim of another producer (Kafka has forgotten the former one) ends none by itself: so the
producer of the newest barrier is fenced first, and whoever else's barrier then turns up ahead of the own one.
What remains is sure: below the own barrier nothing is missing, above it nobody older writes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from registry.domain.log_format.records import BARRIER, BARRIER_KEY, Entry, Record
from registry.domain.rows import layout
from registry.domain.rows.view import View
from registry.log.contract import Claim, Fenced, Log

ASK_S = 5.0
"""How long the log may take to say where it ends."""


class Barrier(msgspec.Struct, frozen=True):
    """The begin of an epoch, as its row holds it; its offset is the epoch's number."""

    producer: int
    epoch: int
    """The producer's."""
    node: str = ""
    url: str = ""
    offset: int = -1

    @property
    def claim(self) -> Claim:
        """The claim under which it was appended."""
        return Claim(self.producer, self.epoch)


class Rows(Protocol):
    """The committed rows."""

    def view(self) -> AbstractContextManager[View]:
        """The rows at one moment."""
        ...


class Claimant(msgspec.Struct, frozen=True):
    """Who claims, for people who read the log."""

    node: str
    url: str


_decode = msgspec.json.Decoder(Barrier).decode
_ROW = layout.cluster_key(BARRIER)


def newest_barrier(view: View) -> Barrier | None:
    """The newest barrier that was applied; ``None`` too when it holds something else than ours do."""
    row = view.get(_ROW)
    try:
        return None if row is None else _decode(row)
    except msgspec.MsgspecError:
        return None


def read_barrier(record: Record) -> Barrier | None:
    """The barrier that a record is; ``None`` for all other records, and for what ours do not hold."""
    if record.key != BARRIER_KEY or record.value is None:
        return None
    try:
        return msgspec.structs.replace(_decode(record.value), offset=record.offset)
    except msgspec.MsgspecError:
        return None


def claim_log(
    log: Log,
    store: Rows,
    claimant: Claimant,
    *,
    follow: Callable[[int], None],
    watching: Callable[[], AbstractContextManager[list[Barrier]]],
) -> int:
    """Claim the log and return the epoch's number, the offset of a barrier that is applied; 0 without one.

    To be called right after the election has confirmed that this node is elected. ``follow`` returns once the
    store holds the log up to an offset; ``watching`` lists the barriers that are applied during its block.
    Raises :class:`Fenced` when another claim turns out to stand, and the errors of the log and the store.
    """
    # Read before the claim, so that little is left to read while nobody can write.
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
            offset = log.append([_barrier(claim, claimant)])
            follow(offset + 1)
            newest = _newest(store)
            if newest is None or newest.offset != offset or newest.claim != claim:
                raise Fenced("the barrier at the end of the log is another node's")
            others = [each for each in applied if seen < each.offset < offset and each.claim != claim]
            if not any(each.producer != claim.producer for each in others):
                return offset
            seen = offset


def _newest(store: Rows) -> Barrier | None:
    with store.view() as view:
        return newest_barrier(view)


def _barrier(claim: Claim, claimant: Claimant) -> Entry:
    value = {"producer": claim.producer, "epoch": claim.epoch, "node": claimant.node, "url": claimant.url}
    return Entry(BARRIER_KEY, msgspec.json.encode(value))
