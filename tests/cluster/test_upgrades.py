"""Upgrades from stores of former releases: whatever happens to Kafka, the last copy stays and is served."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.process import free_port
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry
from registry.domain.model import Subject
from registry.domain.rows.view import scan
from registry.store import layout
from registry.store.examination import open_rows
from registry.store.layout import read_current
from registry.store.offline import OfflineStore
from tests.former_stores import stores
from tests.process.node.stations import on_kafka
from tests.support.kafka_topics import delete_topic, make_topic
from tests.support.running import Registry, until

pytestmark = pytest.mark.logs_errors(
    "Kafka does not answer",
    r"the topic \S+ does not exist",
    "but the store was built from",
    "It is kept, and nothing is served until",
    r"ended \(SIGKILL\)",
)

WAIT_S = 60.0
# The subject refers, version 1; its id in every store.
ID = 3
# Enough records that a rebuild takes longer than killing it.
MANY = 20_000


@pytest.fixture
def topic(kafka: Broker) -> str:
    """A topic that holds the log of the stores."""
    name = f"upgraded-{uuid4().hex[:8]}"
    make_topic(kafka.address, name=name)
    with closing(on_kafka(kafka.address, name)) as log:
        log.claim()
        log.append(stores.entries("full"))
    return name


def identity(kafka: Broker, topic: str) -> str:
    with closing(on_kafka(kafka.address, topic)) as log:
        return log.identity


def start(address: str, data: Path, topic: str, port: int | None = None) -> Registry:
    where = ("--kafka", address, "--topic", topic, "--group", topic, "--readers", "1")
    times = ("--request-timeout-s", "5", "--confirm-timeout-s", "2")
    return Registry(data, *where, *times, port=port)


def nowhere() -> str:
    """Return an address at which no broker answers."""
    return f"127.0.0.1:{free_port()}"


def get(registry: Registry, path: str) -> httpx.Response | None:
    try:
        return httpx.get(registry.url + path, timeout=30)
    except httpx.TransportError:
        return None


def code(registry: Registry, path: str) -> int:
    answer = get(registry, path)
    return 0 if answer is None else answer.status_code


def serves(registry: Registry) -> bool:
    return code(registry, f"/schemas/ids/{ID}") == httpx.codes.OK


def reasons(registry: Registry) -> str:
    answer = get(registry, "/node")
    return "" if answer is None or answer.is_error else " ".join(answer.json()["reasons"])


def names(data: Path) -> set[str]:
    return {each.name for each in (data / "store").iterdir()} - {"lock"}


def is_kept(data: Path, content: bytes) -> bool:
    """Return true if the former store is the current one and as it was."""
    current = read_current(data / "store")
    same = (data / "store" / "store-1" / "data.mdb").read_bytes() == content
    return current is not None and current.name == "store-1" and same


@pytest.mark.parametrize("version", [stores.FOLDS[-1], pytest.param(1, marks=pytest.mark.long)])
def test_a_former_store_is_served_until_the_log_was_read_again(
    kafka: Broker, topic: str, tmp_path: Path, version: int
) -> None:
    data = tmp_path / "data"
    kind = "full" if version == stores.FOLDS[-1] else "plain"
    folder = stores.place(data / "store", version, kind, identity(kafka, topic))
    content = (folder / "data.mdb").read_bytes()
    registry = start(nowhere(), data, topic)
    try:
        until(lambda: serves(registry), WAIT_S, "the former store to be served")
        assert code(registry, "/health/ready") == httpx.codes.SERVICE_UNAVAILABLE
        assert code(registry, "/health/started") == httpx.codes.OK
        assert code(registry, "/subjects/missing/versions") == httpx.codes.SERVICE_UNAVAILABLE
        until(lambda: "former release" in reasons(registry), WAIT_S, "the reason")
        assert is_kept(data, content)
        assert names(data) == {"current", "store-1"}
    finally:
        registry.stop()
    assert is_kept(data, content)
    registry = start(kafka.address, data, topic, port=registry.port).wait()
    try:
        status: dict[str, Any] = httpx.get(f"{registry.url}/node", timeout=30).json()
        assert status["applied"] >= len(stores.entries("full"))
        assert code(registry, f"/schemas/ids/{ID}") == httpx.codes.OK
        resource = httpx.get(f"{registry.url}/associations/resources/ns/orders", timeout=30)
        assert [each["subject"] for each in resource.json()] == ["a"], resource.text
        until(lambda: "store-1" not in " ".join(names(data)), WAIT_S, "the former store to be removed")
        assert names(data) == {"current", "store-2"}
    finally:
        registry.stop()


def test_a_former_store_outlives_its_topic_and_another_of_that_name(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    folder = stores.place(data / "store", stores.FOLDS[-1], "full", identity(kafka, topic))
    (data / "store" / "store-7.other-log").mkdir()
    stores.place(tmp_path / "another", 1, "plain", "another")
    (tmp_path / "another" / "store-1" / "data.mdb").rename(data / "store/store-7.other-log/data.mdb")
    with open_rows(folder) as view:
        rows = dict(scan(view, b""))
    delete_topic(kafka.address, topic)
    registry = start(kafka.address, data, topic)
    try:
        until(lambda: "former release" in reasons(registry), WAIT_S, "the node to say what it serves")
        assert serves(registry), "no other topic gives the id another meaning"
        make_topic(kafka.address, name=topic)
        until(lambda: "built from" in reasons(registry), WAIT_S, "the other topic to be noticed")
        assert code(registry, "/health/ready") == httpx.codes.SERVICE_UNAVAILABLE
    finally:
        registry.stop()
    registry = start(kafka.address, data, topic, port=registry.port)
    try:
        until(lambda: "built from" in reasons(registry), WAIT_S, "the other topic to be noticed again")
        assert code(registry, f"/schemas/ids/{ID}") == httpx.codes.SERVICE_UNAVAILABLE
    finally:
        registry.stop()
    with OfflineStore(data / "store") as store, store.view() as view:
        store.check()
        assert dict(scan(view, b"")) == rows
    assert names(data) == {"current", "store-1", "store-7.other-log"}


# In make test, tests/contract/store/test_store.py kills a process while one store replaces another.
@pytest.mark.long
def test_a_node_killed_during_a_rebuild_serves_the_former_store_without_kafka(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with closing(on_kafka(kafka.address, topic)) as log:
        log.claim()
        for first in range(0, MANY, 1000):
            log.append([_version(number) for number in range(first, first + 1000)])
        folder = stores.place(data / "store", stores.FOLDS[-1], "full", log.identity)
    content = (folder / "data.mdb").read_bytes()
    registry = start(kafka.address, data, topic)
    until(lambda: "next" in names(data), WAIT_S, "the rebuild to begin")
    registry.kill()
    assert is_kept(data, content)
    registry = start(nowhere(), data, topic, port=registry.port)
    try:
        until(lambda: serves(registry), WAIT_S, "the former store to be served")
        assert code(registry, "/health/ready") == httpx.codes.SERVICE_UNAVAILABLE
        assert code(registry, f"/schemas/ids/{MANY}") != httpx.codes.OK
    finally:
        registry.stop()
    registry = start(kafka.address, data, topic, port=registry.port).wait()
    try:
        assert code(registry, f"/schemas/ids/{MANY}") == httpx.codes.OK
        until(lambda: names(data) == {"current", "store-2"}, WAIT_S, "the former store to be removed")
    finally:
        registry.stop()


def _version(number: int) -> Entry:
    subject = Subject(".", f"subject-{number}")
    text = f'{{"type":"fixed","name":"f","size":{number}}}'
    value = values.schema_value(subject, 1, 100 + number, text)
    return Entry(records.schema_key(subject, 1), value)


# In make test, tests/contract/store/test_store.py has the other two.
@pytest.mark.parametrize(
    "what", ["newer", *(pytest.param(each, marks=pytest.mark.long) for each in ("damaged", "incomplete"))]
)
def test_a_store_that_cannot_be_served_waits_for_its_log(
    kafka: Broker, topic: str, tmp_path: Path, what: str
) -> None:
    data = tmp_path / "data"
    folder = stores.place(data / "store", 3, "full", identity(kafka, topic))
    if what == "damaged":
        (folder / "data.mdb").write_bytes(bytes(8192))
    else:
        stores.write_meta(folder, {layout.META_FOLD: b"99"} if what == "newer" else {layout.META_BUILT: b"0"})
    content = (folder / "data.mdb").read_bytes()
    registry = start(nowhere(), data, topic)
    try:
        until(lambda: "nothing is served until its log" in reasons(registry), WAIT_S, "the reason")
        assert code(registry, f"/schemas/ids/{ID}") == httpx.codes.SERVICE_UNAVAILABLE
        assert code(registry, "/health/started") == httpx.codes.SERVICE_UNAVAILABLE
        assert is_kept(data, content)
    finally:
        registry.stop()
    assert names(data) == {"current", "store-1"}
