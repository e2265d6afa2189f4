"""Claiming and writing under a claim, on a real broker: who may write, and the replies to the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from deploy.local.broker import Broker
from registry.domain.commands import DeleteSubject, Done, NotPrimary, Outcome, Refused, Register, refusal
from registry.domain.errors import TOO_MANY_WRITES
from registry.domain.log_format.records import BARRIER_KEY, NOOP_KEY, Entry
from registry.log.contract import NO_HEADERS, Fenced, Unreachable
from registry.node.leadership.claim import newest_barrier
from registry.node.replication.reconnecting_log import ReconnectingLog
from tests.process.node.stations import Station, on_kafka
from tests.support.kafka_topics import make_topic

Made = Callable[..., Station]


@pytest.fixture
def topic(kafka: Broker) -> str:
    return make_topic(kafka.address)


@pytest.fixture
def node(kafka: Broker, topic: str, tmp_path: Path) -> Iterator[Made]:
    """Return a maker of nodes of one cluster, or of others with a different ``transactional_id``."""
    made: list[Station] = []

    def make(name: str, *, queue_max: int = 1000, **options: str) -> Station:
        log = on_kafka(kafka.address, topic, **options)
        made.append(Station(tmp_path / name, log, queue_max=queue_max))
        return made[-1]

    yield make
    for station in made:
        station.close()


def register(subject: str, name: str = "R") -> Register:
    return Register(subject, f'{{"type":"record","name":"{name}","fields":[]}}')


def step_to_the_end(station: Station) -> None:
    """Check that a batch decided over stale rows is decided again."""
    while station.writer.wait(0):
        station.writer.step()


def once(call: Callable[[], object], *, after: int = 0) -> Callable[[int], None]:
    """Run ``call`` once, at the given number of calls."""
    turns = itertools.count()

    def called(_: int) -> None:
        if next(turns) == after:
            call()

    return called


def id_of(outcome: Outcome) -> int:
    assert isinstance(outcome, Done), outcome
    answer: int = msgspec.json.decode(outcome.body)["id"]
    return answer


def test_the_epoch_is_the_offset_of_the_barrier_and_the_barrier_says_who(node: Made) -> None:
    first = node("first")
    assert first.claim() == 0
    with first.store.view() as view:
        barrier = newest_barrier(view)
    assert barrier is not None
    assert (barrier.offset, barrier.node, barrier.url) == (0, "first", "http://first:8081")
    second = node("second")
    epochs = [second.claim(), first.claim(), second.claim()]
    assert epochs == sorted(set(epochs))
    barriers = [record.offset for record in second.records() if record.key == BARRIER_KEY]
    assert barriers == [0, *epochs]


def test_a_write_is_answered_with_the_offset_at_which_it_shows(node: Made) -> None:
    first, second = node("first"), node("second")
    first.claim()
    outcome = first.ask(register("s"))
    assert isinstance(outcome, Done)
    assert outcome.offset == first.store.applied == first.log.query_end(10)
    second.follow(outcome.offset)
    assert second.store.state == first.store.state
    again = first.ask(register("s"))
    assert isinstance(again, Done)
    assert again == Done(outcome.body, outcome.offset), "found, without a record"


def test_a_primary_that_another_one_overtook_writes_nothing_and_says_so(node: Made) -> None:
    first, second = node("first"), node("second")
    first.claim()
    first.ask(register("s"))
    second.claim()
    end = second.log.query_end(10)
    first.submit(register("t"))
    first.submit(DeleteSubject("missing"))
    with pytest.raises(Fenced):
        first.writer.step()
    assert first.outcomes[1:] == [NotPrimary(), NotPrimary()]
    assert second.log.query_end(10) == end


def test_what_needs_no_record_is_not_answered_from_rows_that_are_stale(node: Made) -> None:
    """A lookup and a refusal append nothing that could be fenced, so the log's end is queried."""
    first, second = node("first"), node("second")
    first.claim()
    first.ask(register("s"))
    for stale in (register("s"), register("s", "Other"), DeleteSubject("missing")):
        first.claim()
        first.before_following = once(lambda: (second.claim(), second.ask(DeleteSubject("s"))))
        first.submit(stale)
        with pytest.raises(Fenced):
            step_to_the_end(first)
        assert first.outcomes[-1] == NotPrimary()


def test_ids_start_above_what_any_former_primary_reserved(node: Made) -> None:
    first, second = node("first"), node("second")
    first.claim()
    assert [id_of(first.ask(register(f"s{n}", f"R{n}"))) for n in range(3)] == [1, 2, 3]
    second.claim()
    assert id_of(second.ask(register("t", "T"))) == 21
    first.claim()
    assert id_of(first.ask(register("u", "U"))) > 21


