"""Fencing of appends to a Kafka partition, and detection of appends whose answer was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local import jars
from deploy.local.broker import Broker
from registry.domain.log_format.records import Entry
from registry.log.contract import (
    Claim,
    Fenced,
    Fencing,
    Log,
    LogError,
    OutcomeUnknown,
    Unreachable,
    UnsafeFence,
)
from registry.log.kafka import fetcher
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.partition import Partition
from registry.log.kafka.producer_id import DEFAULT_S, RENEWALS
from tests.contract.log.conftest import FORGETS_S, OddBroker, Opened
from tests.support.kafka_topics import admin, delete_topic, make_topic
from tests.support.running import until

BARRIER = [Entry(b"barrier", b"")]


def values(log: Log) -> list[bytes | None]:
    """Return all records in the log."""
    found: list[bytes | None] = []
    offset, end = 0, log.query_end(30)
    while offset < end:
        assert log.wait(offset, 30)
        fetched = log.read(offset, 1000, 1 << 30)
        found += [record.value for record in fetched.records]
        offset = fetched.next
    return found


def entry(value: bytes) -> list[Entry]:
    return [Entry(b"key", value)]


def take_over(log: KafkaLog) -> Claim:
    """Claim the log and append a barrier, as a new primary does."""
    claim = log.claim()
    log.append(BARRIER)
    return claim


def revive(log: KafkaLog, claim: Claim, sequence: int) -> None:
    """Let ``log`` continue with an old claim, as a process that was frozen does."""
    appender = log._appender
    appender._claim, appender._sequence, appender._used_at = claim, sequence, appender._clock()


def idle_max_s(log: KafkaLog) -> float:
    """Return how long a claim may be idle with these brokers: half a day, or half a week."""
    assert log.fencing.renew_s is not None
    return log.fencing.renew_s * RENEWALS / 2


@contextmanager
def soon_given_up(log: KafkaLog) -> Iterator[None]:
    """Let appends that cannot succeed here fail soon; those before and after have enough time."""
    appender = log._appender
    usual_s, appender._timeout_s = appender._timeout_s, 1.0
    yield
    appender._timeout_s = usual_s


def fenced(log: KafkaLog, value: bytes) -> str:
    """Return why an append is fenced; empty if it is not."""
    try:
        log.append(entry(value))
    except Fenced as error:
        return str(error)
    return ""


def test_a_log_that_was_not_claimed_takes_nothing(kafka: Broker, opened: Opened) -> None:
    log = opened(kafka.address, make_topic(kafka.address))
    with pytest.raises(Fenced, match="has not been claimed"):
        log.append(entry(b"1"))
    assert log.query_end(30) == 0


def begun(log: KafkaLog, value: bytes) -> Future[int]:
    """Begin an append that does not block; return its result to come."""
    result: Future[int] = Future()

    def done(first: int | Exception) -> None:
        if isinstance(first, Exception):
            result.set_exception(first)
        else:
            result.set_result(first)

    log.begin_append(entry(value), (), {}, done)
    return result


def test_an_append_that_does_not_block_reports_its_offset_when_it_can_be_read(
    kafka: Broker, opened: Opened
) -> None:
    log = opened(kafka.address, make_topic(kafka.address))
    take_over(log)
    assert values(log) == [b""]
    assert not log.is_at_hand(1)
    assert begun(log, b"1").result(30) == 1
    assert log.is_at_hand(1)
    assert not log.is_at_hand(0), "the reader is past it"
    assert [each.value for each in log.read(1, 10, 1 << 20).records] == [b"1"]
    assert not log.is_at_hand(2)


def test_another_process_reads_an_append_that_it_is_offered_without_fetching_it(
    kafka: Broker, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(kafka.address)
    log, other = opened(kafka.address, topic), opened(kafka.address, topic)
    take_over(log)
    assert values(other) == [b""]
    fetches: list[int] = []
    monkeypatch.setattr(fetcher, "fetch", _counted(fetcher.fetch, fetches))
    for value in (b"1", b"2"):
        end = begun(log, value).result(30) + 1
        assert log.last_append(end + 1) is None
        batch = log.last_append(end)
        assert batch is not None
        assert not other.offer(batch._replace(packed=b""))
        for epoch in (-1, batch.epoch + 1):
            assert not other.offer(batch._replace(epoch=epoch)), "it has not compared the log there"
        assert other.offer(batch)
        assert other.end() == end
        assert [each.value for each in other.read(end - 1, 10, 1 << 20).records] == [value]
        assert not other.offer(batch), "it has that already"
    assert not fetches
    other.close()
    assert not other.offer(batch)


def _counted(fetch: Callable[..., Awaitable[Any]], offsets: list[int]) -> Callable[..., Awaitable[Any]]:
    def counted(partition: Partition, offset: int, *given: Any) -> Awaitable[Any]:
        offsets.append(offset)
        return fetch(partition, offset, *given)

    return counted


def test_an_append_that_does_not_block_reports_why_it_failed(odd: OddBroker, opened: Opened) -> None:
    topic = make_topic(odd.address)
    log, later = opened(odd.proxy.address, topic), opened(odd.address, topic)
    take_over(log)
    take_over(later)
    with pytest.raises(Fenced, match="newer claim"):
        begun(log, b"1").result(30)
    take_over(log)
    odd.proxy.cut()
    closed = begun(log, b"2")
    until(lambda: log._appending, 30, "it to begin")
    log.close()
    with pytest.raises(OutcomeUnknown, match="closed meanwhile"):
        closed.result(30)
    with pytest.raises(LogError, match="closed"):
        begun(log, b"3")
    odd.proxy.heal()


def test_a_new_claim_ends_the_former_with_its_first_record(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    former, later = opened(kafka.address, topic), opened(kafka.address, topic)
    first = former.claim()
    former.append(entry(b"1"))
    second = later.claim()
    assert second.producer == first.producer
    assert second.epoch > first.epoch
    assert former.append(entry(b"2")) == 1, "still ahead of the new one's barrier"
    later.append(BARRIER)
    with pytest.raises(Fenced, match="newer claim"):
        former.append(entry(b"3"))
    with pytest.raises(Fenced, match="claimed first"):
        former.append(entry(b"3"))
    later.append(entry(b"4"))
    assert values(former) == [b"1", b"2", b"", b"4"]
    take_over(former)
    with pytest.raises(Fenced):
        later.append(entry(b"5"))


def test_a_barrier_that_the_broker_takes_for_a_fence_in_its_name_is_not_read_as_a_barrier(
    kafka: Broker, opened: Opened
) -> None:
    """Another node has ended the former claim with the next epoch, which this one had already got."""
    topic = make_topic(kafka.address)
    former, late = opened(kafka.address, topic), opened(kafka.address, topic)
    claim = take_over(former)
    late.claim()
    former.fence(claim)
    assert late.append(BARRIER) == 1
    assert values(late) == [b"", None]


def test_an_append_whose_answer_is_lost_is_done_once(odd: OddBroker, opened: Opened) -> None:
    log = opened(odd.proxy.address, make_topic(odd.address))
    log.claim()
    odd.proxy.lose_answer()
    assert log.append(entry(b"1")) == 0
    odd.proxy.lose_append()
    assert log.append(entry(b"2")) == 1
    for n in range(10):
        odd.proxy.lose_answer()
        assert log.append(entry(b"%d" % n)) == 2 + n
    assert values(log) == [b"1", b"2", *(b"%d" % n for n in range(10))]


def test_what_landed_before_the_fence_is_done_though_its_answer_was_lost(
    odd: OddBroker, opened: Opened
) -> None:
    topic = make_topic(odd.address)
    former, later = opened(odd.proxy.address, topic), opened(odd.address, topic)
    take_over(former)
    odd.proxy.lose_answer(then=lambda: take_over(later))
    assert former.append(entry(b"landed")) == 1
    with pytest.raises(Fenced):
        former.append(entry(b"late"))
    assert values(later) == [b"", b"landed", b""]


def test_what_did_not_land_before_the_fence_is_refused(odd: OddBroker, opened: Opened) -> None:
    topic = make_topic(odd.address)
    former, later = opened(odd.proxy.address, topic), opened(odd.address, topic)
    take_over(former)
    odd.proxy.lose_append(then=lambda: take_over(later))
    with pytest.raises(Fenced, match="newer claim"):
        former.append(entry(b"lost"))
    assert values(later) == [b"", b""]


def too_small_for_another(address: str, topic: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", "80", incremental_operation=AlterConfigOpType.SET)
    )
    client = admin(address)  # Kept, because its pending calls would end with it.
    client.incremental_alter_configs([resource])[resource].result(30)
    producer = Producer({"bootstrap.servers": address, "log_level": 0})

    def obeyed() -> bool:
        told: list[KafkaError | None] = []
        producer.produce(topic, bytes(100), partition=0, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(30) == 0
        return told[0] is not None and told[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    # The controller has answered; the broker applies the setting after that.
    until(obeyed, 30, "the limit to be obeyed")


@pytest.mark.parametrize("refuse", [too_small_for_another, delete_topic])
def test_what_landed_is_not_said_to_be_refused_when_the_log_takes_no_more(
    odd: OddBroker, opened: Opened, refuse: Callable[[str, str], None]
) -> None:
    topic = make_topic(odd.address)
    log = opened(odd.proxy.address, topic)
    take_over(log)
    odd.proxy.lose_answer(then=lambda: refuse(odd.address, topic))
    with pytest.raises(OutcomeUnknown):
        log.append(entry(b"landed" * 10))


def test_an_append_without_an_answer_until_its_time_is_up_is_unknown(odd: OddBroker, opened: Opened) -> None:
    log = opened(odd.proxy.address, make_topic(odd.address))
    take_over(log)
    odd.proxy.cut()
    with soon_given_up(log), pytest.raises(OutcomeUnknown):
        log.append(entry(b"unknown"))
    with pytest.raises(Fenced, match="claimed first"):
        log.append(entry(b"more"))
    odd.proxy.heal()
    take_over(log)
    log.append(entry(b"after"))
    assert [value for value in values(log) if value != b"unknown"] == [b"", b"", b"after"]
    assert values(log).index(b"after") == len(values(log)) - 1


def test_an_append_that_was_never_sent_is_refused_and_the_claim_stands(
    odd: OddBroker, opened: Opened
) -> None:
    log = opened(odd.proxy.address, make_topic(odd.address))
    take_over(log)
    odd.proxy.refuse()
    with pytest.raises(Unreachable):
        log.query_end(0.5)
    # On a connection that it does not know to be broken, it would be sent.
    connections = log._connections._open
    until(lambda: not any(each.connected() for each in list(connections.values())), 30, "them to break")
    with soon_given_up(log), pytest.raises(Unreachable, match="nothing was appended"):
        log.append(entry(b"1"))
    odd.proxy.heal()
    assert log.append(entry(b"2")) == 1
    assert values(log) == [b"", b"2"]


def test_an_append_outlives_a_broker_that_restarts(odd: OddBroker, opened: Opened) -> None:
    log = opened(odd.address, make_topic(odd.address), append_timeout_s=60.0)
    take_over(log)
    offsets: list[int] = []
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.01):
            offsets.append(log.append(entry(b"%d" % len(offsets))))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        odd.kill()
        odd.start().wait()
        so_far = len(offsets)
        assert log.wait(0, 30)
        while len(offsets) < so_far + 3 and writer.is_alive():
            log.query_end(30)
    finally:
        done.set()
        writer.join(60)
    assert offsets == list(range(1, len(offsets) + 1))
    assert values(log) == [b"", *(b"%d" % n for n in range(len(offsets)))]


def test_a_producer_in_use_is_not_forgotten(forgetful: Broker, opened: Opened) -> None:
    def paused(since: float) -> bool:
        return time.monotonic() - since > FORGETS_S

    def in_use() -> bool:
        """Return true if it was used without a pause in which the broker may forget it."""
        topic = make_topic(forgetful.address)
        former, later = (opened(forgetful.address, topic, fence_least_s=0.0) for _ in range(2))
        claimed = time.monotonic()
        old = take_over(former)
        new = take_over(later)
        assert new.producer == old.producer or paused(claimed)
        until_later = time.monotonic() + 2 * FORGETS_S
        used = claimed
        while not paused(used) and (used := time.monotonic()) < until_later:
            later.append(entry(b"renewed"))
            revive(former, old, 1)
            why = fenced(former, b"late")
            assert "newer claim" in why or paused(used)
        if paused(used):
            return False
        assert b"late" not in values(later)
        return True

    until(in_use, 60, "a run without a long pause")


def test_a_claim_that_the_broker_may_have_forgotten_is_not_used(kafka: Broker, opened: Opened) -> None:
    log = opened(kafka.address, make_topic(kafka.address))
    now = [0.0]
    log._appender._clock = lambda: now[0]
    take_over(log)
    now[0] += idle_max_s(log) - 1
    log.append(entry(b"1"))
    now[0] += idle_max_s(log) + 1
    with pytest.raises(Fenced, match=f"not used for {idle_max_s(log) + 1:.0f} s"):
        log.append(entry(b"2"))
    take_over(log)
    assert values(log) == [b"", b"1", b""]


def test_a_claim_is_as_old_as_its_last_request_whenever_the_answer_is_read(
    kafka: Broker, opened: Opened
) -> None:
    log = opened(kafka.address, make_topic(kafka.address))
    now = [0.0]

    def frozen(*_: object) -> None:
        now[0] += idle_max_s(log) + 1

    appender = log._appender
    appender._clock = lambda: now[0]
    take_over(log)
    taken, appender._on_appended = appender._on_appended, frozen
    log.append(entry(b"1"))
    appender._on_appended = taken
    with pytest.raises(Fenced, match=f"not used for {idle_max_s(log) + 1:.0f} s"):
        log.append(entry(b"2"))

    init = appender._init_producer

    async def and_frozen() -> Claim:
        claim = await init()
        frozen()
        return claim

    appender._init_producer = and_frozen  # type: ignore[method-assign]
    log.claim()
    with pytest.raises(Fenced, match=f"not used for {idle_max_s(log) + 1:.0f} s"):
        log.append(entry(b"3"))
    appender._init_producer = init  # type: ignore[method-assign]
    take_over(log)
    assert values(log) == [b"", b"1", b""]


def test_a_log_whose_brokers_forget_the_fence_too_soon_is_read_and_not_claimed(
    forgetful: Broker, opened: Opened
) -> None:
    topic = make_topic(forgetful.address)
    log = opened(forgetful.address, topic)
    with pytest.raises(UnsafeFence, match="=2000") as refused:
        log.claim()
    assert log.fencing == Fencing(FORGETS_S / 4, str(refused.value))
    assert str(refused.value) in log.check_topic()
    with pytest.raises(Fenced):
        log.append(entry(b"1"))
    take_over(opened(forgetful.address, topic, fence_least_s=FORGETS_S))
    assert values(log) == [b""]


def expire_producers(broker: Broker, after_ms: int | None) -> None:
    """Change the setting while the broker runs; ``None`` restores it."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.node_id))
    operation = AlterConfigOpType.DELETE if after_ms is None else AlterConfigOpType.SET
    entry = ConfigEntry("producer.id.expiration.ms", str(after_ms or 0), incremental_operation=operation)
    resource.add_incremental_config(entry)
    client = admin(broker.address)  # Kept, because its pending calls would end with it.
    client.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.skipif(jars.KAFKA in jars.WITH_ZOOKEEPER, reason="no such setting before Kafka 3.4")
