"""Election by an ephemeral node of ZooKeeper, as Confluent's nodes did it before 7.0."""

from __future__ import annotations

from election.zookeeper.candidacy import ZooKeeperElection
from election.zookeeper.connection import Tls

__all__ = ["Tls", "ZooKeeperElection"]
