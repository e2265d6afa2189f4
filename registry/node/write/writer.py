"""The writer: decides queued commands, appends their records and replies, one batch at a time.

A step takes the queued commands, decides them in sequence over a view that shows each command the records of
those before it, appends the records of the whole batch at once, waits until the store holds them, and
replies. Rows change only by records read back from the log; the overlay is discarded.

It writes only while it is open, under one claim of the log; each time it is opened, ids start from
the rows. A decision is valid only if no newer claim of the log was made in the meantime. A successful append
proves that, also for the refusals in the same batch. A batch without records proves nothing: the writer
queries the log's end again, replies only if the log ends where the rows do, and otherwise decides the batch
again.

A command that would take long to parse or to compare is postponed: workers do that while the writer decides
others, and the command is then queued again. The workers' answers depend on schema texts alone, so they stay
valid whatever was written in the meantime.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from registry.domain.commands import (
    Deferred,
    Done,
    NotPrimary,
    Outcome,
    Refused,
    Unknown,
    refused,
)
from registry.domain.decide.ids import ID_BATCH
from registry.domain.errors import (
    SCHEMA_TOO_LARGE,
    STORE_FAILED,
    UNAVAILABLE,
    ErrorKind,
    RegistryError,
    outcome_unknown,
)
from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import facts
from registry.domain.pending_command import PendingCommand
from registry.domain.queries.scope import Defaults
from registry.domain.queries.sensitive_metadata import Cipher
from registry.domain.rows.view import View
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
from registry.node.replication.dedup import DedupCache
from registry.observe.logs import Throttled
from registry.store.layout import StoreError
from registry.workers.pool import SLOW, Answered, Pool

from .batch import Batch, Decider, Doubtful, Plan, Planned, Postponed
from .queue import Deliver, Queue

# Commands of one batch.
COMMANDS_MAX = 1000
# Bytes of commands of one batch: a small command may have to wait for a large batch, so batches are short.
TAKEN_BYTES_MAX = 4 << 20
# Timeout of a query for the log's end, in seconds.
ASK_S = 5.0
# The same timeout for a log that was just unreachable.
LOOK_S = 0.25
# Seconds before its deadline at which a postponed command is refused because its query is not answered yet.
SPARE_S = 0.5
_SLOW = f"Nothing was written. {SLOW}"
_log = logging.getLogger(__name__)
_failures = Throttled(_log)


# Schedules a call after a number of seconds, on another thread.
CallLater = Callable[[float, Callable[[], None]], None]


class Rows(Protocol):
    """The part of a store that the writer needs."""

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        ...

    def view(self) -> AbstractContextManager[View]:
        """Open a view of the committed rows."""
        ...


def _no_timers(seconds: float, call: Callable[[], None]) -> None:
    raise NotImplementedError


class Writing(NamedTuple):
    """Settings of the writer."""

    defaults: Defaults
    queue_max: int
    queue_bytes_max: int = 256 << 20
    # Seconds that a command may wait for an unreachable log.
    timeout_s: float = 30.0
    # Number of ids in the first reservation of a context.
    id_batch: int = ID_BATCH


class WriterStat(NamedTuple):
    """Counters of the writer since it started, for metrics."""

    batches: int
    commands: int
    records: int
    versions: int
    waiting: int


class Writer:
    """Writes commands to the log. Any thread may submit to, open and shut it; one thread makes the steps.

    ``follow`` returns once the store holds the log up to an offset. ``deliver`` is called with replies, from
    any of these threads. ``now`` is the wall clock, in ms since the epoch; ``clock`` is the clock of the
    commands' deadlines. ``memory`` holds the commands executed before, so that none with an idempotency key
    is executed twice; it needs a log that keeps record headers. ``pool`` answers slow schema queries and
    needs ``call_later``; without a pool the writer answers them itself. ``cipher`` encrypts sensitive
    metadata.
    """

    def __init__(
        self,
        log: Log,
        store: Rows,
        writing: Writing,
        *,
        follow: Callable[[int], None],
        deliver: Deliver,
        now: Callable[[], int],
        clock: Callable[[], float],
        memory: DedupCache | None = None,
        pool: Pool | None = None,
        call_later: CallLater = _no_timers,
        cipher: Cipher | None = None,
    ) -> None:
        self._log = log
        self._pool = pool
        self._call_later = call_later
        self._memory = memory
        self._store = store
        self._follow = follow
        self._now = now
        self._clock = clock
        self._decider = Decider(
            writing.defaults, writing.id_batch, memory, postpones=pool is not None, cipher=cipher
        )
        self._queue = Queue(
            deliver, clock, commands_max=writing.queue_max, bytes_max=writing.queue_bytes_max,
            timeout_s=writing.timeout_s,
        )  # fmt: skip
        self._barrier: int | None = None
        self._away = False
        self._one_by_one = 0
        self._appended_at = clock()
        self._batches = self._commands = self._records = self._versions = 0

    def open(self, barrier: int | None, *, floor: int = 0) -> None:
        """Start writing, under the claim whose ``barrier`` is applied; ``None`` if no other node can write.

        ``floor``: see :meth:`.ids.Ids.restart`. Must not be called during a step.
        """
        self._decider.ids.restart(floor)
        self._barrier = barrier
        self._appended_at = self._clock()
        self._queue.open()

    def shut(self) -> None:
        """Stop writing until :meth:`open`, and reply :class:`NotPrimary` to the commands queued."""
        self._queue.shut()

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command.

        The reply is :class:`NotPrimary` if this node does not write or stops writing. It may be
        :class:`Forgotten` for a command with an idempotency key.
        """
        self._queue.submit(pending)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for commands; return ``False`` if none arrived in time, or the writer was shut or closed."""
        return self._queue.wait(timeout_s)

    def close(self) -> None:
        """Accept no more commands; those queued are still decided."""
        self._queue.close()

    def stat(self) -> WriterStat:
        """Return the counters so far."""
        return WriterStat(self._batches, self._commands, self._records, self._versions, len(self._queue))

    def idle_s(self) -> float:
        """Return the seconds since the last append."""
        return self._clock() - self._appended_at

    def renew(self) -> None:
        """Append a no-op, so that the brokers do not expire an idle producer and its fence with it.

        Raises the errors of the log and the store.
        """
        self._follow(self._log.append([Entry(NOOP_KEY, None)]) + 1)
        self._appended_at = self._clock()

    def step(self) -> None:
        """Decide one batch, append its records and reply.

        Raises :class:`Fenced` and :class:`OutcomeUnknown` after the replies: the claim is void. Raises
        :class:`Unreachable` if the log cannot be reached, and, under a claim, :class:`StoreError` if the
        store cannot apply the log; the batch is then queued again, or refused if its deadline has passed.
        """
        commands = self._take()
        if not commands:
            return
        ids = self._decider.ids.saved()
        try:
            outcomes = self._write(commands)
        except Fenced:
            self._queue.reply(commands, [NotPrimary()] * len(commands))
            raise
        except Unreachable as error:
            self._away = True
            self._decider.ids.restore(ids)
            self._queue.put_back(commands, str(error))
            raise
        except StoreError as error:
            # The commands wait until the store has room, or get NotPrimary and go to the next primary.
            self._decider.ids.restore(ids)
            self._queue.put_back(commands, str(error))
            raise
        except RegistryError as error:
            self._decider.ids.restore(ids)
            _failures.error("a batch of %d commands failed: %s", len(commands), error.message)
            outcomes = [refused(error) for _ in commands]
        if outcomes is None:
            self._decider.ids.restore(ids)
            self._queue.put_back(commands, "")
            return
        self._batches += 1
        self._reply(commands, outcomes)

    def _reply(self, commands: Sequence[PendingCommand], outcomes: Sequence[Outcome | Postponed]) -> None:
        decided: list[PendingCommand] = []
        replies: list[Outcome] = []
        for each, outcome in zip(commands, outcomes, strict=True):
            if isinstance(outcome, Postponed) and not each.deferrable:
                self._postpone(each, outcome.lacking)
            else:
                decided.append(each)
                replies.append(Deferred() if isinstance(outcome, Postponed) else outcome)
        self._commands += len(decided)
        self._queue.reply(decided, replies)

    def _postpone(self, pending: PendingCommand, lacking: Unanswered) -> None:
        """Have workers answer the query; refuse the command (503) if they do not answer in time."""
        # The thread that pops the command replies or queues it again; the timer then holds an empty list.
        waiting = [pending]

        def timed_out() -> None:
            if taken := _popped(waiting):
                self._queue.reply(taken, [refused(UNAVAILABLE(_SLOW))])

        def done(outcome: Answered | RegistryError) -> None:
            if not (taken := _popped(waiting)):
                return
            if isinstance(outcome, RegistryError):
                self._queue.reply(taken, [refused(outcome)])
                return
            taken[0].facts = {**taken[0].facts, **facts(lacking.query, outcome.known)}
            taken[0].spent_s += outcome.took_s
            self._queue.put_back(taken, "")

        assert self._pool is not None
        left_s = max(0.0, pending.deadline - self._clock() - SPARE_S)
        self._call_later(left_s, timed_out)
        until = time.monotonic() + left_s
        self._pool.ask(lacking, done, spent_s=pending.spent_s, until=until, wanted=lambda: bool(waiting))

    def _take(self) -> list[PendingCommand]:
        if not self._one_by_one:
            return self._queue.take(COMMANDS_MAX, TAKEN_BYTES_MAX)
        self._one_by_one -= 1
        return self._queue.take(1, TAKEN_BYTES_MAX)

    def _write(self, commands: list[PendingCommand]) -> list[Outcome | Postponed] | None:
        """Return the outcomes of a batch, or ``None`` to decide it again.

        Removes the commands that do not fit the batch from ``commands``.
        """
        ids = self._decider.ids.saved()
        try:
            self._look_for_log()
            self._reach(self._log.end())
            base = self._store.applied
            batch = self._decide(commands, base)
            if not batch.entries:
                return [self._done(each, base) for each in batch.plans] if self._nothing_newer(base) else None
        except (Fenced, Unreachable):
            raise
        except LogError as error:
            raise _kind_of(error)(str(error)) from error
        try:
            first = self._log.append(batch.entries, batch.cuts(), batch.headers)
        except (Fenced, Unreachable):
            raise
        except OutcomeUnknown as error:
            _log.error("the outcome of a batch of %d commands is unknown: %s", len(commands), error)
            self._queue.reply(commands, [self._in_doubt(each, error) for each in batch.plans])
            raise
        except RecordTooLarge:
            self._decider.ids.restore(ids)
            return self._too_large(len(commands))
        except LogError as error:
            self._decider.ids.restore(ids)
            return self._in_outcome(batch.plans, error)
        return self._appended(batch, base, first)

    def _look_for_log(self) -> None:
        """Check that a log that was unreachable answers again, before an append is begun.

        An append would be retried for long. Without one, commands whose deadline passes can still be refused
        with certainty that nothing was written.
        """
        if self._away:
            self._log.query_end(LOOK_S)
            self._away = False

    def _decide(self, commands: list[PendingCommand], base: int) -> Batch:
        """Decide the commands that fit one batch; queue the rest of ``commands`` again.

        ``base``: an applied offset read earlier, at least up to which the rows hold the log.
        """
        with self._store.view() as view:
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

    def _appended(self, batch: Batch, base: int, first: int) -> list[Outcome | Postponed]:
        """Return the outcomes of a batch whose records are in the log from offset ``first`` on."""
        self._appended_at = self._clock()
        self._records += len(batch.entries)
        self._versions += sum(map(_is_version, batch.entries))
        try:
            self._follow(first + len(batch.entries))
        except (StoreError, LogError) as error:
            # The records will be applied, but it is not known when.
            _failures.error(
                "%d records were appended, but are not applied yet: %s", len(batch.entries), error
            )
            return [self._unseen(each, error) for each in batch.plans]
        # A command without records of its own may depend on those before it in the batch.
        return [
            self._done(each, first if isinstance(each, Planned) and each.stop else base)
            for each in batch.plans
        ]

    def _in_doubt(self, plan: Plan, error: LogError) -> Outcome:
        if isinstance(plan, Planned) and plan.writes:
            return self._unknown(str(error))
        return self._unproven(plan, NotPrimary())

    def _in_outcome(self, plans: Sequence[Plan], error: LogError) -> list[Outcome | Postponed]:
        """Return the outcomes of a batch of which nothing was appended, nor will be by a retry."""
        outcome = refused(_kind_of(error)(f"Error while writing to the log: {error}"))
        _failures.error("a batch of %d commands failed: %s", len(plans), outcome.message)
        return [self._unproven(each, outcome) for each in plans]

    def _unproven(self, plan: Plan, instead: Outcome) -> Outcome:
        """Return the outcome of a command whose batch is not known to be appended.

        A refusal is valid if no other node can write. A plan is not: it may depend on the batch's records.
        """
        return plan if isinstance(plan, Refused) and self._barrier is None else instead

    def _done(self, plan: Plan, first: int) -> Outcome | Postponed:
        match plan:
            case Planned(reply, _, stop):
                return Done(reply, first + stop)
            case Doubtful():
                return Unknown(outcome_unknown("The write was executed before, but its reply is lost"))
        return plan

    def _unseen(self, plan: Plan, error: Exception) -> Outcome | Postponed:
        return self._unknown(str(error)) if isinstance(plan, Planned) else self._done(plan, 0)

    def _unknown(self, why: str) -> Outcome:
        return Unknown(
            outcome_unknown(f"The log did not confirm the write ({why})"), repeats=self._memory is not None
        )

    def _too_large(self, commands: int) -> list[Outcome | Postponed] | None:
        """Have the commands decided one by one, to refuse only the one at fault; refuse a single command.

        The log accepts less than the limit that it reported.
        """
        if commands == 1:
            return [refused(SCHEMA_TOO_LARGE())]
        self._one_by_one = commands
        return None

    def _nothing_newer(self, base: int) -> bool:
        """Query the log's end; return true if it is still ``base``, else follow the log up to it."""
        end = self._log.query_end(ASK_S)
        if end > base:
            self._reach(end)
        return end <= base

    def _reach(self, end: int) -> None:
        """Follow the log up to ``end``, because no command may be decided over rows that lag behind it."""
        try:
            self._follow(end)
        except StoreError as error:
            if self._barrier is not None:
                raise
            # No other node can write, so waiting is useless and the client gets the error at once.
            raise STORE_FAILED(f"The store cannot apply the log: {error}") from error


def _popped(waiting: list[PendingCommand]) -> list[PendingCommand]:
    """Take the command if no other thread has; ``pop`` is atomic."""
    try:
        return [waiting.pop()]
    except IndexError:
        return []


def _kind_of(error: LogError) -> ErrorKind:
    """Return the kind of error to reply with; 503 is reserved for conditions specific to this registry."""
    return UNAVAILABLE if isinstance(error, ForeignLog) else STORE_FAILED


def _is_version(entry: Entry) -> bool:
    return entry.value is not None and entry.key.startswith(b'{"keytype":"SCHEMA"')