def test_a_fence_that_brokers_come_to_forget_sooner_ends_the_claim_until_they_do_not(
    odd: OddBroker, opened: Opened
) -> None:
    log = opened(odd.address, make_topic(odd.address))
    take_over(log)
    assert log.fencing == Fencing(DEFAULT_S / 4)
    expire_producers(odd, 3_600_000)
    until(lambda: log.check_topic() and log.fencing == Fencing(900.0), 30, "the new setting to be read")
    log.append(entry(b"1"))
    try:
        expire_producers(odd, 4_000)
        until(lambda: any("=4000" in each for each in log.check_topic()), 30, "the new setting to be read")
        with pytest.raises(Fenced, match="=4000"):
            log.append(entry(b"2"))
        with pytest.raises(UnsafeFence, match="=4000"):
            log.claim()
    finally:
        expire_producers(odd, None)
    until(lambda: log.check_topic() and not log.fencing.unsafe, 30, "the setting as it was")
    take_over(log)
    assert values(log) == [b"", b"1", b""]


def until_another_producer(log: KafkaLog, than: Claim) -> Claim:
    """Return the first claim of another producer; none is made before the broker has to forget."""
    for _ in range(10):
        time.sleep(1.5 * FORGETS_S)
        if (claim := log.claim()).producer != than.producer:
            return claim
    raise AssertionError("the broker does not forget the transactional id")


