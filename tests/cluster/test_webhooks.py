"""Webhooks of a cluster whose primary is killed: no event is lost, and at most one is repeated."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import TopicPartition

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from registry.domain.log_format import records
from registry.domain.log_format.records import Entry
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from registry.node.webhooks.pages import EventPages
from tests.support.kafka_topics import admin, make_topic
from tests.support.receiver import Receiver
from tests.support.running import PATIENT, until

COUNT = 60
SETTINGS = (
    *("--topic", "webhooks", "--group", "webhooks", "--replication-factor", "1", "--peer-secret", "p" * 16),
    *("--webhooks-secret", "w" * 32, "--webhooks-http", "true", "--webhooks-allow", "localhost"),
)


@pytest.fixture
def cluster(kafka: Broker, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path, 3, settings=SETTINGS, kafka=kafka.address, front_by="")
    try:
        yield found.start().wait()
    finally:
        found.stop()


def test_pages_report_from_where_a_log_has_lost_its_head(kafka: Broker) -> None:
    topic = make_topic(kafka.address, {"cleanup.policy": "compact,delete"})
    options = TopicOptions(allow_delete_policy=True)
    log = KafkaLog(
        Security(), kafka.address, topic, transactional_id=topic, append_timeout_s=20.0, options=options
    )

    async def asked() -> list[tuple[int, int, int]]:
        pages = EventPages(log, lambda: 10)
        found = [await pages.after(offset) for offset in (0, 3, 5, 7)]
        pages.close()
        return [(page.start, page.next, page.oldest) for page in found]

    try:
        log.claim()
        log.append([Entry(records.context_key(f".c{number}"), b"{}") for number in range(10)])
        client = admin(kafka.address)
        client.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result(30)
        assert asyncio.run(asked()) == [(0, 5, 5), (0, 5, 5), (5, 10, 0), (5, 10, 0)]
    finally:
        log.close()


@pytest.mark.long
def test_an_election_loses_no_event_and_repeats_at_most_the_last(cluster: Cluster) -> None:
    primary = cluster.primary()
    others = [node for node in cluster.nodes if node is not primary]
    subjects = [f"s{number:03}" for number in range(COUNT)]
    failures: list[str] = []

    def register() -> None:
        with httpx.Client(timeout=PATIENT) as http:
            for number, subject in enumerate(subjects):
                url = f"{others[number % 2].url}/subjects/{subject}/versions"
                answer = http.post(url, json={"schema": '"string"'})
                if not answer.is_success:
                    failures.append(answer.text)

    with Receiver() as receiver, httpx.Client(base_url=others[0].url, timeout=PATIENT) as http:
        body = {"url": receiver.url, "kinds": ["version_registered"]}
        put = http.put("/admin/webhooks/all", json=body)
        assert put.json()["secret"].startswith("whsec_")
        writing = threading.Thread(target=register)
        writing.start()
        try:
            until(lambda: len(receiver.received) > COUNT // 4, 60, "some events")
            primary.kill()
        finally:
            writing.join()
        assert failures == []
        until(lambda: {*receiver.subjects} == {*subjects}, 60, "all events")

        def settled() -> bool:
            found = http.get("/admin/webhooks/all").json()
            return bool(found.get("lag") == 0 and found["state"] == "delivering")

        until(settled, 60, "the webhook to be delivered")
        counts = Counter(receiver.subjects)
        repeated = [subject for subject, count in counts.items() if count > 1]
        assert len(repeated) <= 1
        assert all(counts[subject] == 2 for subject in repeated)
        assert list(dict.fromkeys(receiver.subjects)) == subjects
        message_ids = {each.headers["webhook-id"] for each in receiver.received}
        assert len(message_ids) == COUNT, "a repeated event keeps its id"
