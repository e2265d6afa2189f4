"""In which leader epoch a log is known to hold what was read from it."""

from __future__ import annotations

from typing import cast

import pytest

from registry.log.kafka.connection import Connections, Purpose
from registry.log.kafka.log_identity import HISTORY
from registry.log.kafka.partition import Partition, _Leader
from registry.log.kafka.requests import Broker, Cluster, PartitionMetadata

BROKER = Broker(1, "one", 9092)


class OpenOnce:
    """Connections that were opened so many times."""

    count = 1

    def open_count(self, *_: object) -> int:
        return self.count


def described(epoch: int, broker: Broker | None = BROKER) -> Cluster:
    return Cluster("cluster", None, [BROKER], 0, PartitionMetadata(b"id", 1, broker, 1, epoch))


@pytest.fixture
def connections() -> OpenOnce:
    return OpenOnce()


@pytest.fixture
def partition(connections: OpenOnce) -> Partition:
    """Return a partition that was compared for fetches, in leader epoch 4."""
    found = Partition(cast("Connections", connections), "one:9092", "_schemas")
    found.cluster = described(4)
    found._compared[Purpose.FETCH] = _Leader(BROKER, 4, 1)
    return found


def test_it_is_the_epoch_of_the_leader_that_was_compared(partition: Partition) -> None:
    assert partition.compared_epoch(Purpose.FETCH) == 4
    assert partition.compared_epoch(Purpose.APPEND) == -1


def test_a_new_leader_epoch_has_to_be_compared(partition: Partition) -> None:
    partition.cluster = described(5)
    assert partition.compared_epoch(Purpose.FETCH) == -1


def test_a_leader_whose_connection_was_lost_has_to_be_compared(
    partition: Partition, connections: OpenOnce
) -> None:
    connections.count = 2
    assert partition.compared_epoch(Purpose.FETCH) == -1


def test_without_a_leader_nothing_is_compared(partition: Partition) -> None:
    partition.cluster = described(4, None)
    assert partition.compared_epoch(Purpose.FETCH) == -1


def test_nothing_counts_while_records_may_be_lost(partition: Partition) -> None:
    partition.mismatches.add(HISTORY, "records are gone")
    assert partition.compared_epoch(Purpose.FETCH) == -1
    partition.mismatches.clear(HISTORY)
    assert partition.compared_epoch(Purpose.FETCH) == 4
