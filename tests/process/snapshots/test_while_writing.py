"""Snapshots taken while 32 clients write: each is the state at its offset, with nothing lost or doubled."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

import httpx
import orjson
import pytest

from deploy.local.broker import Broker
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.rows import digest
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from registry.log.contract import Log
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from tests.process.snapshots.asking import KIND, ask, told, until_begun, until_it_is
from tests.support.running import Registry, until
from tests.support.sample_snapshots import rows_in

CLIENTS = 32
# Writes of each client after the last snapshot was requested.
AFTER = 3


class Acknowledged(NamedTuple):
    """A registration that was acknowledged."""

    text: str
    id: int
    # The write has an offset below this one.
    offset: int


class Clients:
    """Clients that register, delete and change configs, each through one node."""

    def __init__(self, nodes: list[Registry]) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[str] = []
        self.done = 0
        self._enough = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(number, nodes[number % len(nodes)]))
            for number in range(CLIENTS)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        for each in self._threads:
            each.join()

    def _write(self, number: int, node: Registry) -> None:
        chance = random.Random(number)
        with httpx.Client(base_url=node.url, timeout=60, headers={"content-type": KIND}) as http:
            left = AFTER
            for turn in count():
                left -= self._enough.is_set()
                if left < 0:
                    return
                # Some subjects belong to one client, others to all of them.
                subject = f"s{chance.choice((number, chance.randrange(4)))}"
                text = _schema(f"f{number}_{turn}")
                body = orjson.dumps({"schema": text})
                answer = http.post(f"/subjects/{subject}/versions", content=body)
                if answer.status_code == 200:
                    offset = int(answer.headers["x-registry-offset"])
                    self.acknowledged.append(Acknowledged(text, answer.json()["id"], offset))
                else:
                    self.failed.append(answer.text)
                if turn % 7 == 3:
                    http.delete(f"/subjects/{subject}/versions/latest")
                if turn % 9 == 5:
                    http.put(f"/config/{subject}", content=b'{"compatibility":"NONE"}')
                if turn == 13:
                    http.delete(f"/subjects/s{number}")
                self.done += 1

    def get_on(self) -> None:
        """Return when each client has written something more, on average."""
        until(lambda done=self.done: self.done >= done + CLIENTS, 60, "the clients to get on")


def _schema(field: str) -> str:
    fields = [{"name": field, "type": "int", "default": 0}]
    return orjson.dumps({"type": "record", "name": "R", "fields": fields}).decode()


class Running(NamedTuple):
    nodes: list[Registry]
    topic: str
    kafka: str

    def log(self) -> Log:
        """Return the log, once the nodes have ended."""
        if not self.kafka:
            return EmbeddedLog(self.nodes[0].data / "log")
        return KafkaLog(
            Security(), self.kafka, self.topic, transactional_id=self.topic, append_timeout_s=10.0
        )


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.long)])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    flags = ["--snapshots", str(tmp_path / "snapshots")]
    topic, address = f"writing-{secrets.token_hex(4)}", ""
    if request.param == "kafka":
        broker: Broker = request.getfixturevalue("kafka")
        address = broker.address
        flags += ["--kafka", address, "--topic", topic, "--group", topic, "--replication-factor", "1"]
    names = ["n0", "n1"] if address else ["n0"]
    nodes = [Registry(tmp_path / name, "--readers", "1", *flags) for name in names]
    try:
        yield Running([each.wait() for each in nodes], topic, address)
    finally:
        for each in nodes:
            each.stop()


def read_all(log: Log) -> list[Record]:
    found: list[Record] = []
    at, end = 0, log.query_end(10)
    while at < end:
        log.wait(at, 5)
        fetched = log.read(at, 1000, 1 << 20)
        found += fetched.records
        at = fetched.next
    return found


def fold(view: DictView, records: Iterable[Record]) -> DictView:
    for record in records:
        view.commit(apply(view, record))
    return view


def contents(rows: dict[bytes, bytes]) -> set[tuple[int, str]]:
    """Return ids and texts of all versions, soft-deleted ones too."""
    found = set()
    for key, value in rows.items():
        if key.startswith(b"V"):
            row = VersionRow.unpack(value)
            found.add((row.schema_id, orjson.loads(row.schema.removeprefix(b',"schema":'))))
    return found


# In make test, test_requests.py asks nodes for snapshots, and test_local.py folds them with what came later.
@pytest.mark.long
def test_snapshots_while_32_clients_write(running: Running) -> None:
    asked = []
    with Clients(running.nodes) as clients:
        for number in range(3):
            clients.get_on()
            asked.append(ask(running.nodes[number % len(running.nodes)])["id"])
            until_begun(running.nodes[0], asked[-1])
    assert clients.failed == []
    entries = [until_it_is("ready", running.nodes[0], each) for each in asked]
    states = [told(node) for node in running.nodes]
    for node in running.nodes:
        # When one of several stops in order, another one may write a barrier.
        node.kill() if running.kafka else node.stop()

    with closing(running.log()) as log:
        records = read_all(log)
    everything = dict(fold(DictView(), records).rows())
    for state in states:
        assert (state["applied"], state["digest"]) == (records[-1].offset + 1, _digest(everything))
    ids = {each.text: each.id for each in clients.acknowledged}
    assert len(set(ids.values())) == len(ids) == len(clients.acknowledged)
    assert contents(everything) == {(schema_id, text) for text, schema_id in ids.items()}

    assert entries[0]["offset"] < entries[1]["offset"] < entries[2]["offset"] < records[-1].offset
    for entry in entries:
        location = Location.parse(entry["uri"])
        manifest = Manifest.loads(location.read(f"{entry['id']}/manifest.json"))
        rows = rows_in(location, manifest)
        before = [each for each in records if each.offset < manifest.offset]
        assert dict(rows) == dict(fold(DictView(), before).rows())
        assert (manifest.digest, entry["digest"]) == (digest.of_rows(rows), _digest(dict(rows)))
        there = contents(dict(rows))
        assert there >= {
            (each.id, each.text) for each in clients.acknowledged if each.offset <= manifest.offset
        }
        tail = (each for each in records if each.offset >= manifest.offset)
        assert dict(fold(DictView(rows), tail).rows()) == everything


def _digest(rows: dict[bytes, bytes]) -> str:
    return digest.text(digest.of_rows(rows.items()))
