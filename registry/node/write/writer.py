"""The writer: takes queued commands, has them written and replies, one batch at a time.

A step takes the queued commands, decides them in sequence over a view that shows each command the records of
those before it, appends the records of the whole batch at once, waits until the store holds them, and
replies (:mod:`.batch_writer`). Rows change only by records read back from the log; the overlay is discarded.

It writes only while it is open, under one claim of the log; each time it is opened, ids start from
the rows. A command that would take long to parse or to compare is postponed: workers do that while the writer
decides others (:mod:`.queue`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from registry.base.observe.logs import Throttled
from registry.domain.commands import Deferred, NotPrimary, Outcome, refusal
from registry.domain.decide.ids import ID_BATCH
from registry.domain.errors import SCHEMA_TOO_LARGE, RegistryError
from registry.domain.pending_command import PendingCommand
from registry.domain.policies import NO_POLICIES, Policies
from registry.domain.queries.scope import Defaults
from registry.domain.queries.sensitive_metadata import Cipher
from registry.domain.rows.view import Rows
from registry.host.tracing.contract import NO_TRACING, Tracing
from registry.log.contract import Fenced, Log, RecordTooLarge, Unreachable
from registry.node.replication.dedup import DedupCache
from registry.store.layout import StoreError

from .batch import Decider, Postponed
from .batch_writer import BatchWriter, Steps, run_steps
from .queue import CallLater, Deliver, PostponedCommands, Queue, Workers

# Commands of one batch.
COMMANDS_MAX = 1000
# Bytes of commands of one batch: a small command may have to wait for a large batch, so batches are short.
TAKEN_BYTES_MAX = 4 << 20
_failures = Throttled(logging.getLogger(__name__))


class Writing(NamedTuple):
    """Settings of the writer."""

    defaults: Defaults
    queue_max: int
    queue_bytes_max: int = 256 << 20
    # Seconds that a command may wait for an unreachable log.
    timeout_s: float = 30.0
    # Number of ids in the first reservation of a context.
    id_batch: int = ID_BATCH
    # True if records name the principals whose requests wrote them.
    record_principals: bool = True


class WriterStat(NamedTuple):
    """Counters of the writer since it started, for metrics."""

    batches: int
    commands: int
    records: int
    versions: int
    waiting: int
    # Commands decided again because another program's records came before theirs.
    clashes: int


class Writer:
    """Writes commands to the log. Any thread may submit to, open and shut it; one at a time makes the steps.

    ``follow`` returns once the store holds the log up to an offset. ``deliver`` is called with replies, from
    any of these threads, also in the middle of a step. ``now`` is the wall clock, in ms since the epoch;
    ``clock`` is the clock of the commands' deadlines. ``memory`` holds the commands executed before, so that
    none with an idempotency key is executed twice; it needs a log that keeps record headers. ``workers``
    answer slow schema queries; without them the writer answers them itself.
    ``call_later``, ``condition``: see :class:`.queue.Queue`. ``cipher`` encrypts sensitive metadata.
    ``policies`` returns those in force.
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
        workers: Workers | None = None,
        call_later: CallLater | None = None,
        cipher: Cipher | None = None,
        policies: Callable[[], Policies] = lambda: NO_POLICIES,
        tracing: Tracing = NO_TRACING,
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._decider = Decider(
            writing.defaults, writing.id_batch, memory,
            postpones=workers is not None, record_principals=writing.record_principals,
            cipher=cipher, policies=policies, clock=clock,
        )  # fmt: skip
        self._queue = Queue(
            deliver, clock, commands_max=writing.queue_max, bytes_max=writing.queue_bytes_max,
            timeout_s=writing.timeout_s, call_later=call_later, condition=condition,
        )  # fmt: skip
        self._postponed = None if workers is None else PostponedCommands(self._queue, workers, clock)
        self._batch_writer = BatchWriter(
            log, store, self._decider, self._queue,
            follow=follow, now=now, clock=clock, repeats=memory is not None, tracing=tracing,
        )  # fmt: skip
        self._log = log
        self._one_by_one = 0
        self._batches = self._commands = 0

    def open(self, barrier: int | None, *, floor: int = 0) -> None:
        """Start writing, under the claim whose ``barrier`` is applied; ``None`` if no other node can write.

        ``floor``: see :meth:`.ids.Ids.restart`. Must not be called during a step.
        """
        self._decider.ids.restart(floor)
        self._batch_writer.open(barrier)
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

    def add(self, pending: PendingCommand) -> bool:
        """Queue a command without waking the writer, see :meth:`.queue.Queue.add`."""
        return self._queue.add(pending)

    @property
    def waits(self) -> bool:
        """True while a thread is in :meth:`wait`, and no other writes in its place."""
        return self._queue.writer_waits

    def wake(self) -> None:
        """Wake the thread in :meth:`wait`."""
        self._queue.wake()

    def in_place(self) -> AbstractContextManager[bool]:
        """Let the calling thread make a step, see :meth:`.queue.Queue.in_place_of_writer`."""
        return self._queue.in_place_of_writer()

    def displace(self) -> bool:
        """Do the same until :meth:`reinstate`, see :meth:`.queue.Queue.displace_writer`.

        Returns false if a step would wait for the log before it decides anything.
        """
        return not self._batch_writer.is_blocked() and self._queue.displace_writer()

    def reinstate(self, left: Callable[[], None] | None = None) -> None:
        """Let the writer's thread go on; its next step does what is ``left``."""
        self._queue.reinstate_writer(left)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for commands; return ``False`` if none arrived in time, or the writer was shut or closed."""
        return self._queue.wait(timeout_s)

    def close(self) -> None:
        """Accept no more commands; those queued are still decided."""
        self._queue.close()

    def stat(self) -> WriterStat:
        """Return the counters so far."""
        written = self._batch_writer
        return WriterStat(
            self._batches, self._commands + written.answered, written.records, written.versions,
            len(self._queue), written.clashes,
        )  # fmt: skip

    def idle_s(self) -> float:
        """Return the seconds since the last append."""
        return self._batch_writer.idle_s()

    def renew(self) -> None:
        """Append a no-op, so that the brokers do not expire an idle producer and its fence with it.

        Raises the errors of the log and the store.
        """
        self._batch_writer.renew()

    def step(self) -> None:
        """Decide one batch, append its records and reply, or finish what was left by :meth:`reinstate`.

        Raises :class:`Fenced` and :class:`OutcomeUnknown` after the replies: the claim is void. Raises
        :class:`Unreachable` if the log cannot be reached, and, under a claim, :class:`StoreError` if the
        store cannot apply the log; the batch is then queued again, or refused if its deadline has passed.
        """
        if left := self._queue.take_left():
            left()
        else:
            run_steps(self.steps(), self._log)

    def steps(self) -> Steps[None]:
        """Do the same, and yield where the log is called. Raises as :meth:`step`."""
        commands = self._take()
        if not commands:
            return
        ids = self._decider.ids.save()
        try:
            outcomes = yield from self._batch_writer.write(commands)
        except Fenced:
            self._queue.reply(commands, [NotPrimary()] * len(commands))
            raise
        except Unreachable as error:
            self._decider.ids.restore(ids)
            self._queue.put_back(commands, str(error))
            raise
        except StoreError as error:
            # The commands wait until the store has room, or get NotPrimary and go to the next primary.
            self._decider.ids.restore(ids)
            self._queue.put_back(commands, str(error))
            raise
        except RecordTooLarge:
            self._decider.ids.restore(ids)
            outcomes = self._too_large(len(commands))
        except RegistryError as error:
            self._decider.ids.restore(ids)
            _failures.error("a batch of %d commands failed: %s", len(commands), error.message)
            outcomes = [refusal(error) for _ in commands]
        if outcomes is None:
            self._decider.ids.restore(ids)
            self._queue.put_back(commands, "")
            return
        self._batches += 1
        self._queue.note_written()
        self._reply(commands, outcomes)

    def _reply(self, commands: Sequence[PendingCommand], outcomes: Sequence[Outcome | Postponed]) -> None:
        decided: list[PendingCommand] = []
        replies: list[Outcome] = []
        for each, outcome in zip(commands, outcomes, strict=True):
            if isinstance(outcome, Postponed) and not each.deferrable:
                assert self._postponed is not None
                self._postponed.add(each, outcome.lacking)
            else:
                decided.append(each)
                replies.append(Deferred() if isinstance(outcome, Postponed) else outcome)
        self._commands += len(decided)
        self._queue.reply(decided, replies)

    def _take(self) -> list[PendingCommand]:
        if not self._one_by_one:
            return self._queue.take(COMMANDS_MAX, TAKEN_BYTES_MAX)
        self._one_by_one -= 1
        return self._queue.take(1, TAKEN_BYTES_MAX)

    def _too_large(self, commands: int) -> list[Outcome | Postponed] | None:
        """Have the commands decided one by one, to refuse only the one at fault; refuse a single command.

        The log accepts less than the limit that it reported.
        """
        if commands == 1:
            return [refusal(SCHEMA_TOO_LARGE())]
        self._one_by_one = commands
        return None
