"""The audit log of running registries: complete, in one place for all processes, through rotation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Consumer

from deploy.local.broker import Broker
from tests.support.kafka_topics import make_topic
from tests.support.narrow_pipe import drain, narrow_pipe
from tests.support.running import PATIENT, Registry, until

HOSTILE = ['x","event":"file', "\u2028{}\u2029", 'x\n{"event":"request"}\x1b[2J']
POLICIES = '[[policy]]\nsubjects = ["closed"]\nregister = []\n'


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text().splitlines()]


def register(registry: Registry, subject: str, schema: str = '"string"') -> httpx.Response:
    url = f"{registry.url}/subjects/{subject}/versions"
    return httpx.post(url, json={"schema": schema}, timeout=PATIENT)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    policies = tmp_path / "policies.toml"
    policies.write_text(POLICIES)
    registry = Registry(
        tmp_path / "data",
        *("--readers", "2", "--policies", str(policies)),
        *("--audit-log", str(tmp_path / "audit.jsonl")),
    )
    try:
        yield registry.wait()
        assert registry.stop() == 0, registry.output
        assert "Traceback" not in registry.output
    finally:
        registry.kill()


def test_writes_and_refusals_of_all_processes_are_in_one_file(registry: Registry, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    replies = [register(registry, f"s{at}") for at in range(20)] + [register(registry, "closed")]
    requests = [each for each in entries(audit) if each["event"] == "request"]
    assert [each["request_id"] for each in requests] == [each.headers["x-request-id"] for each in replies]
    assert [each["offset"] for each in requests[:20]] == [
        int(each.headers["x-registry-offset"]) for each in replies[:20]
    ]
    assert (requests[20]["subject"], requests[20]["error_code"], requests[20]["outcome"]) == (
        "closed", 40381, "refused",
    )  # fmt: skip
    assert {each["address"] for each in requests} == {"127.0.0.1"}


def test_a_new_content_of_a_file_of_rules_is_recorded_once(registry: Registry, tmp_path: Path) -> None:
    audit, policies = tmp_path / "audit.jsonl", tmp_path / "policies.toml"

    def hashes() -> list[str]:
        return [each["sha256"] for each in entries(audit) if each["event"] == "file"]

    (first,) = hashes()
    policies.write_text("")
    until(lambda: len(hashes()) == 2, 30, "the new content to be recorded")
    policies.write_text(POLICIES)
    until(lambda: len(hashes()) == 3, 30, "the old content to be recorded again")
    assert hashes()[2] == first


def test_after_rotation_entries_go_to_the_new_file(registry: Registry, tmp_path: Path) -> None:
    audit, rotated = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    register(registry, "before")
    audit.rename(rotated)

    def written() -> bool:
        register(registry, f"after{len(rotated.read_bytes())}")
        return audit.exists() and any(each.get("subject") for each in entries(audit))

    until(written, 30, "an entry in the new file")
    assert "before" in {each.get("subject") for each in entries(rotated)}


def test_hostile_names_cannot_forge_an_entry(registry: Registry, tmp_path: Path) -> None:
    for subject in HOSTILE:
        register(registry, quote(subject, safe=""))
    found = [each for each in entries(tmp_path / "audit.jsonl") if each["event"] == "request"]
    assert [each["subject"] for each in found] == HOSTILE


def test_a_file_that_cannot_be_written_refuses_the_start(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data", "--audit-log", str(tmp_path / "missing" / "audit.jsonl"))
    until(lambda: registry.process.poll() is not None, 30, "the start to be refused")
    assert registry.process.returncode != 0
    assert f"cannot write the audit log {tmp_path}/missing/audit.jsonl: No such file" in registry.output


@pytest.mark.logs_errors("cannot write to the audit log /dev/full")
def test_entries_that_are_lost_are_counted_and_the_writes_are_done(tmp_path: Path) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text(POLICIES)
    registry = Registry(
        tmp_path / "data",
        *("--readers", "2", "--audit-log", "/dev/full", "--policies", str(policies)),
    )
    try:
        registry.wait()
        for at in range(5):
            register(registry, f"s{at}").raise_for_status()
        # One more is for the file of policies.
        until(lambda: lost(registry) == 6, 30, "the count of all processes")
        assert "cannot write to the audit log /dev/full: No space left on device" in registry.output
        assert registry.stop() == 0
    finally:
        registry.kill()


def lost(registry: Registry) -> float:
    metrics = httpx.get(f"{registry.url}/metrics", timeout=PATIENT).text
    (found,) = re.findall(r"^registrar_audit_lost_total (\S+)$", metrics, re.MULTILINE)
    return float(found)


@pytest.mark.logs_errors(r"did not accept \d+ audit entries")
def test_entries_go_to_a_topic_except_those_that_it_cannot_hold(kafka: Broker, tmp_path: Path) -> None:
    topic = make_topic(kafka.address)
    audit = make_topic(kafka.address, {"cleanup.policy": "delete", "max.message.bytes": "4096"})
    registry = Registry(
        tmp_path / "data",
        *("--kafka", kafka.address, "--topic", topic, "--replication-factor", "1"),
        *("--audit-log", f"kafka:{audit}"),
    )
    try:
        registry.wait()
        replies = [register(registry, f"s{at}") for at in range(5)]
        assert register(registry, quote("\u2028" * 1000, safe="")).status_code == 200
        replies += [register(registry, f"s{at}") for at in range(5, 10)]
        until(lambda: lost(registry) == 1, 30, "the long entry to be refused")
        assert registry.stop() == 0, registry.output
    finally:
        registry.kill()
    found = [json.loads(each) for each in records(kafka.address, audit, len(replies))]
    assert sorted(each["request_id"] for each in found) == sorted(
        each.headers["x-request-id"] for each in replies
    )


def records(address: str, topic: str, count: int) -> list[bytes]:
    """Return the first records of a topic, in the order of the log."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []

    def arrived() -> bool:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            found.append(message.value() or b"")
        return len(found) == count

    try:
        until(arrived, 60, f"{count} records")
    finally:
        consumer.close()
    return found


