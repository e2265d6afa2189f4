"""Writing of one batch: decides it, appends its records, waits until the store holds them; its outcomes.

A decision is valid only if no newer claim of the log was made in the meantime. A successful append proves
that, also for the refusals in the same batch. A batch without records proves nothing: the log's end is
queried again, and the batch has outcomes only if the log ends where the rows do; otherwise it is decided
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from registry.base.observe.logs import Throttled
from registry.domain.commands import Done, NotPrimary, Outcome, Refused, Unknown, refusal
from registry.domain.errors import STORE_FAILED, UNAVAILABLE, ErrorKind, outcome_unknown
from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.domain.pending_command import PendingCommand
from registry.domain.rows.view import Rows, View
from registry.host.tracing.contract import NO_TRACING, Tracing
from registry.log.contract import (
    Fenced,
    ForeignLog,
    Log,
    LogError,
    OutcomeUnknown,
    RecordTooLarge,
    Unreachable,
)
from registry.node.leadership.claim import newest_barrier
from registry.store.layout import StoreError

from .batch import Batch, Decider, Doubtful, Plan, Planned, Postponed
from .overtaken import Landed, OvertakenBatch, Unsettled
from .queue import Queue


def outcome_of(plan: Plan, first: int) -> Outcome | Postponed:
    """Return the outcome if the batch's records are applied; the log has them from offset ``first`` on."""
    match plan:
        case Planned(reply, _, stop):
            return Done(reply, first + stop)
        case Doubtful():
            return Unknown(outcome_unknown("The write was done before, but its reply is lost"))
    return plan


def not_applied(plan: Plan, error: Exception, *, repeats: bool) -> Outcome | Postponed:
    """Return the outcome if the batch's records were appended but could not be applied."""
    return unknown(error, repeats=repeats) if isinstance(plan, Planned) else outcome_of(plan, 0)


def in_doubt(plan: Plan, error: LogError, *, fenced: bool, repeats: bool) -> Outcome:
    """Return the outcome if it is unknown whether the batch's records were appended."""
    if isinstance(plan, Planned) and plan.writes:
        return unknown(error, repeats=repeats)
    return unproven(plan, NotPrimary(), fenced=fenced)


def unproven(plan: Plan, instead: Outcome, *, fenced: bool) -> Outcome:
    """Return the outcome of a command whose batch is not known to be appended.

    A refusal is valid if no other node can write (not ``fenced``). A plan is not: it may depend on the
    batch's records.
    """
    return plan if isinstance(plan, Refused) and not fenced else instead


def unknown(error: Exception, *, repeats: bool) -> Unknown:
    """Return the outcome of a write that the log did not confirm; ``repeats`` as in :class:`Unknown`."""
    return Unknown(outcome_unknown(f"The log did not confirm the write ({error})"), repeats=repeats)


def kind_of(error: LogError) -> ErrorKind:
    """Return the kind of error to reply with; 503 is reserved for conditions specific to this registry."""
    return UNAVAILABLE if isinstance(error, ForeignLog) else STORE_FAILED


class Appended(NamedTuple):
    """The offset of the first record, and the log's end as known after the append."""

    first: int
    end: int


class Append(NamedTuple):
    """An append that a batch needs; its records belong at offset ``base``."""

    entries: Sequence[Entry]
    cuts: Sequence[int]
    headers: Mapping[int, bytes]
    base: int

    def perform(self, log: Log) -> Appended:
        """Append. Raises the errors of :meth:`.contract.Log.append`."""
        return self.locate(log, log.append(self.entries, self.cuts, self.headers))

    def locate(self, log: Log, first: int) -> Appended:
        """Return where the records landed that were appended from ``first`` on.

        Raises :class:`OutcomeUnknown` if the log was closed since: others mean that nothing was appended.
        """
        try:
            return Appended(first, log.end())
        except LogError as error:
            raise OutcomeUnknown(f"its records are in the log: {error}") from error

    def fits(self, appended: Appended) -> bool:
        """Return true if nothing came before, between or after the records."""
        return appended == (self.base, self.base + len(self.entries))


