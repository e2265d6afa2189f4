"""``registrar check --decode`` where no message is read; ``snapshots/test_spark.py`` reads some by Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.local.broker import Broker
from tests.process.cli.running_verbs import verb
from tests.process.snapshots import counting
from tests.support.kafka_topics import make_topic
from tests.support.running import Served, free_port


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "new.avsc"
    path.write_text('"int"')
    return path


def test_a_topic_without_messages_and_one_that_does_not_exist_are_distinguished(
    kafka: Broker, registry: Served, file: Path
) -> None:
    words = ("check", str(file), "--decode", "--url", registry.url, "--kafka", kafka.address, "--topic")
    empty = make_topic(kafka.address)
    done = verb(*words, empty)
    assert (done.status, done.out) == (0, f"0 of 0 values of {empty} fail to decode\n")
    done = verb(*words, empty, "--keys", "--sample", "3", "--json")
    assert (done.status, done.json["accepted"]) == (0, True)
    assert done.json["decoded"] == {
        "topic": empty, "side": "key", "sample": 3, "messages": 0, "nulls": 0, "failures": 0,
        "failed": [], "unread": [], "uncommitted": [],
    }  # fmt: skip
    done = verb(*words, "no-such-topic")
    assert (done.status, done.out) == (2, "")
    assert "there is no topic no-such-topic, or this client may not describe it" in done.err


def test_messages_of_an_open_transaction_do_not_count_and_are_no_fault(
    kafka: Broker, registry: Served, file: Path
) -> None:
    words = ("check", str(file), "--decode", "--url", registry.url, "--kafka", kafka.address, "--topic")
    busy = make_topic(kafka.address, {"cleanup.policy": "delete"})
    with counting.open_transaction(kafka.address, busy):
        done = verb(*words, busy)
        assert (done.status, done.out) == (0, f"0 of 0 values of {busy} fail to decode\n")
        assert "partition 0 was read up to offset 0, where an open transaction begins" in done.err
        done = verb(*words, busy, "--json")
    assert (done.status, done.json["accepted"]) == (0, True)
    assert done.json["decoded"]["uncommitted"] == [{"partition": 0, "offset": 0}]


def test_without_brokers_nothing_is_read(registry: Served, file: Path) -> None:
    words = ("check", str(file), "--topic", "t", "--decode", "--url", registry.url)
    done = verb(*words)
    assert (done.status, done.out) == (2, "")
    assert "--decode needs --kafka HOST:PORT" in done.err


def test_a_new_schema_that_does_not_parse_or_is_of_another_subject_reads_nothing(
    registry: Served, file: Path
) -> None:
    # Nothing listens there, and nothing is asked.
    kafka = f"127.0.0.1:{free_port()}"
    words = ("check", str(file), "--topic", "t", "--decode", "--url", registry.url, "--kafka", kafka)
    file.write_text('{"type": "record", "name": "R"}')
    done = verb(*words, "--json")
    assert done.status == 1
    assert str(file) in json.loads(done.out)["error"]["message"]
    done = verb("check", str(file.parent), *words[2:])
    assert done.status == 2
    assert f"{file.parent} has no schema of the subject t-value" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--decode"], "--decode and --keys need a --topic"),
        (["--keys"], "--decode and --keys need a --topic"),
        (["--topic", "t", "--sample", "1"], "--sample needs --decode"),
        (["--topic", "t", "--decode", "--offline"], "--used and --topic need a registry"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(file: Path, words: list[str], says: str) -> None:
    done = verb("check", str(file), *words)
    assert (done.status, done.out) == (2, "")
    assert says in done.err
