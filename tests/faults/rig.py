"""A cluster for fault injection: every connection between its parts can be cut, every clock shifted."""

from __future__ import annotations

import gzip
import os
import resource
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from deploy.local.broker import Broker
from deploy.local.node import ROOT, Node
from deploy.local.process import free_port
from deploy.local.proxy import Proxy
from registry import VERSION
from tests.proof import check as linearizability
from tests.proof.histories import encode
from tests.support.disks import Disk, mounts
from tests.support.running import until

from .checker import check
from .history import History, Kind, Request
from .load import Line, Load, Login
from .segments import Batch, batches

CLOCK = Path(__file__).parent / "clock"
# Only something that hangs takes this long; durations are measured by the benchmarks.
HEAL_S = 60.0
SAMPLE_S = 0.2


class FaultyNode(Node):
    """A node that reaches brokers by ``kafka``, is reached by its peers through a proxy, and has a clock."""

    def __init__(self, folder: Path, kafka: str, flags: tuple[str, ...], login: Login | None = None) -> None:
        """``login``: with which it is asked for its status; it serves TLS then."""
        peer, port = free_port(), free_port()
        if login is not None:
            flags = (*flags, "--listeners", f"https://127.0.0.1:{port}")
        self.peers = Proxy(f"127.0.0.1:{peer}")
        super().__init__(
            folder,
            [
                *("--kafka", kafka, "--readers", "1", "--peer-listen", f"127.0.0.1:{peer}"),
                *("--peer-advertise", self.peers.address, *flags),
            ],
            port=port,
        )
        if login is not None:
            self.url = f"https://{self.address}"
            self.headers, self.context = {"Authorization": login.authorization}, login.context
        folder.mkdir(parents=True, exist_ok=True)
        # Its own file system for its data, if one could be mounted.
        self.disk: Disk | None = None
        self._shift = folder / "clock"
        self.shift_clock(0.0)
        environment: Mapping[str, str] = self.environment or {}
        self.environment = {
            **environment,
            "PYTHONPATH": os.pathsep.join([str(CLOCK), str(ROOT)]),
            "SHIFT_CLOCK_BY": str(self._shift),
        }

    def start(self) -> Self:
        self.peers.start()
        return super().start()

    def shift_clock(self, seconds: float) -> None:
        """Shift the wall clock of its processes."""
        new = self._shift.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self._shift)

    def applied(self) -> int:
        """Return the offset up to which its store holds the log; -1 if unknown."""
        return int(self.status().get("applied", -1))

    def fill_disk(self) -> None:
        """Leave no room on its disk, or let none of its files grow if it has no disk of its own."""
        if self.disk is not None:
            self.disk.fill()
        else:
            self._limit_files(max(path.stat().st_size for path in self.data.rglob("data.mdb")))

    def free_disk(self) -> None:
        """Give it room again."""
        if self.disk is not None:
            self.disk.free()
        elif self.running:
            self._limit_files(-1)

    def _limit_files(self, bytes_max: int) -> None:
        """Let no file of its processes grow beyond this size; -1 for no limit."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))


class Rig:
    """Three nodes over ``broker``, a proxy between it and each of them, and one before each peer endpoint."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        broker: Broker | None = None,
        kafka: str = "",
        each: Sequence[tuple[str, ...]] = ((), (), ()),
        disks: bool = False,
        admin: Login | None = None,
    ) -> None:
        """``kafka``: brokers without proxies, instead of ``broker``; ``each``: flags of every node.

        ``disks``: each node has one of its own, if file systems can be mounted here. ``admin``: asks for the
        nodes' status; without it, they serve plain HTTP.
        """
        self.broker = broker
        # Histories are written here.
        self.histories = folder
        self._disks = ExitStack()
        self._wants_disks = disks and mounts()
        self.login = admin  # of clients
        servers = [kafka] * 3 if broker is None else [proxy.address for proxy in broker.proxies]
        self.nodes = [
            FaultyNode(folder / f"node-{number}", servers[number], (*flags, *each[number]), admin)
            for number in range(3)
        ]

    def lines(self) -> list[Line]:
        """Return a new line to each node."""
        return [Line(node.port, login=self.login) for node in self.nodes]

    def start(self) -> Self:
        for node in self.nodes:
            if self._wants_disks and node.disk is None:
                node.disk = self._disks.enter_context(Disk(node.data))
            node.start()
        return self

    def wait(self) -> Self:
        """Return when all is well: each node is ready and one of them writes."""
        for node in self.nodes:
            node.wait()
        self.primary()
        return self

    def stop(self) -> None:
        with self._disks, ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.peers.close)
                stack.callback(node.stop)

    def __enter__(self) -> Self:
        try:
            return self.start().wait()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *error: object) -> None:
        self.stop()

    def primary(self, *, but: Node | None = None) -> FaultyNode:
        """Return the node that reports to be the primary, other than ``but``."""

        def find() -> FaultyNode | None:
            others = (node for node in self.nodes if node is not but and node.running)
            return next((node for node in others if node.role == "primary"), None)

        found: FaultyNode = until(find, HEAL_S, f"a primary: {[node.status() for node in self.nodes]}")
        return found

    def secondary(self) -> FaultyNode:
        """Return a node that does not write."""
        primary = self.primary()
        return next(node for node in self.nodes if node is not primary)

    def others(self, node: Node) -> list[FaultyNode]:
        return [each for each in self.nodes if each is not node]


