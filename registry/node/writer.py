"""The writer: waiting commands to decisions, records and answers, one batch at a time.

A step takes all that waits, decides one command after another over a view that shows each the records of
those before it, appends the records of the whole batch at once, waits until the store holds them, and
answers. Rows change only by what was read back from the log; the overlay is thrown away.

Offsets of the overlay's records are what they will be, because nobody else appends to the log.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from registry.domain.commands import Command, Done, Outcome, Refused
from registry.domain.decide import Decision, decide
from registry.domain.errors import OUTCOME_UNKNOWN, SCHEMA_TOO_LARGE, STORE_FAILED, ErrorKind, RegistryError
from registry.domain.fold import apply
from registry.domain.ids import Ids
from registry.domain.parsing import Parser
from registry.domain.records import Entry, Record
from registry.domain.scope import Defaults
from registry.domain.views import OverlayView
from registry.log.contract import Log, LogError, OutcomeUnknown
from registry.store.layout import StoreError
from registry.store.lmdb import Store

COMMANDS_MAX = 1000
"""Of one batch."""
BATCH_BYTES_MAX = 16 << 20

Answer = Callable[[Outcome], None]
Deliver = Callable[[list[tuple[Answer, Outcome]]], None]
_log = logging.getLogger(__name__)


class Writing(NamedTuple):
    """What the writer needs to decide."""

    defaults: Defaults
    id_batch: int
    queue_max: int


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


class Writer:
    """Decides and appends. Any thread may :meth:`offer`; one makes the steps.

    ``follow`` returns once the store holds the log up to an offset. ``deliver`` is called from the stepping
    thread with the answers of a batch. ``now`` is the wall clock, ms since the epoch.
    """

    def __init__(
        self,
        log: Log,
        store: Store,
        writing: Writing,
        *,
        follow: Callable[[int], None],
        deliver: Deliver,
        now: Callable[[], int],
    ) -> None:
        self._log = log
        self._store = store
        self._defaults = writing.defaults
        self._queue_max = writing.queue_max
        self._follow = follow
        self._deliver = deliver
        self._now = now
        self._ids = Ids(writing.id_batch)
        self._parser = Parser()
        self._queue: deque[_Waiting] = deque()
        self._offered = threading.Condition()
        self._closed = False
        self._batches = self._commands = self._records = self._versions = 0

    def offer(self, command: Command, answer: Answer) -> bool:
        """Queue a command; ``False`` when too many wait, and ``answer`` will not be called."""
        with self._offered:
            if self._closed or len(self._queue) >= self._queue_max:
                return False
            self._queue.append(_Waiting(command, answer))
            if len(self._queue) == 1:
                self._offered.notify()
        return True

    def wait(self) -> bool:
        """Wait for commands; ``False`` when the writer was closed and none is left."""
        with self._offered:
            self._offered.wait_for(lambda: self._queue or self._closed)
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
        """Decide, append and answer one batch. Raises :class:`OutcomeUnknown` after it has answered so."""
        batch = self._take()
        saved = self._ids.saved()
        entries: list[Entry] = []
        outcomes: list[Outcome] = []
        trouble: RegistryError | None = None
        unknown: OutcomeUnknown | None = None
        try:
            self._catch_up()
            outcomes = self._decide(batch, entries)
            if entries:
                self._follow(self._log.append(entries) + len(entries))
        except OutcomeUnknown as error:
            trouble, unknown = OUTCOME_UNKNOWN(_unknown(error)), error
        except LogError as error:
            self._ids.restore(saved)
            trouble = STORE_FAILED(f"Error while writing to the log: {error}")
        except StoreError as error:
            # The records are in the log and will be applied; only when is not known.
            trouble = OUTCOME_UNKNOWN(_unknown(error))
        except RegistryError as error:
            trouble, outcomes = error, [_refused(error)] * len(batch)
        if trouble is not None:
            _log.error("a batch of %d commands failed: %s", len(batch), trouble.message)
            outcomes = [_in_trouble(outcome, trouble) for outcome in outcomes]
        self._batches += 1
        self._commands += len(batch)
        if trouble is None:
            self._records += len(entries)
            self._versions += sum(_is_version(each) for each in entries)
        self._deliver([(each.answer, outcome) for each, outcome in zip(batch, outcomes, strict=True)])
        if unknown is not None:
            raise unknown

    def _catch_up(self) -> None:
        """Nothing may be decided over rows that lack what is in the log already."""
        try:
            self._follow(self._log.end())
        except StoreError as error:
            raise STORE_FAILED(f"The store does not take what is in the log: {error}") from error

    def _take(self) -> list[_Waiting]:
        with self._offered:
            count = min(len(self._queue), COMMANDS_MAX)
            return [self._queue.popleft() for _ in range(count)]

    def _decide(self, batch: Iterable[_Waiting], entries: list[Entry]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        base, now = self._log.end(), self._now()
        size = 0
        with self._store.view() as view:
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
                for entry in decision.entries:
                    record = Record(base + len(entries), now, entry.key, entry.value)
                    overlay.commit(apply(overlay, record))
                    entries.append(entry)
                    size += len(entry.key) + len(entry.value or b"")
                outcomes.append(Done(decision.reply, base + len(entries)))
        return outcomes

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


def _is_version(entry: Entry) -> bool:
    return entry.value is not None and entry.key.startswith(b'{"keytype":"SCHEMA"')


def _unknown(error: Exception) -> str:
    return f"The outcome of the write is unknown; it is safe to repeat it ({error})"


def _refused(error: RegistryError) -> Refused:
    return Refused(error.code, error.message)


def _in_trouble(outcome: Outcome, trouble: RegistryError) -> Outcome:
    # What needed no record is as true as before; but it may rest on records of the same batch.
    return _refused(trouble) if isinstance(outcome, Done) else outcome
