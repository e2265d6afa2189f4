"""Batches before whose records another program's records landed, which nobody knew when they were decided.

Only the primary should write to the log, and the claim fences other nodes of this registry. It fences no
other program: a Confluent node on the same topic, or a console producer. Such a record may take the id or the
version that the batch gives to its schema. The record with the lower offset keeps both, so the batch's
commands are decided again over rows that include the other records. What comes out differently is appended
once more: the new records, and for keys that the command should not have written what they would hold without
it. Only then is anything answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from registry.domain.commands import Refused
from registry.domain.decide import Decision
from registry.domain.decide.ids import Span
from registry.domain.fold.fold import apply, owner
from registry.domain.log_format import records
from registry.domain.log_format.records import IDS, NOOP_KEY, Entry, Key, NoopKey, Record
from registry.domain.pending_command import PendingCommand
from registry.domain.reseed import restoring_entry
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.version_row import ENCODED_MARK
from registry.domain.rows.view import View
from registry.log.contract import Log, OutcomeUnknown

from .batch import Batch, Decider, Plan, Planned

# Rounds after which a batch that is overtaken each time is given up.
ROUNDS_MAX = 5
# Bytes of other records that are examined in one round.
OTHERS_BYTES_MAX = 64 << 20
_READ_RECORDS, _READ_BYTES = 1000, 4 << 20
_log = logging.getLogger(__name__)


class Unsettled(OutcomeUnknown):
    """Our records may clash with those of another program, and it could not be set right."""


class Landed(NamedTuple):
    """A batch whose records are in the log, and the plans that hold with them."""

    plans: list[Plan]
    # An offset at which commands without records are true; that of the first record; after the last one.
    base: int
    first: int
    end: int


class _Records(NamedTuple):
    """The records of an append as they stand in the log, and the others before and between them."""

    own: list[Record]
    others: list[Record]
    end: int


@dataclass(slots=True, eq=False)
class _Attempt:
    """A command whose records are in the log."""

    at: int
    pending: PendingCommand
    plan: Planned | Refused
    # As decided; where they begin among those that were appended with them, and how many stand there.
    entries: list[Entry]
    start: int
    count: int
    # The spans of ids before it was decided, and after.
    before: dict[str, Span]
    after: dict[str, Span]


@dataclass(slots=True)
class _Correction:
    """Records that a round appends, and the commands that they are for."""

    entries: list[Entry] = field(default_factory=list)
    headers: dict[int, bytes] = field(default_factory=dict)
    attempts: list[_Attempt] = field(default_factory=list)


class OvertakenBatch:
    """Settles a batch that was decided over ``view`` and appended. ``now``: for records not yet in the log.

    The ids of ``decider`` are those after the batch, so that none of them is used for another schema.
    """

    def __init__(self, log: Log, decider: Decider, view: View, *, now: int) -> None:
        self._log = log
        self._decider = decider
        self._now = now
        # The rows with what cannot change any more: others' records, and ours that proved right.
        self._rows = OverlayView(view)
        # Keys that we wrote for no command that still holds.
        self._undone: set[Key] = set()
        # The number of others' records so far, and the places of the commands that were appended again.
        self.others = 0
        self._changed: set[int] = set()

    @property
    def changed_count(self) -> int:
        """The number of commands that were decided again and appended."""
        return len(self._changed)

    def settle(self, commands: Sequence[PendingCommand], batch: Batch, base: int) -> Landed:
        """Append until the log holds what its other records permit; the batch was decided at ``base``.

        Raises :class:`OutcomeUnknown` and the errors of the log; then records that clash may be there.
        """
        plans, copies = list(batch.plans), dict[int, int]()
        attempts = self._attempts(commands, batch, copies)
        written, first = batch.entries, None
        for _ in range(ROUNDS_MAX):
            landed = self._read(base, written)
            first = landed.own[0].offset if first is None else first
            correction = self._correct(attempts, landed)
            for each in correction.attempts:
                plans[each.at] = each.plan
                self._changed.add(each.at)
            for at, same in copies.items():
                plans[at] = plans[same]
            if not correction.entries:
                # All of it is true once the last record is applied.
                return Landed([_anywhere(each) for each in plans], landed.end, first, landed.end)
            attempts, written, base = correction.attempts, correction.entries, landed.end
            self._log.append(written, headers=correction.headers)
        raise OutcomeUnknown(f"another program wrote to the log before each of {ROUNDS_MAX} attempts")

    def _attempts(
        self, commands: Sequence[PendingCommand], batch: Batch, copies: dict[int, int]
    ) -> list[_Attempt]:
        """Return the commands that were decided now; ``copies`` gets those sent twice, with the first."""
        attempts: list[_Attempt] = []
        places: dict[tuple[int, int], int] = {}
        spans = [*batch.ids, self._decider.ids.save()]
        for at, (pending, plan) in enumerate(zip(commands, batch.plans, strict=True)):
            if not isinstance(plan, Planned | Refused) or self._decider.was_done(pending, plan):
                continue
            start, entries = 0, list[Entry]()
            if isinstance(plan, Planned) and plan.writes:
                start, entries = plan.start, batch.entries[plan.start : plan.stop]
                first = places.setdefault((plan.start, plan.stop), at)
                if first != at:
                    copies[at] = first
                    continue
            count = len(entries)
            before, after = spans[at], spans[at + 1]
            attempts.append(_Attempt(at, pending, plan, entries, start, count, before, after))
        return attempts

    def _read(self, base: int, written: Sequence[Entry]) -> _Records:
        """Read the log from ``base`` on until all that was ``written`` is found, with what precedes it."""
        own, others, size = list[Record](), list[Record](), 0
        while len(own) < len(written):
            fetched = self._log.read_again(base, _READ_RECORDS, _READ_BYTES)
            for record in fetched.records:
                if len(own) < len(written) and (record.key, record.value) == written[len(own)][:2]:
                    own.append(record)
                elif len(own) < len(written):
                    others.append(record)
                    size += len(record.key or b"") + len(record.value or b"")
            if fetched.next == base or size > OTHERS_BYTES_MAX:
                raise OutcomeUnknown("the appended records cannot be distinguished from others in the log")
            base = fetched.next
        return _Records(own, others, own[-1].offset + 1)

    def _correct(self, attempts: list[_Attempt], landed: _Records) -> _Correction:
        """Decide the commands again over the rows with others' records; return what has to be appended."""
        correction = _Correction()
        if not landed.others:
            return correction
        self.others += len(landed.others)
        _apply(self._rows, landed.others)
        rows = OverlayView(self._rows)
        stale = self._undone & _keys(each.key for each in landed.others)
        owners: set[bytes] = set()
        for attempt in attempts:
            own = landed.own[attempt.start : attempt.start + attempt.count]
            again = self._changed_decision(rows, attempt)
            if again is None and owners.isdisjoint(owner(each.key) for each in own):
                _apply(self._rows, own)
                _apply(rows, own)
                continue
            stale |= _keys(each.key for each in own)
            owners |= {owner(each.key) for each in own if not _is_reservation(each)}
            # Ids stay reserved whatever becomes of the command.
            reserved = [each for each in own if _is_reservation(each)]
            _apply(self._rows, reserved)
            _apply(rows, reserved)
            if again is None:
                # Unchanged, but it has to follow the records of those that changed.
                again = Decision(attempt.entries, _reply(attempt.plan))
            else:
                before = self._decider.ids.save()
                again = self._decide(rows, attempt)
                attempt = replace(attempt, before=before, after=self._decider.ids.save())  # noqa: PLW2901
            owners |= {owner(each.key) for each in _entries(again) if not _is_reservation(each)}
            correction.attempts.append(self._add_decision(correction, rows, attempt, again, landed.end))
        self._undo(correction, rows, stale)
        return correction

    def _changed_decision(self, rows: View, attempt: _Attempt) -> Decision | Refused | None:
        """Return the decision with the ids that the command had; ``None`` if it would be the same."""
        ids = self._decider.ids
        now = ids.save()
        ids.rewind(attempt.before, attempt.after)
        again = self._decide(rows, attempt)
        ids.restore(now)
        return None if _same(attempt, again) else again

    def _decide(self, rows: View, attempt: _Attempt) -> Decision | Refused:
        return self._decider.decide_again(rows, attempt.pending, self._log.record_bytes_max)

    def _add_decision(
        self,
        correction: _Correction,
        rows: OverlayView,
        attempt: _Attempt,
        again: Decision | Refused,
        end: int,
    ) -> _Attempt:
        """Add the records of a new decision, and apply them to ``rows`` as if they stood at ``end``."""
        start, entries = len(correction.entries), _entries(again)
        header = self._decider.header(attempt.pending, again, self._log.record_bytes_max)
        # A key is remembered by the last record that has it: the command's first one no longer holds.
        correction.entries += entries or ([Entry(NOOP_KEY, None)] if header is not None else [])
        if header is not None:
            correction.headers[len(correction.entries) - 1] = header
        _apply(rows, [Record(end + start + at, self._now, *each) for at, each in enumerate(entries)])
        plan = again if isinstance(again, Refused) else Planned(again.reply, 0, 0)
        count = len(correction.entries) - start
        return replace(attempt, plan=plan, entries=entries, start=start, count=count)

    def _undo(self, correction: _Correction, rows: View, stale: set[Key]) -> None:
        """Add records for the keys that no command should have written."""
        written = _keys(each.key for each in correction.entries)
        stale -= written
        self._undone = (self._undone - written) | stale
        found = (restoring_entry(rows, each) for each in sorted(stale, key=records.canonical_key))
        correction.entries += [each for each in found if each is not None]