class Watch:
    """Reports of every node about its store, recorded repeatedly during a load."""

    def __init__(self, rig: Rig, history: History) -> None:
        self._rig = rig
        self._history = history
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def look(self) -> list[tuple[int, str]]:
        """Return applied offset and digest of each node that answers."""
        found = []
        for number, node in enumerate(self._rig.nodes):
            if not node.running:
                continue
            said = node.status()
            if said.get("digest"):  # Its digest is computed when there is time, so it may come later.
                self._history.digest(number, said["applied"], said["digest"])
                found.append((said["applied"], said["digest"]))
        return found

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self.look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(HEAL_S)


class Run:
    """One history in progress: load, faults, and the checks at the end."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.seed = seed
        self.history = History()
        self.log: list[Batch] = []

    def writes_through_all(self) -> None:
        """Return when every node has accepted another write since now."""
        seen = len(self.history.requests)

        def done() -> bool:
            fresh = self.history.requests[seen:]
            return {each.node for each in fresh if each.kind is Kind.REGISTER and each.done} == {0, 1, 2}

        until(done, HEAL_S, f"a write through every node: {[node.status() for node in self.rig.nodes]}")

    def failures(self, *, of: Sequence[Node], restarted: bool = False, but: int = 0) -> list[str]:
        """Return the requests that these nodes failed, as a client behind a load balancer sees it.

        A front passes on to the next node what a closed port refused, what was answered with 503, and, where
        nodes were ``restarted``, what a connection lost that was just being closed. What no node took in the
        end counts. Answers with the error code ``but`` do not.
        """
        numbers = [number for number, node in enumerate(self.rig.nodes) if node in of]
        passed_on = {0, 503} if restarted else {503}
        failed = [
            each
            for each in self.history.requests
            if each.failed and each.sent and each.status not in passed_on and each.node in numbers
            if not but or each.code != but
        ]
        told = [
            f"{each.kind.value} of {each.subject} by node {each.node}, {each.began:.3f} to {each.ended:.3f}: "
            f"{each.status} {each.answer}"
            for each in failed
        ]
        return told + self.history.given_up


@contextmanager
def run(rig: Rig, seed: int, folder: Path, *, workers: int = 4) -> Iterator[Run]:
    """Run load during the block; then everything must heal, and the checker must find nothing.

    ``folder`` is the partition's, as some broker has it on disk.
    """
    made = Run(rig, seed)
    before = len(batches(folder))
    with Watch(rig, made.history) as watch:
        with Load(rig.lines, made.history, seed=seed, workers=workers, name=f"t{before}"):
            made.writes_through_all()
            yield made
            made.writes_through_all()
        until(lambda: _alike(watch.look()), HEAL_S, "the nodes to have the same rows")
    _read_all(rig, made.history)
    made.log = batches(folder)
    check(made.history, made.log)
    _recheck(made, rig.histories / f"history-{before}.jsonl.gz")


def _recheck(made: Run, file: Path) -> None:
    """Write the history, and check all operations on each subject and id for an order that explains them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    recorded = encode(made.history.requests, registry=VERSION, nodes=len(made.rig.nodes), seed=made.seed)
    file.write_bytes(gzip.compress(recorded, mtime=0))
    if linearizability.is_available():
        findings = linearizability.check(recorded)
        assert not findings, f"{file}: {findings}"


def _alike(said: list[tuple[int, str]]) -> bool:
    return len(said) == 3 and len(set(said)) == 1


def _read_all(rig: Rig, history: History) -> None:
    """Read everything that was acknowledged through every node, at the end."""
    lines = rig.lines()
    for write in history.of(Kind.REGISTER):
        if write.done:
            for number, line in enumerate(lines):
                began = time.monotonic()
                path = f"/schemas/ids/{write.answer['id']}"
                answer, ended = line.ask("GET", path)
                history.add(
                    Request(
                        Kind.BY_ID, number, write.subject, began, ended,
                        schema=write.schema, schema_id=write.answer["id"], **answer,
                    )
                )  # fmt: skip
                assert answer["status"] == 200, f"{path} through node {number}: {answer}"
    for line in lines:
        line.close()
