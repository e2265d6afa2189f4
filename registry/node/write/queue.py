"""The queue of commands in front of the writer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from registry.domain.admission import Room, is_large
from registry.domain.commands import NotPrimary, Outcome, refused
from registry.domain.errors import FORWARD_FAILED, TOO_MANY_WRITES
from registry.domain.pending_command import PendingCommand

# Between two looks at a log that is out of reach.
NEXT_LOOK_S = 0.75

# Has replies delivered on the event loop.
Deliver = Callable[[Sequence[tuple[PendingCommand, Outcome]]], None]


class Queue:
    """A bounded queue into which any thread submits commands, and from which the writer takes them.

    Large commands wait apart from small ones and are taken in batches of their own: a small command that
    arrives later may go first. While the queue is shut, the reply to a command is :class:`NotPrimary`.
    ``deliver`` is called from any of these threads with replies. ``clock`` is that of the commands'
    deadlines; ``timeout_s`` bounds how long a command waits while the log is out of reach.
    """

    def __init__(
        self,
        deliver: Deliver,
        clock: Callable[[], float],
        *,
        commands_max: int,
        bytes_max: int,
        timeout_s: float,
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._timeout_s = timeout_s
        self._room = Room(commands_max, bytes_max)
        self._small: deque[PendingCommand] = deque()
        self._large: deque[PendingCommand] = deque()
        self._large_next = False
        self._changed = threading.Condition()
        self._open = self._closed = False

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def open(self) -> None:
        """Accept commands from now on."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def shut(self) -> None:
        """Accept no commands until it is opened, and reply :class:`NotPrimary` to those that wait."""
        with self._changed:
            self._open = False
            lanes = (self._large, self._small)
            commands = [self._taken_from(lane) for lane in lanes for _ in range(len(lane))]
            self._changed.notify_all()
        self.reply(commands, [NotPrimary()] * len(commands))

    def close(self) -> None:
        """Accept no more commands, for good; those that wait may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command; one for which there is no room is refused."""
        outcome: Outcome = NotPrimary()
        with self._changed:
            if self._closed or not self._room.fits(pending.size):
                outcome = refused(TOO_MANY_WRITES())
            elif self._open:
                pending.deadline = min(pending.deadline, self._clock() + self._timeout_s)
                self._lane_of(pending).append(pending)
                self._room.add(pending.size)
                if len(self) == 1:
                    self._changed.notify_all()
                return
        self.reply([pending], [outcome])

    def _lane_of(self, pending: PendingCommand) -> deque[PendingCommand]:
        return self._large if is_large(pending.size) else self._small

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for commands; ``False`` when the time is over, or the queue was shut or closed."""
        with self._changed:
            self._changed.wait_for(lambda: len(self) or self._closed or not self._open, timeout_s)
            return bool(len(self))

    def take(self, count: int, bytes_max: float) -> list[PendingCommand]:
        """Take the next batch: at most ``count`` commands, until they have ``bytes_max``.

        If both wait, batches of small and of large commands alternate, so that a small one waits for one
        large batch at most. Those that have waited too long are refused instead.
        """
        with self._changed:
            lanes = (self._large, self._small) if self._large_next else (self._small, self._large)
            lane = next(filter(None, lanes), self._small)
            self._large_next = lane is self._small
            taken, size = list[PendingCommand](), 0
            while lane and len(taken) < count and size < bytes_max:
                taken.append(self._taken_from(lane))
                size += taken[-1].size
        return self._in_time(taken, "", 0.0)

    def _taken_from(self, lane: deque[PendingCommand]) -> PendingCommand:
        pending = lane.popleft()
        self._room.remove(pending.size)
        return pending

    def put_back(self, commands: Sequence[PendingCommand], reason: str) -> None:
        """Let commands wait on, ahead of later ones; those that have waited too long are refused.

        With a ``reason``, the log is out of reach: a command whose deadline comes before the next look at the
        log is refused at once.
        """
        kept = self._in_time(commands, reason, NEXT_LOOK_S if reason else 0.0)
        with self._changed:
            if self._open:
                for each in reversed(kept):
                    self._lane_of(each).appendleft(each)
                    self._room.add(each.size)
                self._changed.notify_all()
                return
        self.reply(kept, [NotPrimary()] * len(kept))

    def reply(self, commands: Sequence[PendingCommand], outcomes: Sequence[Outcome]) -> None:
        """Reply to commands that wait no more."""
        if commands:
            self._deliver(list(zip(commands, outcomes, strict=True)))

    def _in_time(
        self, commands: Sequence[PendingCommand], reason: str, spare_s: float
    ) -> list[PendingCommand]:
        now = self._clock() + spare_s
        late = [each for each in commands if each.deadline < now]
        if late:
            why = FORWARD_FAILED(f"Nothing was written: the write has waited too long. {reason}".rstrip())
            self.reply(late, [refused(why)] * len(late))
        return [each for each in commands if each.deadline >= now]
