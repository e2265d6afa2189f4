"""Ids under ZooKeeper: the larger of its counter and the log's reservations counts."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
from kazoo.client import KazooClient

from deploy.local.broker import Broker
from deploy.local.zookeeper import ZooKeeper
from registry.domain.model import ID_MAX
from tests.support.kafka_topics import make_topic
from tests.support.running import Registry, until

COUNTER = "/schema_id_counter"


def registered(registry: Registry, name: str) -> int:
    schema = f'{{"type":"record","name":"{name}","fields":[]}}'
    answer = httpx.post(f"{registry.url}/subjects/{name}/versions", json={"schema": schema}, timeout=60)
    found: int = answer.json()["id"]
    return found


def import_and_purge(registry: Registry, schema_id: int) -> None:
    with httpx.Client(base_url=registry.url, timeout=60) as http:
        http.put("/mode/i", json={"mode": "IMPORT"}).raise_for_status()
        schema = {"schema": '"bytes"', "id": schema_id, "version": 1}
        http.post("/subjects/i/versions", json=schema).raise_for_status()
        for query in ("", "?permanent=true"):
            http.delete(f"/subjects/i{query}").raise_for_status()


def test_ids_go_on_above_the_counter_and_the_counter_goes_along(
    kafka: Broker, zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    chroot = f"/{uuid4().hex[:8]}"
    client = KazooClient(zookeeper.address)
    client.start()
    client.create(chroot + COUNTER, b"1000", makepath=True)
    registry = Registry(
        tmp_path / "data",
        *("--kafka", kafka.address, "--topic", make_topic(kafka.address), "--readers", "1"),
        *("--election", "zookeeper", "--zookeeper", zookeeper.address + chroot),
    ).wait()
    try:
        assert [registered(registry, name) for name in "ab"] == [1001, 1002]
        until(lambda: client.get(chroot + COUNTER)[0] == b"1020", 30, "the counter to go along")
        import_and_purge(registry, ID_MAX)
        until(lambda: client.get(chroot + COUNTER)[0] == b"%d" % ID_MAX, 30, "the counter to be at its end")
        assert registered(registry, "c") == 1021, "the first id that was never reserved"
        released = httpx.post(f"{registry.url}/admin/ids/release", json={"from": ID_MAX}, timeout=60)
        assert released.json()["reserved"] == 1100, released.text
        until(lambda: client.get(chroot + COUNTER)[0] == b"1100", 30, "the counter to go back")
        assert registered(registry, "d") == 1101, "above what is reserved"
    finally:
        assert registry.stop() == 0, registry.output
        client.stop()
        client.close()
