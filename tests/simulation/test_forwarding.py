"""Writes through a secondary whose primary is killed, replaced or cut off while it has them.

Each test makes one history of the simulated world by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import orjson
import pytest

from registry.domain.commands import Command, DeleteVersion, Done, Outcome, Register, Unknown
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.node.leadership.role import Stage

from .cluster import Cluster, Node
from .forwarding import REQUEST_S, NodePort, Requests
from .sockets import Link
from .world import Process, World

# What a killed node leaves behind is reported by Python 3.13 when its streams are collected.
pytestmark = pytest.mark.filterwarnings("ignore:loop is closed:ResourceWarning")

LONG_S = 60.0
COMMAND = Register("s", '{"type":"record","name":"R","fields":[]}')
OTHER = Register("s", '{"type":"record","name":"R","doc":"other","fields":[]}')


def _text(number: int) -> str:
    return f'{{"type":"record","name":"R","doc":"{number}","fields":[]}}'


class Scene:
    """A cluster of three nodes with a primary, and a secondary that clients ask."""

    def __init__(self, scene: Callable[[Scene], None], *, remembers: int = 1000) -> None:
        """``remembers``: so many commands, all nodes."""
        self.world = World(1)
        self.cluster = Cluster(self.world, 3)
        self.cluster.remembers = remembers
        self.requests = Requests(self.world, self.cluster)
        self.outcomes: list[Outcome] = []
        # The commands in the order in which they were answered.
        self.answered: list[Command] = []
        ended: list[bool] = []

        def run() -> None:
            self.primary = self.wait_for_primary()
            self.secondary = next(node for node in self.cluster.nodes if node is not self.primary)
            scene(self)
            ended.append(True)

        with closing(self.world):
            self.world.spawn(Process("test"), run)
            assert self.world.run(lambda: ended, 10 * LONG_S), "the scene did not end"

    def wait_for_primary(self) -> Node:
        def find() -> Node | None:
            for node in self.cluster.nodes:
                if node.running is not None and node.running.role.stage is Stage.PRIMARY:
                    return node
            return None

        found: Node = self.world.until(find, LONG_S)
        assert found is not None
        return found

    def begin(self, command: Command, timeout_s: float = REQUEST_S) -> None:
        """Send a command to the secondary, and return at once."""
        deadline = self.world.now + timeout_s

        def run() -> None:
            self.outcomes.append(self.requests.ask(self.secondary, command, deadline))
            self.answered.append(command)

        self.world.spawn(Process("client"), run)

    def outcome(self) -> Outcome:
        """Return the outcome of the command that was sent."""
        self.world.until(lambda: self.outcomes, LONG_S)
        return self.outcomes.pop()

    def appended(self) -> None:
        """Return when the log has another record with a value."""
        records, known = self.cluster.partition.records, self.cluster.partition.end
        self.world.until(lambda: any(each.value for each in records[known:]), LONG_S)

    def versions(self) -> list[int]:
        """Return the versions that the secondary has."""
        return [each.version for each in versions.versions(self.secondary.store.view(), Subject.parse("s"))]


def test_a_write_that_a_killed_primary_did_not_answer_is_done_once_by_the_next() -> None:
    def scene(cast: Scene) -> None:
        cast.begin(COMMAND)
        cast.appended()
        cast.cluster.kill(cast.primary)
        outcome = cast.outcome()
        assert isinstance(outcome, Done)
        assert orjson.loads(outcome.body)["id"] == 1
        assert cast.versions() == [1]
        assert cast.cluster.settled == 1

    Scene(scene)


def test_a_deletion_that_a_killed_primary_did_not_answer_is_not_refused_by_the_next() -> None:
    """The next one, asked with another key, would delete the version before, or say that there is none."""

    def scene(cast: Scene) -> None:
        for command in (COMMAND, OTHER):
            cast.begin(command)
            assert isinstance(cast.outcome(), Done)
        cast.begin(DeleteVersion("s", -1))
        cast.appended()
        cast.cluster.kill(cast.primary)
        assert isinstance(cast.outcome(), Done)
        assert cast.versions() == [1]

    Scene(scene)


def test_a_write_that_the_next_primary_does_not_remember_is_not_done_twice() -> None:
    def scene(cast: Scene) -> None:
        cast.begin(COMMAND)
        cast.appended()
        cast.cluster.kill(cast.primary)
        assert isinstance(cast.outcome(), Unknown)
        assert cast.versions() == [1]

    Scene(scene, remembers=0)


def test_a_write_that_nobody_answers_any_more_may_have_been_done() -> None:
    def scene(cast: Scene) -> None:
        cast.begin(COMMAND)
        cast.appended()
        cast.cluster.kill(cast.primary)
        for node in cast.cluster.nodes:
            node.line.cut = True
        assert isinstance(cast.outcome(), Unknown)

    Scene(scene)


def test_a_write_that_a_frozen_primary_has_may_have_been_done_when_its_time_is_over() -> None:
    def scene(cast: Scene) -> None:
        assert cast.primary.running is not None
        process = cast.primary.running.process
        process.frozen = True
        cast.begin(COMMAND, timeout_s=2.0)
        assert isinstance(cast.outcome(), Unknown)
        process.frozen = False
        cast.world.until(cast.versions, LONG_S)
        assert cast.versions() == [1]

    Scene(scene)


def test_writes_that_are_forwarded_together_get_their_own_answers() -> None:
    def scene(cast: Scene) -> None:
        for number in range(3):
            cast.begin(Register(f"s{number}", _text(number)))
        cast.world.until(lambda: len(cast.answered) == 3, LONG_S)
        answers = [orjson.loads(each.body)["schema"] for each in cast.outcomes if isinstance(each, Done)]
        assert answers == [each.schema for each in cast.answered if isinstance(each, Register)]
        assert len(answers) == 3

    Scene(scene)


def test_a_write_that_was_sent_to_a_replaced_primary_goes_to_the_next() -> None:
    def scene(cast: Scene) -> None:
        cast.primary.link.cut = True
        cast.begin(COMMAND)
        cast.world.sleep(0.5)
        cast.cluster.authority.usurp()
        assert isinstance(cast.outcome(), Done)
        assert cast.cluster.authority.elected != cast.primary.name

    Scene(scene)


def test_a_primary_whose_port_is_closed_is_evicted_before_its_session_ends() -> None:
    def scene(cast: Scene) -> None:
        killed_at = cast.world.now
        cast.cluster.kill(cast.primary)
        cast.begin(COMMAND)
        assert isinstance(cast.outcome(), Done)
        assert cast.world.now - killed_at < 3.0

    Scene(scene)


def test_a_primary_that_is_only_silent_stays() -> None:
    def scene(cast: Scene) -> None:
        cast.secondary.link.cut = True
        cast.begin(COMMAND)
        assert isinstance(cast.outcome(), Unknown)
        assert cast.cluster.authority.elected == cast.primary.name

    Scene(scene)


def test_a_node_answers_a_write_whose_records_the_primary_has_sent_though_its_log_lags() -> None:
    def scene(cast: Scene) -> None:
        cast.secondary.line.lagging = True
        cast.begin(COMMAND)
        outcome = cast.outcome()
        assert isinstance(outcome, Done)
        assert cast.secondary.line.lagging
        assert cast.secondary.store.applied >= outcome.offset

    Scene(scene)


def test_a_node_answers_a_write_once_its_own_store_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodePort, "take_append", lambda *_: None)

    def scene(cast: Scene) -> None:
        cast.secondary.line.lagging = True
        cast.begin(COMMAND)
        cast.world.sleep(3.0)
        assert not cast.outcomes
        cast.secondary.line.lagging = False
        outcome = cast.outcome()
        assert isinstance(outcome, Done)
        assert cast.secondary.store.applied >= outcome.offset

    Scene(scene)


def test_an_answer_that_is_lost_is_asked_for_again_and_the_write_is_done_once() -> None:
    def scene(cast: Scene) -> None:
        cast.begin(COMMAND)
        assert isinstance(cast.outcome(), Done)
        fate, unheard = cast.cluster.peers.fate, ["unheard"]

        def lose_one(links: tuple[Link, Link]) -> str:
            return unheard.pop() if unheard and links[0] is cast.secondary.link else fate(links)

        cast.cluster.peers.fate = lose_one  # type: ignore[method-assign]
        cast.begin(OTHER)
        assert isinstance(cast.outcome(), Done)
        assert not unheard
        assert cast.versions() == [1, 2]
        assert cast.cluster.settled == 1

    Scene(scene)
