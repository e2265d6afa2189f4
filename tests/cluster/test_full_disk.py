"""Nodes whose store cannot be written: they report it, resign, and resume when they can write again."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.node import Node
from registry.domain.errors import STORE_FAILED
from tests.support.disks import Disk, FailingDisk
from tests.support.kafka_topics import make_topic
from tests.support.running import PATIENT, Registry, until

pytestmark = pytest.mark.logs_errors(
    "No space left on device|is full|cannot be written|MDB_MAP_FULL|reached its map size|[Rr]ead-only"
)

WAIT_S = 60.0
# Of a client between two requests: more of them in the same time would show nothing else.
PAUSE_S = 0.01
SMALL_MAP = "16777216"
# A schema so large that a store without room cannot put it on pages that have become free.
TEXT = "x" * 100_000


class Writers:
    """Clients that register one new schema after another, each through one node; for a ``with`` block."""

    def __init__(self, nodes: Sequence[Node | Registry]) -> None:
        self.done: dict[int, list[str]] = {number: [] for number in range(len(nodes))}
        self.failed: list[str] = []
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number, node.url), daemon=True)
            for number, node in enumerate(nodes)
        ]

    def _run(self, number: int, url: str) -> None:
        with httpx.Client(timeout=PATIENT) as client:
            while not self._stopping.wait(PAUSE_S):
                subject = f"s{number}-{len(self.done[number])}"
                answer = client.post(f"{url}/subjects/{subject}/versions", json=schema(subject))
                if answer.status_code == 200:
                    self.done[number].append(subject)
                else:
                    self.failed.append(f"{subject}: {answer.status_code} {answer.text}")

    def go_on(self) -> None:
        """Return when each client has written some more, or one has failed."""
        seen = {number: len(done) for number, done in self.done.items()}
        until(
            lambda: self.failed or all(len(done) > seen[number] + 2 for number, done in self.done.items()),
            WAIT_S,
            "writes through every node",
        )

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(WAIT_S)


def schema(subject: str) -> dict[str, str]:
    name = subject.replace("-", "_")
    return {"schema": f'{{"type":"record","name":"{name}","doc":"{TEXT}","fields":[]}}'}


@contextmanager
def cluster(broker: Broker, folder: Path, *flags: str, first: Sequence[str] = ()) -> Iterator[list[Node]]:
    """Start three nodes; the first, which gets the flags ``first``, is the primary."""
    topic = make_topic(broker.address)
    where = ("--kafka", broker.address, "--topic", topic, "--group", topic, "--readers", "1", *flags)
    nodes = [
        Node(
            folder / f"node-{number}",
            [*where, *(() if number else first)],
        )
        for number in range(3)
    ]
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.stop)
            node.start().wait()
            until(lambda: nodes[0].role == "primary", WAIT_S, "the first node to be the primary")
        yield nodes


def primary(nodes: Sequence[Node]) -> Node | None:
    return next((node for node in nodes if node.role == "primary"), None)


def reasons(node: Node) -> str:
    return " ".join(node.status().get("reasons", ()))


def have_the_same_rows(nodes: Sequence[Node]) -> bool:
    said = [node.status() for node in nodes]
    return (
        all(each.get("digest") for each in said)
        and len({(each["applied"], each["digest"]) for each in said}) == 1
    )


def all_found(nodes: Sequence[Node], writers: Writers) -> None:
    """Check that each subject has one version on every node: nothing was lost or written twice."""
    written = sorted(subject for done in writers.done.values() for subject in done)
    for node in nodes:
        assert sorted(httpx.get(f"{node.url}/subjects", timeout=PATIENT).json()) == written
        for subject in written[::7]:
            assert httpx.get(f"{node.url}/subjects/{subject}/versions", timeout=PATIENT).json() == [1]


def test_a_primary_whose_disk_is_full_leaves_writing_to_another_and_fails_no_write(
    kafka: Broker, tmp_path: Path
) -> None:
    with Disk(tmp_path / "node-0" / "data") as disk, cluster(kafka, tmp_path) as nodes:
        full, *others = nodes
        with Writers(nodes) as writers:
            writers.go_on()
            disk.fill()
            until(lambda: not full.ready(), WAIT_S, "the node not to be ready")
            until(lambda: primary(others), WAIT_S, f"another primary:\n{full.output}")
            writers.go_on()
            assert not full.ready()
            assert "cannot be written" in reasons(full)
            disk.free()
            until(full.ready, WAIT_S, "the node to be ready again")
            writers.go_on()
        assert writers.failed == []
        until(lambda: have_the_same_rows(nodes), WAIT_S, "the same rows")
        all_found(nodes, writers)


# In make test, tests/faults/test_faults.py fills a secondary's disk under load.
@pytest.mark.long
def test_a_secondary_whose_disk_is_full_confirms_nothing_and_fails_no_write(
    kafka: Broker, tmp_path: Path
) -> None:
    with Disk(tmp_path / "node-2" / "data") as disk, cluster(kafka, tmp_path) as nodes:
        full = nodes[2]
        with Writers(nodes) as writers:
            writers.go_on()
            disk.fill()
            until(lambda: not full.ready(), WAIT_S, "the node not to be ready")
            writers.go_on()
            assert "cannot be written" in reasons(full)
            newest = writers.done[0][-1]
            assert httpx.get(f"{full.url}/subjects/{newest}/versions", timeout=PATIENT).status_code == 503
            assert httpx.get(f"{full.url}/subjects/s0-0/versions", timeout=PATIENT).headers["Warning"]
            assert nodes[0].role == "primary"
            disk.free()
            until(full.ready, WAIT_S, "the node to be ready again")
        assert writers.failed == []
        until(lambda: have_the_same_rows(nodes), WAIT_S, "the same rows")


@pytest.mark.long
def test_a_primary_whose_store_has_reached_its_map_size_leaves_writing_to_another(
    kafka: Broker, tmp_path: Path
) -> None:
    with cluster(kafka, tmp_path, first=("--store-map-bytes", SMALL_MAP)) as nodes:
        small, *others = nodes
        with Writers(nodes) as writers:
            until(lambda: primary(others), WAIT_S, "another primary")
            writers.go_on()
            assert "store_map_bytes" in reasons(small)
            assert not small.ready()
        assert writers.failed == []
        assert small.stop() == 0
        small.command += ["--store-map-bytes", str(1 << 30)]
        small.start().wait()
        until(lambda: have_the_same_rows(nodes), WAIT_S, "the same rows")
        all_found(nodes, writers)


@pytest.mark.long
def test_a_primary_whose_file_system_turns_read_only_leaves_writing_to_another(
    kafka: Broker, tmp_path: Path
) -> None:
    with FailingDisk(tmp_path / "node-0") as disk, cluster(kafka, tmp_path) as nodes:
        failing, *others = nodes
        with Writers(nodes) as writers:
            writers.go_on()
            disk.fail()
            until(lambda: not failing.ready(), WAIT_S, "the node not to be ready")
            until(lambda: primary(others), WAIT_S, "another primary")
            writers.go_on()
            assert "Read-only file system" in reasons(failing)
        assert writers.failed == []
        failing.kill()
        disk.repair()
        failing.start().wait()
        until(lambda: have_the_same_rows(nodes), WAIT_S, "the same rows")
        all_found(nodes, writers)


def test_an_embedded_log_on_a_full_disk_refuses_writes_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with Disk(tmp_path / "data") as disk:
        registry = Registry(tmp_path / "data", "--readers", "1").wait()
        try:
            assert _register(registry, "before").status_code == 200
            disk.fill()
            refused: list[httpx.Response] = []

            def full() -> bool:
                refused.append(_register(registry, f"refused-{len(refused)}"))
                return len(refused) > 100 and refused[-1].status_code != 200 and not _takes_writes(registry)

            until(full, WAIT_S, "the node not to be ready for writes")
            assert registry.ready(), "reads need no space"
            codes = {each.json()["error_code"] for each in refused if each.status_code != 200}
            assert codes == {STORE_FAILED.code}
            assert httpx.get(f"{registry.url}/subjects/before/versions", timeout=PATIENT).status_code == 200
            assert "is full" in httpx.get(f"{registry.url}/health/ready?for=writes", timeout=PATIENT).text
            failures = re.findall(r" error .* commands failed", registry.output)
            assert 0 < len(failures) < len(refused) / 2, "one line a second, not one a write"
            disk.free()
            until(lambda: _takes_writes(registry), WAIT_S, "the node to be ready for writes again")
            assert _register(registry, "after").status_code == 200
            assert registry.stop() == 0, registry.output
        finally:
            registry.stop()


def _takes_writes(registry: Registry) -> bool:
    answer = httpx.get(f"{registry.url}/health/ready?for=writes", timeout=PATIENT)
    return answer.status_code == httpx.codes.OK


def _register(registry: Registry, subject: str) -> httpx.Response:
    return httpx.post(f"{registry.url}/subjects/{subject}/versions", json=schema(subject), timeout=PATIENT)
