"""Brokers of other releases (``KAFKA_VERSION``): their description, and the fences that they keep."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from deploy.local import jars
from deploy.local.broker import Broker
from registry.log.contract import Fencing
from registry.log.kafka.producer_id import (
    DEFAULT_S,
    PRODUCER,
    RENEWALS,
    TRANSACTIONAL,
    Expiration,
    describe_assumption,
)
from registry.log.kafka.release import Api, ApiVersions, describe
from tests.cluster.test_log_trouble import start
from tests.contract.log.conftest import Opened
from tests.support.kafka_topics import make_topic

WEEK_S = 7 * 86_400.0
WEEK_TEXT = f"{TRANSACTIONAL}=604800000"


class Age(NamedTuple):
    """Return the description of a release."""

    release: str
    by_name: str = ""
    zookeeper: bool = False
    fence: str = ""

    def __str__(self) -> str:
        missing = [
            f"no topic ids in {self.by_name}, so a topic that is deleted and created again is noticed after "
            "some seconds, and a write may go into the new one before that"
            if self.by_name
            else "",
            "a leader epoch may be in use before brokers announce it (KRaft), so each broker that confirms "
            "the log's end is asked twice"
            if self.zookeeper
            else "",
            "a single broker may keep its leader epoch over a restart (Kafka 4.1), so lost records are "
            "detected only by comparing records"
            if not self.release.startswith("4.1")
            else "",
            self.fence,
        ]
        keeper = "ZooKeeper" if self.zookeeper else "KRaft"
        said = "; ".join(filter(None, missing)) or "nothing is missing"
        return f"the Kafka brokers offer what Kafka {self.release} does, with {keeper}: {said}"


BOTH = "reads (Kafka 3.1) and appends (Kafka 4.1)"
APPENDS = "appends (Kafka 4.1)"
FENCE = f"no {PRODUCER} (Kafka 3.4), so {WEEK_TEXT} says how long former primaries stay fenced"
AGES = {
    "2.8.2": Age("2.8", BOTH, zookeeper=True, fence=FENCE),
    "3.3.2": Age("3.3 or 3.4", APPENDS, zookeeper=True, fence=FENCE),
    "3.9.1": Age("3.9", APPENDS),
    "4.1.1": Age("4.1 or newer"),
}
# As reported by brokers of 4.1, limited to the requests that are examined.
NEWEST: ApiVersions = {
    Api.PRODUCE: (0, 13),
    Api.FETCH: (4, 18),
    Api.LIST_OFFSETS: (1, 10),
    Api.JOIN_GROUP: (0, 9),
    Api.ADD_PARTITIONS_TO_TXN: (0, 5),
    Api.DESCRIBE_ACLS: (1, 3),
    Api.DESCRIBE_QUORUM: (0, 2),
}


def test_what_brokers_of_this_age_cannot_do_is_said(kafka: Broker, opened: Opened) -> None:
    log = opened(kafka.address, make_topic(kafka.address))
    assert log.brokers == str(AGES[jars.KAFKA])


def test_how_long_the_fence_lasts_is_read(kafka: Broker, opened: Opened) -> None:
    """Before Kafka 3.4 producers expire with transactional ids."""
    log = opened(kafka.address, make_topic(kafka.address))
    assert log.fencing == Fencing((WEEK_S if AGES[jars.KAFKA].fence else DEFAULT_S) / RENEWALS)


def test_a_node_says_it_once_when_it_starts(kafka: Broker, tmp_path) -> None:
    node = start(kafka, tmp_path / "node", make_topic(kafka.address)).wait()
    assert node.stop() == 0, node.output
    assert node.output.count(str(AGES[jars.KAFKA])) == 1
    assert node.output.count("the Kafka brokers offer") == 1


@pytest.mark.parametrize(
    ("changes", "release"),
    [
        ({}, "4.1 or newer"),
        ({Api.PRODUCE: (0, 12)}, "4.0"),
        ({Api.PRODUCE: (0, 11)}, "3.9"),
        ({Api.FETCH: (0, 16)}, "3.8"),
        # Everything of a later release, but not what an earlier one introduced: those in between may be
        # missing.
        ({Api.ADD_PARTITIONS_TO_TXN: (0, 3)}, "3.5"),
        ({Api.LIST_OFFSETS: (0, 6)}, "2.8"),
    ],
)
def test_releases_are_recognized_by_what_they_brought(changes: ApiVersions, release: str) -> None:
    assert f"offer what Kafka {release} does" in describe([{**NEWEST, **changes}])


def test_while_brokers_are_upgraded_the_older_ones_count() -> None:
    older = {**NEWEST, Api.PRODUCE: (0, 11)}
    del older[Api.DESCRIBE_QUORUM]
    for brokers in ([NEWEST, older], [older, NEWEST]):
        assert describe(brokers) == str(Age("3.9", APPENDS, zookeeper=True))


def test_nothing_is_said_of_brokers_that_are_not_there() -> None:
    assert describe([]) == "the Kafka brokers' release is unknown: none of them is connected"


def test_brokers_that_take_a_request_no_more_do_not_offer_it() -> None:
    assert describe([{**NEWEST, Api.PRODUCE: (14, 15)}]) == str(Age("4.1 or newer", APPENDS))


def test_a_fence_that_cannot_be_read_is_said_to_be_assumed() -> None:
    unread = describe_assumption(Expiration(unread="this client needs DescribeConfigs on cluster"))
    assert unread == f"{PRODUCER} cannot be read and is taken to be a day"
    assert describe([NEWEST], unread).endswith(f"with KRaft: {unread}")