def test_the_claim_of_another_producer_is_fenced_by_a_record_in_its_name(
    forgetful: Broker, opened: Opened
) -> None:
    def remembered() -> bool:
        """Return true if there was no pause in which the broker may forget the fence."""
        topic = make_topic(forgetful.address)
        former, later = (opened(forgetful.address, topic, fence_least_s=0.0) for _ in range(2))
        old = take_over(former)
        until_another_producer(later, old)
        revive(former, old, 1)
        assert former.append(entry(b"late")) == 1, "the new producer says nothing about the former"
        began = time.monotonic()
        later.fence(old)
        why = fenced(former, b"later")
        later.fence(old)
        if time.monotonic() - began > FORGETS_S:
            return False
        assert why
        later.append(BARRIER)
        assert values(later) == [b"", b"late", None, b""], "a second fence changes nothing"
        return True

    until(remembered, 60, "a run without a long pause")


def test_a_used_up_epoch_ends_with_another_producer_and_a_fence(odd: OddBroker, opened: Opened) -> None:
    topic = make_topic(odd.address)
    former, later = opened(odd.address, topic), opened(odd.address, topic)
    first = former.claim()
    set_epoch(odd, f"registrar.{topic}", 32_765)
    odd.restart()
    old = take_over(former)
    assert old == Claim(first.producer, 32_766), "the last that Kafka gives"
    assert later.claim().producer != old.producer
    assert former.append(entry(b"late")) == 1
    later.fence(old)
    with pytest.raises(Fenced):
        former.append(entry(b"later"))
    later.claim()
    later.fence(old)  # as after a claim that ended between its fence and its barrier
    later.append(BARRIER)
    assert values(later) == [b"", b"late", None, b""]


def set_epoch(broker: Broker, transactional_id: str, epoch: int) -> None:
    """Set the epoch of a transactional id in the coordinator's own log, from which it continues."""
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "x", "enable.auto.commit": False, "log_level": 0}
    )
    partition = TopicPartition("__transaction_state", 0, 0)
    consumer.assign([partition])
    key = value = None
    _, end = consumer.get_watermark_offsets(partition, 30)
    while consumer.position([partition])[0].offset < end:
        message = consumer.poll(30)
        assert message is not None
        if transactional_id.encode() in message.key() and message.value() is not None:
            key, value = message.key(), message.value()
    consumer.close()
    assert value is not None
    # A version (2 bytes) and the producer id (8) come before the epoch.
    changed = value[:10] + epoch.to_bytes(2, "big") + value[12:]
    producer = Producer(
        {"bootstrap.servers": broker.address, "client.id": "__admin_client", "acks": "all", "log_level": 0}
    )
    producer.produce("__transaction_state", changed, key, partition=0)
    assert producer.flush(30) == 0
