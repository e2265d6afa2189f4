"""``registrar log reseed`` on a real broker: the topic is lost, the store is not, and no id changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from deploy.local.broker import Broker
from registry.domain import reseed
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import Subject
from registry.domain.queries import versions
from registry.domain.rows.memory_views import DictView
from registry.log.contract import Fenced
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.store.open import known_log, open_store
from snapshots.backup import reseed_log
from tests.former_stores.stores import entries, place
from tests.support.running import ROOT, Registry, until
from tests.unit.random_logs import fold, rows_of_log

MAP = 256 << 20
COUNT = 15_000


@pytest.fixture
def topic(kafka: Broker) -> Iterator[str]:
    name = f"schemas-{uuid4().hex[:8]}"
    yield name
    delete(kafka, name)


def admin(kafka: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.address})


def exists(kafka: Broker, topic: str) -> bool:
    return topic in admin(kafka).list_topics(timeout=30).topics


def delete(kafka: Broker, topic: str) -> None:
    if exists(kafka, topic):
        client = admin(kafka)  # The answer needs it to exist still.
        client.delete_topics([topic])[topic].result(30)
        until(lambda: not exists(kafka, topic), 30, "the topic to be gone")


def command(kafka: Broker, topic: str, data: Path, *flags: str) -> list[str]:
    where = ("--kafka", kafka.address, "--topic", topic, "--data", str(data))
    return [sys.executable, "-m", "registry", "log", "reseed", *where, *flags]


def run(kafka: Broker, topic: str, data: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(kafka, topic, data, *flags), cwd=ROOT, capture_output=True, text=True, check=False
    )


def opened(kafka: Broker, topic: str) -> KafkaLog:
    return KafkaLog(
        Security(), kafka.address, topic,
        transactional_id=f"registrar.schema-registry.{topic}", append_timeout_s=30,
    )  # fmt: skip


def store_of(data: Path, identity: str, rows: DictView, applied: int) -> None:
    store, _ = open_store(data / "store", identity, applied, map_bytes=MAP)
    store.commit(list(rows.rows()), applied)
    store.complete()
    store.close()


def many() -> DictView:
    return fold([Record(number, 1, *_version(number)) for number in range(COUNT)])


def _version(number: int) -> Entry:
    subject = Subject(".", f"subject-{number}")
    value = values.schema_value(subject, 1, number + 1, f'"{number}"')
    return Entry(records.schema_key(subject, 1), value)


def register(registry: Registry, subject: str, text: str) -> int:
    answer = httpx.post(f"{registry.url}/subjects/{subject}/versions", json={"schema": text}, timeout=60)
    assert answer.status_code == httpx.codes.OK, answer.text
    return int(answer.json()["id"])


def test_what_one_machine_kept_becomes_a_topic(kafka: Broker, topic: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    alone = Registry(data, "--readers", "1").wait()
    ids = {
        name: register(alone, name, text)
        for name, text in (("a", '"int"'), ("b", '"long"'), (":.c:d", '"int"'))
    }
    httpx.delete(f"{alone.url}/subjects/b", timeout=60).raise_for_status()
    httpx.put(f"{alone.url}/config/a", json={"compatibility": "FULL"}, timeout=60).raise_for_status()
    in_use = run(kafka, topic, data)
    assert in_use.returncode == 1
    assert "is open for writing by process" in in_use.stderr
    assert alone.stop() == 0

    tried = run(kafka, topic, data, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "does not exist; it would be created" in tried.stdout
    assert not exists(kafka, topic)

    done = run(kafka, topic, data)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "verified: the log has the same" in done.stdout
    assert f"registrar serve --data {data} --kafka {kafka.address} --topic {topic}\n" in done.stdout
    with closing(opened(kafka, topic)) as log:
        rows = rows_of_log(log)
    for name, schema_id in ids.items():
        row = versions.get(rows, Subject.parse(name), 1)
        assert row is not None
        assert (row.schema_id, row.deleted) == (schema_id, name == "b")
    assert known_log(data / "store") != log.identity

    again = run(kafka, topic, data)
    assert again.returncode == 0, again.stderr
    assert "already holds all of it" in again.stdout
    assert not list(data.glob("reseeded-*"))

    flags = ("--kafka", kafka.address, "--topic", topic, "--group", topic, "--readers", "1")
    # On a busy machine, confirming reads may take longer than the default allows.
    flags += ("--confirm-timeout-s", "10")
    node = Registry(data, *flags).wait()
    try:
        for name, schema_id in ids.items():
            served = httpx.get(f"{node.url}/subjects/{name}/versions/1?deleted=true", timeout=60)
            assert served.json()["id"] == schema_id
        assert httpx.get(f"{node.url}/config/a", timeout=30).json() == {"compatibilityLevel": "FULL"}
        assert register(node, "e", '"double"') > max(ids.values())
    finally:
        assert node.stop() == 0, node.output


def test_a_topic_that_was_deleted_under_its_store_is_made_anew(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    subject = Subject(".", "a")
    with closing(opened(kafka, topic)) as log:
        log.claim()
        log.append([Entry(records.schema_key(subject, 1), values.schema_value(subject, 1, 17, '"int"'))])
        store_of(tmp_path, log.identity, rows_of_log(log), log.query_end(30))
        former = log.identity
        same = run(kafka, topic, tmp_path)
        assert same.returncode == 1
        assert (
            "is the log that this state was made from. Choose another topic with --topic; or" in same.stderr
        )
    delete(kafka, topic)
    done = run(kafka, topic, tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    with closing(opened(kafka, topic)) as log:
        assert log.identity != former
        found = versions.by_id(rows_of_log(log), ".", 17)
    assert found is not None
    assert found.subject == subject


def test_a_topic_with_anything_else_is_left_alone(kafka: Broker, topic: str, tmp_path: Path) -> None:
    store_of(tmp_path, "former", fold([Record(0, 1, records.context_key(".c"), b"{}")]), 1)
    with closing(opened(kafka, topic)) as log:
        log.claim()
        log.append(
            [
                Entry(
                    records.mode_key(Subject(".", "a")),
                    subject_values.mode_value(Subject(".", "a"), "READONLY"),
                )
            ]
        )
        for flags in (["--dry-run"], []):
            refused = run(kafka, topic, tmp_path, *flags)
            assert refused.returncode == 1
            assert (
                "is not empty, and not what an interrupted run of this command left: it has another record at"
                in refused.stderr
            )
        assert log.append([Entry(records.NOOP_KEY, None)]) == 1, "it was claimed all the same"


def test_a_node_that_writes_elsewhere_is_fenced(kafka: Broker, topic: str, tmp_path: Path) -> None:
    store_of(tmp_path, "former", fold([Record(0, 1, records.context_key(".c"), b"{}")]), 1)
    with closing(opened(kafka, topic)) as log:
        log.claim()
        log.append([Entry(records.BARRIER_KEY, b"{}")])
        assert run(kafka, topic, tmp_path).returncode == 0
        with pytest.raises(Fenced):
            log.append([Entry(records.NOOP_KEY, None)])


def test_killed_in_the_middle_it_goes_on(kafka: Broker, topic: str, tmp_path: Path) -> None:
    rows = many()
    store_of(tmp_path, "former", rows, COUNT)
    for _ in range(10):
        killed_at_the_first_progress(command(kafka, topic, tmp_path))
        with closing(opened(kafka, topic)) as log:
            there = log.query_end(30)
        if there < COUNT:
            break
        delete(kafka, topic)  # It was finished before the kill.
    assert 0 < there < COUNT
    done = run(kafka, topic, tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert f"holds {there} of these records from an interrupted run" in done.stdout
    with closing(opened(kafka, topic)) as log:
        assert log.query_end(30) == COUNT + 1
        assert list(reseed.differences(rows, rows_of_log(log))) == []


def killed_at_the_first_progress(command: list[str]) -> None:
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("writing: "):
                os.kill(process.pid, signal.SIGKILL)
                break


def test_a_record_that_the_topic_does_not_take_is_reported_before_anything_is_written(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    subject = Subject(".", "large")
    value = values.schema_value(subject, 1, 1, '"' + "x" * 2_000_000 + '"')
    store_of(tmp_path, "former", fold([Record(0, 1, records.schema_key(subject, 1), value)]), 1)
    refused = run(kafka, topic, tmp_path)
    assert refused.returncode == 1
    assert "raise max.message.bytes" in refused.stderr
    assert "large" in refused.stderr
    with closing(opened(kafka, topic)) as log:
        assert log.query_end(30) == 0


def test_an_empty_state_is_only_written_on_request(kafka: Broker, topic: str, tmp_path: Path) -> None:
    store_of(tmp_path, "former", DictView(), 7)
    refused = run(kafka, topic, tmp_path)
    assert refused.returncode == 1
    assert "is empty; to write an empty state nevertheless, give --empty" in refused.stderr
    assert not exists(kafka, topic)
    done = run(kafka, topic, tmp_path, "--empty")
    assert done.returncode == 0, done.stderr
    with closing(opened(kafka, topic)) as log:
        assert log.query_end(30) == 1


def test_the_store_to_write_has_to_be_named_if_there_are_several(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    """Also one of a former release that was set aside: it may be the last copy."""
    store_of(tmp_path, "former", DictView(), 0)
    place(tmp_path / "store", 1, "full", name="store-7.outdated")
    (tmp_path / "store" / "current").write_text("store-1 former\n")
    applied = len(entries("full"))
    refused = run(kafka, topic, tmp_path)
    assert refused.returncode == 1
    assert f"(up to offset 0): store-7.outdated (up to offset {applied})." in refused.stderr
    assert not exists(kafka, topic)
    done = run(kafka, topic, tmp_path, "--store", "store-7.outdated")
    assert done.returncode == 0, done.stderr + done.stdout
    log_then = enumerate(entries("full"))
    expected = fold([Record(offset, 1000 + offset, *entry) for offset, entry in log_then])
    with closing(opened(kafka, topic)) as log:
        assert list(reseed.differences(expected, rows_of_log(log))) == []


def test_a_store_that_was_not_built_to_the_end_is_only_written_if_it_is_named(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    store, _ = open_store(tmp_path / "store", "former", 1, map_bytes=MAP)
    store.commit(list(fold([Record(0, 1, records.context_key(".c"), b"{}")]).rows()), 1)
    store.close()
    refused = run(kafka, topic, tmp_path)
    assert refused.returncode == 1
    assert "was not yet read to the end of its log" in refused.stderr
    assert run(kafka, topic, tmp_path, "--store", "store-1").returncode == 0


def test_batches_hold_what_a_log_takes_at_once() -> None:
    entries = [Entry(b"k", b"v" * size) for size in (reseed_log.BATCH_BYTES, 5, 5, reseed_log.BATCH_BYTES)]
    batches = list(reseed_log._batches(iter(entries)))
    assert [len(batch) for batch in batches] == [1, 2, 1]