def test_what_a_former_primary_still_wrote_is_applied_before_anything_is_decided(node: Made) -> None:
    """Appends of the former primary land between the claim and the barrier; the new primary sees them all."""
    first, second = node("first"), node("second")
    first.claim()
    second.before_following = once(lambda: first.ask(register("late")), after=1)
    epoch = second.claim()
    records = second.records()
    assert records[-1].offset == epoch
    assert any(b'"late"' in (record.key or b"") for record in records)
    assert id_of(second.ask(register("late"))) == 1


def test_a_claim_by_another_producer_ends_the_former_one(node: Made) -> None:
    """After the brokers have forgotten a producer, its epochs do not fence the new one's."""
    first, second = node("first"), node("second", transactional_id="another")
    first.claim()
    first.ask(register("s"))
    second.claim()
    with pytest.raises(Fenced):
        first.log.append([Entry(NOOP_KEY, None)])
    assert isinstance(second.ask(register("t")), Done)


def test_a_claim_that_came_in_between_by_another_producer_is_ended_too(node: Made) -> None:
    first, second = node("first"), node("second", transactional_id="another")
    first.claim()
    second.before_following = once(first.claim, after=1)
    epoch = second.claim()
    with pytest.raises(Fenced):
        first.log.append([Entry(NOOP_KEY, None)])
    barriers = [record.offset for record in second.records() if record.key == BARRIER_KEY]
    assert epoch == barriers[-1]
    assert isinstance(second.ask(register("t")), Done)


def test_the_next_claim_ends_what_a_node_that_failed_amid_its_own_left_unfenced(node: Made) -> None:
    """A barrier names up to where its node had fenced others; the model in tests/proof/ showed the need."""

    class Killed(Exception):
        pass

    def fail() -> None:
        raise Killed

    first, second = node("first"), node("second", transactional_id="another")
    steps = iter((lambda: None, first.claim, fail))
    second.before_following = lambda _: next(steps)()
    with pytest.raises(Killed):
        second.claim()
    assert [record.key for record in first.records()].count(BARRIER_KEY) == 2
    third = node("third", transactional_id="another")
    third.claim()
    with pytest.raises(Fenced):
        first.log.append([Entry(NOOP_KEY, None)])
    assert isinstance(third.ask(register("t")), Done)


def test_an_idle_primary_renews_its_fence(node: Made) -> None:
    first = node("first")
    first.claim()
    first.now = 3600.0
    assert first.writer.idle_s() == 3600.0
    first.writer.renew()
    assert first.writer.idle_s() == 0.0
    assert first.records()[-1].key == NOOP_KEY
    second = node("second")
    second.claim()
    with pytest.raises(Fenced):
        first.writer.renew()


def test_what_waits_when_writing_ends_is_reported_at_once(node: Made) -> None:
    first = node("first", queue_max=2)
    first.submit(register("before it is primary"))
    assert first.outcomes == [NotPrimary()]
    first.claim()
    for name in "abc":
        first.submit(register(name))
    assert first.outcomes[1:] == [refusal(TOO_MANY_WRITES())], "two wait, and there is no room for a third"
    first.writer.shut()
    assert first.outcomes[2:] == [NotPrimary()] * 2
    assert not first.writer.wait(0)


class Away(ReconnectingLog):
    """A log that stays out of reach and counts the appends."""

    record_bytes_max = 1_000_000
    appends = 0

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        self.appends += 1
        return super().append(entries, cuts, headers)


def test_writes_wait_for_a_log_that_is_out_of_reach_and_not_for_ever(tmp_path: Path) -> None:
    def away() -> ReconnectingLog:
        raise Unreachable("nobody listens")

    log = Away(
        away, lambda _: None, identity="a", applied=0, error=Unreachable("nobody listens"), retry_s=0.05
    )
    station = Station(tmp_path / "alone", log, timeout_s=10.0)
    station.writer.open(None)
    station.submit(register("s"))
    for station.now in (0.0, 9.0):
        with pytest.raises(Unreachable):
            station.writer.step()
        assert station.outcomes == []
    station.submit(register("t"))
    station.now = 9.9  # Before the next check, and so in time for waiting commands.
    with pytest.raises(Unreachable):
        station.writer.step()
    (late,) = station.outcomes
    assert isinstance(late, Refused)
    assert late.code == 50003
    assert "Nothing was written" in late.message
    assert log.appends == 1, "which may take long: so not while the log does not even say where it ends"
    station.close()
