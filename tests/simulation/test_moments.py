"""Moments that chance seldom hits: idle claims, records of others right before ours, replaced primaries.

Each test makes one history of the simulated world by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Command,
    DeleteSubject,
    Done,
    IdempotencyKey,
    Outcome,
    Refused,
    Register,
)
from registry.domain.log_format import records, values
from registry.domain.log_format.records import BARRIER_KEY, NOOP_KEY, Entry
from registry.domain.model import Subject
from registry.domain.pending_command import PendingCommand
from registry.domain.queries import versions
from registry.domain.queries.scope import Defaults
from registry.log.contract import Claim, Fenced, ForeignLog, OutcomeUnknown
from registry.node.leadership.claim import claim_log
from registry.node.replication.dedup import DedupCache
from registry.node.replication.follower import Follower
from registry.node.replication.read_barrier import ReadBarrier
from registry.node.write.writer import Writer, Writing
from tests.support.pending import pending

from .brokers import Brokers
from .cluster import FORGET_S
from .connections import Line
from .event_loop import SimulatedCondition, SimulatedLoopHost
from .kafka_log import SimulatedLog
from .memory_store import MemoryStore
from .node_log import NodeLog
from .partition import Partition
from .world import Process, World

if TYPE_CHECKING:
    import threading

    from registry.store.lmdb import Store

LONG_S = 30.0
ONE = [Entry(NOOP_KEY, None)]


class Stage:
    """A world with one partition; :meth:`play` runs a test as one of its tasks."""

    def __init__(self) -> None:
        self.world = World(1)
        self.partition = Partition(
            lambda: self.world.now, self.world.wall_ms, forget_s=FORGET_S, epochs_max=1000
        )

    def play(self, scene: Callable[[], None]) -> None:
        """Run a test to its end; what it raises is raised."""
        ended: list[bool] = []

        def run() -> None:
            scene()
            ended.append(True)

        with closing(self.world):
            self.world.spawn(Process("test"), run)
            assert self.world.run(lambda: ended, 100 * LONG_S)


class Station:
    """A writer over the model of the log, without a role: nobody tells it that it was replaced."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.log = NodeLog(stage.world, stage.partition, Process(name), Line())
        self.store = MemoryStore({}, lambda *_: True)
        memory = DedupCache(0)
        self.follower = Follower(self.log, cast("Store", self.store), memory=memory)
        self.before_following: list[Callable[[], object]] = []
        self._name = name
        self._partition = stage.partition
        self.writer = Writer(
            self.log, self.store, Writing(Defaults(), id_batch=3, queue_max=9, timeout_s=LONG_S),
            follow=self.follow, deliver=_deliver, now=stage.world.wall_ms, clock=lambda: stage.world.now,
            memory=memory,
        )  # fmt: skip

    def follow(self, offset: int) -> None:
        if self.before_following:
            self.before_following.pop()()
        while self.store.applied < offset:
            if not self.follower.step():
                assert self.log.wait(self.store.applied, LONG_S)

    def claim(self) -> None:
        epoch = claim_log(
            self.log, self.store, node=self._name, url="", follow=self.follow, watching=self.follower.watching
        )
        self.writer.open(epoch)

    def ask(self, command: Command, key: IdempotencyKey | None = None) -> Outcome:
        outcomes: list[Outcome] = []
        self.writer.submit(pending(command, outcomes.append, key=key))
        while self.writer.stat().waiting:
            self.writer.step()
        return outcomes[0]

    def overtake(self, theirs: Entry) -> None:
        """Have another program append right before the next append."""
        append = self.log.append

        def after_theirs(entries: Sequence[Entry], *rest: Any) -> int:
            self.log.append = append  # type: ignore[method-assign]
            self._partition.produce(Claim(9, 0), 0, [theirs], "another program", 0)
            return append(entries, *rest)

        self.log.append = after_theirs  # type: ignore[method-assign]


