"""The queue of commands, and those that are postponed.

The workers' answers depend on schema texts alone, so they stay valid whatever is written in the meantime.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from registry.domain.admission import Room, is_large
from registry.domain.commands import NotPrimary, Outcome, refusal
from registry.domain.errors import FORWARD_FAILED, TOO_MANY_WRITES, UNAVAILABLE, RegistryError
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import facts
from registry.domain.pending_command import PendingCommand
from registry.workers.pool import SLOW, Answered, Pool

# Seconds between two attempts to reach an unreachable log.
NEXT_LOOK_S = 0.75
# Seconds between two looks for commands whose deadline passes while the writer is busy.
EXPIRY_S = 0.1
_WAITED = "Nothing was written: the write waited too long"

# Schedules a call after a number of seconds, on any thread.
CallLater = Callable[[float, Callable[[], None]], None]
# Delivers replies on the event loop.
Deliver = Callable[[Sequence[tuple[PendingCommand, Outcome]]], None]


class Queue:
    """A bounded queue into which any thread submits commands, and from which the writer takes them.

    Large commands are queued separately from small ones and taken in batches of their own, so a small command
    may overtake a large one. While the queue is shut, the reply to a command is :class:`NotPrimary`.
    ``deliver`` is called with replies, from any of these threads. ``clock`` is the clock of the commands'
    deadlines; ``timeout_s`` bounds the seconds that a command waits while the log is unreachable.
    ``call_later``: with it, commands are refused before their deadline even if none is taken meanwhile. The
    writer waits on a ``condition``.
    """

    def __init__(
        self,
        deliver: Deliver,
        clock: Callable[[], float],
        *,
        commands_max: int,
        bytes_max: int,
        timeout_s: float,
        call_later: CallLater | None = None,
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._timeout_s = timeout_s
        self._room = Room(commands_max, bytes_max)
        self._small: deque[PendingCommand] = deque()
        self._large: deque[PendingCommand] = deque()
        self._large_next = False
        self._changed = condition()
        self._open = self._closed = False
        self._call_later = call_later
        self._looking = False
        # True while the writer waits for commands: it takes the next one at once.
        self._idle = False
        # True while another thread writes in its place, and what that thread has left to the writer.
        self._displaced = False
        self._left: Callable[[], None] | None = None
        # True while the writer only waits for that thread, because its own time is up.
        self._overdue = False
        # Why the log cannot be reached; empty if it can.
        self._reason = ""

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def open(self) -> None:
        """Accept commands from now on."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def shut(self) -> None:
        """Accept no commands until :meth:`open`, and reply :class:`NotPrimary` to those queued."""
        with self._changed:
            self._open = False
            lanes = (self._large, self._small)
            commands = [self._taken_from(lane) for lane in lanes for _ in range(len(lane))]
            self._changed.notify_all()
        self.reply(commands, [NotPrimary()] * len(commands))

    def close(self) -> None:
        """Accept no more commands, permanently; those queued may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command, or refuse it if the queue is full."""
        if self.add(pending):
            self.wake()

    def add(self, pending: PendingCommand) -> bool:
        """Do the same, but return true if the writer waits: the caller wakes it, or writes in its place."""
        outcome: Outcome = NotPrimary()
        with self._changed:
            if self._closed or not self._room.fits(pending.size):
                outcome = refusal(TOO_MANY_WRITES())
            elif self._open:
                pending.deadline = min(pending.deadline, self._clock() + self._timeout_s)
                self._lane_of(pending).append(pending)
                self._room.add(pending.size)
                if not self.writer_waits:
                    self._look_later()
                return self.writer_waits
        self.reply([pending], [outcome])
        return False

    @property
    def writer_waits(self) -> bool:
        """True while the writer waits, no other thread writes in its place, and none has left it anything."""
        return self._idle and not self._displaced and self._left is None

    def wake(self) -> None:
        """Wake the writer, if it waits."""
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def in_place_of_writer(self) -> Iterator[bool]:
        """Let the calling thread take and write what waits, while the writer goes on waiting.

        Yields false, and changes nothing, unless the writer waits and exactly one command does.
        """
        taken = self.displace_writer()
        try:
            yield taken
        finally:
            if taken:
                self.reinstate_writer()

    def displace_writer(self) -> bool:
        """Do the same until :meth:`reinstate_writer`: the writer does not leave :meth:`wait` before."""
        with self._changed:
            if taken := self.writer_waits and self._open and len(self) == 1:
                self._displaced = True
            return taken

    def reinstate_writer(self, left: Callable[[], None] | None = None) -> None:
        """Let the writer go on. It first does what is ``left``, which :meth:`take_left` returns."""
        with self._changed:
            self._displaced, self._left = False, left
            if self._overdue or self._is_due():
                self._changed.notify_all()

    def take_left(self) -> Callable[[], None] | None:
        """Return, once, what the thread that wrote in the writer's place has left to it."""
        left, self._left = self._left, None
        return left

    def _look_later(self) -> None:
        if self._call_later is not None and not self._looking:
            self._looking = True
            self._call_later(EXPIRY_S, self._refuse_late)

    def _refuse_late(self) -> None:
        """Refuse the commands whose deadline would pass before the next look; the writer may be busy."""
        with self._changed:
            self._looking = False
            moment = self._clock() + EXPIRY_S
            late: list[PendingCommand] = []
            for lane in (self._small, self._large):
                late += (each for each in lane if each.deadline < moment)
                kept = [each for each in lane if each.deadline >= moment]
                lane.clear()
                lane.extend(kept)
            for each in late:
                self._room.remove(each.size)
            if len(self):
                self._look_later()
            reason = self._reason
        self._refuse(late, reason)

    def _lane_of(self, pending: PendingCommand) -> deque[PendingCommand]:
        return self._large if is_large(pending.size) else self._small

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for commands; return ``False`` if none arrived in time, or the queue was shut or closed.

        Never returns while another thread writes in the writer's place.
        """
        with self._changed:
            if not len(self):
                self._idle = True
                try:
                    self._changed.wait_for(self._is_due, timeout_s)
                    self._overdue = self._displaced
                    self._changed.wait_for(lambda: not self._displaced)
                finally:
                    self._idle = self._overdue = False
            return bool(len(self) or self._left)

    def _is_due(self) -> bool:
        return not self._displaced and bool(self._left or len(self) or self._closed or not self._open)

    def take(self, count: int, bytes_max: float) -> list[PendingCommand]:
        """Take the next batch: at most ``count`` commands, until their sizes add up to ``bytes_max``.

        If both kinds are queued, batches of small and of large commands alternate, so that a small command
        waits for at most one large batch. Commands whose deadline has passed are refused instead.
        """
        with self._changed:
            lanes = (self._large, self._small) if self._large_next else (self._small, self._large)
            lane = next(filter(None, lanes), self._small)
            self._large_next = lane is self._small
            taken, size = list[PendingCommand](), 0
            while lane and len(taken) < count and size < bytes_max:
                taken.append(self._taken_from(lane))
                size += taken[-1].size
            if len(self):
                self._look_later()
        return self._in_time(taken, "", 0.0)

    def _taken_from(self, lane: deque[PendingCommand]) -> PendingCommand:
        pending = lane.popleft()
        self._room.remove(pending.size)
        return pending

    def put_back(self, commands: Sequence[PendingCommand], reason: str) -> None:
        """Queue commands again, ahead of later ones; those whose deadline has passed are refused.

        A ``reason`` means that the log is unreachable: a command whose deadline comes before the next attempt
        to reach it is refused at once.
        """
        kept = self._in_time(commands, reason, NEXT_LOOK_S if reason else 0.0)
        with self._changed:
            self._reason = reason or self._reason
            if self._open:
                for each in reversed(kept):
                    self._lane_of(each).appendleft(each)
                    self._room.add(each.size)
                self._changed.notify_all()
                if kept:
                    self._look_later()
                return
        self.reply(kept, [NotPrimary()] * len(kept))

    def note_written(self) -> None:
        """Note that the log can be reached, because a batch was written."""
        self._reason = ""

    def reply(self, commands: Sequence[PendingCommand], outcomes: Sequence[Outcome]) -> None:
        """Deliver replies to commands that are no longer queued."""
        if commands:
            self._deliver(list(zip(commands, outcomes, strict=True)))

    def _in_time(
        self, commands: Sequence[PendingCommand], reason: str, spare_s: float
    ) -> list[PendingCommand]:
        now = self._clock() + spare_s
        kept: list[PendingCommand] = []
        late: list[PendingCommand] = []
        for each in commands:
            (late if each.deadline < now else kept).append(each)
        if late:
            self._refuse(late, reason)
        return kept

    def _refuse(self, late: Sequence[PendingCommand], reason: str) -> None:
        """Refuse commands of which nothing was written: 50003 if the log is the ``reason``, else 503."""
        if not late:
            return
        why = FORWARD_FAILED(f"{_WAITED}. {reason}") if reason else UNAVAILABLE(f"{_WAITED}; try again")
        self.reply(late, [refusal(why)] * len(late))


# Seconds before its deadline at which a postponed command is refused because its query is not answered yet.
SPARE_S = 0.5
_SLOW = f"Nothing was written. {SLOW}"


class Workers(NamedTuple):
    """Worker processes, and the timer for queries that they do not answer in time."""

    pool: Pool
    # Schedules a call after a number of seconds, on another thread.
    call_later: Callable[[float, Callable[[], None]], None]


class PostponedCommands:
    """Commands of ``queue`` that are not queued now, because ``workers`` answer their queries."""

    def __init__(self, queue: Queue, workers: Workers, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._workers = workers
        self._clock = clock

    def add(self, pending: PendingCommand, lacking: Unanswered) -> None:
        """Have workers answer the query; refuse the command (503) if they do not answer in time."""
        # The thread that pops the command replies or queues it again; the timer then holds an empty list.
        waiting = [pending]

        def timed_out() -> None:
            if taken := _pop(waiting):
                self._queue.reply(taken, [refusal(UNAVAILABLE(_SLOW))])

        def finish(outcome: Answered | RegistryError) -> None:
            if not (taken := _pop(waiting)):
                return
            if isinstance(outcome, RegistryError):
                self._queue.reply(taken, [refusal(outcome)])
                return
            taken[0].facts = {**taken[0].facts, **facts(lacking.query, outcome.known)}
            taken[0].spent_s += outcome.took_s
            self._queue.put_back(taken, "")

        left_s = max(0.0, pending.deadline - self._clock() - SPARE_S)
        self._workers.call_later(left_s, timed_out)
        until = time.monotonic() + left_s
        self._workers.pool.ask(
            lacking, finish, spent_s=pending.spent_s, until=until, wanted=lambda: bool(waiting)
        )


def _pop(waiting: list[PendingCommand]) -> list[PendingCommand]:
    """Take the command if no other thread has; ``pop`` is atomic."""
    try:
        return [waiting.pop()]
    except IndexError:
        return []