def _anywhere(plan: Plan) -> Plan:
    return plan._replace(start=0, stop=0) if isinstance(plan, Planned) else plan


def _apply(rows: OverlayView, found: Iterable[Record]) -> None:
    for record in found:
        rows.commit(apply(rows, record))


def _keys(found: Iterable[bytes | None]) -> set[Key]:
    """Return what the keys of records stand for, without those of no-ops, which only we write."""
    keys: set[Key] = set()
    for raw in found:
        try:
            key = records.decode_key(raw)
        except records.UnreadableKey:
            continue
        if not isinstance(key, NoopKey):
            keys.add(key)
    return keys


def _is_reservation(written: Entry | Record) -> bool:
    key = records.decode_key(written.key)
    return isinstance(key, NoopKey) and key.registrar == IDS


def _reply(plan: Planned | Refused) -> bytes:
    return plan.reply if isinstance(plan, Planned) else b""


def _entries(decision: Decision | Refused) -> list[Entry]:
    return [] if isinstance(decision, Refused) else decision.entries


def _same(attempt: _Attempt, again: Decision | Refused) -> bool:
    """Return true if a command gets the same answer and records, apart from those that reserve ids."""
    if isinstance(again, Refused) or isinstance(attempt.plan, Refused):
        return again == attempt.plan
    new, old = (
        [each for each in entries if not _is_reservation(each)]
        for entries in (again.entries, attempt.entries)
    )
    return again.reply == attempt.plan.reply and len(new) == len(old) and all(map(_alike, new, old))


def _alike(one: Entry, other: Entry) -> bool:
    """Return true if two records say the same; encrypted ones never have the same bytes."""
    if one.key != other.key:
        return False
    return one.value == other.value or all(ENCODED_MARK in (each or b"") for each in (one.value, other.value))
