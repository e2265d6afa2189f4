"""A primary that does not know yet that it is replaced, at moments that chance seldom hits."""

from __future__ import annotations

from collections.abc import Callable

from registry.domain.commands import Command, DeleteSubject, Done, NotPrimary, Outcome, Register
from registry.node.leadership.role import Stage
from tests.support.pending import pending

from .cluster import Cluster, Node
from .world import Process, World

COMMAND = Register("s", '{"type":"record","name":"R","fields":[]}')


class Deposed:
    """A cluster whose first primary no longer follows the log, gets no events, and was replaced."""

    def __init__(self) -> None:
        self.world = World(1)
        self.cluster = Cluster(self.world, 2)
        self.answers: list[Outcome] = []
        # The offset up to which the node that was asked had applied the log at each answer.
        self.applied: list[int] = []
        self.world.spawn(Process("outside"), self._run)
        assert self.world.run(lambda: len(self.answers) == 3, 60.0), self.answers

    def _run(self) -> None:
        older = self._primary(lambda _: True)
        self._ask(older, COMMAND)
        older.line.lagging = older.line.deaf = True
        self.cluster.authority.usurp()
        newer = self._primary(lambda node: node is not older)
        self._ask(newer, DeleteSubject("s"))
        assert older.running is not None
        assert older.running.role.stage is Stage.PRIMARY

        def heal() -> None:
            self.world.sleep(1.0)
            older.line.lagging = older.line.deaf = False

        self.world.spawn(Process("healing"), heal)
        self._ask(older, COMMAND)

    def _primary(self, wanted: Callable[[Node], bool]) -> Node:
        def find() -> Node | None:
            return next(
                (
                    node
                    for node in self.cluster.nodes
                    if wanted(node) and node.running is not None and node.running.role.stage is Stage.PRIMARY
                ),
                None,
            )

        found: Node = self.world.until(find, 30.0)
        return found

    def _ask(self, node: Node, command: Command) -> None:
        running = node.running
        assert running is not None
        answers: list[Outcome] = []

        def answered(outcome: Outcome) -> None:
            self.applied.append(running.store.applied)
            answers.append(outcome)

        running.writer.submit(pending(command, answered))
        self.world.until(lambda: answers, 30.0)
        self.answers += answers


def test_it_answers_nothing_from_old_rows_though_nothing_need_be_written() -> None:
    registered, deleted, again = Deposed().answers
    assert isinstance(registered, Done)
    assert isinstance(deleted, Done)
    assert again == NotPrimary()


def test_a_write_has_been_applied_where_it_was_decided_when_it_is_answered() -> None:
    deposed = Deposed()
    for answer, applied in zip(deposed.answers[:2], deposed.applied, strict=False):
        assert isinstance(answer, Done)
        assert applied >= answer.offset
