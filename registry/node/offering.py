"""Where the commands of a host's clients go: to the own writer, or, in a cluster, to whoever is primary."""

from __future__ import annotations

from registry.domain.commands import NotPrimary, Outcome, Unknown, refused, repeatable
from registry.domain.errors import NOT_STARTED, TOO_MANY_WRITES, UNAVAILABLE
from registry.peers.host import Answer, Asked, Offer

from .node import Node


class Attached:
    """Refuses, with the reason, what no node could write now: the log is another than the store's."""

    def __init__(self, node: Node, offer: Offer) -> None:
        self._following = node.following
        self._offer = offer

    def offer(self, asked: Asked, answer: Answer) -> None:
        """See :data:`registry.peers.host.Offer`."""
        if self._following.foreign:
            answer(refused(UNAVAILABLE(self._following.foreign)))
            return
        self._offer(asked, answer)


class Alone:
    """For a node that has no peers: it is the primary as soon as it has read the log."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def offer(self, asked: Asked, answer: Answer) -> None:
        """See :data:`registry.peers.host.Offer`."""

        def decided(outcome: Outcome) -> None:
            answer(refused(NOT_STARTED()) if isinstance(outcome, NotPrimary) else outcome)

        if asked.doubt and not repeatable(asked.command):
            answer(Unknown("The outcome of the write is unknown; it is safe to repeat it"))
        elif not self._node.started:
            answer(refused(NOT_STARTED()))
        elif not self._node.submit(asked.command, decided):
            answer(refused(TOO_MANY_WRITES()))
