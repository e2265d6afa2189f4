"""A primary that is alive but cannot write: the election does not notice, so it has to resign."""

from __future__ import annotations

from pathlib import Path

from deploy.local.broker import Broker
from deploy.local.zookeeper import ZooKeeper
from tests.support.running import until

from .rig import HEAL_S, Rig, run

TOPIC = "faults-aside"


def test_a_primary_that_reaches_zookeeper_but_not_its_log_lets_another_write(
    broker: Broker, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    server = ("--election", "zookeeper", "--zookeeper", f"{zookeeper.address}/aside")
    flags = (*server, "--session-timeout-s", "4", "--topic", TOPIC)
    with Rig(tmp_path, *flags, broker=broker) as rig:
        cut = rig.primary()
        line = broker.proxies[rig.nodes.index(cut)]
        with run(rig, 22, broker.folder / "data" / f"{TOPIC}-0", workers=4):
            line.cut()
            rig.primary(but=cut)
            line.heal()
            until(lambda: cut.role == "secondary" and cut.ready(), HEAL_S, "the node to be well again")
