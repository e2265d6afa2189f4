"""The writer: waiting commands to decisions, records and answers, one batch at a time.

A step takes all that waits, decides one command after another over a view that shows each the records of
those before it, appends the records of the whole batch at once, waits until the store holds them, and
answers. Rows change only by what was read back from the log; the overlay is thrown away.

It writes only while it is open, under one claim of the log; each time it is opened, ids start from the rows.
What was decided holds only if nobody newer has claimed the log meanwhile. Records prove that by being
appended at all, and refusals beside them likewise. A batch that needs no record proves nothing: it is
answered only if the log, asked anew, ends where its rows do, and is decided again otherwise.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from registry.domain.commands import Command, Done, NotPrimary, Outcome, Refused, Unknown
from registry.domain.decide import Decision, decide
from registry.domain.errors import (
    FORWARD_FAILED,
    SCHEMA_TOO_LARGE,
    STORE_FAILED,
    UNAVAILABLE,
    ErrorKind,
    RegistryError,
)
from registry.domain.fold import apply
from registry.domain.ids import Ids
from registry.domain.parsing import Parser
from registry.domain.records import NOOP_KEY, Entry, Record
from registry.domain.rows import View
from registry.domain.scope import Defaults
from registry.domain.views import OverlayView
from registry.log.contract import (
    Fenced,
    ForeignLog,
    Log,
    LogError,
    OutcomeUnknown,
    RecordTooLarge,
    Unreachable,
)
from registry.store.layout import StoreError

from .claiming import newest_barrier

COMMANDS_MAX = 1000
"""Of one batch."""
BATCH_BYTES_MAX = 16 << 20
ASK_S = 5.0
"""How long the log may take to say where it ends."""

Answer = Callable[[Outcome], None]
Deliver = Callable[[list[tuple[Answer, Outcome]]], None]
_log = logging.getLogger(__name__)


class Rows(Protocol):
    """What the writer needs of a store."""

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        ...

    def view(self) -> AbstractContextManager[View]:
        """The committed rows."""
        ...


class Writing(NamedTuple):
    """What the writer needs to decide."""

    defaults: Defaults
    id_batch: int
    queue_max: int
    patience_s: float = 30.0
    """How long a command may wait for a log that is out of reach."""


class WriterStat(NamedTuple):
    """What the writer has done since it started, for metrics."""

    batches: int
    commands: int
    records: int
    versions: int
    waiting: int


class _Waiting(NamedTuple):
    command: Command
    answer: Answer
    until: float


class _Planned(NamedTuple):
    """A command that was decided; ``start`` to ``stop`` are its records among those of the batch."""

    reply: bytes
    start: int
    stop: int


class _Decided(NamedTuple):
    """What came of a batch before anything is appended."""

    base: int
    """The offset up to which, at least, the rows that it was decided over hold the log."""
    entries: list[Entry]
    outcomes: list[_Planned | Refused]


class Writer:
    """Decides and appends. Any thread may :meth:`offer`, open and shut it; one makes the steps.

    ``follow`` returns once the store holds the log up to an offset. ``deliver`` is called from any of these
    threads with answers. ``now`` is the wall clock, ms since the epoch; ``clock`` runs evenly, in seconds.
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
    ) -> None:
        self._log = log
        self._store = store
        self._defaults = writing.defaults
        self._queue_max = writing.queue_max
        self._patience_s = writing.patience_s
        self._follow = follow
        self._deliver = deliver
        self._now = now
        self._clock = clock
        self._ids = Ids(writing.id_batch)
        self._parser = Parser()
        self._queue: deque[_Waiting] = deque()
        self._offered = threading.Condition()
        self._open = self._closed = False
        self._barrier: int | None = None
        self._one_by_one = 0
        self._appended_at = clock()
        self._batches = self._commands = self._records = self._versions = 0

    def open(self, barrier: int | None) -> None:
        """Write from now on, under the claim whose barrier is applied; ``None``: nobody else can write."""
        with self._offered:
            self._ids.restart()
            self._barrier = barrier
            self._appended_at = self._clock()
            self._open = True
            self._offered.notify_all()

    def shut(self) -> None:
        """Write no more until it is opened; what waits, and is not being decided, is told so."""
        with self._offered:
            self._open = False
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            self._offered.notify_all()
        self._tell(batch, [NotPrimary()] * len(batch))

    def offer(self, command: Command, answer: Answer, wait_s: float | None = None) -> bool:
        """Queue a command; ``False`` when too many wait, and ``answer`` will not be called.

        ``wait_s``: how long it may wait for a log that is out of reach, if less than usual.
        """
        with self._offered:
            if self._closed or len(self._queue) >= self._queue_max:
                return False
            if self._open:
                patience_s = self._patience_s if wait_s is None else min(wait_s, self._patience_s)
                self._queue.append(_Waiting(command, answer, self._clock() + patience_s))
                if len(self._queue) == 1:
                    self._offered.notify_all()
                return True
        self._deliver([(answer, NotPrimary())])
        return True

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for commands; ``False`` when the time is over, or the writer was shut or closed."""
        with self._offered:
            self._offered.wait_for(lambda: self._queue or self._closed or not self._open, timeout_s)
            return bool(self._queue)

    def close(self) -> None:
        """Take no more commands; those that wait are still decided."""
        with self._offered:
            self._closed = True
            self._offered.notify_all()

    def stat(self) -> WriterStat:
        """What was done so far."""
        return WriterStat(self._batches, self._commands, self._records, self._versions, len(self._queue))

    def step(self) -> None:
        """Decide, append and answer one batch.

        Raises :class:`Fenced` and :class:`OutcomeUnknown` after it has answered: the claim is void. Raises
        :class:`Unreachable` when the log cannot be reached; the batch waits on, or was told that it waited
        too long.
        """
        batch = self._take()
        if not batch:
            return
        saved = self._ids.saved()
        try:
            outcomes = self._write(batch)
        except Fenced:
            self._tell(batch, [NotPrimary()] * len(batch))
            raise
        except Unreachable as error:
            self._ids.restore(saved)
            self._put_back(batch, str(error))
            raise
        except RegistryError as error:
            self._ids.restore(saved)
            _log.error("a batch of %d commands failed: %s", len(batch), error.message)
            outcomes = [_refused(error)] * len(batch)
        if outcomes is None:
            self._ids.restore(saved)
            self._put_back(batch)
            return
        self._batches += 1
        self._commands += len(batch)
        self._tell(batch, outcomes)

    def idle_s(self) -> float:
        """How long nothing was appended."""
        return self._clock() - self._appended_at

    def renew(self) -> None:
        """Append a no-op, lest the brokers forget an idle producer and with it what is fenced.

        Raises the errors of the log and the store.
        """
        self._follow(self._log.append([Entry(NOOP_KEY, None)]) + 1)
        self._appended_at = self._clock()

    def _write(self, batch: Sequence[_Waiting]) -> list[Outcome] | None:
        """The outcomes of a batch; ``None``: decide it again."""
        try:
            self._reach(self._log.end())
            decided = self._decide(batch)
            if not decided.entries:
                proven = self._nothing_newer(decided.base)
                return [_done(each, decided.base) for each in decided.outcomes] if proven else None
        except ForeignLog as error:
            raise UNAVAILABLE(str(error)) from error
        try:
            first = self._log.append(decided.entries, _cuts(decided.outcomes))
        except (Fenced, Unreachable):
            raise
        except OutcomeUnknown as error:
            _log.error("the outcome of a batch of %d commands is unknown: %s", len(batch), error)
            self._tell(batch, [self._in_doubt(each, error) for each in decided.outcomes])
            raise
        except RecordTooLarge:
            return self._too_large(batch)
        except LogError as error:
            return self._in_trouble(decided.outcomes, error)
        return self._appended(decided, first)

    def _appended(self, decided: _Decided, first: int) -> list[Outcome]:
        """The outcomes of a batch whose records stand in the log from offset ``first`` on."""
        self._appended_at = self._clock()
        self._records += len(decided.entries)
        self._versions += sum(map(_is_version, decided.entries))
        try:
            self._follow(first + len(decided.entries))
        except (StoreError, LogError) as error:
            # The records will be applied; only when is not known.
            _log.error("%d records were written, and are not applied yet: %s", len(decided.entries), error)
            return [_unseen(each, error) for each in decided.outcomes]
        return [_done(each, first if _touched(each) else decided.base) for each in decided.outcomes]

    def _in_doubt(self, outcome: _Planned | Refused, error: LogError) -> Outcome:
        if isinstance(outcome, _Planned) and outcome.start < outcome.stop:
            return Unknown(_unknown(error))
        return self._unproven(outcome, NotPrimary())

    def _in_trouble(self, outcomes: Sequence[_Planned | Refused], error: LogError) -> list[Outcome]:
        """Nothing was appended, nor will be if it is tried again."""
        kind = UNAVAILABLE if isinstance(error, ForeignLog) else STORE_FAILED
        trouble = _refused(kind(f"Error while writing to the log: {error}"))
        _log.error("a batch of %d commands failed: %s", len(outcomes), trouble.message)
        return [self._unproven(each, trouble) for each in outcomes]

    def _unproven(self, outcome: _Planned | Refused, instead: Outcome) -> Outcome:
        """A refusal stands where nobody else can write; what was planned may rest on the batch's records."""
        return outcome if isinstance(outcome, Refused) and self._barrier is None else instead

    def _nothing_newer(self, base: int) -> bool:
        """Whether the log, asked anew, ends at ``base``."""
        end = self._log.ask_end(ASK_S)
        if end > base:
            self._reach(end)
        return end <= base

    def _reach(self, end: int) -> None:
        """Nothing may be decided over rows that lack what is in the log already."""
        try:
            self._follow(end)
        except StoreError as error:
            raise STORE_FAILED(f"The store does not take what is in the log: {error}") from error

    def _take(self) -> list[_Waiting]:
        with self._offered:
            count = min(len(self._queue), COMMANDS_MAX)
            if self._one_by_one:
                self._one_by_one -= 1
                count = min(count, 1)
            batch = [self._queue.popleft() for _ in range(count)]
        now = self._clock()
        late = [each for each in batch if each.until < now]
        if late:
            self._refuse_late(late, "")
            batch = [each for each in batch if each.until >= now]
        return batch

    def _put_back(self, batch: Sequence[_Waiting], reason: str = "") -> None:
        """Let a batch wait on, ahead of what came later."""
        now = self._clock()
        self._refuse_late([each for each in batch if each.until < now], reason)
        kept = [each for each in batch if each.until >= now]
        with self._offered:
            if self._open:
                self._queue.extendleft(reversed(kept))
                return
        self._tell(kept, [NotPrimary()] * len(kept))

    def _refuse_late(self, late: Sequence[_Waiting], reason: str) -> None:
        why = f"Writes wait for the log, and this one waited too long; nothing was written. {reason}"
        self._tell(late, [_refused(FORWARD_FAILED(why.rstrip()))] * len(late))

    def _too_large(self, batch: Sequence[_Waiting]) -> list[Outcome] | None:
        """The log takes less than it said: tried one by one, only the command at fault is refused."""
        if len(batch) == 1:
            return [_refused(SCHEMA_TOO_LARGE())]
        self._one_by_one = len(batch)
        return None

    def _tell(self, batch: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
        if batch:
            self._deliver([(each.answer, outcome) for each, outcome in zip(batch, outcomes, strict=True)])

    def _decide(self, batch: Iterable[_Waiting]) -> _Decided:
        now = self._now()
        size = 0
        base = self._store.applied
        with self._store.view() as view:
            decided = _Decided(base, [], [])
            entries, outcomes = decided.entries, decided.outcomes
            self._see_own_barrier(view)
            overlay = OverlayView(view)
            for each in batch:
                if size > BATCH_BYTES_MAX:
                    outcomes.append(_refused(_TOO_MUCH()))
                    continue
                ids = self._ids.saved()
                try:
                    decision = self._one(overlay, each.command)
                except RegistryError as error:
                    self._ids.restore(ids)
                    outcomes.append(_refused(error))
                    continue
                start = len(entries)
                for entry in decision.entries:
                    record = Record(base + len(entries), now, entry.key, entry.value)
                    overlay.commit(apply(overlay, record))
                    entries.append(entry)
                    size += len(entry.key) + len(entry.value or b"")
                outcomes.append(_Planned(decision.reply, start, len(entries)))
        return decided

    def _see_own_barrier(self, view: View) -> None:
        if self._barrier is None:
            return
        newest = newest_barrier(view)
        if newest is None or newest.offset != self._barrier:
            raise Fenced("another node has claimed the log")

    def _one(self, view: OverlayView, command: Command) -> Decision:
        try:
            decision = decide(view, command, self._ids, self._defaults, self._parser)
        except RegistryError:
            raise
        except Exception:
            # One command's fault must not take the others of its batch along.
            _log.exception("unexpected error while deciding %s", type(command).__name__)
            raise _UNEXPECTED() from None
        for entry in decision.entries:
            if len(entry.key) + len(entry.value or b"") > self._log.record_bytes_max:
                raise SCHEMA_TOO_LARGE()
        return decision


_UNEXPECTED = ErrorKind(500, "Internal Server Error")
_TOO_MUCH = ErrorKind(503, "Too many large writes at once")


def _cuts(outcomes: Iterable[_Planned | Refused]) -> list[int]:
    """Where the records of another command begin."""
    return [each.start for each in outcomes if isinstance(each, _Planned) and 0 < each.start < each.stop]


def _touched(outcome: _Planned | Refused) -> bool:
    """Whether the outcome may rest on records of its batch."""
    return isinstance(outcome, _Planned) and outcome.stop > 0


def _done(outcome: _Planned | Refused, first: int) -> Outcome:
    return Done(outcome.reply, first + outcome.stop) if isinstance(outcome, _Planned) else outcome


def _unseen(outcome: _Planned | Refused, error: Exception) -> Outcome:
    return Unknown(_unknown(error)) if isinstance(outcome, _Planned) else outcome


def _is_version(entry: Entry) -> bool:
    return entry.value is not None and entry.key.startswith(b'{"keytype":"SCHEMA"')


def _unknown(error: Exception) -> str:
    return f"The outcome of the write is unknown; it is safe to repeat it ({error})"


def _refused(error: RegistryError) -> Refused:
    return Refused(error.code, error.message)
