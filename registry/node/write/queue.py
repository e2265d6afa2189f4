"""Commands that wait for the writer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from registry.domain.admission import Room, is_large, size_of
from registry.domain.commands import Command, IdempotencyKey, NotPrimary, Outcome, refused
from registry.domain.errors import FORWARD_FAILED
from registry.domain.parsing.schema_queries import NOTHING, Facts

NEXT_LOOK_S = 0.75
"""Between two looks at a log that is out of reach."""

Answer = Callable[[Outcome], None]
Deliver = Callable[[list[tuple[Answer, Outcome]]], None]


class Waiting(NamedTuple):
    """A command that waits."""

    command: Command
    answer: Answer
    until: float
    """When it has waited too long for a log that is out of reach; by the queue's clock."""
    size: int
    """Bytes."""
    idempotency_key: IdempotencyKey | None = None
    known: Facts = NOTHING
    """What was found out beside the writer for it."""
    spent_s: float = 0.0
    """The work that took."""
    later: bool = False
    """Whether to answer :class:`Later` rather than to find out."""


class Queue:
    """A bounded queue for many threads that offer and one that takes.

    Large commands wait apart from small ones, and are taken in batches of their own: a small command that
    comes later may go first. While the queue is shut, what is offered is told at once that this node does not
    write. ``deliver`` is called from any of these threads with answers, ``clock`` runs evenly, in seconds.
    """

    def __init__(
        self,
        deliver: Deliver,
        clock: Callable[[], float],
        *,
        commands_max: int,
        bytes_max: int,
        patience_s: float,
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._patience_s = patience_s
        self._room = Room(commands_max, bytes_max)
        self._small: deque[Waiting] = deque()
        self._large: deque[Waiting] = deque()
        self._large_next = False
        self._changed = threading.Condition()
        self._open = self._closed = False

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def open(self) -> None:
        """Take commands from now on."""
        with self._changed:
            self._open = True
            self._changed.notify_all()

    def shut(self) -> None:
        """Take no commands until it is opened; those that wait are told so."""
        with self._changed:
            self._open = False
            lanes = (self._large, self._small)
            commands = [self._taken_from(lane) for lane in lanes for _ in range(len(lane))]
            self._changed.notify_all()
        self.tell(commands, [NotPrimary()] * len(commands))

    def close(self) -> None:
        """Take no more commands, for good; those that wait may still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def offer(
        self,
        command: Command,
        answer: Answer,
        wait_s: float | None,
        idempotency_key: IdempotencyKey | None = None,
        *,
        later: bool = False,
    ) -> bool:
        """Queue a command; ``False`` when too much waits, and ``answer`` will not be called."""
        size = size_of(command)
        with self._changed:
            if self._closed or not self._room.fits(size):
                return False
            if self._open:
                patience_s = self._patience_s if wait_s is None else min(wait_s, self._patience_s)
                until = self._clock() + patience_s
                waiting = Waiting(command, answer, until, size, idempotency_key, later=later)
                (self._large if is_large(size) else self._small).append(waiting)
                self._room.add(size)
                if len(self) == 1:
                    self._changed.notify_all()
                return True
        self._deliver([(answer, NotPrimary())])
        return True

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for commands; ``False`` when the time is over, or the queue was shut or closed."""
        with self._changed:
            self._changed.wait_for(lambda: len(self) or self._closed or not self._open, timeout_s)
            return bool(len(self))

    def take(self, count: int, bytes_max: float) -> list[Waiting]:
        """Take the next batch: at most ``count`` commands, until they have ``bytes_max``.

        Where both wait, batches of small and of large commands alternate, so that a small one waits for one
        large batch at most. Those that have waited too long are told so instead.
        """
        with self._changed:
            lanes = (self._large, self._small) if self._large_next else (self._small, self._large)
            lane = next(filter(None, lanes), self._small)
            self._large_next = lane is self._small
            taken, size = list[Waiting](), 0
            while lane and len(taken) < count and size < bytes_max:
                taken.append(self._taken_from(lane))
                size += taken[-1].size
        return self._in_time(taken, "", 0.0)

    def _taken_from(self, lane: deque[Waiting]) -> Waiting:
        waiting = lane.popleft()
        self._room.remove(waiting.size)
        return waiting

    def put_back(self, commands: Sequence[Waiting], reason: str) -> None:
        """Let commands wait on, ahead of what came later; too long, and they are told the ``reason``.

        Too long already is what would be so at the next look at a log that is out of reach.
        """
        kept = self._in_time(commands, reason, NEXT_LOOK_S if reason else 0.0)
        with self._changed:
            if self._open:
                for each in reversed(kept):
                    (self._large if is_large(each.size) else self._small).appendleft(each)
                    self._room.add(each.size)
                self._changed.notify_all()
                return
        self.tell(kept, [NotPrimary()] * len(kept))

    def tell(self, commands: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
        """Answer commands that were taken."""
        if commands:
            self._deliver([(each.answer, outcome) for each, outcome in zip(commands, outcomes, strict=True)])

    def _in_time(self, commands: Sequence[Waiting], reason: str, spare_s: float) -> list[Waiting]:
        now = self._clock() + spare_s
        late = [each for each in commands if each.until < now]
        if late:
            why = FORWARD_FAILED(f"Nothing was written: the write has waited too long. {reason}".rstrip())
            self.tell(late, [refused(why)] * len(late))
        return [each for each in commands if each.until >= now]