def _deliver(replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
    for each, outcome in replies:
        each.reply(outcome)


def kafka_log(stage: Stage) -> SimulatedLog:
    """Return the log of production over simulated brokers, claimed with its first record."""
    brokers = Brokers(stage.world, stage.partition, FORGET_S)
    log = SimulatedLog(stage.world, brokers, Process("node"), Line(), stage.world.wall_ms)
    log.claim()
    log.append([Entry(BARRIER_KEY, b"{}")])
    return log


def test_a_claim_that_brokers_may_have_forgotten_appends_nothing() -> None:
    stage = Stage()

    def scene() -> None:
        log = kafka_log(stage)
        stage.world.sleep(FORGET_S / 2 - 1)
        log.append(ONE)
        stage.world.sleep(FORGET_S / 2 + 1)
        with pytest.raises(Fenced, match="not used for 31 s"):
            log.append(ONE)
        assert stage.partition.end == 2

    stage.play(scene)


def test_a_claim_ages_from_the_request_of_its_last_append_however_late_the_answer_is_read() -> None:
    stage = Stage()

    def scene() -> None:
        log = kafka_log(stage)
        appended = log._appender._on_appended

        def and_frozen(offset: int, batch: bytes) -> None:
            stage.world.now += FORGET_S / 2
            appended(offset, batch)

        log._appender._on_appended = and_frozen
        assert log.append(ONE) == 1
        stage.world.sleep(1)
        with pytest.raises(Fenced, match="not used for 31 s"):
            log.append(ONE)

    stage.play(scene)


def test_an_append_of_which_no_answer_comes_is_in_doubt() -> None:
    stage = Stage()

    def scene() -> None:
        line = Line()
        brokers = Brokers(stage.world, stage.partition, FORGET_S)
        log = SimulatedLog(stage.world, brokers, Process("node"), line, stage.world.wall_ms)
        log.claim()
        line.bad = 1.0
        with pytest.raises(OutcomeUnknown, match="did not confirm"):
            log.append([Entry(BARRIER_KEY, b"{}")])

    stage.play(scene)


@pytest.mark.parametrize("fences", [True, False])
def test_a_barrier_and_a_fence_that_brokers_take_for_one_are_read_as_the_log_has_them(fences: bool) -> None:
    """Another node ends the former claim in the name of an epoch that a third node has already got."""
    stage = Stage()

    def scene() -> None:
        brokers = Brokers(stage.world, stage.partition, FORGET_S)
        lines = [Line(), Line()]
        former, late = (
            SimulatedLog(stage.world, brokers, Process("node"), line, stage.world.wall_ms) for line in lines
        )
        claim = former.claim()
        assert claim is not None
        former.append([Entry(BARRIER_KEY, b"{}")])
        late.claim()
        # The one that comes second has read up to there, and gets nothing new from its broker in time.
        first, second = (former, late) if fences else (late, former)
        assert second.wait(0, LONG_S)
        assert second.read(0, 9, 1 << 20).next == 1
        for line in lines:
            line.lagging = True
        for log in (first, second):
            if log is former:
                log.fence(claim)
            else:
                assert log.append([Entry(BARRIER_KEY, b"{}")]) == 1
        lines[0].lagging = lines[1].lagging = False
        assert second.wait(1, LONG_S)
        assert [each.value for each in second.read(1, 9, 1 << 20).records] == [None if fences else b"{}"]
        assert stage.partition.end == 2

    stage.play(scene)


def _their_version(schema_id: int) -> Entry:
    name = Subject.parse("theirs")
    return Entry(records.schema_key(name, 1), values.schema_value(name, 1, schema_id, '"bytes"'))


def test_an_id_that_another_program_took_right_before_a_write_is_not_given_out() -> None:
    stage = Stage()

    def scene() -> None:
        ours = Station(stage, "ours")
        ours.claim()
        ours.overtake(_their_version(1))
        outcome = ours.ask(Register("ours", '"string"'))
        assert isinstance(outcome, Done)
        assert orjson.loads(outcome.body)["id"] > 1
        assert ours.writer.stat().clashes == 1

    stage.play(scene)


def test_an_overtaken_write_that_is_sent_again_is_answered_as_it_was_decided_last() -> None:
    stage = Stage()

    def scene() -> None:
        ours = Station(stage, "ours")
        ours.claim()
        ours.overtake(_their_version(1))
        command, key = Register("ours", '"string"'), IdempotencyKey(bytes(IDEMPOTENCY_KEY_BYTES), 0)
        first, end = ours.ask(command, key), stage.partition.end
        again = ours.ask(command, key)
        assert isinstance(first, Done)
        assert isinstance(again, Done)
        assert orjson.loads(again.body) == orjson.loads(first.body)
        assert stage.partition.end == end

    stage.play(scene)


def test_what_an_overtaken_write_has_written_goes_if_it_is_refused_now() -> None:
    stage = Stage()
    name = Subject.parse("ours")
    read_only = Entry(records.mode_key(name), b'{"subject":"ours","mode":"READONLY"}')

    def scene() -> None:
        ours = Station(stage, "ours")
        ours.claim()
        ours.overtake(read_only)
        assert isinstance(ours.ask(Register("ours", '"string"')), Refused)
        with ours.store.view() as view:
            assert not versions.exists(view, name, deleted=True)

    stage.play(scene)


@pytest.mark.parametrize("command", [Register("s", '"string"'), Register("s", '"int"'), DeleteSubject("no")])
def test_a_primary_that_was_replaced_decides_nothing_though_nothing_need_be_written(command: Command) -> None:
    """It learns of the other one's claim only when it asks where the log ends, and decides again."""
    stage = Stage()

    def scene() -> None:
        first, second = Station(stage, "first"), Station(stage, "second")
        first.claim()
        assert isinstance(first.ask(Register("s", '"string"')), Done)
        first.before_following.append(second.claim)
        with pytest.raises(Fenced):
            first.ask(command)

    stage.play(scene)


def test_a_read_is_not_confirmed_by_a_query_that_was_sent_before_it_came() -> None:
    stage = Stage()
    world = stage.world

    def scene() -> None:
        process = Process("node")
        log, store = (
            NodeLog(world, stage.partition, process, Line(hops_s=1.0)),
            MemoryStore({}, lambda *_: True),
        )
        host = SimulatedLoopHost(world, process)

        async def make() -> ReadBarrier:
            return ReadBarrier(
                log, cast("Store", store), ask_s=LONG_S, nudge=lambda: None, expect=lambda _: None,
                on_reply=lambda _: None,
                condition=lambda: cast("threading.Condition", SimulatedCondition(world)),
            )  # fmt: skip

        barrier = host.run(make(), None)
        world.spawn(process, barrier.run)
        answered: list[bool] = []
        asked = log.query_end

        def confirm() -> None:
            world.spawn(process, lambda: answered.append(host.run(barrier.confirm(LONG_S), None)))

        def and_a_write_is_acknowledged(timeout_s: float) -> int:
            log.query_end = asked  # type: ignore[method-assign]
            end = asked(timeout_s)
            stage.partition.produce(Claim(9, 0), 0, ONE, "a primary", 0)
            confirm()
            world.sleep(1.0)
            return end

        log.query_end = and_a_write_is_acknowledged  # type: ignore[method-assign]
        confirm()
        world.until(lambda: answered, LONG_S)
        world.sleep(5.0)
        assert answered == [True], "the second read waits for the record"

    stage.play(scene)


def test_records_that_another_process_offers_do_not_hide_those_that_the_log_has_lost() -> None:
    """Later comparisons find the newest records: who took them would keep what the log has lost."""
    stage = Stage()

    def scene() -> None:
        brokers = Brokers(stage.world, stage.partition, FORGET_S)

        def opened(name: str) -> SimulatedLog:
            return SimulatedLog(stage.world, brokers, Process(name), Line(), stage.world.wall_ms)

        reader, former, position = opened("reader"), opened("former"), 0

        def read_to(end: int) -> None:
            nonlocal position
            while position < end:
                reader.wait(position, 1.0)
                position = reader.read(position, 10, 1 << 20).next

        former.claim()
        kept = former.append([Entry(BARRIER_KEY, b"former"), *ONE]) + 2
        read_to(kept)
        reader.wait(kept, 0.0)  # Another record would be read.
        former.close()
        brokers.cut(0)
        primary = opened("primary")
        primary.claim()
        assert primary.append([Entry(BARRIER_KEY, b"next"), *ONE]) + 2 == kept
        newer = primary.last_append(primary.append(ONE) + 1)
        assert newer is not None
        assert newer.epoch == brokers.epoch
        assert not reader.offer(newer)
        with pytest.raises(ForeignLog, match="has lost records"):
            read_to(kept + 1)
        assert position == kept

    stage.play(scene)
