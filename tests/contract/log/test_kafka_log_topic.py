"""The topic of a log: its settings, detection of another topic, and the required permissions."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from deploy.local import jars
from deploy.local.broker import Broker
from registry.domain.log_format.records import Entry
from registry.log.contract import (
    Claim,
    Fenced,
    Fencing,
    ForeignLog,
    LogError,
    OutcomeUnknown,
    UnfitHost,
    Unreachable,
    UnsafeFence,
)
from registry.log.kafka.cluster_topics import DescribedCluster, describe_topics
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.producer_id import DEFAULT_S
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from tests.contract.log.conftest import LIMITED_USER, OddBroker, Opened
from tests.support.kafka_topics import admin, delete_topic, make_topic, set_of_topic
from tests.support.running import free_port, until

ONE = [Entry(b"key", b"1")]


def foreign(log: KafkaLog, offset: int) -> str:
    """Return the error that is raised once the log is known to be another one."""

    def said() -> str:
        try:
            log.wait(offset, 0.05)
        except ForeignLog as error:
            return str(error)
        return ""

    return str(until(said, 30, "the log to be foreign"))


def refused_by_all(log: KafkaLog) -> None:
    for call in (log.claim, lambda: log.append(ONE), lambda: log.query_end(30), lambda: log.read(0, 1, 1)):
        with pytest.raises(ForeignLog):
            call()


def test_a_missing_topic_is_made_as_a_log_needs_it(kafka: Broker, opened: Opened) -> None:
    name = f"made-{free_port()}"
    log = opened(kafka.address, name)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    client = admin(kafka.address)
    found = client.describe_configs([resource])[resource].result(30)
    assert found["cleanup.policy"].value == "compact"
    assert found["delete.retention.ms"].value == str(7 * 86_400_000)
    assert found["min.compaction.lag.ms"].value == str(86_400_000)
    assert len(client.list_topics(name, 30).topics[name].partitions) == 1
    assert log.tombstone_retention_ms == 7 * 86_400_000
    cluster, topic, topic_id = log.identity.split("/")
    assert cluster == client.list_topics(name, 30).cluster_id
    assert topic == name
    assert len(topic_id) == 22
    few = (
        f"the topic {name} has 1 of 3 replicas: if one broker fails, the log is lost. "
        "Add replicas with kafka-reassign-partitions.sh"
    )
    assert log.check_topic() == [few]
    assert opened(kafka.address, name).identity == log.identity


def test_a_topic_that_is_no_log_is_refused_in_words(kafka: Broker, opened: Opened) -> None:
    with pytest.raises(LogError, match="has 2 partitions"):
        opened(kafka.address, make_topic(kafka.address, partitions=2))
    for policy in ("delete", "compact,delete"):
        topic = make_topic(kafka.address, {"cleanup.policy": policy})
        with pytest.raises(LogError, match=r"kafka-configs\.sh .* --add-config cleanup\.policy=compact"):
            opened(kafka.address, topic)
        opened(kafka.address, topic, options=TopicOptions(allow_delete_policy=True)).claim()
    with pytest.raises(LogError, match="not a valid topic name"):
        opened(kafka.address, "no/topic")
    with pytest.raises(LogError, match="does not exist"):
        opened(kafka.address, "missing", options=TopicOptions(create=False))


def test_nothing_is_appended_while_kafka_would_delete_it_in_time(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    log.claim()
    log.append([Entry(b"a", b"1")])
    for policy in ("delete", "compact,delete"):
        set_of_topic(kafka.address, topic, "cleanup.policy", policy)

        def noticed() -> list[str]:
            return [each for each in log.check_topic() if "cleanup.policy=" in each]

        (warning,) = until(noticed, 30, "the policy")
        assert f"cleanup.policy={policy}: Kafka would delete schemas in time. Run kafka-configs.sh" in warning
        assert (log.fencing.unsafe, log.fencing.own) == (f"no node may become primary: {warning}", False)
        with pytest.raises(Fenced, match=r"cleanup\.policy="):
            log.append([Entry(b"a", b"2")])
        with pytest.raises(UnsafeFence, match=r"cleanup\.policy="):
            log.claim()
        beside_a_store = opened(kafka.address, topic, options=TopicOptions(create=False, strict=False))
        assert beside_a_store.fencing.unsafe == log.fencing.unsafe
        assert beside_a_store.wait(0, 30)
        set_of_topic(kafka.address, topic, "cleanup.policy", "compact")
        until(lambda: not noticed() and not log.fencing.unsafe, 30, "the policy as it was")
        log.claim()
        log.append([Entry(b"a", b"3")])


@pytest.mark.skipif(jars.KAFKA != jars.NEWEST, reason="Kafka takes records from the future before 4.0")
def test_a_host_whose_clock_is_ahead_cannot_append_until_that_is_set_right(
    kafka: Broker, opened: Opened
) -> None:
    topic, ahead_ms = make_topic(kafka.address), 2 * 3_600_000

    def now_ms() -> int:
        return time.time_ns() // 1_000_000 + ahead_ms

    log = opened(kafka.address, topic, now_ms=now_ms)
    assert log.fencing.unsafe == ""
    log.claim()
    with pytest.raises(UnfitHost, match="set the clock of this host"):
        log.append([Entry(b"a", b"1")])
    assert (log.fencing.own, "set the clock of this host" in log.fencing.unsafe) == (True, True)
    with pytest.raises(UnfitHost):
        log.claim()
    another = opened(kafka.address, topic)
    another.claim()
    assert another.append([Entry(b"a", b"2")]) == 0
    ahead_ms = 0
    assert log.fencing.unsafe == ""
    log.claim()
    assert log.append([Entry(b"a", b"3")]) == 1


def test_settings_that_are_too_short_are_warned_about_with_the_command(kafka: Broker, opened: Opened) -> None:
    short = {"delete.retention.ms": "1000", "min.compaction.lag.ms": "0", "max.message.bytes": "200000"}
    log = opened(kafka.address, make_topic(kafka.address, short))
    assert log.tombstone_retention_ms == 1000
    assert log.record_bytes_max == 200_000 - 180
    warnings = log.check_topic()
    wishes = ("delete.retention.ms=604800000", "min.compaction.lag.ms=86400000", "max.message.bytes=1048588")
    for wish in wishes:
        assert [warning for warning in warnings if warning.endswith(f"--add-config {wish}")], wish


def test_brokers_that_are_not_there_are_unreachable(opened: Opened) -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        opened(f"127.0.0.1:{free_port()}", "schemas", start_timeout_s=0.5)


def test_a_deleted_topic_is_noticed_and_not_made_again(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    log.claim()
    log.append(ONE)
    delete_topic(kafka.address, topic)
    assert foreign(log, 1) == f"the topic {topic} was deleted; records up to 0 were read"
    refused_by_all(log)
    assert topic not in admin(kafka.address).list_topics(timeout=30).topics


def test_a_topic_that_was_made_anew_gets_nothing_of_the_old_one(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    log, other = opened(kafka.address, topic), opened(kafka.address, topic)
    other.claim()
    log.claim()
    log.append(ONE)
    delete_topic(kafka.address, topic)
    make_topic(kafka.address, name=topic)
    # Before Kafka 4.1 batches name the topic, so one may go into the new topic, but never unnoticed.
    by_name = jars.KAFKA != jars.NEWEST
    with pytest.raises((ForeignLog, OutcomeUnknown) if by_name else ForeignLog):
        log.append(ONE)
    assert "deleted and created again: its id was" in foreign(log, 1)
    with pytest.raises((ForeignLog, Unreachable)):
        other.claim()
    refused_by_all(log)
    anew = opened(kafka.address, topic)
    assert anew.identity != log.identity
    assert anew.query_end(30) <= by_name


def test_a_store_that_is_ahead_of_the_log_learns_that_it_was_cut(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address)
    log = opened(kafka.address, topic)
    log.claim()
    log.append(ONE)
    assert foreign(log, 7) == f"the topic {topic} was truncated: it ended at 7 or later and now ends at 1"
    refused_by_all(log)


def test_a_head_that_is_gone_is_reported_to_whom_it_concerns(kafka: Broker, opened: Opened) -> None:
    topic = make_topic(kafka.address, {"cleanup.policy": "compact,delete"})
    log = opened(kafka.address, topic, options=TopicOptions(allow_delete_policy=True))
    log.claim()
    for _ in range(10):
        log.append(ONE)
    client = admin(kafka.address)
    client.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result(30)
    assert log.wait(5, 30)
    assert log.wait(0, 30)
    assert log.read(0, 1, 1).records[0].offset == 5, "from the beginning, wherever that is"
    gone = f"the head of topic {topic} is gone: the records from 3 to 4 were not read yet"
    assert foreign(log, 3) == gone


def rule(
    broker: Broker,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType = AclPermissionType.DENY,
    *,
    user: str = "ANONYMOUS",
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> None:
    client = admin(broker.address)
    made = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)
    client.create_acls([made])[made].result(30)


def refused(call: Callable[[], object], why: str) -> None:
    """Wait until the broker has applied the denial."""

    def said() -> bool:
        try:
            call()
        except LogError as error:
            return why in str(error)
        return False

    until(said, 30, why)


def test_a_permission_that_is_missing_is_named(odd: OddBroker, opened: Opened) -> None:
    topic = make_topic(odd.address)
    rule(odd, ResourceType.TRANSACTIONAL_ID, "denied", AclOperation.WRITE)
    log = opened(odd.address, topic, transactional_id="denied")
    refused(log.claim, "needs Write on transactional id denied")
    log = opened(odd.address, topic)
    log.claim()
    rule(odd, ResourceType.TOPIC, topic, AclOperation.ALL, AclPermissionType.ALLOW)
    rule(odd, ResourceType.TOPIC, topic, AclOperation.WRITE)
    refused(lambda: log.append(ONE), f"needs Write on topic {topic}")
    rule(odd, ResourceType.TOPIC, topic, AclOperation.READ)
    refused(lambda: log.wait(0, 0.1), f"needs Read on topic {topic}")
    rule(odd, ResourceType.TOPIC, topic, AclOperation.DESCRIBE_CONFIGS)
    until(lambda: "needs DescribeConfigs" in log.check_topic()[0], 30, "the topic's settings to be hidden")
    rule(odd, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    refused(lambda: log.query_end(30), f"needs Describe on topic {topic}")


def test_who_may_not_read_how_long_the_fence_lasts_is_reported_and_takes_it_for_a_day(
    odd: OddBroker, opened: Opened
) -> None:
    rule(odd, ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)
    log = opened(odd.secure, make_topic(odd.address), odd.security())
    hidden = "cannot be read (this client needs DescribeConfigs on cluster)"
    until(lambda: hidden in log.check_topic()[-1], 30, "the brokers' settings to be hidden")
    log.claim()
    assert log.append(ONE) == 0
    assert log.fencing == Fencing(DEFAULT_S / 4)


def test_who_may_not_make_the_topic_is_reported(odd: OddBroker, opened: Opened) -> None:
    allow, prefixed = AclPermissionType.ALLOW, ResourcePatternType.PREFIXED
    rule(odd, ResourceType.TOPIC, "new-", AclOperation.DESCRIBE, allow, user=LIMITED_USER, pattern=prefixed)
    rule(odd, ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, allow)
    refused(lambda: opened(odd.secure, f"new-{free_port()}", odd.security()), "needs Create on topic new-")


def test_topics_that_a_client_may_not_read_or_describe_are_named_if_it_may_describe_the_cluster(
    odd: OddBroker,
) -> None:
    unreadable, hidden = make_topic(odd.address), make_topic(odd.address)
    for topic, operation in ((unreadable, AclOperation.READ), (hidden, AclOperation.DESCRIBE)):
        rule(odd, ResourceType.TOPIC, topic, AclOperation.ALL, AclPermissionType.ALLOW)
        rule(odd, ResourceType.TOPIC, topic, operation)
    rule(odd, ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)

    def problems() -> list[str]:
        found = describe_topics(Security(), odd.address, timeout_s=30)
        assert found.knows_all_topics
        return [found.topics[each].problem for each in (unreadable, hidden)]

    needed = [f"this client needs {each} on the topic" for each in ("Read", "Describe")]
    until(lambda: problems() == needed, 30, "the broker to apply the rules")

    def by_limited_user() -> DescribedCluster:
        return describe_topics(odd.security(), odd.secure, timeout_s=30)

    until(lambda: not by_limited_user().knows_all_topics, 30, "the broker to apply the rules")
    assert hidden not in by_limited_user().topics


def test_without_fencing_nothing_is_claimed_and_nothing_repeated(odd: OddBroker, opened: Opened) -> None:
    log = opened(odd.proxy.address, make_topic(odd.address), fencing=False, transactional_id="denied")
    nobody = Claim(-1, -1)
    assert log.claim() == nobody
    log.fence(nobody)
    assert log.append(ONE) == 0
    odd.proxy.lose_answer()
    with pytest.raises(OutcomeUnknown):
        log.append(ONE)
    assert log.claim() == nobody
    assert log.append(ONE) == 2


def test_tls_with_a_client_certificate_and_a_password(odd: OddBroker, opened: Opened) -> None:
    log = opened(odd.secure, make_topic(odd.address), odd.security())
    log.claim()
    assert log.append(ONE) == 0
    assert log.wait(0, 30)
    assert log.read(0, 1, 1).records[0].value == b"1"


def test_who_does_not_trust_the_other_is_said_at_once(odd: OddBroker, opened: Opened) -> None:
    with pytest.raises(LogError, match="Authentication failed"):
        opened(odd.secure, "schemas", odd.security(sasl_password="wrong"))
    with pytest.raises(LogError, match="CERTIFICATE_VERIFY_FAILED"):
        opened(odd.secure, "schemas", odd.security(ssl_ca_location=""))
    with pytest.raises(LogError, match="cannot be used"):
        opened(odd.secure, "schemas", odd.security(ssl_key_location="missing.pem"))