@pytest.mark.logs_errors("has accepted no audit entry")
def test_a_destination_that_hangs_stops_no_writes(tmp_path: Path) -> None:
    reading = narrow_pipe(tmp_path / "audit")
    registry = Registry(tmp_path / "data", "--readers", "1", "--audit-log", str(tmp_path / "audit"))
    try:
        registry.wait()
        for at in range(20):
            register(registry, "s" * 1000 + str(at)).raise_for_status()
        assert registry.output.count("responses no longer wait for it") == 1
        lines = 0

        def written() -> bool:
            nonlocal lines
            lines += drain(reading).count(b"\n")
            return lines >= 20

        until(written, 30, "the entries that waited")
        assert lost(registry) == 0
        assert registry.stop() == 0
    finally:
        registry.kill()
        os.close(reading)


def test_a_destination_that_is_required_and_hangs_stops_writes(tmp_path: Path) -> None:
    reading = narrow_pipe(tmp_path / "audit")
    required = ("--audit-log", str(tmp_path / "audit"), "--audit-required", "true")
    registry = Registry(tmp_path / "data", "--readers", "1", *required)
    try:
        registry.wait()
        names = ["s" * 1000 + str(at) for at in range(20)]

        def writes() -> None:
            for each in names:
                register(registry, each).raise_for_status()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(writes)
            url, counts = f"{registry.url}/subjects", list[int]()

            def hangs() -> bool:
                counts.append(len(httpx.get(url, timeout=PATIENT).json()))
                return counts[-1] > 3 and counts[-5:] == [counts[-1]] * 5

            until(hangs, 30, "the pipe to be full")
            assert not writing.done()

            def answered() -> bool:
                drain(reading)
                return writing.done()

            until(answered, 30, "the writes to be answered")
            writing.result()
        assert registry.stop() == 0
    finally:
        registry.kill()
        os.close(reading)
