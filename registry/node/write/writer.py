"""The writer: waiting commands to decisions, records and answers, one batch at a time.

A step takes all that waits, decides one command after another over a view that shows each the records of
those before it, appends the records of the whole batch at once, waits until the store holds them, and
answers. Rows change only by what was read back from the log; the overlay is thrown away.

It writes only while it is open, under one claim of the log; each time it is opened, ids start from the rows.
What was decided holds only if nobody newer has claimed the log meanwhile. Records prove that by being
appended at all, and refusals beside them likewise. A batch that needs no record proves nothing: it is
answered only if the log, asked anew, ends where its rows do, and is decided again otherwise.

What would take long to read or to compare is postponed: others go on, and the command comes again when that
was done beside. What was found follows from texts alone, so it holds whatever was written meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from registry.domain.commands import (
    Done,
    Later,
    NotPrimary,
    Outcome,
    Refused,
    Unknown,
    refused,
)
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
from registry.observe.throttled import Throttled
from registry.store.layout import StoreError
from registry.workers.pool import SLOW, Answered, Pool

from .batch import Batch, Decider, Doubtful, Plan, Planned, Postponed
from .queue import Deliver, Queue

COMMANDS_MAX = 1000
"""Of one batch."""
# Of one batch, too: a small command may have to wait for a large batch, so they are kept short.
TAKEN_BYTES_MAX = 4 << 20
ASK_S = 5.0
"""How long the log may take to say where it ends."""
LOOK_S = 0.25
"""The same, for a log that was out of reach a moment ago."""
SPARE_S = 0.5
"""How long before its time is over a command is told that what it needs to know was not found out."""
_SLOW = f"Nothing was written. {SLOW}"
_log = logging.getLogger(__name__)
_failures = Throttled(_log)


# Has a function called after so many seconds, by another thread.
CallLater = Callable[[float, Callable[[], None]], None]


class Rows(Protocol):
    """What the writer needs of a store."""

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        ...

    def view(self) -> AbstractContextManager[View]:
        """The committed rows."""
        ...


def _no_timers(seconds: float, call: Callable[[], None]) -> None:
    raise NotImplementedError


class Writing(NamedTuple):
    """What the writer needs to decide."""

    defaults: Defaults
    id_batch: int
    queue_max: int
    queue_bytes_max: int = 256 << 20
    # How long a command may wait for a log that is out of reach.
    timeout_s: float = 30.0


class WriterStat(NamedTuple):
    """What the writer has done since it started, for metrics."""

    batches: int
    commands: int
    records: int
    versions: int
    waiting: int


class Writer:
    """The writer. Any thread may submit, open and shut it; one makes the steps.

    ``follow`` returns once the store holds the log up to an offset. ``deliver`` is called from any of these
    threads with replies. ``now`` is the wall clock, ms since the epoch; ``clock`` that of the commands'
    deadlines. ``memory`` holds commands done before, so that none with an idempotency key is done twice; it
    needs a log that keeps record headers. ``pool`` answers queries that take long, and needs ``call_later``;
    without one the writer answers them itself. ``cipher``: for sensitive metadata.
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
        """Write from now on, under the claim whose barrier is applied; ``None``: nobody else can write.

        ``floor``: see :meth:`.ids.Ids.restart`. Not while a step is being made.
        """
        self._decider.ids.restart(floor)
        self._barrier = barrier
        self._appended_at = self._clock()
        self._queue.open()

    def shut(self) -> None:
        """Write no more until it is opened; what waits, and is not being decided, is told so."""
        self._queue.shut()

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command.

        The reply is :class:`NotPrimary` if this node does not write, or ceases to; it may be
        :class:`Forgotten` for a command with an idempotency key.
        """
        self._queue.submit(pending)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for commands; ``False`` when the time is over, or the writer was shut or closed."""
        return self._queue.wait(timeout_s)

    def close(self) -> None:
        """Take no more commands; those that wait are still decided."""
        self._queue.close()

    def stat(self) -> WriterStat:
        """What was done so far."""
        return WriterStat(self._batches, self._commands, self._records, self._versions, len(self._queue))

    def idle_s(self) -> float:
        """How long nothing was appended."""
        return self._clock() - self._appended_at

    def renew(self) -> None:
        """Append a no-op, lest the brokers forget an idle producer and with it what is fenced.

        Raises the errors of the log and the store.
        """
        self._follow(self._log.append([Entry(NOOP_KEY, None)]) + 1)
        self._appended_at = self._clock()

    def step(self) -> None:
        """Decide, append and answer one batch.

        Raises :class:`Fenced` and :class:`OutcomeUnknown` after it has answered: the claim is void. Raises
        :class:`Unreachable` when the log cannot be reached, and under a claim :class:`StoreError` when the
        store does not take what is in the log; the batch waits on, or was told that it waited too long.
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
            # The commands wait until there is room or, told NotPrimary, go to the next primary.
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
            if isinstance(outcome, Postponed) and not each.may_defer:
                self._postpone(each, outcome.lacking)
            else:
                decided.append(each)
                replies.append(Later() if isinstance(outcome, Postponed) else outcome)
        self._commands += len(decided)
        self._queue.reply(decided, replies)

    def _postpone(self, pending: PendingCommand, lacking: Unanswered) -> None:
        """Have workers answer a query; a command that has waited for that too long is refused (503)."""
        # Whoever pops it replies, or queues it again. What is left of it to the timer is an empty list.
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
        """Return the outcomes of a batch; ``None``: decide it again. ``commands`` loses what does not fit."""
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
            return self._in_trouble(batch.plans, error)
        return self._appended(batch, base, first)

    def _look_for_log(self) -> None:
        """Begin no append, which is tried for long, while the log does not even say where it ends.

        So whoever waits too long meanwhile is still told that nothing was written.
        """
        if self._away:
            self._log.query_end(LOOK_S)
            self._away = False

    def _decide(self, commands: list[PendingCommand], base: int) -> Batch:
        """Decide what fits one batch; the rest of ``commands`` is put back.

        ``base`` was the applied offset before: the rows hold the log at least so far.
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
        """The outcomes of a batch whose records stand in the log from offset ``first`` on."""
        self._appended_at = self._clock()
        self._records += len(batch.entries)
        self._versions += sum(map(_is_version, batch.entries))
        try:
            self._follow(first + len(batch.entries))
        except (StoreError, LogError) as error:
            # The records will be applied; only when is not known.
            _failures.error("%d records were written, and are not applied yet: %s", len(batch.entries), error)
            return [self._unseen(each, error) for each in batch.plans]
        # What has no record of its own may rest on those before it in the batch.
        return [
            self._done(each, first if isinstance(each, Planned) and each.stop else base)
            for each in batch.plans
        ]

    def _in_doubt(self, plan: Plan, error: LogError) -> Outcome:
        if isinstance(plan, Planned) and plan.writes:
            return self._unknown(str(error))
        return self._unproven(plan, NotPrimary())

    def _in_trouble(self, plans: Sequence[Plan], error: LogError) -> list[Outcome | Postponed]:
        """Nothing was appended, nor will be if it is tried again."""
        trouble = refused(_kind_of(error)(f"Error while writing to the log: {error}"))
        _failures.error("a batch of %d commands failed: %s", len(plans), trouble.message)
        return [self._unproven(each, trouble) for each in plans]

    def _unproven(self, plan: Plan, instead: Outcome) -> Outcome:
        """A refusal stands where nobody else can write; what was planned may rest on the batch's records."""
        return plan if isinstance(plan, Refused) and self._barrier is None else instead

    def _done(self, plan: Plan, first: int) -> Outcome | Postponed:
        match plan:
            case Planned(reply, _, stop):
                return Done(reply, first + stop)
            case Doubtful():
                return Unknown(outcome_unknown("The write was done before, but its reply is lost"))
        return plan

    def _unseen(self, plan: Plan, error: Exception) -> Outcome | Postponed:
        return self._unknown(str(error)) if isinstance(plan, Planned) else self._done(plan, 0)

    def _unknown(self, why: str) -> Outcome:
        return Unknown(
            outcome_unknown(f"The log did not confirm the write ({why})"), repeats=self._memory is not None
        )

    def _too_large(self, commands: int) -> list[Outcome | Postponed] | None:
        """The log takes less than it said: tried one by one, only the command at fault is refused."""
        if commands == 1:
            return [refused(SCHEMA_TOO_LARGE())]
        self._one_by_one = commands
        return None

    def _nothing_newer(self, base: int) -> bool:
        """Whether the log, asked anew, ends at ``base``."""
        end = self._log.query_end(ASK_S)
        if end > base:
            self._reach(end)
        return end <= base

    def _reach(self, end: int) -> None:
        """Nothing may be decided over rows that lack what is in the log already."""
        try:
            self._follow(end)
        except StoreError as error:
            if self._barrier is not None:
                raise
            # Nobody else can write: waiting would help nobody, so the client hears of it at once.
            raise STORE_FAILED(f"The store does not take what is in the log: {error}") from error


def _popped(waiting: list[PendingCommand]) -> list[PendingCommand]:
    """Take the command, if no other thread has: ``pop`` is atomic."""
    try:
        return [waiting.pop()]
    except IndexError:
        return []


def _kind_of(error: LogError) -> ErrorKind:
    """503 is for conditions that only this registry has."""
    return UNAVAILABLE if isinstance(error, ForeignLog) else STORE_FAILED


def _is_version(entry: Entry) -> bool:
    return entry.value is not None and entry.key.startswith(b'{"keytype":"SCHEMA"')
