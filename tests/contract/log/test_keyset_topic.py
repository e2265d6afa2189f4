"""The topic of keysets of sensitive metadata on a real broker, and the ciphers of nodes that share it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from deploy.local.broker import Broker
from registry.encoder.ciphers import NodeCipher, Secrets
from registry.encoder.keyset import Keyset, KeysetFile
from registry.encoder.keyset_topic import KEY, KeysetTopic
from registry.log.contract import OutcomeUnknown, Unreachable
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from tests.contract.log.conftest import OddBroker
from tests.support.kafka_topics import admin, consumed, delete_topic
from tests.support.running import free_port

SECRET = Secrets("the secret", "")
PLAIN = "plain"


@pytest.fixture
def topic() -> str:
    return f"encoders-{secrets.token_hex(4)}"


def keysets(servers: str, topic: str, start_timeout_s: float = 30.0) -> KeysetTopic:
    def open_log(make: bool) -> KafkaLog:
        return KafkaLog(
            Security(), servers, topic, transactional_id="", append_timeout_s=30.0, fencing=False,
            options=TopicOptions(1, create=make), start_timeout_s=start_timeout_s,
        )  # fmt: skip

    return KeysetTopic(topic, open_log)


def cipher(
    store: KeysetTopic, folder: Path, has_encoded: Callable[[], bool] = lambda: False
) -> tuple[NodeCipher, KeysetFile]:
    """Return the cipher of a node with its own data folder, and the copy of the keyset there."""
    folder.mkdir()
    copy = KeysetFile(folder)
    return NodeCipher(SECRET, store, copy, has_encoded=has_encoded), copy


def values(servers: str, topic: str) -> list[bytes | None]:
    return [each.value() for each in consumed(servers, topic)]


def is_there(servers: str, topic: str) -> bool:
    return topic in admin(servers).list_topics(timeout=30).topics


def test_the_topic_is_made_by_those_who_start_or_write_and_not_by_those_who_read(
    kafka: Broker, topic: str
) -> None:
    store = keysets(kafka.address, topic)
    assert store.read() is None
    assert not is_there(kafka.address, topic)
    store.make()
    assert is_there(kafka.address, topic)
    store.make()
    assert store.read() is None
    other = f"{topic}-other"
    assert keysets(kafka.address, other).write(b"1") == []
    assert [(each.key(), each.value()) for each in consumed(kafka.address, other)] == [(KEY, b"1")]


def test_the_newest_keyset_counts_and_records_of_other_keys_and_deleted_ones_do_not(
    kafka: Broker, topic: str
) -> None:
    store, producer = keysets(kafka.address, topic), Producer({"bootstrap.servers": kafka.address})
    for value in (b"1", b"2"):
        store.write(value)
    producer.produce(topic, b"of another tenant", b"another")
    assert producer.flush(30) == 0
    assert store.read() == b"2"
    producer.produce(topic, None, KEY)
    assert producer.flush(30) == 0
    assert store.read() is None


def test_a_writer_learns_what_others_have_written_since_it_read(kafka: Broker, topic: str) -> None:
    one, other = keysets(kafka.address, topic), keysets(kafka.address, topic)
    assert one.write(b"1") == []
    assert other.read() == b"1"
    for value in (b"2", b"3"):
        assert one.write(value) == []
    assert other.write(b"4") == [b"2", b"3"]
    assert other.write(b"5") == []
    assert one.read() == b"5"


def test_a_topic_that_was_recreated_is_read_from_its_beginning(kafka: Broker, topic: str) -> None:
    store, other = keysets(kafka.address, topic), keysets(kafka.address, topic)
    for value in (b"1", b"2", b"3"):
        store.write(value)
    assert store.read() == b"3"
    delete_topic(kafka.address, topic)
    assert store.read() is None
    other.read()
    other.write(b"new")
    assert store.read() == b"new"


def test_a_write_whose_answer_is_lost_is_found_in_the_topic_and_not_repeated(
    odd: OddBroker, topic: str
) -> None:
    store, other = keysets(odd.proxy.address, topic), keysets(odd.address, topic)
    store.make()
    odd.proxy.lose_answer()
    assert store.write(b"1") == []
    odd.proxy.lose_answer(then=lambda: other.write(b"other"))
    assert store.write(b"2") == [b"other"]
    assert values(odd.address, topic) == [b"1", b"2", b"other"]


def test_a_write_that_never_reaches_the_broker_is_repeated_a_few_times(odd: OddBroker, topic: str) -> None:
    store = keysets(odd.proxy.address, topic)
    store.make()
    for _ in range(2):
        odd.proxy.lose_append()
    assert store.write(b"1") == []
    for _ in range(3):
        odd.proxy.lose_append()
    with pytest.raises(OutcomeUnknown):
        store.write(b"2")
    assert values(odd.address, topic) == [b"1"]


def test_nodes_that_write_their_first_keysets_at_once_have_the_keys_of_both(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    other, _ = cipher(keysets(kafka.address, topic), tmp_path / "other")
    texts: list[str] = []

    def has_encoded() -> bool:
        """Answer a node that has found no keyset; the other one writes its own now."""
        texts.append(other.encrypt(PLAIN))
        return False

    one, copy = cipher(keysets(kafka.address, topic), tmp_path / "one", has_encoded)
    texts.append(one.encrypt(PLAIN))
    assert [one.decrypt(each) for each in texts] == [PLAIN] * 2
    *_, last = values(kafka.address, topic)
    assert last == copy.read(), "readers have both keys, too"
    third, _ = cipher(keysets(kafka.address, topic), tmp_path / "third")
    third.start()
    assert [third.decrypt(each) for each in texts] == [PLAIN] * 2


def test_a_node_that_does_not_reach_kafka_starts_with_its_copy_and_writes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = keysets(f"127.0.0.1:{free_port()}", "encoders", start_timeout_s=0.5)
    keyset = Keyset.new()
    first, _ = cipher(store, tmp_path / "first")
    first.start()
    assert first.is_blocked, "it has no copy"
    node, copy = cipher(store, tmp_path / "node")
    copy.write(keyset.dumps(SECRET.new))
    node.start()
    assert {each.levelname for each in caplog.records} == {"WARNING"}
    assert node.decrypt(keyset.encrypt(PLAIN)) == PLAIN
    with pytest.raises(Unreachable):
        node.reload_and_rotate()
    assert node.last_error == "", "it is tried again, and no fault of the keyset"
