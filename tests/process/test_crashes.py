"""``kill -9`` of any process at any moment: no acknowledged write is lost, and no id is assigned twice."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from pathlib import Path

import httpx
import pytest

from tests.process.test_lifecycle import alive, children
from tests.support.running import PATIENT, Registry, until

WRITERS = 4
WRITES_BETWEEN_KILLS = 40
KILLS = 2
FLAGS = ("--readers", "2")


def schema(name: str) -> str:
    fields = [{"name": f"field{n}", "type": ["null", "long"], "default": None} for n in range(5)]
    return json.dumps({"type": "record", "name": name, "fields": fields})


class Load:
    """Clients that register one new schema after another until they are stopped."""

    def __init__(self, registry: Registry, writers: int) -> None:
        self.registry = registry
        self.acknowledged: list[tuple[str, int]] = []
        self.orders: list[list[int]] = []
        self.wrong: list[str] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _write(self, writer: int) -> None:
        order: list[int] = []
        self.orders.append(order)
        with httpx.Client(timeout=40) as client:
            number = 0
            while not self._stopping.is_set():
                name = f"w{writer}n{number}"
                if self._register(client, name, order):
                    number += 1

    def _register(self, client: httpx.Client, name: str, order: list[int]) -> bool:
        """Return true if it was acknowledged; otherwise it is retried, as clients do."""
        url = f"{self.registry.url}/subjects/{name}/versions"
        try:
            answer = client.post(url, json={"schema": schema(name)})
        except httpx.TransportError:
            self._stopping.wait(0.02)  # It starts again, which takes both cores.
            return False
        if answer.status_code == httpx.codes.OK:
            schema_id = answer.json()["id"]
            order.append(schema_id)
            self.acknowledged.append((name, schema_id))
            return True
        if answer.status_code not in (500, 503) or answer.json()["error_code"] not in (50002, 50003, 503):
            self.wrong.append(answer.text)
        return False


def victims(registry: Registry, what: str) -> list[int]:
    found = children(registry)
    node = [pid for pid, module in found.items() if module == "registry-node"]
    readers = [pid for pid, module in found.items() if module == "registry-reader"]
    return {"node": node, "reader": readers[:1], "both": node + readers}[what]


# In make test, all processes are killed at once.
FEWER = [pytest.param(each, WRITERS, marks=pytest.mark.long) for each in ("node", "reader", "both")]
# The node's event loop makes the writes of one client, and mostly its write thread those of several.
LONE = pytest.param("node", 1, id="node-lone")


@pytest.mark.logs_errors(r"ended \(SIGKILL\)")
@pytest.mark.parametrize(("what", "writers"), [*FEWER, LONE, ("all", WRITERS)])
def test_acknowledged_writes_outlive_kills(tmp_path: Path, what: str, writers: int) -> None:
    chance = random.Random(what)
    registry = Registry(tmp_path / "data", *FLAGS).wait()
    load = Load(registry, writers)
    load.start()
    try:
        for _ in range(KILLS):
            wanted = len(load.acknowledged) + chance.randrange(WRITES_BETWEEN_KILLS)
            until(lambda wanted=wanted: len(load.acknowledged) > wanted, 60, "more writes")
            if what == "all":
                pids = children(registry)
                registry.kill()
                # A node that writes to its disk does not die at once, and no other may write until it has.
                until(lambda pids=pids: not any(map(alive, pids)), 30, "the children to end")
                registry = load.registry = Registry(tmp_path / "data", *FLAGS).wait()
            else:
                for pid in victims(registry, what):
                    os.kill(pid, signal.SIGKILL)
        wanted = len(load.acknowledged) + WRITES_BETWEEN_KILLS
        until(lambda: len(load.acknowledged) > wanted, 60, "writes after the last kill")
    finally:
        load.stop()
    assert not load.wrong, load.wrong[:3]
    try:
        check(registry, load)
    finally:
        assert registry.stop() == 0, registry.output
    assert "Traceback" not in registry.output


def check(registry: Registry, load: Load) -> None:
    ids = [schema_id for _, schema_id in load.acknowledged]
    assert len(set(ids)) == len(ids), "an id was given twice"
    assert all(order == sorted(order) for order in load.orders), "ids did not grow"
    with httpx.Client(timeout=PATIENT) as client:
        for name, schema_id in load.acknowledged:
            found = client.get(f"{registry.url}/subjects/{name}/versions").json()
            assert found == [1], f"{name} has versions {found}"
            by_id = client.get(f"{registry.url}/schemas/ids/{schema_id}").json()
            assert json.loads(by_id["schema"])["name"] == name
        status = client.get(f"{registry.url}/node").json()
    assert status["ready"]
    assert status["applied"] == status["end"]