class QueryEnd(NamedTuple):
    """A query for the log's end that a batch needs."""

    timeout_s: float

    def perform(self, log: Log) -> int:
        """Return the end. Raises the errors of :meth:`.contract.Log.query_end`."""
        return log.query_end(self.timeout_s)


_T = TypeVar("_T")
# What is to be done with the log, and an execution that yields it and is sent the result: so another thread
# need not wait for it.
LogCall = Append | QueryEnd
Steps = Generator[LogCall, Any, _T]


def run_steps(steps: Steps[_T], log: Log, result: Callable[[], Any] = lambda: None) -> _T:
    """Execute what is left of ``steps``, which wait for ``result``; block while the log is called."""
    try:
        while True:
            result = partial(resume_steps(steps, result).perform, log)
    except StopIteration as end:
        value: _T = end.value
        return value


def resume_steps(steps: Steps[Any], result: Callable[[], Any] = lambda: None) -> LogCall:
    """Pass on a result, or the log's error; return the next call. Raises ``StopIteration`` at the end."""
    try:
        value = result()
    except Exception as error:
        return steps.throw(error)
    return steps.send(value)


# Timeout of a query for the log's end, in seconds.
ASK_S = 5.0
# The same timeout for a log that was just unreachable.
LOOK_S = 0.25
_DEADLINE, _ONCE_LOGGED = attrgetter("deadline"), attrgetter("once_logged")
_VERSION_KEY = b'{"keytype":"SCHEMA"'
_log = logging.getLogger(__name__)
_failures = Throttled(_log)


