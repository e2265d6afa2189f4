"""Where the commands of a host's clients go: to the own writer, or, in a cluster, to whoever is primary."""

from __future__ import annotations

import asyncio
import itertools

from registry.domain.commands import NotPrimary, Outcome, Unknown, refused, repeatable
from registry.domain.errors import FORWARD_FAILED, NOT_STARTED, TOO_MANY_WRITES, UNAVAILABLE
from registry.forwarding.node_port import Answer, Asked, Offer

from .node import Node
from .startup_endpoint import HELD_MAX, HOLD_S

_ENDS = "The node stops before the log has answered; the outcome of the write is unknown, safe to repeat"
_NOTHING = "The node stops; nothing was written"


class Ending:
    """Sees to it that all that was offered is answered before the node ends, whatever the log does."""

    def __init__(self) -> None:
        self._open: dict[int, Answer] = {}
        self._numbers = itertools.count()
        self._given_up = False

    def around(self, offer: Offer) -> Offer:
        """The same as ``offer``, but sure to be answered."""

        def offered(asked: Asked, answer: Answer) -> None:
            if self._given_up:
                answer(Unknown(_ENDS) if asked.doubt else refused(FORWARD_FAILED(_NOTHING)))
                return
            number = next(self._numbers)
            self._open[number] = answer

            def answered(outcome: Outcome) -> None:
                if self._open.pop(number, None) is not None:
                    answer(outcome)

            offer(asked, answered)

        return offered

    def give_up(self) -> None:
        """Say of what is under way that its outcome is unknown, and refuse what comes."""
        self._given_up = True
        waiting, self._open = self._open, {}
        for answer in waiting.values():
            answer(Unknown(_ENDS))


class Attached:
    """Refuses, with the reason, what no node could write now: the log is another than the store's."""

    def __init__(self, node: Node, offer: Offer) -> None:
        self._following = node.following
        self._offer = offer

    def offer(self, asked: Asked, answer: Answer) -> None:
        """See :data:`registry.forwarding.node_port.Offer`."""
        if self._following.foreign:
            answer(refused(UNAVAILABLE(self._following.foreign)))
            return
        self._offer(asked, answer)


class Alone:
    """For a node that has no peers: it is the primary as soon as it has read the log.

    Until then commands wait, ``hold_s`` at most: mostly it takes some milliseconds.
    """

    def __init__(self, node: Node, hold_s: float = HOLD_S) -> None:
        self._node = node
        self._hold_s = hold_s
        self._loop = asyncio.get_running_loop()
        self._held: dict[int, tuple[Asked, Answer, asyncio.TimerHandle]] = {}
        self._numbers = itertools.count()
        node.when_started(self._started)

    def offer(self, asked: Asked, answer: Answer) -> None:
        """See :data:`registry.forwarding.node_port.Offer`."""

        def decided(outcome: Outcome) -> None:
            answer(refused(NOT_STARTED()) if isinstance(outcome, NotPrimary) else outcome)

        if asked.doubt and not repeatable(asked.command):
            answer(Unknown("The outcome of the write is unknown; it is safe to repeat it"))
        elif not self._node.started:
            self._hold(asked, answer)
        elif not self._node.submit(asked.command, decided):
            answer(refused(TOO_MANY_WRITES()))

    def _hold(self, asked: Asked, answer: Answer) -> None:
        if len(self._held) >= HELD_MAX:
            answer(refused(NOT_STARTED()))
            return
        number = next(self._numbers)
        wait_s = min(self._hold_s, asked.deadline - self._loop.time())
        self._held[number] = asked, answer, self._loop.call_later(wait_s, self._refuse, number)

    def _refuse(self, number: int) -> None:
        _, answer, _ = self._held.pop(number)
        answer(refused(NOT_STARTED()))

    def _started(self) -> None:
        held, self._held = self._held, {}
        for asked, answer, timer in held.values():
            timer.cancel()
            self.offer(asked, answer)
