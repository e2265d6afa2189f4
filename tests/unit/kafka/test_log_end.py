"""Brokers that must confirm a partition leader before its end of the log is believed."""

from __future__ import annotations

import asyncio

import pytest

from registry.log.kafka import requests
from registry.log.kafka.connection import NoAnswer
from registry.log.kafka.log_end import NewerEpoch, confirm, confirmations_needed

ID = b"0" * 16
FIRST, SECOND, THIRD = (requests.Broker(number, "host", number) for number in (1, 2, 3))


def metadata(epoch: int = 5, in_sync: frozenset[int] = frozenset({1, 2, 3})) -> requests.PartitionMetadata:
    return requests.PartitionMetadata(ID, 1, FIRST, 3, epoch, (SECOND, THIRD), in_sync)


class Told:
    """Return the answers of brokers by id: the advertised address, or nothing if they do not answer."""

    def __init__(self, **said: requests.PartitionMetadata | None) -> None:
        self._said = {int(name[1:]): each for name, each in said.items()}
        self.asked: list[int] = []

    async def __call__(self, broker: requests.Broker) -> requests.Cluster:
        self.asked.append(broker.id)
        said = self._said.get(broker.id)
        if said is None:
            raise NoAnswer("silence", sent=True)
        return requests.Cluster("c", None, [FIRST, SECOND, THIRD], 0, said)


def confirmed(told: Told, known: requests.PartitionMetadata, min_in_sync: int = 2) -> bool:
    try:
        asyncio.run(confirm(known, min_in_sync, told, lambda broker: broker.id))
    except NoAnswer:
        return False
    return True


def test_one_other_of_three_is_enough_and_alone_is_asked() -> None:
    told = Told(_2=metadata())
    assert confirmed(told, metadata())
    assert told.asked == [2]


def test_the_next_is_asked_where_one_does_not_answer() -> None:
    told = Told(_3=metadata())
    assert confirmed(told, metadata())
    assert told.asked == [2, 3, 1], "the leader is asked who is in sync"


def test_nobody_is_asked_about_a_single_replica() -> None:
    told = Told()
    assert confirmed(told, requests.PartitionMetadata(ID, 1, FIRST, 1, 5, (), frozenset({1})))
    assert told.asked == []


def test_a_newer_epoch_is_news() -> None:
    with pytest.raises(NewerEpoch):
        confirmed(Told(_2=metadata(6)), metadata(5))


def test_an_older_epoch_and_another_topic_say_nothing() -> None:
    other = requests.PartitionMetadata(b"1" * 16, 1, FIRST, 3, 5, (), frozenset())
    assert not confirmed(Told(_1=metadata(), _2=metadata(4), _3=other), metadata(5))


def test_those_in_sync_are_believed_once_the_controllers_have_agreed() -> None:
    assert not confirmed(Told(_1=metadata()), metadata(), 1)
    assert confirmed(Told(_1=metadata(in_sync=frozenset({1}))), metadata(), 1)
    with pytest.raises(NewerEpoch):
        confirmed(Told(_1=metadata(6, frozenset({1}))), metadata(5), 1)
    assert not confirmed(Told(_1=metadata(in_sync=frozenset({1}))), metadata(), 2), "another may come to lead"


def test_a_broker_that_does_not_answer_does_not_keep_those_in_sync_from_being_believed() -> None:
    class Frozen(Told):
        async def __call__(self, broker: requests.Broker) -> requests.Cluster:
            if broker == THIRD:
                await asyncio.Event().wait()
            return await super().__call__(broker)

    both = metadata(in_sync=frozenset({1, 2}))
    assert confirmed(Frozen(_1=both, _2=both), metadata(), 1)


@pytest.mark.parametrize("replicas", range(1, 8))
def test_whoever_is_not_asked_and_the_leader_together_cannot_have_acknowledged_anything(
    replicas: int,
) -> None:
    for min_in_sync in range(1, replicas + 1):
        silent = replicas - 1 - confirmations_needed(replicas, min_in_sync)
        assert silent < min_in_sync
        assert confirmations_needed(replicas, min_in_sync) < replicas


FIVE = [requests.Broker(number, "host", number) for number in range(1, 6)]


def test_three_others_of_five_replicas_are_asked_where_two_may_acknowledge() -> None:
    known = requests.PartitionMetadata(ID, 1, FIVE[0], 5, 5, tuple(FIVE[1:]), frozenset(range(1, 6)))
    assert confirmed(told := Told(_2=known, _3=known, _4=known), known)
    assert sorted(told.asked) == [2, 3, 4]
    assert not confirmed(Told(_1=known, _2=known, _3=known), known), "the fourth and fifth may have gone on"
    assert confirmed(told := Told(_2=known, _3=known), known, 3)
    assert sorted(told.asked) == [2, 3]
