"""Real Kafka brokers on free ports of loopback, configured to be small and to start fast."""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from snapshots.spark.jars import one_at_a_time

from . import jars
from .process import START_TIMEOUT_S, Process, free_port, listens, until
from .proxy import Proxy
from .zookeeper import ZooKeeper

JVM = (
    *("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)

# A Metadata request (version 1) for the cluster without any topics: length and fields.
_METADATA = struct.pack(">ihhihi", 14, 3, 1, 0, -1, 0)
_NOBODY = struct.pack(">i", -1)
SESSION = "broker.session.timeout.ms"
# These only make the broker small. What clients can notice (sizes of records, time-outs of sessions, expiry
# of producers, automatic topics) stays as in a stock broker, unless settings say otherwise.
SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.replica.fetchers": "1",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "1048576",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "metric.reporters": "",
    # After a kill, a broker can register again only when its former session is over; 9 s in a stock broker.
    SESSION: "2500",
    "broker.heartbeat.interval.ms": "500",
}
REPLICATED = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")

# Topics whose old records are compacted while a test waits.
COMPACTS_SOON = {
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.0",
}


class Broker(Process):
    """One broker with its controller (KRaft); its files go into ``folder``, ``settings`` are Kafka's own.

    ``proxies`` is the number of further addresses, each advertised as, and reached through, one of
    ``.proxies``: a client of ``broker.proxies[0].address`` talks to the broker only through that proxy. The
    release is :data:`.jars.KAFKA`; if it needs a ZooKeeper, one is started with it. ``shared_classes`` is the
    JVM's option for an archive of loaded classes; by default one that halves the start. ``heap`` is its most
    memory, as Java's option ``-Xmx`` has it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        proxies: int = 0,
        shared_classes: str | None = None,
        heap: str = "256m",
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.controller_port = free_port()
        self.node_id = 1
        self.voters: Sequence[tuple[int, int]] = [(self.node_id, self.controller_port)]
        self.cluster_id = _random_id()
        self.settings = dict(settings or {})
        self._proxied = [free_port() for _ in range(proxies)]
        self.proxies = [Proxy(f"127.0.0.1:{port}") for port in self._proxied]
        self.zookeeper: ZooKeeper | None = None
        if jars.KAFKA in jars.WITH_ZOOKEEPER:
            longest = {"maxSessionTimeout": self._session_ms}
            self.zookeeper = ZooKeeper(folder / "zookeeper", settings=longest)
        if shared_classes is None:
            shared_classes = _shared_classes()
        options = [*JVM, f"-Xmx{heap}", shared_classes, f"-Djava.io.tmpdir={folder / 'tmp'}"]
        self._java = [jars.java(), *options, "-cp", ":".join(map(str, jars.kafka()))]
        super().__init__(
            f"the broker on {self.port}",
            [*self._java, "kafka.Kafka", folder / "server.properties"],
            folder / "output.txt",
        )

    @property
    def address(self) -> str:
        """``HOST:PORT`` for ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it on the data in its folder, or on new, empty data."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        self._write_settings()
        if self.zookeeper is not None:
            self._await_zookeeper(self.zookeeper)
        elif not (self.folder / "data" / "meta.properties").exists():
            self._format()
        for proxy in self.proxies:
            proxy.start()
        return super().start()

    def ready(self) -> bool:
        """Return true if it accepts clients. With KRaft it opens its port only once it is in the cluster."""
        return listens(self.port) if self.zookeeper is None else self._knows_controller()

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Wait until it serves; a broker that cannot start leaves no ZooKeeper behind."""
        try:
            return super().wait(timeout_s)
        except AssertionError:
            if self.zookeeper is not None:
                self.zookeeper.stop()
            raise

    def stop(self) -> int:
        """Stop the broker, its proxies and its ZooKeeper."""
        code = super().stop()
        for proxy in self.proxies:
            proxy.close()
        if self.zookeeper is not None:
            self.zookeeper.stop()
        return code

    def _await_zookeeper(self, zookeeper: ZooKeeper) -> None:
        """Wait until the session of a former run has ended; a broker that finds its id in use exits."""
        if not zookeeper.running:
            zookeeper.start()
        zookeeper.wait()
        until(lambda: not self._is_registered(zookeeper), START_TIMEOUT_S, "its former session to end")

    def _knows_controller(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as asks,
        ):
            asks.sendall(_METADATA)
            answer = asks.makefile("rb")
            answer_bytes = answer.read(int.from_bytes(answer.read(4)))
            # The controller's id, and no topics.
            return len(answer_bytes) >= 8 and answer_bytes[-8:-4] != _NOBODY
        return False

    def _is_registered(self, zookeeper: ZooKeeper) -> bool:
        return f"/brokers/ids/{self.node_id}" in zookeeper.ask(b"dump").split()

    @property
    def _session_ms(self) -> str:
        return self.settings.get(SESSION, SMALL[SESSION])

    def _write_settings(self) -> None:
        listeners = {"PLAINTEXT": (self.port, self.port)}
        for number, (port, proxy) in enumerate(zip(self._proxied, self.proxies, strict=True)):
            listeners[f"PROXY{number}"] = (port, proxy.port)
        own = [f"{name}://127.0.0.1:{port}" for name, (port, _) in listeners.items()]
        if self.zookeeper:
            role = {
                "broker.id": str(self.node_id),
                "zookeeper.connect": self.zookeeper.address,
                "zookeeper.session.timeout.ms": self._session_ms,
            }
        else:
            own.append(f"CONTROLLER://127.0.0.1:{self.controller_port}")
            role = {
                "process.roles": "broker,controller",
                "node.id": str(self.node_id),
                "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{at}" for node, at in self.voters),
                "controller.listener.names": "CONTROLLER",
            }
        replicas = str(min(3, len(self.voters)))
        settings = {
            **role,
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in (*listeners, "CONTROLLER")
            ),
            "listeners": ",".join(own),
            "advertised.listeners": ",".join(
                f"{name}://127.0.0.1:{port}" for name, (_, port) in listeners.items()
            ),
            "log.dirs": str(self.folder / "data"),
            **SMALL,
            **{f"{topic}.replication.factor": replicas for topic in REPLICATED},
            **{f"{topic}.min.isr": "1" for topic in REPLICATED},
            **self.settings,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "server.properties").write_text(lines, encoding="utf-8")

    def _format(self) -> None:
        """Set up an empty folder as Kafka's tool does, which runs once on a machine for each release.

        Of what it writes, only the ids differ from one folder to another.
        """
        data, kept = self.folder / "data", _beside_jars("formatted")
        if kept.exists():
            shutil.copytree(kept, data)
            ids = {"node.id": self.node_id, "directory.id": _random_id(), "cluster.id": self.cluster_id}
            lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
            named = ((line.partition("=")[0], line) for line in lines)
            written = "".join(f"{name}={ids[name]}\n" if name in ids else f"{line}\n" for name, line in named)
            (data / "meta.properties").write_text(written, encoding="utf-8")
            return
        tool = [*self._java, "kafka.tools.StorageTool", "format"]
        done = subprocess.run(
            [*tool, "-t", self.cluster_id, "-c", self.folder / "server.properties"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{self.name} could not be set up\n{done.stdout}{done.stderr}"
        with one_at_a_time(kept), tempfile.TemporaryDirectory(dir=kept.parent) as work:
            if not kept.exists():
                shutil.copytree(data, Path(work) / kept.name).rename(kept)


class Brokers:
    """Several brokers of one cluster, each also a controller. Their internal topics have three replicas."""

    def __init__(self, folder: Path, count: int = 3, *, settings: Mapping[str, str] | None = None) -> None:
        self.nodes = [Broker(folder / str(number), settings=settings) for number in range(1, count + 1)]
        voters = [(number, node.controller_port) for number, node in enumerate(self.nodes, 1)]
        for number, node in enumerate(self.nodes, 1):
            node.node_id, node.voters, node.cluster_id = number, voters, self.nodes[0].cluster_id
            node.zookeeper = self.nodes[0].zookeeper

    @property
    def address(self) -> str:
        """The addresses of all brokers, for ``bootstrap.servers``."""
        return ",".join(node.address for node in self.nodes)

    def start(self) -> Self:
        """Start all brokers."""
        for node in self.nodes:
            node.start()
        return self

    def wait(self) -> Self:
        """Wait until all brokers accept clients."""
        for node in self.nodes:
            node.wait()
        return self

    def stop(self) -> None:
        """Stop one after another. The last one cannot hand its partitions over any more, so it is killed."""
        for node in self.nodes:
            node.kill()
        if (zookeeper := self.nodes[0].zookeeper) is not None:
            zookeeper.stop()

    def __enter__(self) -> Self:
        return self.start().wait()

    def __exit__(self, *error: object) -> None:
        self.stop()


def _random_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


def _beside_jars(name: str) -> Path:
    """Return a file that is kept in the cache for this release of Kafka."""
    folder = jars.kafka()[0].parent
    return folder.with_name(f"{folder.name}-{name}")


def _shared_classes() -> str:
    """Return the option for an archive of loaded classes, which one run of a broker writes for each Java."""
    file = _beside_jars(f"{jars.java_identity()}.jsa")
    if not file.exists():
        with one_at_a_time(file):
            if not file.exists():
                _write_shared_classes(file)
    return f"-XX:SharedArchiveFile={file}"


def _write_shared_classes(file: Path) -> None:
    with tempfile.TemporaryDirectory(dir=file.parent) as work:
        written = Path(work) / file.name
        with Broker(Path(work) / "kafka", shared_classes=f"-XX:ArchiveClassesAtExit={written}"):
            pass
        # A Java that cannot write it leaves no file; an empty file is ignored at every start.
        written.touch()
        written.rename(file)