class BatchWriter:
    """Writes batches under one claim of the log at a time.

    ``follow`` returns once the store holds the log up to an offset. ``now`` is the wall clock, in ms since
    the epoch; ``clock`` measures the time since the last append. ``repeats``: the decider knows the commands
    executed before, so that none with an idempotency key is executed twice.
    """

    def __init__(
        self,
        log: Log,
        store: Rows,
        decider: Decider,
        queue: Queue,
        *,
        follow: Callable[[int], None],
        now: Callable[[], int],
        clock: Callable[[], float],
        repeats: bool,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._log = log
        self._store = store
        self._decider = decider
        self._queue = queue
        self._follow = follow
        self._now = now
        self._clock = clock
        self._repeats = repeats
        self._tracing = tracing
        self._barrier: int | None = None
        self._appended_at = clock()
        # True if the log could not be reached by the last batch.
        self._unreachable = False
        # Records and versions appended so far.
        self.records = self.versions = 0
        # Commands decided again because another program's records came before theirs.
        self.clashes = 0
        # Commands answered before their records were applied.
        self.answered = 0

    def open(self, barrier: int | None) -> None:
        """Write under the claim whose ``barrier`` is applied; ``None`` if no other node can write."""
        self._barrier = barrier
        self._appended_at = self._clock()

    def idle_s(self) -> float:
        """Return the seconds since the last append."""
        return self._clock() - self._appended_at

    def renew(self) -> None:
        """Append a no-op, so that the brokers do not expire an idle producer and its fence with it.

        Raises the errors of the log and the store.
        """
        self._follow(self._log.append([Entry(NOOP_KEY, None)]) + 1)
        self._appended_at = self._clock()

    def is_blocked(self) -> bool:
        """Return true if a batch would wait for the log before it is decided."""
        return self._unreachable or self._store.applied < self._log.end()

    def write(self, commands: list[PendingCommand]) -> Steps[list[Outcome | Postponed] | None]:
        """Return the outcomes of a batch, or ``None`` to decide it again.

        Removes the commands that do not fit the batch from ``commands`` and queues them again. Raises
        :class:`Fenced`, :class:`Unreachable`, :class:`RecordTooLarge`, :class:`StoreError` and
        ``RegistryError`` for all of the batch, and :class:`OutcomeUnknown` after the replies.
        """
        try:
            return (yield from self._write(commands))
        except Unreachable:
            self._unreachable = True
            raise

    def _write(self, commands: list[PendingCommand]) -> Steps[list[Outcome | Postponed] | None]:
        ids = self._decider.ids.save()
        with _log_errors_refuse():
            self._check_reachable()
            self._reach(self._log.end())
        base = self._store.applied
        # Kept until the records are in the log, because those of others may have come before them.
        with self._store.view() as view:
            with _log_errors_refuse():
                batch = self._decide(view, commands, base)
            if batch.entries and min(map(_DEADLINE, commands)) < self._clock():
                # Nothing is appended for a client that would learn that the outcome is unknown.
                return None
            try:
                landed = (yield from self._append(view, commands, batch, base)) if batch.entries else None
            except (Fenced, Unreachable, RecordTooLarge, OutcomeUnknown):
                raise
            except LogError as error:
                self._decider.ids.restore(ids)
                return self._not_appended(batch.plans, error)
        if landed is not None:
            return self._finish_append(commands, batch, landed)
        with _log_errors_refuse():
            newest = yield from self._nothing_newer(base)
        return [outcome_of(each, base) for each in batch.plans] if newest else None

    def _append(self, view: View, commands: list[PendingCommand], batch: Batch, base: int) -> Steps[Landed]:
        """Append the records of a batch that was decided over ``view``, which held the log up to ``base``.

        Raises the errors of :meth:`.contract.Log.append`, and :class:`OutcomeUnknown` after the replies.
        """
        try:
            append = Append(batch.entries, batch.cuts(), batch.headers, base)
            with self._tracing.trace_append(commands):
                appended: Appended = yield append
            if append.fits(appended):
                return Landed(batch.plans, base, *appended)
            return self._settle(view, commands, batch, base)
        except OutcomeUnknown as error:
            _log.error("the outcome of a batch of %d commands is unknown: %s", len(commands), error)
            self._queue.reply(commands, self._in_doubt(batch.plans, error))
            raise

    def _settle(self, view: View, commands: list[PendingCommand], batch: Batch, base: int) -> Landed:
        """Settle a batch whose records follow others that were unknown when it was decided."""
        overtaken = OvertakenBatch(self._log, self._decider, view, now=self._now())
        try:
            landed = overtaken.settle(commands, batch, base)
        except LogError as error:
            raise Unsettled(f"another program writes to the same log: {error}") from error
        finally:
            self.clashes += overtaken.changed_count
        if overtaken.others:
            _failures.error(
                "another program wrote %d records ahead of ours, from offset %d; %d of %d commands were "
                "decided again, because an id or a version was taken or a rule had changed. "
                "Only one program may write to the log: see RegistrarAnotherWriter in the runbook",
                overtaken.others, base, overtaken.changed_count, len(commands),
            )  # fmt: skip
        return landed

    def _check_reachable(self) -> None:
        """Check that a log that was unreachable answers again, before an append is begun.

        An append would be retried for long. Without one, commands whose deadline passes can still be refused
        with certainty that nothing was written.
        """
        if self._unreachable:
            self._log.query_end(LOOK_S)
            self._unreachable = False

    def _reach(self, end: int) -> None:
        """Follow the log up to ``end``, because no command may be decided over rows that lag behind it."""
        try:
            self._follow(end)
        except StoreError as error:
            if self._barrier is not None:
                raise
            # No other node can write, so waiting is useless and the client gets the error at once.
            raise STORE_FAILED(f"The store does not take what is in the log: {error}") from error

    def _decide(self, view: View, commands: list[PendingCommand], base: int) -> Batch:
        """Decide the commands that fit one batch; queue the rest of ``commands`` again.

        ``base``: an applied offset read earlier, at least up to which the rows hold the log.
        """
        self._see_own_barrier(view)
        batch = self._decider.decide(
            view, commands, base=base, now=self._now(), bytes_max=self._log.record_bytes_max
        )
        if rest := commands[len(batch.plans) :]:
            self._queue.put_back(rest, "")
            del commands[len(batch.plans) :]
        return batch

    def _see_own_barrier(self, view: View) -> None:
        if self._barrier is None:
            return
        newest = newest_barrier(view)
        if newest is None or newest.offset != self._barrier:
            raise Fenced("another node has claimed the log")

    def _nothing_newer(self, base: int) -> Steps[bool]:
        """Query the log's end; return true if it is still ``base``, else follow the log up to it."""
        end: int = yield QueryEnd(ASK_S)
        if end > base:
            self._reach(end)
        return end <= base

    def _finish_append(
        self, commands: list[PendingCommand], batch: Batch, landed: Landed
    ) -> list[Outcome | Postponed]:
        """Return the outcomes of a batch whose records are in the log.

        Removes the commands from ``commands`` that are answered before the records are applied.
        """
        self._appended_at = self._clock()
        self._decider.rates.pay()
        self.records += landed.end - landed.first
        for key, value, _ in batch.entries:
            if value is not None and key.startswith(_VERSION_KEY):
                self.versions += 1
        plans = landed.plans
        # A command without records of its own may depend on those before it in the batch.
        outcomes = [
            outcome_of(each, landed.first if isinstance(each, Planned) and each.stop else landed.base)
            for each in plans
        ]
        if any(map(_ONCE_LOGGED, commands)):
            plans, outcomes = self._answer_logged(commands, plans, outcomes)
        try:
            self._follow(landed.end)
        except (StoreError, LogError) as error:
            # The records will be applied, but it is not known when.
            _failures.error("%d records were written but are not applied yet: %s", len(batch.entries), error)
            return [not_applied(each, error, repeats=self._repeats) for each in plans]
        return outcomes

    def _answer_logged(
        self, commands: list[PendingCommand], plans: Sequence[Plan], outcomes: Sequence[Outcome | Postponed]
    ) -> tuple[list[Plan], list[Outcome | Postponed]]:
        """Answer the commands whose senders apply the records themselves; return what is left of the others.

        Both nodes apply them at the same time then.
        """
        early: list[tuple[PendingCommand, Done]] = []
        others: list[tuple[PendingCommand, Plan, Outcome | Postponed]] = []
        for command, plan, outcome in zip(commands, plans, outcomes, strict=True):
            if command.once_logged and isinstance(outcome, Done):
                early.append((command, outcome))
            else:
                others.append((command, plan, outcome))
        self.answered += len(early)
        self._queue.reply([each[0] for each in early], [each[1] for each in early])
        commands[:] = [each[0] for each in others]
        return [each[1] for each in others], [each[2] for each in others]

    def _in_doubt(self, plans: Sequence[Plan], error: LogError) -> list[Outcome]:
        fenced = self._barrier is not None
        # The header of a record that clashes holds an answer that is no longer true.
        repeats = self._repeats and not isinstance(error, Unsettled)
        return [in_doubt(each, error, fenced=fenced, repeats=repeats) for each in plans]

    def _not_appended(self, plans: Sequence[Plan], error: LogError) -> list[Outcome | Postponed]:
        """Return the outcomes of a batch of which nothing was appended, nor will be by a retry."""
        outcome = refusal(kind_of(error)(f"Error while writing to the log: {error}"))
        _failures.error("a batch of %d commands failed: %s", len(plans), outcome.message)
        fenced = self._barrier is not None
        return [unproven(each, outcome, fenced=fenced) for each in plans]


@contextmanager
def _log_errors_refuse() -> Iterator[None]:
    """Turn errors of the log into refusals, where nothing was appended yet."""
    try:
        yield
    except (Fenced, Unreachable):
        raise
    except LogError as error:
        raise kind_of(error)(str(error)) from error
