"""Faults of ZooKeeper, and of three brokers between which the partition moves, under load and checked."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.local.broker import Broker, Brokers
from deploy.local.proxy import Proxy
from deploy.local.zookeeper import ZooKeeper
from tests.support.running import until

from .rig import HEAL_S, Rig, run

TOPIC = "faults-zookeeper"


# In make test, tests/contract/election/ breaks and freezes sessions without nodes; in test_idle_primary.py,
# nodes elect by ZooKeeper and write under load.
@pytest.mark.long
def test_a_primary_that_loses_its_session_with_zookeeper_is_replaced(
    kafka: Broker, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(Proxy(zookeeper.address)) for _ in range(3)]
        each = [("--zookeeper", f"{line.address}/faults") for line in lines]
        flags = ("--election", "zookeeper", "--topic", TOPIC, "--request-timeout-s", "20")
        rig = stack.enter_context(Rig(tmp_path, *flags, kafka=kafka.address, each=each))
        partition = kafka.folder / "data" / f"{TOPIC}-0"
        with run(rig, 20, partition) as made:
            lost = rig.primary()
            line = lines[rig.nodes.index(lost)]
            line.cut()
            rig.primary(but=lost)
            line.heal()
            until(lambda: lost.role == "secondary", HEAL_S, "the node to know that it is replaced")
            frozen = rig.primary()
            frozen.freeze()
            rig.primary(but=frozen)
            frozen.thaw()
        assert made.failures(of=rig.others(frozen)) == []


# tests/contract/log/test_kafka_log_reading.py moves the partition under one client of the log, without nodes.
@pytest.mark.long
def test_the_partition_moves_from_broker_to_broker_and_nothing_is_lost(tmp_path: Path) -> None:
    with Brokers(tmp_path / "brokers") as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.address})

        def serving() -> int:
            # The broker that is asked may be the one that is gone.
            with suppress(KafkaException):
                partition = admin.list_topics("_schemas", timeout=10).topics["_schemas"].partitions[0]
                return int(partition.leader)
            return -1

        with Rig(tmp_path, "--request-timeout-s", "20", kafka=brokers.address) as rig:
            first = until(lambda: serving() > 0 and serving(), HEAL_S, "somebody to lead the partition")
            stays = next(broker for broker in brokers.nodes if broker.node_id != first)
            with run(rig, 21, stays.folder / "data" / "_schemas-0", workers=4):
                moved = brokers.nodes[first - 1]
                moved.kill()
                until(lambda: serving() not in (first, -1), HEAL_S, "the partition to move")
                moved.start().wait()
